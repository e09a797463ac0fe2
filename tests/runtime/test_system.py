"""Clock, ids, allocator, descriptors and logging of the real machine."""

from __future__ import annotations

import io
import json
import logging
import subprocess
import sys

import pytest
import structlog

from broker.runtime.clock import SystemClock
from broker.runtime.descriptors import (
    descriptor_limit,
    open_descriptor_count,
    raise_descriptor_limit,
)
from broker.runtime.ids import SystemIds
from broker.runtime.logs import configure_logging


def test_monotonic_hand_never_goes_back_and_wall_is_this_century() -> None:
    clock = SystemClock()
    first = clock.monotonic_ms()
    assert clock.monotonic_ms() >= first
    assert clock.wall_ms() > 1_700_000_000_000


def test_ids_are_version_4_and_never_print_with_a_leading_dash() -> None:
    ids = [SystemIds().uuid() for _ in range(500)]
    assert all(value[6] >> 4 == 4 and value[8] >> 6 == 2 for value in ids)
    assert not any(value[0] >> 2 == 62 for value in ids)
    assert len(set(ids)) == 500
    assert {SystemIds().below(3) for _ in range(200)} == {0, 1, 2}


def test_allocator_is_tuned_in_a_process_of_its_own() -> None:
    code = "from broker.runtime.memory import tune_allocator; print(tune_allocator(1 << 33))"
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert found.stdout.strip() in {"True", "False"}
    assert found.stderr == ""


def test_descriptors_are_counted() -> None:
    assert 0 < open_descriptor_count() < descriptor_limit()
    assert raise_descriptor_limit() >= descriptor_limit()


@pytest.fixture
def _restored_logging() -> object:
    root = logging.getLogger()
    handlers, level = root.handlers[:], root.level
    yield
    root.handlers[:], root.level = handlers, level
    structlog.reset_defaults()


@pytest.mark.usefixtures("_restored_logging")
def test_json_lines_come_from_structlog_and_the_standard_library_alike() -> None:
    stream = io.StringIO()
    configure_logging("INFO", "json", stream)
    structlog.get_logger("hermes.x").info("started", port=1)
    logging.getLogger("other").warning("careful %s", "now")
    structlog.get_logger("hermes.x").debug("hidden")
    try:
        raise ValueError("boom")
    except ValueError as error:
        structlog.get_logger().error("failed", exc_info=error)
    first, second, third = map(json.loads, stream.getvalue().splitlines())
    assert (first["event"], first["port"], first["level"]) == ("started", 1, "info")
    assert (second["event"], second["logger"]) == ("careful now", "other")
    assert third["exception"][0]["exc_value"] == "boom"


@pytest.mark.usefixtures("_restored_logging")
def test_console_lines_are_readable() -> None:
    stream = io.StringIO()
    configure_logging("debug", "console", stream)
    structlog.get_logger("hermes.x").debug("started", port=1)
    assert "started" in stream.getvalue()
    assert "port=1" in stream.getvalue()


def test_unknown_level_is_refused() -> None:
    with pytest.raises(ValueError, match="unknown log level"):
        configure_logging("LOUD")
