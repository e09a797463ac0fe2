"""An open loop: records at a fixed rate, each stamped with the time at which it was due, and a
reader that times them. Nothing that a broker delays is left out of the latency: what is sent late
was due when it was due (no coordinated omission).

| job    | does                                                              |
|--------|-------------------------------------------------------------------|
| pace   | about each `tick_ms` a request with the records of that time      |
| time   | reads them; the latencies by windows of the time they were due in |

A tick's records share a due time: the sender lingers as a client with `linger.ms` does. Times are
of this machine's monotonic clock.
"""

from __future__ import annotations

import json
import socket
import struct
import time
from array import array
from collections.abc import Mapping
from math import gcd
from typing import Any, Final, NamedTuple

from broker.bench.frames import (
    FETCH_VERSION,
    PRODUCED_BYTES,
    BenchRefusal,
    FetchFrame,
    Stamped,
    check_produced,
    error_position,
    of_records,
)
from broker.bench.measure import percentile
from broker.bench.raw_produce import SILENCE_S_MAX, connect, cpu_s, receive_exactly
from broker.bench.told import Told
from broker.records.batch import LENGTH_OVERHEAD, read_header
from broker.wire import api
from broker.wire.frame import decode_response

_SIZE: Final = struct.Struct(">i")
_STAMP: Final = struct.Struct(">q")
GIVEN_UP_AFTER: Final = 1.5
"""Times the planned duration."""


class Shape(NamedTuple):
    """A tick's request: a batch of `records` for each of `partitions`; `linger_ms` before it is
    sent its first record was due.
    """

    partitions: int
    records: int
    linger_ms: float


