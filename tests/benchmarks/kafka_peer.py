"""An Apache Kafka 4.4 node for measurements: as it comes, with what its shipped `server.properties`
sets and the Java options of its start scripts, on one core.

Two things are left out, both in its favour: it writes no log, since the library that does comes
with the distribution only; and its directory is formatted before its start is timed.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import NamedTuple

from broker.bench.cores import broker_cores
from broker.bench.starting import first_record_s
from broker.bench.target import Target
from tests.support.with_kafka import JARS, fail, kafka_process

JAVA_OPTIONS = (
    *("-Xmx1G", "-Xms1G", "-server", "-XX:+UseG1GC", "-XX:MaxGCPauseMillis=20"),
    *("-XX:InitiatingHeapOccupancyPercent=35", "-XX:+ExplicitGCInvokesConcurrent"),
    "-Djava.awt.headless=true",
    "-Xlog:gc*:file={directory}/kafkaServer-gc.log:time,tags:filecount=10,filesize=100M",
    *("-Dcom.sun.management.jmxremote=true", "-Dcom.sun.management.jmxremote.authenticate=false"),
    *("-Dcom.sun.management.jmxremote.ssl=false", "-Dkafka.logs.dir={directory}"),
)
"""What `kafka-server-start.sh` and `kafka-run-class.sh` give to a broker on Java 17."""
SHIPPED = {
    "process.roles": "broker,controller",
    "node.id": 1,
    "controller.listener.names": "CONTROLLER",
    "inter.broker.listener.name": "PLAINTEXT",
    "listener.security.protocol.map": (
        "CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT,SSL:SSL,"
        "SASL_PLAINTEXT:SASL_PLAINTEXT,SASL_SSL:SASL_SSL"
    ),
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
"""What `config/server.properties`, which is for one node, sets besides addresses and paths."""
FLUSHED = {"log.flush.interval.messages": 1}


class KafkaNode(NamedTuple):
    """One that runs; `first_record_s` is how long its start took, formatting left out."""

    target: Target
    first_record_s: float


@contextmanager
def kafka_node(settings: Mapping[str, object] | None = None) -> Iterator[KafkaNode]:
    """A fresh node on the brokers' core, gone with its data afterwards."""
    if shutil.which("taskset") is None:
        sys.exit("needs taskset: apt-get install util-linux")
    pinned = ("taskset", "-c", ",".join(map(str, sorted(broker_cores()))))
    with kafka_process({**SHIPPED, **(settings or {})}, JAVA_OPTIONS, pinned) as node:
        try:
            took_s = first_record_s(node.bootstrap, node.started_s)
        except TimeoutError:
            fail(node)
        yield KafkaNode(Target(node.bootstrap, None, node.process.pid, is_ours=False), took_s)


def versions() -> str:
    """Of the peer and its Java, for a report's head; empty when no peer was ever fetched."""
    jar = next(JARS.glob("kafka_2.13-*.jar"), None)
    if jar is None:
        return ""
    java = subprocess.run(["java", "-version"], capture_output=True, text=True, check=True)
    return f"Apache Kafka {jar.stem.rpartition('-')[2]}, {java.stderr.splitlines()[0]}"
