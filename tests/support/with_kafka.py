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
    fetch_jars()
    port, controller_port = free_port(), free_port()
    with tempfile.TemporaryDirectory(prefix="apache-kafka-") as name:
        directory = Path(name)
        chosen = {
            **SETTINGS,
            "listeners": f"PLAINTEXT://127.0.0.1:{port},CONTROLLER://127.0.0.1:{controller_port}",
            "advertised.listeners": f"PLAINTEXT://127.0.0.1:{port}",
            "controller.quorum.voters": f"1@127.0.0.1:{controller_port}",
            "log.dirs": directory / "data",
            **(settings or {}),
        }
        file = directory / "server.properties"
        file.write_text("".join(f"{key}={value}\n" for key, value in chosen.items()))
        java = ["java", "-Xmx512m", "-XX:TieredStopAtLevel=1", "-cp", f"{JARS}/*"]
        run([*java, "kafka.tools.StorageTool", "format", "-t", CLUSTER_ID, "-c", str(file)])
        with (directory / "kafka.log").open("wb") as log:
            process = subprocess.Popen(
                [*java, "kafka.Kafka", str(file)], cwd=directory, stdout=log, stderr=log
            )
        try:
            wait_for(port, process, directory / "kafka.log")
            yield f"127.0.0.1:{port}"
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


def wait_for(port: int, process: subprocess.Popen[bytes], log: Path) -> None:
    """Returns when it takes connections."""
    deadline = time.monotonic() + 90
    while time.monotonic() < deadline and process.poll() is None:
        try:
            socket.create_connection(("127.0.0.1", port), timeout=1).close()
        except OSError:
            time.sleep(0.2)
        else:
            return
    sys.exit(f"Apache Kafka does not start:\n{log.read_text()[-3000:]}")


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
