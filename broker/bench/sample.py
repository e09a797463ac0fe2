"""What one run of a raw load on one broker gave: the numbers that scenarios report and that
`compare` divides.

Each function makes a topic, loads it, holds what was acknowledged against the topic's offsets, and
deletes it. Raises BenchFault.
"""

from __future__ import annotations

import itertools
import json
import os
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Final, NamedTuple

from broker.bench.processes import Usage
from broker.bench.running import (
    Options,
    finish_load,
    loads_percent,
    run_raw,
    start_raw,
    wait_until_ready,
)
from broker.bench.target import BenchFault, Target

WARM_UP_S: Final = 1.0
FETCH_BYTES: Final = 1 << 20
"""A consumer's `max.partition.fetch.bytes`, as Java's default."""
HISTORY_BYTES: Final = 256 << 20
_numbers: Final = itertools.count()


class TooSlow(BenchFault):
    """A broker that was given up before anything was due that would count."""


class Shape(NamedTuple):
    """`window` requests are in flight on each connection; a request holds one batch."""

    name: str
    record_bytes: int
    batch_bytes: int
    connections: int = 4
    window: int = 5
    partitions: int = 4


class Sample(NamedTuple):
    """`values` by their names in `UNITS`; `load_percent` of the load's own core."""

    values: Mapping[str, float]
    load_percent: float


PRODUCE_SHAPES: Final = tuple(
    Shape(f"{record} × {size}", record_bytes, batch_bytes)
    for record, record_bytes in (("1KB", 1024), ("100B", 100))
    for size, batch_bytes in (("16KB", 16_384), ("128KB", 131_072), ("1MB", 1_048_576))
)
PIPELINED: Final = Shape("pipelined", 100, 1, connections=4, window=50)
PING_PONG: Final = Shape("ping-pong", 100, 1, connections=10, window=1)
HISTORY: Final = Shape("history", 1024, 131_072)
UNITS: Final[Mapping[str, str]] = {
    "produced": "msg/s",
    "consumed": "msg/s",
    "MB/s": "MB/s",
    "CPU a GB": "s",
    "CPU a request": "µs",
    "resident": "MB",
    "P50": "ms",
    "P99": "ms",
    "P99.9": "ms",
    "first record": "s",
    "create": "s",
}


@contextmanager
def topic_of(target: Target, options: Options, partitions: int, **settings: str) -> Iterator[str]:
    """A topic of a name that was never used, gone afterwards."""
    name = f"bench-{os.getpid()}-{next(_numbers)}"
    more = {key.replace("_", "."): value for key, value in settings.items()}
    target.create_topic(name, partitions, {**options.topic_settings(target), **more})
    yield name
    target.delete_topic(name, partitions)


def check_count(target: Target, topic: str, partitions: int, acknowledged: int) -> None:
    """Raises BenchFault unless the topic holds what was acknowledged, no more and no less."""
    stored = target.count_records(topic, partitions)
    if stored != acknowledged:
        raise BenchFault(f"{acknowledged} records were acknowledged, {stored} are stored")


def produced(target: Target, options: Options, shape: Shape) -> Sample:
    """Throughput of one shape, acks as the options say."""
    began_s = time.monotonic()
    with topic_of(target, options, shape.partitions) as topic:
        created_s = time.monotonic() - began_s
        before = target.usage()
        result = run_raw(target, **_job(shape, topic, options, kind="produce"))
        after = target.usage()
        check_count(target, topic, shape.partitions, result["acknowledged"])
    values = {
        "produced": result["records"] / result["seconds"],
        "MB/s": result["bytes"] / result["seconds"] / 1e6,
        "create": created_s,
        **_costs(before, after, result["bytes"], result["requests"]),
    }
    return Sample(values, loads_percent(result["seconds"], result))


