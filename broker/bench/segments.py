"""What closed segments cost a start: a broker whose topic has many of them beside one with none."""

from __future__ import annotations

import signal
import time
from pathlib import Path
from statistics import median
from typing import Final

from broker.bench.asking import receive_frame
from broker.bench.frames import check_produced, of_records, produce_frame
from broker.bench.measure import Measure, Row
from broker.bench.raw_produce import connect
from broker.bench.running import Options, Watch
from broker.bench.target import BenchFault, OwnBroker, Target

SEGMENTS: Final = 1_000
SEGMENT_BYTES: Final = 1_024
RECORD_BYTES: Final = 1_000
RESTARTS: Final = 5
"""Of each broker after each kind of stop, in turn."""
SHARE_MAX: Final = 110.0
"""Percent of the time with none."""
TOPIC: Final = "bench-segments"
FILL_S_MAX: Final = 120.0
LOOKS_EVERY: Final = 10
"""Records between two looks at how many segments there are."""


def open_segments(target: Target, options: Options) -> Row:
    """From process start to ready, after a clean stop and after a kill with a record just written:
    with `SEGMENTS` closed segments, or `series_max`, over without.
    """
    assert isinstance(target, OwnBroker), "a restart needs a process of ours"
    count = options.series_max or SEGMENTS
    target.create_topic(TOPIC, 1, {"segment.bytes": str(SEGMENT_BYTES)})
    written = _fill(target, count)
    closed = _closed_count(_partition(target))
    measures = [Measure("closed segments", closed, "")]
    with OwnBroker(str(target.data.parent.parent)) as bare:
        bare.create_topic(TOPIC, 1)
        for name, by in (("clean stop", signal.SIGTERM), ("kill", signal.SIGKILL)):
            without, full = list[float](), list[float]()
            for _ in range(RESTARTS):
                without.append(_restart_s(bare, by))
                full.append(_restart_s(target, by))
            share = 100 * median(full) / median(without)
            measures.append(Measure(f"{name}, none: ready after", 1e3 * median(without), "ms"))
            measures.append(Measure(f"{name}, all: ready after", 1e3 * median(full), "ms"))
            measures.append(Measure(f"{name}, all over none", share, "%", SHARE_MAX))
    watch = Watch(target)
    stored, wanted = target.count_records(TOPIC, 1), written + 2 * RESTARTS
    if stored != wanted:
        raise BenchFault(f"{wanted} records were acknowledged, {stored} are stored")
    target.delete_topic(TOPIC)
    return watch.row("open-segments", measures, 0.0)


def _fill(target: OwnBroker, count: int) -> int:
    """How many records it took until so many segments were closed. Raises BenchFault."""
    partition = _partition(target)
    deadline_s = time.monotonic() + FILL_S_MAX
    written = 0
    while (closed := _closed_count(partition)) < count:
        if time.monotonic() > deadline_s:
            raise BenchFault(f"{closed} of {count} segments are closed after {FILL_S_MAX:.0f} s")
        written += LOOKS_EVERY
        _append(target, LOOKS_EVERY)
    return written


def _partition(target: OwnBroker) -> Path:
    return target.data / "topics" / TOPIC / "partition-00"


def _closed_count(partition: Path) -> int:
    return sum(1 for _ in partition.glob("0*.log")) - 1


def _append(target: Target, count: int) -> None:
    """So many records of `RECORD_BYTES`, one by one."""
    frame = produce_frame(TOPIC, [(0, of_records(1, RECORD_BYTES).content)], -1)
    with connect(target.bootstrap) as peer:
        for _ in range(count):
            peer.sendall(frame)
            check_produced(receive_frame(peer))


def _restart_s(target: OwnBroker, by: signal.Signals) -> float:
    """Seconds from process start to ready."""
    _append(target, 1)
    target.stop(by)
    return target.start()
