"""A consumer reads the whole history while others work live: what the live ones notice.

The broker has a memory cgroup of 2 GiB, its page cache included, and the history of 10 GB is
dropped from the cache first. That the replay was cold is shown twice: by the broker's own count of
reads that had to wait for the device, and by what the system read from it for this process.
"""

from __future__ import annotations

import json
import time
from typing import Any, Final, NamedTuple

from broker.bench.measure import Measure, Row
from broker.bench.memory import evict, limited_memory
from broker.bench.processes import bytes_read
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
FROM_DEVICE_MIN: Final = 0.9
LONG_S: Final = 3_000.0
READS: Final = "hermes_fetch_read_bytes_total"


class Replayed(NamedTuple):
    """Of the replay alone: bytes read in fetches, by the broker's count; from the device, by the
    system's.
    """

    result: dict[str, Any]
    cold_bytes: float
    warm_bytes: float
    device_bytes: int
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
            time.sleep(2 * WARM_UP_S)
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
    assert target.pid is not None, "it runs"
    reads, device = target.samples(READS), bytes_read(target.pid)
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
    )
    window = began_ns, time.monotonic_ns()
    after = target.samples(READS)
    assert reads is not None, "our broker has metrics"
    assert after is not None, "our broker has metrics"
    grown = {key: after[key] - reads.get(key, 0.0) for key in after}
    return Replayed(
        result,
        sum(value for key, value in grown.items() if "device" in key),
        sum(value for key, value in grown.items() if "page_cache" in key),
        bytes_read(target.pid) - device,
        window,
    )


def _measures(
    replayed: Replayed, alone: dict[str, float] | None, beside: dict[str, float] | None
) -> list[Measure]:
    if alone is None or beside is None:
        raise BenchFault(f"{NAME}: no live record was due in a window")
    result = replayed.result
    size = result["bytes"]
    ratio = beside["p99_ms"] / alone["p99_ms"]
    hits = 100 * replayed.warm_bytes / (replayed.warm_bytes + replayed.cold_bytes)
    return [
        Measure("history", size / 1e9, "GB"),
        Measure("replayed at", size / result["seconds"] / 1e6, "MB/s"),
        Measure(
            "from the device", replayed.device_bytes / size, "×", FROM_DEVICE_MIN, is_floor=True
        ),
        Measure("page cache hits of all fetches", hits, "%"),
        Measure("live P50 alone", alone["p50_ms"], "ms"),
        Measure("live P99 alone", alone["p99_ms"], "ms"),
        Measure("live P50 beside the replay", beside["p50_ms"], "ms"),
        Measure("live P99 beside the replay", beside["p99_ms"], "ms"),
        Measure("P99 grew", ratio, "×", P99_RATIO_MAX),
    ]