def caught_up(target: Target, options: Options, shape: Shape = HISTORY) -> Sample:
    """Consumption of what was produced before, from the page cache, again and again."""
    with topic_of(target, options, shape.partitions) as topic:
        filled = _job(shape, topic, options, kind="produce")
        filled["bytes_max"] = min(HISTORY_BYTES, options.bytes_max)
        acknowledged = run_raw(target, **filled)["acknowledged"]
        check_count(target, topic, shape.partitions, acknowledged)
        ends = target.end_offsets(topic, shape.partitions)
        before = target.usage()
        job = _job(shape, topic, options, kind="catch-up")
        result = run_raw(target, **job, ends=ends, fetch_bytes=FETCH_BYTES)
        after = target.usage()
    values = {
        "consumed": result["records"] / result["seconds"],
        "MB/s": result["bytes"] / result["seconds"] / 1e6,
        **_costs(before, after, result["bytes"]),
    }
    return Sample(values, loads_percent(result["seconds"], result))


def consumed_live(target: Target, options: Options, shape: Shape = HISTORY) -> Sample:
    """Consumption while the same records are produced, as fast as both go."""
    with topic_of(target, options, shape.partitions) as topic:
        before = target.usage()
        reader = start_raw(
            target, **_job(shape, topic, options, kind="live"), fetch_bytes=FETCH_BYTES
        )
        wait_until_ready(reader)
        sent = run_raw(target, **_job(shape, topic, options, kind="produce"))
        read = finish_load(reader, f"{sent['acknowledged']}\n")
        after = target.usage()
        check_count(target, topic, shape.partitions, sent["acknowledged"])
    if read["records"] != sent["acknowledged"]:
        raise BenchFault(f"{sent['acknowledged']} records were stored, {read['records']} read")
    values = {
        "consumed": sent["records"] / sent["seconds"],
        "MB/s": sent["bytes"] / sent["seconds"] / 1e6,
        **_costs(before, after, sent["bytes"]),
    }
    return Sample(values, loads_percent(sent["seconds"], sent, read))


def paced(
    target: Target,
    options: Options,
    rate: int,
    *,
    record_bytes: int = 1024,
    tick_ms: float = 1.0,
    **settings: str,
) -> Sample:
    """End to end at a fixed rate: an open loop, timed from when a record was due."""
    job = {
        "rate": rate,
        "tick_ms": tick_ms,
        "partitions": options.partitions,
        "record_bytes": record_bytes,
        "acks": options.acks,
        "seconds": options.seconds + WARM_UP_S,
    }
    with topic_of(target, options, options.partitions, **settings) as topic:
        before = target.usage()
        reader = start_raw(target, kind="time", topic=topic, **job)
        wait_until_ready(reader)
        sent = run_raw(target, kind="pace", topic=topic, **job)
        warm_up_s = min(WARM_UP_S, sent["records"] / rate / 3)  # it may have been given up early
        from_ns = sent["began_ns"] + round(warm_up_s * 1e9)
        windows = [(from_ns, time.monotonic_ns())]
        read = finish_load(
            reader, json.dumps({"records": sent["records"], "windows": windows}) + "\n"
        )
        after = target.usage()
        check_count(target, topic, options.partitions, sent["records"])
    (window,) = read["windows"]
    if window is None:
        raise TooSlow(f"no record was due after the first {warm_up_s:.1f} s: give it more seconds")
    values = {
        "P50": window["p50_ms"],
        "P99": window["p99_ms"],
        "P99.9": window["p999_ms"],
        "produced": sent["rate"],
        "late": sent["late_ms"],
        **_costs(before, after, sent["records"] * record_bytes),
    }
    return Sample(values, loads_percent(sent["seconds"], sent, read))


def _job(shape: Shape, topic: str, options: Options, *, kind: str) -> dict[str, object]:
    return {
        "kind": kind,
        "topic": topic,
        "partitions": shape.partitions,
        "connections": shape.connections,
        "window": shape.window,
        "record_bytes": shape.record_bytes,
        "batch_bytes": shape.batch_bytes,
        "acks": options.acks,
        "seconds": options.seconds,
        "bytes_max": options.bytes_max,
    }


def _costs(
    before: Usage | None, after: Usage | None, size: int, requests: int | None = None
) -> dict[str, float]:
    """What it took the broker; nothing for one whose process is not known."""
    if before is None or after is None:
        return {}
    used = after.cpu_s - before.cpu_s
    costs = {"CPU a GB": used / size * 1e9, "resident": after.resident_bytes / 1e6}
    if requests:
        costs["CPU a request"] = 1e6 * used / requests
    return costs
