"""The broker under test: one that this command starts on an empty directory, or any other."""

from __future__ import annotations

import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, Final

from confluent_kafka import Consumer, KafkaException, TopicPartition
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic

from broker.bench.asking import ask_end_offsets
from broker.bench.cores import pin_broker
from broker.bench.frames import BenchRefusal
from broker.bench.measure import parse_buckets, parse_samples
from broker.bench.processes import Usage, family_usage, listener

START_S_MAX: Final = 60.0
ANSWER_S_MAX: Final = 5.0
TOPIC_S_MAX: Final = 15.0
MANY_PARTITIONS: Final = 100
PARTITION_S_MAX: Final = 0.05
LATE_S: Final = 5.0
"""An answer may come this much later: whoever waits for it gives up first, and says so."""
MANY_S_MAX: Final = 290.0
"""Clients wait for an answer no longer than five minutes."""
LOG_LINES: Final = 15
LOOP_LAG: Final = "hermes_loop_lag_seconds"


class BenchFault(Exception):
    """The benchmark cannot go on; the message says why."""


class Target:
    """`bootstrap` is where clients connect; `pid` the broker's process, where it is known, else
    usage is None. `is_ours` says which settings its topics know.
    """

    def __init__(
        self,
        bootstrap: str,
        metrics_url: str | None = None,
        pid: int | None = None,
        *,
        is_ours: bool = True,
    ) -> None:
        self.bootstrap = bootstrap
        self.pid = pid
        self.is_ours = is_ours
        self._metrics_url = metrics_url

    def usage(self) -> Usage | None:
        """Of the broker and of the processes that it started."""
        return None if self.pid is None else family_usage(self.pid)

    def loop_lag_buckets(self) -> dict[float, float] | None:
        """The event loop's lag so far, as cumulative counts; None without a metrics address."""
        text = self._metrics()
        return None if text is None else parse_buckets(text, LOOP_LAG)

    def samples(self, name: str) -> dict[str, float] | None:
        """A metric's samples by their labels as text; None without a metrics address."""
        text = self._metrics()
        return None if text is None else parse_samples(text, name)

    def _metrics(self) -> str | None:
        if self._metrics_url is None:
            return None
        with urllib.request.urlopen(self._metrics_url, timeout=10) as answer:  # noqa: S310
            text: str = answer.read().decode()
            return text

    def create_topic(
        self, name: str, partitions: int, settings: Mapping[str, str] | None = None
    ) -> None:
        """Returns when every partition has a leader. Raises BenchFault."""
        seconds = _patience_s(partitions)
        admin = self._admin(seconds)  # kept while its answers are awaited: they end with it
        topic = NewTopic(name, partitions, 1, config=dict(settings or {}))
        futures = admin.create_topics(
            [topic], operation_timeout=seconds, request_timeout=seconds + LATE_S
        )
        self._wait_for(name, futures, seconds)
        deadline_s = time.monotonic() + seconds
        while True:
            try:
                self.end_offsets(name, partitions)
            except BenchFault:  # a broker may answer before it leads
                if time.monotonic() > deadline_s:
                    raise
                time.sleep(0.05)
            else:
                return

    def delete_topic(self, name: str, partitions: int = 1) -> None:
        """Raises BenchFault."""
        seconds = _patience_s(partitions)
        admin = self._admin(seconds)
        futures = admin.delete_topics(
            [name], operation_timeout=seconds, request_timeout=seconds + LATE_S
        )
        self._wait_for(name, futures, seconds)

    def end_offsets(self, topic: str, partitions: int) -> list[int]:
        """The offset behind the last record of each partition. Raises BenchFault."""
        with suppress(OSError, BenchRefusal):  # it leads all of them: one question
            return ask_end_offsets(self.bootstrap, topic, partitions)
        settings: dict[str, Any] = {**self._settings_of_clients(), "group.id": "hermes-bench"}
        consumer = Consumer(settings)
        try:
            return [
                consumer.get_watermark_offsets(TopicPartition(topic, number), timeout=30)[1]
                for number in range(partitions)
            ]
        except KafkaException as error:
            raise BenchFault(f"the offsets of {topic} cannot be read: {error}") from error
        finally:
            consumer.close()

    def count_records(self, topic: str, partitions: int) -> int:
        """How many records the topic's partitions were given, by their offsets. Raises
        BenchFault.
        """
        return sum(self.end_offsets(topic, partitions))

    def _settings_of_clients(self) -> dict[str, Any]:
        return {"bootstrap.servers": self.bootstrap, "log_level": 2}

    def _admin(self, seconds: float) -> AdminClient:
        patience_ms = max(60_000, round(1000 * seconds))
        return AdminClient({**self._settings_of_clients(), "socket.timeout.ms": patience_ms})

    def _wait_for(self, topic: str, futures: Mapping[str, Any], seconds: float) -> None:
        try:
            for future in futures.values():
                future.result(timeout=seconds)
        except (KafkaException, TimeoutError) as error:
            reason = str(error) or f"no answer within {seconds:g} s"
            msg = f"topic {topic} cannot be created or deleted at {self.bootstrap}: {reason}"
            raise BenchFault(msg) from error


def running_target(bootstrap: str, *, is_ours: bool) -> Target:
    """A broker that runs; its process is found by its port when it is on this machine. Raises
    BenchFault when nobody answers there.
    """
    host, _, port = bootstrap.rpartition(":")
    if not port.isdigit():
        raise BenchFault(f"{bootstrap} is no HOST:PORT")
    try:
        socket.create_connection((host.strip("[]"), int(port)), ANSWER_S_MAX).close()
    except (OSError, OverflowError) as error:
        raise BenchFault(f"nobody answers at {bootstrap}: {error}") from None
    return Target(bootstrap, None, listener(int(port)), is_ours=is_ours)


def _patience_s(partitions: int) -> float:
    """How long a topic of so many partitions may take to come or go."""
    more_s = max(0, partitions - MANY_PARTITIONS) * PARTITION_S_MAX
    return min(TOPIC_S_MAX + more_s, MANY_S_MAX)


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
        process = self.spawn()
        while time.monotonic() - started_s < START_S_MAX:
            if self._is_ready():
                return time.monotonic() - started_s
            if process.poll() is not None:
                break
            time.sleep(0.01)
        self.stop()
        raise BenchFault("the broker did not become ready")

    def spawn(self) -> subprocess.Popen[bytes]:
        """Start the process and wait for nothing."""
        with self._log.open("ab") as output:
            self._process = subprocess.Popen(
                [
                    *(sys.executable, "-m", "broker", "serve"),
                    *("--data", str(self.data)),
                    *("--kafka-port", str(self._kafka_port)),
                    *("--metrics-port", str(self._metrics_port), *self._settings),
                ],
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
            )
        self.pid = self._process.pid
        pin_broker(self.pid)
        return self._process

    def stop(self, by: signal.Signals = signal.SIGTERM) -> None:
        """By SIGTERM or another signal, after 30 s by SIGKILL."""
        if self._process is None:
            return
        self._process.send_signal(by)
        try:
            self._process.wait(30)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        self._process = self.pid = None

    @property
    def data(self) -> Path:
        """Its data directory."""
        return self._directory / "data"

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


def _free_port() -> int:
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])
