"""A member of a group that times what it reads, until a line on standard input tells it to end.

Each record begins with the time of its sending on this machine's monotonic clock. The line that
ends it is a JSON list of windows, [from, to) in nanoseconds of that clock, by sending time.
"""

from __future__ import annotations

import json
import struct
import threading
import time
from array import array
from collections.abc import Mapping, Sequence
from typing import Any, Final

from confluent_kafka import Consumer, Message

from broker.bench.measure import percentile
from broker.bench.told import Told

STAMP: Final = struct.Struct(">q")
CAUGHT_UP_NS: Final = 1_000_000_000
"""A reader that gets a record this soon after its sending has no backlog."""


class Reading:
    """What was read: `sent_ns` and `late_ns` per record, and what was left out between two."""

    def __init__(self) -> None:
        self.sent_ns = array("q")
        self.late_ns = array("q")
        self.gaps = 0
        self._next: dict[int, int] = {}

    def add(self, message: Message) -> None:
        """A record that comes a second time, after a rebalance, is timed again but no gap."""
        now_ns = time.monotonic_ns()
        sent_ns: int = STAMP.unpack_from(message.value() or b"")[0]
        self.sent_ns.append(sent_ns)
        self.late_ns.append(now_ns - sent_ns)
        partition, offset = message.partition() or 0, message.offset() or 0
        expected = self._next.get(partition, 0)
        self.gaps += max(0, offset - expected)
        self._next[partition] = max(expected, offset + 1)

    def distinct(self) -> int:
        """Records read at least once, when there were no gaps."""
        return sum(self._next.values())

    def window(self, from_ns: int, to_ns: int) -> dict[str, float] | None:
        """Percentiles in milliseconds of what was sent in the window; None for nothing."""
        times = sorted(
            late_ns / 1e6
            for sent_ns, late_ns in zip(self.sent_ns, self.late_ns, strict=True)
            if from_ns <= sent_ns < to_ns
        )
        if not times:
            return None
        return {
            "count": len(times),
            "p50_ms": percentile(times, 0.5),
            "p99_ms": percentile(times, 0.99),
        }

    def caught_up_s(self, from_ns: int) -> float | None:
        """Seconds from `from_ns` until a record came without delay; None when none did."""
        for sent_ns, late_ns in zip(self.sent_ns, self.late_ns, strict=True):
            if sent_ns + late_ns >= from_ns and late_ns < CAUGHT_UP_NS:
                return (sent_ns + late_ns - from_ns) / 1e9
        return None


def follow(job: Mapping[str, Any]) -> dict[str, Any]:
    """Read `topic` as a member of `group`, which commits every second, from its beginning."""
    consumer = Consumer(
        {
            "bootstrap.servers": job["bootstrap"],
            "log_level": 3,
            "group.id": job["group"],
            "auto.offset.reset": "earliest",
            "auto.commit.interval.ms": 1_000,
            "fetch.wait.max.ms": 100,
            "fetch.queue.backoff.ms": 1,
        }
    )
    assigned = threading.Event()
    consumer.subscribe([job["topic"]], on_assign=lambda _consumer, _partitions: assigned.set())
    while not assigned.is_set():
        consumer.poll(0.1)
    print("ready", flush=True)
    told, reading = Told(), Reading()
    while not told.is_told:
        message = consumer.poll(0.1)
        if message is None:
            continue
        if message.error() is not None:
            raise SystemExit(f"follow: {message.error()}")
        reading.add(message)
    consumer.close()
    windows: Sequence[tuple[int, int]] = json.loads(told.line or "[]")
    return {
        "distinct": reading.distinct(),
        "gaps": reading.gaps,
        "windows": [reading.window(*window) for window in windows],
        "caught_up_s": reading.caught_up_s(windows[-1][0]) if windows else None,
    }
