"""Runs a command beside an Apache Kafka 4.4 of its own, so that tests of clients and tools are
judged by the original:
`.venv/bin/python -m tests.support.with_kafka .venv/bin/pytest tests/client tests/commands`.

Needs Java 17 and Maven, which fetches the broker once (120 MB, into ~/.m2 and a directory that git
ignores). Kafka lives in a temporary directory, on free ports, until the command ends.
"""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple, NoReturn

from tests.support.ports import free_port

HERE = Path(__file__).parent / "kafka"
JARS = HERE / "target" / "dependency"
POM = HERE / "pom.xml"
VARIABLES = ("HERMES_CONFORMANCE_BOOTSTRAP", "CLIENT_TEST_BOOTSTRAP")
CLUSTER_ID = "AAAAAAAAQACAAAAAAAAAAA"
SETTINGS = {
    "process.roles": "broker,controller",
    "node.id": 1,
    "controller.listener.names": "CONTROLLER",
    "offsets.topic.replication.factor": 1,
    "offsets.topic.num.partitions": 2,
    "transaction.state.log.replication.factor": 1,
    "transaction.state.log.min.isr": 1,
    "share.coordinator.state.topic.replication.factor": 1,
    "share.coordinator.state.topic.min.isr": 1,
    "group.initial.rebalance.delay.ms": 0,
    "group.min.session.timeout.ms": 500,
}
"""What our own broker has in the same tests, and what one node needs."""
JAVA_OPTIONS = ("-Xmx512m", "-XX:TieredStopAtLevel=1")
"""Half a compiler: it starts fast, and tests measure nothing."""
START_S_MAX = 90.0


class KafkaProcess(NamedTuple):
    """One whose process has been started at `started_s` (monotonic) and that may not answer yet."""

    bootstrap: str
    process: subprocess.Popen[bytes]
    started_s: float
    log: Path


def main(command: Sequence[str]) -> int:
    """The command's exit code; 2 without a command."""
    if not command:
        print(__doc__, file=sys.stderr)
        return 2
    with apache_kafka() as bootstrap:
        environment = {**os.environ, **dict.fromkeys(VARIABLES, bootstrap)}
        return subprocess.run(command, env=environment, check=False).returncode


@contextmanager
def apache_kafka(settings: Mapping[str, object] | None = None) -> Iterator[str]:
    """The address of an Apache Kafka that runs inside, and is gone afterwards."""
    with kafka_process({**SETTINGS, **(settings or {})}, JAVA_OPTIONS) as node:
        wait_for(node)
        yield node.bootstrap


@contextmanager
def kafka_process(
    settings: Mapping[str, object],
    java_options: Sequence[str],
    command: Sequence[str] = (),
) -> Iterator[KafkaProcess]:
    """A node with empty directories on free ports; `command` starts Java. It and its data are gone
    afterwards. `java_options` may name `{directory}`, which is its own.
    """
    fetch_jars()
    port, controller_port = free_port(), free_port()
    with tempfile.TemporaryDirectory(prefix="apache-kafka-") as name:
        directory = Path(name)
        listeners = f"PLAINTEXT://127.0.0.1:{port},CONTROLLER://127.0.0.1:{controller_port}"
        chosen = {
            "listeners": listeners,
            "advertised.listeners": listeners,
            "controller.quorum.bootstrap.servers": f"127.0.0.1:{controller_port}",
            "log.dirs": directory / "data",
            **settings,
        }
        file = directory / "server.properties"
        file.write_text("".join(f"{key}={value}\n" for key, value in chosen.items()))
        classes = ("-cp", f"{JARS}/*")
        storage = ("kafka.tools.StorageTool", "format", "--standalone", "-t", CLUSTER_ID)
        run(["java", *JAVA_OPTIONS, *classes, *storage, "-c", str(file)])
        options = [option.replace("{directory}", name) for option in java_options]
        with (directory / "kafka.log").open("wb") as log:
            started_s = time.monotonic()
            process = subprocess.Popen(
                [*command, "java", *options, *classes, "kafka.Kafka", str(file)],
                cwd=directory,
                stdout=log,
                stderr=log,
            )
        try:
            yield KafkaProcess(f"127.0.0.1:{port}", process, started_s, directory / "kafka.log")
        finally:
            process.terminate()
            try:
                process.wait(30)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()


def fetch_jars() -> None:
    """Apache Kafka's jars, once per version that the pom names."""
    if JARS.is_dir() and JARS.stat().st_mtime >= POM.stat().st_mtime:
        return
    for program, package in (("mvn", "maven"), ("java", "default-jdk-headless")):
        if shutil.which(program) is None:
            sys.exit(f"needs {program}: apt-get install {package}")
    shutil.rmtree(JARS, ignore_errors=True)
    run(
        [
            *("mvn", "-q", "-B", "-f", str(POM), "dependency:copy-dependencies"),
            f"-DoutputDirectory={JARS}",
        ]
    )
    os.utime(JARS)


def run(command: Sequence[str]) -> None:
    done = subprocess.run(command, capture_output=True, check=False)
    if done.returncode:
        sys.exit(f"{' '.join(command)} failed:\n{(done.stdout + done.stderr).decode()[-3000:]}")


def wait_for(node: KafkaProcess) -> None:
    """Returns when it takes connections."""
    host, _, port = node.bootstrap.rpartition(":")
    while time.monotonic() < node.started_s + START_S_MAX and node.process.poll() is None:
        try:
            socket.create_connection((host, int(port)), timeout=1).close()
        except OSError:
            time.sleep(0.2)
        else:
            return
    fail(node)


def fail(node: KafkaProcess) -> NoReturn:
    """End the program with the end of the node's log."""
    sys.exit(f"Apache Kafka does not start:\n{node.log.read_text()[-3000:]}")


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