def shape_of(job: Mapping[str, Any]) -> Shape:
    """With `batch_ms` a partition's records of that time are one batch, and each tick sends those
    of the next partitions in line; without it a tick's records go to as many partitions as divide
    them.
    """
    partitions: int = job["partitions"]
    per_tick = max(1, round(job["rate"] * job["tick_ms"] / 1000))
    batch_ms = job.get("batch_ms")
    if batch_ms is None:
        count = next(n for n in range(min(per_tick, partitions), 0, -1) if per_tick % n == 0)
        return Shape(count, per_tick // count, 0.0)
    records = max(1, round(job["rate"] * batch_ms / 1000 / partitions))
    count = max(1, round(per_tick / records))
    return Shape(count, records, (records - 1) * partitions * 1000 / job["rate"])


def tick_ns_of(job: Mapping[str, Any]) -> int:
    """Between two requests: about `tick_ms`, and so long that whole batches make up the rate.
    Otherwise a load that cannot be divided would look like a broker that does not hold it.
    """
    shape, rate = shape_of(job), int(job["rate"])
    return round(shape.partitions * shape.records * 1e9 / rate)


class Acknowledged:
    """Counts the answers, which all have one size while nothing is refused."""

    def __init__(self, peer: socket.socket, topic: str, partitions: int) -> None:
        self.requests = 0
        self._peer = peer
        self._errors = [error_position(topic) + PRODUCED_BYTES * n for n in range(partitions)]
        self._answer_bytes = 0
        self._kept = bytearray()

    def first(self) -> None:
        """Wait for one answer, whose size all others have. Raises BenchRefusal."""
        (size,) = _SIZE.unpack(receive_exactly(self._peer, 4))
        check_produced(receive_exactly(self._peer, size))
        self._answer_bytes = size + 4
        self.requests += 1

    def take(self, *, is_waiting: bool = False) -> None:
        """What has come. Raises BenchRefusal."""
        try:
            received = self._peer.recv(1 << 16, 0 if is_waiting else socket.MSG_DONTWAIT)
        except BlockingIOError:
            if is_waiting:
                raise
            return
        if not received:
            raise BenchRefusal("the broker closed the connection")
        self._kept += received
        size = self._answer_bytes
        whole = len(self._kept) // size * size
        for start in range(0, whole, size):
            (length,) = _SIZE.unpack_from(self._kept, start)
            codes = [self._kept[start + error : start + error + 2] for error in self._errors]
            if length != size - 4 or any(map(any, codes)):
                check_produced(self._kept[start + 4 : start + 4 + length])
                raise BenchRefusal("an answer to produce has another size than the first one")
        self.requests += whole // size
        del self._kept[:whole]


def pace(job: Mapping[str, Any]) -> dict[str, Any]:
    """`rate` records a second for `seconds`, or until told; every answer is awaited at the end. A
    broker that takes them at less than two thirds of the rate is given up: what it was sent by then
    counts.
    """
    topic, tick_ns = job["topic"], tick_ns_of(job)
    count, each, linger_ms = shape_of(job)
    per_tick, linger_ns = count * each, round(linger_ms * 1e6)
    batch = of_records(each, job["record_bytes"])
    acks = {"all": -1, "1": 1}[job["acks"]]
    requests = [
        Stamped(topic, [(start + n) % job["partitions"] for n in range(count)], batch, acks)
        for start in range(0, job["partitions"] * count // gcd(job["partitions"], count), count)
    ]
    peer = connect(job["bootstrap"])
    answers = Acknowledged(peer, topic, count)
    peer.sendall(requests[0].stamp(time.monotonic_ns()))
    answers.first()
    told = None
    if job.get("until_told"):
        print("ready", flush=True)
        told = Told()
    began_ns, began_cpu = time.monotonic_ns(), cpu_s()
    ticks = round(job["seconds"] * 1e9 / tick_ns)
    sent, late_ns, now_ns = 0, 0, began_ns
    given_up_ns = began_ns + round(GIVEN_UP_AFTER * ticks * tick_ns)
    while sent < ticks and now_ns < given_up_ns and not (told and told.is_told):
        due_ns = began_ns + (sent + 1) * tick_ns
        now_ns = time.monotonic_ns()
        if now_ns < due_ns:
            time.sleep((due_ns - now_ns) / 1e9)
        else:
            late_ns = max(late_ns, now_ns - due_ns)
        peer.sendall(requests[(sent + 1) % len(requests)].stamp(due_ns - linger_ns))
        sent += 1
        answers.take()
    sent_s = (time.monotonic_ns() - began_ns) / 1e9
    while answers.requests < sent + 1:
        answers.take(is_waiting=True)
    used = cpu_s() - began_cpu
    peer.close()
    return {
        "records": (sent + 1) * per_tick,
        "rate": sent * per_tick / sent_s,
        "late_ms": late_ns / 1e6,
        "began_ns": began_ns,
        "seconds": sent_s,
        "cpu_seconds": used,
    }


class Timing:
    """Due times and latencies of batches, and how many records came."""

    def __init__(self, partitions: int, stamp_position: int) -> None:
        self.due_ns = array("q")
        self.late_ns = array("q")
        self.records = 0
        self.offsets = [0] * partitions
        self._stamp_position = stamp_position

    def add(self, partition: int, records: memoryview) -> None:
        """All whole batches of one answer. Raises BenchRefusal for a gap or a batch again."""
        now_ns = time.monotonic_ns()
        position, end = 0, len(records)
        while position + LENGTH_OVERHEAD < end:
            (length,) = _SIZE.unpack_from(records, position + 8)
            if position + LENGTH_OVERHEAD + length > end:
                return
            header = read_header(records, position)
            if header.base_offset != self.offsets[partition]:
                raise BenchRefusal(
                    f"partition {partition}: offset {header.base_offset} came, "
                    f"{self.offsets[partition]} was next"
                )
            (due_ns,) = _STAMP.unpack_from(records, position + self._stamp_position)
            self.due_ns.append(due_ns)
            self.late_ns.append(now_ns - due_ns)
            self.records += header.record_count
            self.offsets[partition] = header.base_offset + header.last_offset_delta + 1
            position += header.size

    def window(self, from_ns: int, to_ns: int) -> dict[str, float] | None:
        """Percentiles in ms of what was due in [from, to); None for nothing."""
        late_ms = sorted(
            late / 1e6
            for due, late in zip(self.due_ns, self.late_ns, strict=True)
            if from_ns <= due < to_ns
        )
        if not late_ms:
            return None
        return {
            "batches": len(late_ms),
            "p50_ms": percentile(late_ms, 0.5),
            "p99_ms": percentile(late_ms, 0.99),
            "p999_ms": percentile(late_ms, 0.999),
            "max_ms": late_ms[-1],
        }


def measure(job: Mapping[str, Any]) -> dict[str, Any]:
    """Read from the beginning of the topic until told how many records there are, then the windows
    that the same line names: `{"records": N, "windows": [[from, to], …]}` in nanoseconds.
    """
    partitions, topic = job["partitions"], job["topic"]
    one = of_records(shape_of(job).records, job["record_bytes"])
    timing = Timing(partitions, one.stamp_position)
    frame = FetchFrame(
        topic,
        range(partitions),
        partition_bytes_max=1 << 20,
        wait_ms=100,
        min_bytes=job.get("fetch_min_bytes", 1),
    )
    peer = connect(job["bootstrap"])
    peer.sendall(frame.at(timing.offsets))
    print("ready", flush=True)
    told, began_cpu = Told(), cpu_s()
    line: dict[str, Any] = {"records": -1, "windows": []}
    news_s = time.monotonic()
    while timing.records != line["records"]:
        (size,) = _SIZE.unpack(receive_exactly(peer, 4))
        before = timing.records
        _take(timing, receive_exactly(peer, size))
        peer.sendall(frame.at(timing.offsets))
        if told.is_told:
            line = json.loads(told.line)
        if timing.records > before:
            news_s = time.monotonic()
        elif time.monotonic() - news_s > SILENCE_S_MAX:
            raise BenchRefusal(f"{timing.records} records came, then none")
    used = cpu_s() - began_cpu
    peer.close()
    return {
        "records": timing.records,
        "windows": [timing.window(*window) for window in line["windows"]],
        "cpu_seconds": used,
    }


def _take(timing: Timing, frame: bytearray) -> None:
    _, answer = decode_response(api.FETCH, FETCH_VERSION, memoryview(frame))
    for topic in answer.responses:
        for found in topic.partitions:
            if found.error_code:
                raise BenchRefusal(f"fetch was refused with error {found.error_code}")
            if found.records:
                timing.add(found.partition_index, memoryview(found.records))
