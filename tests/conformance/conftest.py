"""The broker under judgement, topics of its own for each test, and the drivers built once."""

from __future__ import annotations

import fcntl
import itertools
import os
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from confluent_kafka.admin import AdminClient, NewTopic

from tests.conformance.clients import HERE, JAVA_TARGET
from tests.support.broker_process import BrokerProcess

BOOTSTRAP_VARIABLE = "HERMES_CONFORMANCE_BOOTSTRAP"
SETTINGS = {
    "node.id": 0,
    "num.partitions": 4,
    "group.min.session.timeout.ms": 1000,
    "group.initial.rebalance.delay.ms": 0,
}
"""What the suites of other projects give the broker that they start (README.md)."""


@pytest.fixture(scope="session")
def bootstrap(
    tmp_path_factory: pytest.TempPathFactory, free_port: Callable[[], int]
) -> Iterator[str]:
    """A real broker process, or the one that HERMES_CONFORMANCE_BOOTSTRAP names."""
    build_drivers()
    elsewhere = os.environ.get(BOOTSTRAP_VARIABLE)
    if elsewhere:
        yield elsewhere
        return
    port = free_port()
    settings = {**SETTINGS, "advertised.listeners": f"PLAINTEXT://127.0.0.1:{port}"}
    broker = BrokerProcess(tmp_path_factory.mktemp("conformance"), settings)
    broker.kafka_port = port
    with broker:
        yield broker.bootstrap


@pytest.fixture
def new_topic(bootstrap: str, request: pytest.FixtureRequest) -> Callable[[int], str]:
    """Creates a topic with that many partitions, named after the test."""
    admin = AdminClient({"bootstrap.servers": bootstrap})
    stem = "".join(c if c.isalnum() else "-" for c in request.node.name)[:120]
    numbers = itertools.count()

    def create(partitions: int) -> str:
        name = f"{stem}-{os.getpid()}-{next(numbers)}"
        admin.create_topics([NewTopic(name, partitions, 1)])[name].result(20)
        return name

    return create


def build_drivers() -> None:
    """kafkajs from its lock file, the Java client by Maven, where sources are newer than builds.

    One process builds while the others wait.
    """
    with (HERE / "clients.py").open("rb") as anything:
        fcntl.flock(anything, fcntl.LOCK_EX)
        if is_older(HERE / "js" / "node_modules" / ".package-lock.json", HERE / "js"):
            run(["npm", "ci", "--silent", "--no-audit", "--no-fund"], HERE / "js")
        if is_older(JAVA_TARGET / "conformance-1.jar", HERE / "java"):
            run(["mvn", "-q", "-B", "package"], HERE / "java")


def is_older(built: Path, sources: Path) -> bool:
    if not built.exists():
        return True
    inside = {"node_modules", "target"}
    newest = max(
        path.stat().st_mtime
        for path in sources.rglob("*")
        if path.is_file() and not inside.intersection(path.parts)
    )
    return built.stat().st_mtime < newest


def run(command: list[str], directory: Path) -> None:
    finished = subprocess.run(command, cwd=directory, capture_output=True, timeout=300, check=False)
    assert finished.returncode == 0, (
        f"{' '.join(command)} failed in {directory}:\n"
        f"{finished.stdout.decode(errors='replace')[-2000:]}"
        f"{finished.stderr.decode(errors='replace')[-2000:]}"
    )
