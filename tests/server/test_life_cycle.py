"""Stop and start under load: what was acknowledged is there, and nobody waits long."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest

from tests.support.broker_process import ROOT, BrokerProcess
from tests.support.wire_client import WireClient


class Load(threading.Thread):
    """One producer that keeps a few requests in flight; `acked` counts what was acknowledged."""

    def __init__(self, port: int, topic: str) -> None:
        super().__init__(daemon=True)
        self._port = port
        self._topic = topic
        self.acked = 0
        self.bad: list[int] = []

    def run(self) -> None:
        with suppress(OSError), WireClient(self._port) as client:
            for _ in range(5):
                client.send_batch(self._topic, [(b"k", b"v" * 500)])
            while True:
                answer = client.receive().responses[0].partition_responses[0]
                if answer.error_code:
                    self.bad.append(answer.error_code)
                else:
                    self.acked = answer.base_offset + 1
                client.send_batch(self._topic, [(b"k", b"v" * 500)])


@contextmanager
def under_load(broker: BrokerProcess) -> Iterator[list[Load]]:
    """Producers on topics of their own, and consumers parked at their ends."""
    loads = [Load(broker.kafka_port, f"load-{number}") for number in range(4)]
    with WireClient(broker.kafka_port) as client:
        for number in range(4):
            client.create_topic(f"load-{number}")
        parked = [WireClient(broker.kafka_port) for _ in range(10)]
        for connection in parked:
            connection.send_fetch("load-0", 0, max_wait_ms=60_000, min_bytes=1 << 30)
        for load in loads:
            load.start()
        until(lambda: all(load.acked > 50 for load in loads))
        yield loads
        for connection in parked:
            connection.socket.close()


def until(condition: Callable[[], bool], seconds: float = 30) -> None:
    ends = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < ends, "it never happened"
        time.sleep(0.02)


def ends_of(broker: BrokerProcess) -> list[int]:
    with WireClient(broker.kafka_port) as client:
        return [client.fetch(f"load-{number}", 0).high_watermark for number in range(4)]


@pytest.mark.parametrize("is_clean", [True, False])
def test_what_was_acknowledged_survives_a_stop_under_load(tmp_path: Path, is_clean: bool) -> None:
    with BrokerProcess(tmp_path) as broker:
        with under_load(broker) as loads:
            if is_clean:
                assert broker.terminate(timeout=15) == 0
            else:
                broker.kill()
            for load in loads:
                load.join(10)
                assert not load.bad
        broker.start()
        ends = ends_of(broker)
        assert all(end >= load.acked for end, load in zip(ends, loads, strict=True))
        log = broker.log_path.read_text()
        assert "Traceback" not in log
        if is_clean:
            assert "repaired" not in log


def test_a_supervised_broker_stops_when_its_supervisor_is_gone(tmp_path: Path) -> None:
    reading, writing = os.pipe()
    flags = ["--supervised", "--log-dir", str(tmp_path / "data"), "--hermes-metrics-port", "-1"]
    process = subprocess.Popen(
        [sys.executable, "-m", "broker", "serve", "--listeners", "PLAINTEXT://127.0.0.1:0", *flags],
        cwd=ROOT,
        stdin=reading,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
    )
    os.close(reading)
    try:
        assert process.stdout is not None
        assert process.stdout.readline().startswith(b"ready kafka=127.0.0.1:")
        os.close(writing)
        assert process.wait(15) == 0
    finally:
        process.kill()
        process.wait()
        if process.stdout is not None:
            process.stdout.close()


def test_connections_beyond_the_descriptors_are_refused_and_storage_goes_on(
    tmp_path: Path,
) -> None:
    with BrokerProcess(
        tmp_path, {"log.segment.bytes": 20_000}, prefix=["prlimit", "--nofile=128"]
    ) as broker:
        with WireClient(broker.kafka_port) as client:
            client.create_topic("rolling")
            idle = [WireClient(broker.kafka_port) for _ in range(200)]
            time.sleep(0.5)
            cpu_before = cpu_seconds(broker.pid)
            began = time.monotonic()
            produced_count = 0
            while len(list(broker.data.rglob("*.log"))) < 6:
                assert client.produce("rolling", [(b"k", b"v" * 5_000)]).error_code == 0
                produced_count += 1
                assert produced_count < 1_000, "segments do not roll"
                time.sleep(0.02)
            time.sleep(1)
            busy = (cpu_seconds(broker.pid) - cpu_before) / (time.monotonic() - began)
            assert busy < 0.5, "it does not spin"
            for connection in idle:
                connection.socket.close()
        until(lambda: can_connect(broker))
        assert "limit=descriptors" in broker.log_path.read_text()


@pytest.mark.parametrize("name", ["max.connections", "max.connections.per.ip"])
def test_one_connection_too_many_is_closed_at_once(tmp_path: Path, name: str) -> None:
    with BrokerProcess(tmp_path, {name: 3}) as broker:
        kept = [WireClient(broker.kafka_port) for _ in range(3)]
        with WireClient(broker.kafka_port) as refused:
            assert refused.is_closed_within(3)
        kept[0].create_topic("t")
        kept.pop().socket.close()
        until(lambda: can_connect(broker))
        for connection in kept:
            connection.socket.close()


def test_an_idle_connection_is_closed_after_its_time(tmp_path: Path) -> None:
    settings = {"connections.max.idle.ms": 1000}
    with BrokerProcess(tmp_path, settings) as broker, WireClient(broker.kafka_port) as client:
        assert client.is_closed_within(6)


def can_connect(broker: BrokerProcess) -> bool:
    with suppress(OSError), WireClient(broker.kafka_port) as client:
        client.fetch("rolling", 0)
        return True
    return False


def cpu_seconds(pid: int) -> float:
    fields = Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")
