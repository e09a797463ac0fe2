"""A consumer reads the whole history while others work live: what the live ones notice.

The broker has a memory cgroup of 2 GiB, its page cache included, and the history of 10 GB is
dropped from the cache first. That the replay was cold is shown by the broker's metrics: what the
device was read for is the bytes that fetches read, less what was in the page cache.
"""

from __future__ import annotations

import json
import time
from typing import Any, Final, NamedTuple

from broker.bench.measure import Measure, Row
from broker.bench.memory import evict, limited_memory
from broker.bench.running import (
    Options,
    Watch,
    finish_load,
    loads_percent,
    run_raw,
    start_raw,
    wait_until_ready,
)
from broker.bench.sample import FETCH_BYTES, WARM_UP_S, check_count, topic_of
from broker.bench.target import BenchFault, OwnBroker, Target
from broker.bench.unseen import LATENCY_RATE

NAME: Final = "catch-up"
PARTITIONS: Final = 4
BATCH_BYTES: Final = 131_072
P99_RATIO_MAX: Final = 2.0
HIT_PERCENT_MAX: Final = 10.0
LONG_S: Final = 3_000.0
READS: Final = "hermes_fetch_read_bytes_total"
DEVICE: Final = "hermes_process_device_read_bytes_total"


class Replayed(NamedTuple):
    """Of the replay alone: bytes that fetches read, those of them that waited, and what came from
    the device.
    """

    result: dict[str, Any]
    fetched_bytes: float
    waited_bytes: float
    device_bytes: float
    window: tuple[int, int]


def catch_up(target: Target, options: Options) -> Row:
    """A full replay of an evicted history beside 10,000 live records a second."""
    assert isinstance(target, OwnBroker), "its memory is limited and its files are evicted"
    assert target.pid is not None, "it runs"
    watch = Watch(target)
    with limited_memory(target.pid, options.memory_bytes) as impossible:
        row = _measured(target, options, watch)
        target.stop()
    limit = f"memory cgroup of {options.memory_bytes / 1e9:.2f} GB"
    return row._replace(notes=(impossible or limit, *row.notes))


def _measured(target: OwnBroker, options: Options, watch: Watch) -> Row:
    live = {
        "rate": options.rate or LATENCY_RATE,
        "tick_ms": 1.0,
        "partitions": options.partitions,
        "record_bytes": options.record_bytes,
        "acks": options.acks,
        "seconds": LONG_S,
    }
    with (
        topic_of(target, options, PARTITIONS) as history,
        topic_of(target, options, options.partitions) as topic,
    ):
        _fill(target, options, history)
        evict(target.data)
        reader = start_raw(target, kind="time", topic=topic, **live)
        wait_until_ready(reader)
        sender = start_raw(target, kind="pace", topic=topic, until_told=True, **live)
        try:
            wait_until_ready(sender)
            time.sleep(WARM_UP_S)
            began_ns = time.monotonic_ns()
            time.sleep(options.seconds)
            alone = began_ns, time.monotonic_ns()
            replayed = _replay(target, options, history)
        except BaseException:
            sender.kill()
            reader.kill()
            raise
        sent = finish_load(sender, "end\n")
        line = {"records": sent["records"], "windows": [alone, replayed.window]}
        read = finish_load(reader, json.dumps(line) + "\n")
        check_count(target, topic, options.partitions, sent["records"])
        load = loads_percent(sent["seconds"], sent, read, replayed.result)
        return watch.row(NAME, _measures(replayed, *read["windows"]), load)


def _fill(target: OwnBroker, options: Options, history: str) -> None:
    filled = run_raw(
        target,
        kind="produce",
        topic=history,
        partitions=PARTITIONS,
        connections=PARTITIONS,
        window=2,
        record_bytes=options.record_bytes,
        batch_bytes=BATCH_BYTES,
        acks=options.acks,
        seconds=LONG_S,
        bytes_max=options.history_bytes,
    )
    check_count(target, history, PARTITIONS, filled["acknowledged"])


def _replay(target: OwnBroker, options: Options, history: str) -> Replayed:
    """By one consumer with one connection, a fetch after the other."""
    before = _counts(target)
    began_ns = time.monotonic_ns()
    result = run_raw(
        target,
        kind="catch-up",
        topic=history,
        record_bytes=options.record_bytes,
        batch_bytes=BATCH_BYTES,
        ends=target.end_offsets(history, PARTITIONS),
        fetch_bytes=FETCH_BYTES,
        seconds=LONG_S,
        rounds=1,
        is_one_consumer=True,
    )
    window = began_ns, time.monotonic_ns()
    fetched, waited, device = (
        now - then for now, then in zip(_counts(target), before, strict=True)
    )
    return Replayed(result, fetched, waited, device, window)


def _counts(target: OwnBroker) -> tuple[float, float, float]:
    """(bytes read by fetches, those that waited for the device, bytes from the device) so far."""
    reads, device = target.samples(READS), target.samples(DEVICE)
    if not reads or not device:
        raise BenchFault(f"{NAME}: the broker does not tell what it read")
    waited = sum(value for labels, value in reads.items() if "device" in labels)
    return sum(reads.values()), waited, sum(device.values())


def _measures(
    replayed: Replayed, alone: dict[str, float] | None, beside: dict[str, float] | None
) -> list[Measure]:
    if alone is None or beside is None:
        raise BenchFault(f"{NAME}: no live record was due in a window")
    result = replayed.result
    size = result["bytes"]
    ratio = beside["p99_ms"] / alone["p99_ms"]
    hits = 100 * max(0.0, 1 - replayed.device_bytes / replayed.fetched_bytes)
    waited = 100 * replayed.waited_bytes / replayed.fetched_bytes
    return [
        Measure("history", size / 1e9, "GB"),
        Measure("replayed at", size / result["seconds"] / 1e6, "MB/s"),
        Measure("page cache hit ratio", hits, "%", HIT_PERCENT_MAX),
        Measure("bytes whose read waited", waited, "%"),
        Measure("live P50 alone", alone["p50_ms"], "ms"),
        Measure("live P99 alone", alone["p99_ms"], "ms"),
        Measure("live P50 beside the replay", beside["p50_ms"], "ms"),
        Measure("live P99 beside the replay", beside["p99_ms"], "ms"),
        Measure("P99 grew", ratio, "×", P99_RATIO_MAX),
    ]
