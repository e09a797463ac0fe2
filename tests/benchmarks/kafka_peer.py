"""An Apache Kafka 4.4 node for measurements: as it comes, with the settings of its shipped
`server.properties` and the Java options of its start script, on one core.

Not `tests.support.with_kafka`: that one is tuned to start fast for tests, with half a compiler.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

from broker.bench.cores import broker_cores
from broker.bench.starting import first_record_s
from broker.bench.target import Target
from tests.support.ports import free_port
from tests.support.with_kafka import CLUSTER_ID, JARS, fetch_jars, run

JAVA_OPTIONS = (
    *("-Xmx1G", "-Xms1G", "-server", "-XX:+UseG1GC", "-XX:MaxGCPauseMillis=20"),
    *("-XX:InitiatingHeapOccupancyPercent=35", "-XX:+ExplicitGCInvokesConcurrent"),
    "-Djava.awt.headless=true",
)
"""Of `kafka-server-start.sh` and `kafka-run-class.sh`."""
SHIPPED = {
    "process.roles": "broker,controller",
    "node.id": 1,
    "controller.listener.names": "CONTROLLER",
    "num.network.threads": 3,
    "num.io.threads": 8,
    "socket.send.buffer.bytes": 102_400,
    "socket.receive.buffer.bytes": 102_400,
    "socket.request.max.bytes": 104_857_600,
    "num.partitions": 1,
    "num.recovery.threads.per.data.dir": 2,
    "offsets.topic.replication.factor": 1,
    "share.coordinator.state.topic.replication.factor": 1,
    "share.coordinator.state.topic.min.isr": 1,
    "transaction.state.log.replication.factor": 1,
    "transaction.state.log.min.isr": 1,
    "log.retention.hours": 168,
    "log.segment.bytes": 1_073_741_824,
    "log.retention.check.interval.ms": 300_000,
}
"""`config/server.properties`, which is for one node."""
FLUSHED = {"log.flush.interval.messages": 1}


class KafkaNode(NamedTuple):
    """One that runs; `first_record_s` is how long its start took, formatting left out."""

    target: Target
    first_record_s: float


@contextmanager
def kafka_node(settings: Mapping[str, object] | None = None) -> Iterator[KafkaNode]:
    """A fresh node on the brokers' core, gone with its data afterwards."""
    fetch_jars()
    if shutil.which("taskset") is None:
        sys.exit("needs taskset: apt-get install util-linux")
    port, controller_port = free_port(), free_port()
    with tempfile.TemporaryDirectory(prefix="apache-kafka-") as name:
        directory = Path(name)
        chosen = {
            **SHIPPED,
            "listeners": f"PLAINTEXT://127.0.0.1:{port},CONTROLLER://127.0.0.1:{controller_port}",
            "advertised.listeners": f"PLAINTEXT://127.0.0.1:{port}",
            "controller.quorum.voters": f"1@127.0.0.1:{controller_port}",
            "log.dirs": directory / "data",
            **(settings or {}),
        }
        file = directory / "server.properties"
        file.write_text("".join(f"{key}={value}\n" for key, value in chosen.items()))
        java = ["java", *JAVA_OPTIONS, "-cp", f"{JARS}/*"]
        run([*java, "kafka.tools.StorageTool", "format", "-t", CLUSTER_ID, "-c", str(file)])
        cores = ",".join(map(str, sorted(broker_cores())))
        with (directory / "kafka.log").open("wb") as log:
            started_s = time.monotonic()
            process = subprocess.Popen(
                ["taskset", "-c", cores, *java, "kafka.Kafka", str(file)],
                cwd=directory,
                stdout=log,
                stderr=log,
            )
        bootstrap = f"127.0.0.1:{port}"
        try:
            took_s = first_record_s(bootstrap, started_s)
            yield KafkaNode(Target(bootstrap, None, process.pid, is_ours=False), took_s)
        except TimeoutError:
            sys.exit(
                f"Apache Kafka does not start:\n{(directory / 'kafka.log').read_text()[-3000:]}"
            )
        finally:
            process.terminate()
            try:
                process.wait(30)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()


def versions() -> str:
    """Of the peer and its Java, for a report's head."""
    jar = next(JARS.glob("kafka_2.13-*.jar"))
    java = subprocess.run(["java", "-version"], capture_output=True, text=True, check=True)
    return f"Apache Kafka {jar.stem.rpartition('-')[2]}, {java.stderr.splitlines()[0]}"
