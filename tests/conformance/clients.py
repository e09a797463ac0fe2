"""The drivers as test subjects: how to start each, what it can do, a running member to talk to."""

from __future__ import annotations

import json
import queue
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

HERE = Path(__file__).parent
DRIVERS = HERE / "drivers"
JAVA_TARGET = HERE / "java" / "target"


@dataclass(frozen=True)
class Client:
    """`codecs`: the compression types that this client can write here."""

    name: str
    command: tuple[str, ...]
    codecs: tuple[str, ...]

    def __str__(self) -> str:
        return self.name

    def produce(
        self,
        bootstrap: str,
        topic: str,
        records: Iterable[tuple[str, str]],
        *,
        compression: str = "none",
        acks: str = "all",
    ) -> None:
        """Returns when the client says that every record is acknowledged."""
        rows = [json.dumps({"key": key, "value": value}) for key, value in records]
        finished = subprocess.run(
            [*self.command, "produce", bootstrap, topic, compression, acks],
            input="\n".join(rows).encode(),
            capture_output=True,
            timeout=60,
            check=False,
        )
        assert finished.returncode == 0, finished.stderr.decode(errors="replace")[-2000:]
        assert json.loads(finished.stdout) == {"event": "acked", "count": len(rows)}

    def member(self, bootstrap: str, topic: str, group: str) -> Member:
        return Member([*self.command, "member", bootstrap, topic, group])


def python_driver(name: str) -> tuple[str, ...]:
    return (sys.executable, str(DRIVERS / f"{name}_driver.py"))


ALL_CODECS = ("none", "gzip", "snappy", "lz4", "zstd")

CLIENTS: Sequence[Client] = (
    Client("confluent-kafka", python_driver("confluent"), ALL_CODECS),
    Client("aiokafka", python_driver("aiokafka"), ALL_CODECS),
    Client("kafka-python", python_driver("kafka_python"), ALL_CODECS),
    Client("kafkajs", ("node", str(HERE / "js" / "driver.js")), ("none", "gzip")),
    Client("kcat", python_driver("kcat"), ALL_CODECS),
    Client(
        "java",
        (
            "java",
            "-Xmx128m",
            "-XX:+UseSerialGC",
            "-XX:TieredStopAtLevel=1",
            "-cp",
            f"{JAVA_TARGET}/conformance-1.jar:{JAVA_TARGET}/lib/*",
            "hermesmq.Driver",
        ),
        ALL_CODECS,
    ),
)

each_client = pytest.mark.parametrize("client", CLIENTS, ids=str)
PARTITIONS = 4


def orders(count: int, *, label: str = "v") -> list[tuple[str, str]]:
    """Records over 40 keys; the value carries the sequence per key."""
    return [(f"order-{i % 40}", f"{label}-{i // 40}") for i in range(count)]


@dataclass
class Member:
    """One group member in a process of its own; a context manager: none outlives its test."""

    command: list[str]
    records: list[dict[str, Any]] = field(default_factory=list)
    assignments: list[list[int]] = field(default_factory=list)
    has_left: bool = False

    def __enter__(self) -> Member:
        self.process = subprocess.Popen(
            self.command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE
        )
        self._events: queue.Queue[dict[str, Any]] = queue.Queue()
        self._errors: list[bytes] = []
        self._readers = [
            threading.Thread(target=self._read_events, daemon=True),
            threading.Thread(target=self._read_errors, daemon=True),
        ]
        for reader in self._readers:
            reader.start()
        return self

    def __exit__(self, *_exception: object) -> None:
        self.process.kill()
        self.process.wait()
        for reader in self._readers:
            reader.join()
        for stream in (self.process.stdin, self.process.stdout, self.process.stderr):
            assert stream is not None
            try:
                stream.close()
            except BrokenPipeError:
                continue

    def kill(self) -> None:
        """SIGKILL: no leave, no last commit."""
        self.process.kill()
        self.process.wait()

    def leave(self, *, timeout: float = 20) -> None:
        """Ask it to close and wait until it has."""
        assert self.process.stdin is not None
        self.process.stdin.close()
        self.wait_until(lambda: self.has_left, "the member has left", timeout=timeout)

    @property
    def assignment(self) -> list[int]:
        """Partitions of the latest rebalance, sorted."""
        self.take_events()
        return self.assignments[-1] if self.assignments else []

    def wait_until(self, condition: Callable[[], bool], what: str, *, timeout: float = 30) -> None:
        deadline = time.monotonic() + timeout
        while True:
            has_ended = self.process.poll() is not None
            if has_ended:
                self._readers[0].join(timeout)  # all that it said counts
            self.take_events()
            if condition():
                return
            assert time.monotonic() < deadline, (
                f"not within {timeout} s: {what}; {len(self.records)} records,"
                f" assignments {self.assignments[-3:]}, stderr {self._error_text()}"
            )
            assert not has_ended, f"the client ended before: {what}; stderr {self._error_text()}"
            time.sleep(0.02)

    def take_events(self) -> None:
        """Take over what the client has printed so far, also what a killed one had printed."""
        while True:
            try:
                event = self._events.get_nowait()
            except queue.Empty:
                return
            if event["event"] == "record":
                self.records.append(event)
            elif event["event"] == "assigned":
                self.assignments.append(event["partitions"])
            elif event["event"] == "left":
                self.has_left = True

    def _read_events(self) -> None:
        assert self.process.stdout is not None
        for line in self.process.stdout:
            self._events.put(json.loads(line))

    def _read_errors(self) -> None:
        assert self.process.stderr is not None
        self._errors.extend(self.process.stderr)

    def _error_text(self) -> str:
        return b"".join(self._errors[-20:]).decode(errors="replace")
