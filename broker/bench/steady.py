"""A rate that is held for minutes: whether it is, at what latency, and whether memory, descriptors
and loop lag stay flat.

`soak` is 50,000 records a second and looks at what grows; `hold` and `hold-100` are the floor that
is promised: 100,000 records a second of 1 KB, acks=all, fsync, with one partition and with 100.
"""

from __future__ import annotations

import json
import subprocess
import time
from typing import Final, NamedTuple

from broker.bench.measure import Measure, Row, drift, quantile_between
from broker.bench.processes import descriptor_count
from broker.bench.running import (
    LOOP_LAG_MS_MAX,
    Options,
    Watch,
    finish_load,
    loads_percent,
    start_raw,
    wait_until_ready,
)
from broker.bench.sample import check_count, topic_of
from broker.bench.target import BenchFault, Target
from broker.bench.unseen import late_note

SOAK_RATE: Final = 50_000
HOLD_RATE: Final = 100_000
HOLD_P99_MS: Final = 50.0
MANY_BATCH_MS: Final = 20.0
MANY_FETCH_BYTES_MIN: Final = 512 << 10
"""`linger.ms` and `fetch.min.bytes` of the clients of 100 partitions, as for any load that is many
small batches otherwise; both delay records, and the latency includes that.
"""
HELD_SHARE_MIN: Final = 0.99
GROWTH_MAX: Final = 1.1
SAMPLES: Final = 60
KEPT_BYTES: Final = 4 << 30
"""Of the topic: what is older is deleted, so that minutes need no more disk than this."""
SEGMENT_BYTES_MIN: Final = 16 << 20
SEGMENT_BYTES_MAX: Final = 256 << 20
BROKER_FLAGS: Final = ("--log-retention-check-interval-ms", "5000")


class Watched(NamedTuple):
    """Samples at regular times; lag is the P99 in ms between two of them."""

    resident_mb: list[float]
    descriptors: list[float]
    lag_ms: list[float]


def soak(target: Target, options: Options) -> Row:
    """Twenty minutes at 50,000 records a second: nothing may grow."""
    return _steady(target, options, "soak", rate=SOAK_RATE, partitions=options.partitions)


def hold(target: Target, options: Options) -> Row:
    """100,000 records a second into one partition."""
    fsynced = options._replace(durability=options.durability or "fsync")
    return _steady(target, fsynced, "hold", rate=HOLD_RATE, partitions=1, p99_ms=HOLD_P99_MS)


def hold_100(target: Target, options: Options) -> Row:
    """100,000 records a second into 100 partitions."""
    fsynced = options._replace(durability=options.durability or "fsync")
    return _steady(
        target,
        fsynced,
        "hold-100",
        rate=HOLD_RATE,
        partitions=100,
        batch_ms=MANY_BATCH_MS,
        fetch_min_bytes=MANY_FETCH_BYTES_MIN,
        p99_ms=HOLD_P99_MS,
    )


def _steady(
    target: Target,
    options: Options,
    name: str,
    *,
    rate: int,
    partitions: int,
    batch_ms: float | None = None,
    fetch_min_bytes: int = 1,
    p99_ms: float | None = None,
) -> Row:
    rate = options.rate or rate
    job = {
        "rate": rate,
        "tick_ms": 1.0,
        "batch_ms": batch_ms,
        "fetch_min_bytes": fetch_min_bytes,
        "partitions": partitions,
        "record_bytes": options.record_bytes,
        "acks": options.acks,
        "seconds": 60 * options.minutes,
    }
    kept = max(2 * SEGMENT_BYTES_MIN, KEPT_BYTES // partitions)
    settings = {
        "retention_bytes": str(kept),
        "segment_bytes": str(min(SEGMENT_BYTES_MAX, kept // 2)),
    }
    with topic_of(target, options, partitions, **settings) as topic:
        watch = Watch(target)
        reader = start_raw(target, kind="time", topic=topic, **job)
        wait_until_ready(reader)
        sender = start_raw(target, kind="pace", topic=topic, **job)
        watched = _watch(target, sender, 60 * options.minutes / SAMPLES)
        sent = finish_load(sender)
        from_ns = sent["began_ns"] + round(0.05 * sent["seconds"] * 1e9)
        line = {"records": sent["records"], "windows": [(from_ns, time.monotonic_ns())]}
        read = finish_load(reader, json.dumps(line) + "\n")
        check_count(target, topic, partitions, sent["records"])
        measures = _measures(sent["rate"], rate, read["windows"][0], p99_ms)
        measures += flat_measures(watched)
        load = loads_percent(sent["seconds"], sent, read)
        return watch.row(name, measures, load, *late_note(sent["late_ms"]))


def _watch(target: Target, sender: subprocess.Popen[str], every_s: float) -> Watched:
    """One sample after the other until the sender ends."""
    watched = Watched([], [], [])
    lag = target.loop_lag_buckets()
    while True:
        try:
            sender.wait(every_s)
        except subprocess.TimeoutExpired:
            usage = target.usage()
            if usage is not None and target.pid is not None:
                watched.resident_mb.append(usage.resident_bytes / 1e6)
                watched.descriptors.append(descriptor_count(target.pid))
            before, lag = lag, target.loop_lag_buckets()
            if before is not None and lag is not None:
                worst = quantile_between(before, lag, 0.99)
                watched.lag_ms.append(1000 * worst if worst is not None else 0.0)
        else:
            return watched


def _measures(
    reached: float, rate: int, window: dict[str, float] | None, p99_ms: float | None
) -> list[Measure]:
    if window is None:
        raise BenchFault("no record was due in the time that counts: give it more minutes")
    return [
        Measure("held", reached, "msg/s", HELD_SHARE_MIN * rate, is_floor=True),
        Measure("end to end P50", window["p50_ms"], "ms"),
        Measure("P99", window["p99_ms"], "ms", p99_ms),
        Measure("P99.9", window["p999_ms"], "ms"),
        Measure("worst", window["max_ms"], "ms"),
    ]


def flat_measures(watched: Watched) -> list[Measure]:
    """How the last quarter stands to the second one, of everything that may not grow."""
    measures = []
    for name, unit, values in (
        ("resident", "MB", watched.resident_mb),
        ("descriptors", "", watched.descriptors),
    ):
        growth = drift(values)
        if growth is not None:
            measures.append(Measure(f"{name} at the end", values[-1], unit))
            measures.append(Measure(f"{name}: growth", growth, "×", GROWTH_MAX))
    if watched.lag_ms:
        worst = sorted(watched.lag_ms)[int(0.9 * len(watched.lag_ms))]
        measures.append(Measure("loop lag P99, 9 of 10 ≤", worst, "ms", LOOP_LAG_MS_MAX))
    return measures
