"""One real broker for all tests of the commands; a command runs in this process (fast) or in one of
its own (for pipes, signals, terminals).
"""

from __future__ import annotations

import itertools
import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from broker.client.blocking import BlockingClient
from broker.commands.main import main
from tests.support.broker_process import BrokerProcess

ROOT = Path(__file__).parents[2]
BOOTSTRAP_VARIABLE = "HERMES_CONFORMANCE_BOOTSTRAP"
BROKER_SETTINGS = {"group.initial.rebalance.delay.ms": 0, "offsets.topic.num.partitions": 2}
_numbers = itertools.count(time.time_ns() // 1_000_000)


class Outcome(NamedTuple):
    """How a command ended."""

    code: int
    out: str
    err: str

    @property
    def items(self) -> list[dict[str, Any]]:
        """Of the JSON document."""
        return list(json.loads(self.out)["items"])

    @property
    def item(self) -> dict[str, Any]:
        (item,) = self.items
        return item

    @property
    def lines(self) -> list[dict[str, Any]]:
        """Of a stream of JSON objects."""
        return [json.loads(line) for line in self.out.splitlines()]


Run = Callable[..., Outcome]


@pytest.fixture(scope="session")
def bootstrap(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """Ours, or the one that HERMES_CONFORMANCE_BOOTSTRAP names: the commands have to suit both."""
    elsewhere = os.environ.get(BOOTSTRAP_VARIABLE)
    if elsewhere:
        yield elsewhere
        return
    with BrokerProcess(tmp_path_factory.mktemp("cli-broker"), BROKER_SETTINGS) as broker:
        yield broker.bootstrap


@pytest.fixture(scope="session")
def client(bootstrap: str) -> Iterator[BlockingClient]:
    """To look from outside at what a command did."""
    with BlockingClient(bootstrap, timeout_ms=20_000) as client:
        yield client


@pytest.fixture
def run(bootstrap: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Run:
    """Runs `hermes` words in this process."""
    monkeypatch.setenv("HERMES_BOOTSTRAP", bootstrap)

    def call(*words: str) -> Outcome:
        capsys.readouterr()
        code = main(words[0], words[1:])
        return Outcome(code, *capsys.readouterr())

    return call


@pytest.fixture
def environment(bootstrap: str) -> dict[str, str]:
    return {**os.environ, "PYTHONPATH": str(ROOT), "HERMES_BOOTSTRAP": bootstrap}


@pytest.fixture
def run_process(environment: dict[str, str]) -> Run:
    """Runs `hermes` words as a process; `stdin` is text or bytes for it."""

    def call(*words: str, stdin: str | bytes = b"", **more: str) -> Outcome:
        done = subprocess.run(
            [sys.executable, "-m", "broker", *words],
            input=stdin.encode() if isinstance(stdin, str) else stdin,
            env={**environment, **more},
            capture_output=True,
            timeout=60,
            check=False,
        )
        return Outcome(done.returncode, done.stdout.decode(), done.stderr.decode())

    return call


@pytest.fixture
def name() -> str:
    """A name that no other test uses."""
    return f"cli-{next(_numbers)}-test"


@pytest.fixture
def topic(client: BlockingClient, name: str) -> str:
    """A topic with two partitions."""
    client.create_topic(name, partition_count=2, replication_factor=1)
    eventually(lambda: name in [view.name for view in client.list_topics()])
    return name


def eventually(is_so: Callable[[], bool], *, within_s: float = 20) -> None:
    """Waits for what a cluster does in its own time."""
    deadline = time.monotonic() + within_s
    while not is_so():
        assert time.monotonic() < deadline, "it did not come true"
        time.sleep(0.05)
