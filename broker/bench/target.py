"""The broker under test: one that this command starts on an empty directory, or any other."""

from __future__ import annotations

import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final, NamedTuple

from confluent_kafka import Consumer, KafkaException, TopicPartition
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic

from broker.bench.cores import pin_broker
from broker.bench.measure import parse_buckets

START_S_MAX: Final = 60.0
TOPIC_S_MAX: Final = 15.0
LOG_LINES: Final = 15
LOOP_LAG: Final = "hermes_loop_lag_seconds"
_CLOCK_TICKS: Final = os.sysconf("SC_CLK_TCK")
_PAGE_BYTES: Final = os.sysconf("SC_PAGE_SIZE")


class BenchFault(Exception):
    """The benchmark cannot go on; the message says why."""


class Usage(NamedTuple):
    """CPU seconds since the process began, and resident bytes now; workers included."""

    cpu_s: float
    resident_bytes: int


class Target:
    """`bootstrap` is where clients connect; without a process of ours, usage and lag are None."""

    bootstrap: str

    def __init__(self, bootstrap: str, metrics_url: str | None) -> None:
        self.bootstrap = bootstrap
        self._metrics_url = metrics_url

    def usage(self) -> Usage | None:
        return None

    def loop_lag_buckets(self) -> dict[float, float] | None:
        """The event loop's lag so far, as cumulative counts; None without a metrics address."""
        if self._metrics_url is None:
            return None
        with urllib.request.urlopen(self._metrics_url, timeout=10) as answer:  # noqa: S310
            return parse_buckets(answer.read().decode(), LOOP_LAG)

    def create_topic(self, name: str, partitions: int) -> None:
        """Raises BenchFault."""
        admin = self._admin()  # kept while its answers are awaited: they end with it
        self._wait_for(name, admin.create_topics([NewTopic(name, partitions, 1)]))

    def delete_topic(self, name: str) -> None:
        """Raises BenchFault."""
        admin = self._admin()
        self._wait_for(name, admin.delete_topics([name]))

    def count_records(self, topic: str, partitions: int) -> int:
        """How many records the topic's partitions hold, by their offsets. Raises BenchFault."""
        settings: dict[str, Any] = {**self._settings_of_clients(), "group.id": "hermes-bench"}
        consumer = Consumer(settings)
        try:
            offsets = [
                consumer.get_watermark_offsets(TopicPartition(topic, number), timeout=30)
                for number in range(partitions)
            ]
        except KafkaException as error:
            raise BenchFault(f"the offsets of {topic} cannot be read: {error}") from error
        finally:
            consumer.close()
        return sum(high - low for low, high in offsets)

    def _settings_of_clients(self) -> dict[str, Any]:
        return {"bootstrap.servers": self.bootstrap, "log_level": 2}

    def _admin(self) -> AdminClient:
        return AdminClient(self._settings_of_clients())

    def _wait_for(self, topic: str, futures: Mapping[str, Any]) -> None:
        try:
            for future in futures.values():
                future.result(timeout=TOPIC_S_MAX)
        except (KafkaException, TimeoutError) as error:
            reason = str(error) or f"no answer within {TOPIC_S_MAX:g} s"
            msg = f"topic {topic} cannot be created or deleted at {self.bootstrap}: {reason}"
            raise BenchFault(msg) from error


class OwnBroker(Target):
    """A broker in a temporary directory; as a context manager, gone with its data afterwards."""

    def __init__(self, directory: str | None = None, settings: Sequence[str] = ()) -> None:
        self._directory = Path(tempfile.mkdtemp(prefix="hermes-bench-", dir=directory))
        self._log = self._directory / "broker.log"
        self._settings = tuple(settings)
        self._process: subprocess.Popen[bytes] | None = None
        self._kafka_port, metrics_port = _free_port(), _free_port()
        self._metrics_port = metrics_port
        super().__init__(
            f"127.0.0.1:{self._kafka_port}", f"http://127.0.0.1:{metrics_port}/metrics"
        )

    def __enter__(self) -> OwnBroker:
        try:
            self.start()
        except BenchFault as fault:
            self.__exit__(None, fault, None)
            raise
        return self

    def __exit__(self, _kind: object, error: BaseException | None, _trace: object) -> None:
        self.stop()
        if isinstance(error, BenchFault):
            error.add_note("\n".join(["the end of the broker's log:", *self._log_lines()]))
        shutil.rmtree(self._directory, ignore_errors=True)

    def start(self) -> float:
        """Seconds from the start of the process until it answers /readyz. Raises BenchFault."""
        started_s = time.monotonic()
        with self._log.open("ab") as output:
            self._process = subprocess.Popen(
                [
                    *(sys.executable, "-m", "broker", "serve"),
                    *("--data", str(self._directory / "data")),
                    *("--kafka-port", str(self._kafka_port)),
                    *("--metrics-port", str(self._metrics_port), *self._settings),
                ],
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
            )
        pin_broker(self._process.pid)
        while time.monotonic() - started_s < START_S_MAX:
            if self._is_ready():
                return time.monotonic() - started_s
            if self._process.poll() is not None:
                break
            time.sleep(0.01)
        self.stop()
        raise BenchFault("the broker did not become ready")

    def stop(self) -> None:
        """SIGTERM, after 30 s SIGKILL."""
        if self._process is None:
            return
        self._process.send_signal(signal.SIGTERM)
        try:
            self._process.wait(30)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        self._process = None

    def usage(self) -> Usage | None:
        """Of the broker and of the processes that it started."""
        assert self._process is not None, "usage of a broker that runs"
        usages = [_usage(pid) for pid in _family(self._process.pid)]
        return Usage(sum(u.cpu_s for u in usages), sum(u.resident_bytes for u in usages))

    def _log_lines(self) -> list[str]:
        if not self._log.is_file():
            return []
        return self._log.read_text(errors="replace").splitlines()[-LOG_LINES:]

    def _is_ready(self) -> bool:
        url = f"http://127.0.0.1:{self._metrics_port}/readyz"
        try:
            with urllib.request.urlopen(url, timeout=2) as answer:
                return bool(answer.status == 200)
        except OSError:
            return False


def _usage(pid: int) -> Usage:
    fields = _stat(pid)
    if fields is None:
        return Usage(0.0, 0)
    # proc(5): fields 14 and 15 are user and system time in ticks, 24 the resident pages
    return Usage((int(fields[11]) + int(fields[12])) / _CLOCK_TICKS, int(fields[21]) * _PAGE_BYTES)


def _stat(pid: int) -> list[str] | None:
    """The fields of /proc/<pid>/stat from the third on; None when the process has gone."""
    try:
        return Path(f"/proc/{pid}/stat").read_text(encoding="utf-8").rpartition(")")[2].split()
    except OSError:
        return None


def _family(root: int) -> list[int]:
    """A process and its descendants."""
    parents = {
        int(path.name): int(fields[1])
        for path in Path("/proc").glob("[0-9]*")
        if (fields := _stat(int(path.name))) is not None
    }
    family = [root]
    for pid in family:
        family += [child for child, parent in parents.items() if parent == pid]
    return family


def _free_port() -> int:
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])
