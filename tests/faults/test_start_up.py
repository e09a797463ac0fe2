"""A broker that cannot start says why in one sentence, and what to do; it damages nothing."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.broker_process import ROOT, BrokerProcess

TIMEOUT = 20


def serve(*options: str, python: tuple[str, ...] = ()) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, *python, "-m", "broker", "serve", *options],
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        timeout=TIMEOUT,
        check=False,
    )


def refusal(
    data: Path, *, kafka_port: int = 0, metrics_port: int = 0, options: tuple[str, ...] = ()
) -> str:
    """Start on `data`, expect the refusal, return its sentence."""
    finished = serve(
        "--log-dir",
        str(data),
        "--listeners",
        f"PLAINTEXT://127.0.0.1:{kafka_port}",
        "--hermes-metrics-port",
        str(metrics_port),
        *options,
    )
    assert finished.returncode == 2, finished.stdout + finished.stderr
    assert "Traceback" not in finished.stderr
    last = finished.stderr.strip().splitlines()[-1]
    assert last.startswith("hermes serve: "), finished.stderr
    return last


@pytest.fixture
def taken_port() -> Iterator[int]:
    with socket.socket() as holder:
        holder.bind(("127.0.0.1", 0))
        holder.listen()
        yield holder.getsockname()[1]


@pytest.fixture
def written(tmp_path: Path) -> Path:
    """A data directory that a broker has used and closed."""
    with BrokerProcess(tmp_path) as broker:
        return broker.data


def test_taken_kafka_port_names_the_port_and_its_holder(tmp_path: Path, taken_port: int) -> None:
    sentence = refusal(tmp_path / "data", kafka_port=taken_port)
    assert str(taken_port) in sentence
    assert str(os.getpid()) in sentence


def test_taken_metrics_port_names_the_port_and_its_holder(tmp_path: Path, taken_port: int) -> None:
    sentence = refusal(tmp_path / "data", metrics_port=taken_port)
    assert str(taken_port) in sentence
    assert str(os.getpid()) in sentence


def test_second_broker_on_a_data_directory_names_the_first(tmp_path: Path) -> None:
    with BrokerProcess(tmp_path) as broker:
        sentence = refusal(broker.data)
        assert str(broker.pid) in sentence
        assert str(broker.data) in sentence


def test_a_file_in_place_of_the_data_directory_is_named(tmp_path: Path) -> None:
    data = tmp_path / "data"
    data.write_text("not a directory")
    assert str(data) in refusal(data)
    assert data.read_text() == "not a directory"


def test_a_foreign_directory_is_left_alone(tmp_path: Path) -> None:
    (tmp_path / "photos").mkdir()
    (tmp_path / "photos" / "holiday.jpg").write_bytes(b"precious")
    assert "photos" in refusal(tmp_path)
    assert (tmp_path / "photos" / "holiday.jpg").read_bytes() == b"precious"


@pytest.mark.parametrize(
    "damage", [b"", b"\x00\xff\xfe", b"version=1\n", b"version=one\nnode.id=0\n"]
)
def test_a_damaged_meta_properties_is_named(written: Path, damage: bytes) -> None:
    (written / "meta.properties").write_bytes(damage)
    assert "meta.properties" in refusal(written)


def test_a_newer_format_is_refused(written: Path) -> None:
    meta = written / "meta.properties"
    meta.write_text(meta.read_text().replace("version=1", "version=2"))
    assert "format 2" in refusal(written)


def test_another_nodes_directory_is_refused(written: Path) -> None:
    assert "node 0" in refusal(written, options=("--node-id", "7"))


def test_a_corrupt_metastore_is_named(written: Path) -> None:
    found = [path for path in written.iterdir() if path.name == "metastore.db"]
    for path in found:
        path.write_bytes(b"this is no database" * 1000)
    for beside in written.glob("metastore.db-*"):
        beside.unlink()
    assert "metastore.db" in refusal(written)


def test_a_lost_metastore_does_not_make_an_empty_cluster_of_existing_topics(tmp_path: Path) -> None:
    from confluent_kafka.admin import AdminClient, NewTopic

    with BrokerProcess(tmp_path) as broker:
        admin = AdminClient({"bootstrap.servers": broker.bootstrap})
        admin.create_topics([NewTopic("orders", 1, 1)])["orders"].result(20)
        data = broker.data
    for path in data.glob("metastore.db*"):
        path.unlink()
    assert "metastore.db" in refusal(data)
    assert (data / "topics" / "orders").is_dir()


def test_unknown_setting_is_refused_with_the_nearest_name(tmp_path: Path) -> None:
    finished = serve("--log-dir", str(tmp_path / "data"), "--log-segment-byte", "1")
    assert finished.returncode == 2
    assert "log-segment-bytes" in finished.stderr or "log.segment.bytes" in finished.stderr
    assert "Traceback" not in finished.stderr


def test_every_wrong_setting_is_named_at_once(tmp_path: Path) -> None:
    settings = tmp_path / "broker.yaml"
    settings.write_text("log.segment.bytes: -5\nnum.partitions: many\nno.such.thing: 1\n")
    finished = serve("--config", str(settings), "--log-dir", str(tmp_path / "data"))
    assert finished.returncode == 2
    for name in ("log.segment.bytes", "num.partitions", "no.such.thing", "broker.yaml"):
        assert name in finished.stderr
    assert "Traceback" not in finished.stderr


def test_python_without_asserts_is_refused(tmp_path: Path) -> None:
    finished = serve("--log-dir", str(tmp_path / "data"), python=("-O",))
    assert finished.returncode == 2
    assert "-O" in finished.stderr


def test_log_lines_are_json_where_that_is_set(tmp_path: Path) -> None:
    settings = {"hermes.log.format": "json", "hermes.log.level": "INFO"}
    with BrokerProcess(tmp_path, settings) as broker:
        lines = broker.log_path.read_text().splitlines()
    assert lines
    assert all({"event", "level", "timestamp"} <= json.loads(line).keys() for line in lines)
