"""What a connection and a partition cost, as there are more of them: the load stays the same."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from broker.bench.measure import Measure, Row
from broker.bench.plot import Series
from broker.bench.processes import descriptor_count
from broker.bench.running import (
    Options,
    Watch,
    finish_load,
    loads_percent,
    start_raw,
    wait_until_ready,
)
from broker.bench.sample import Shape, check_count, produced, topic_of
from broker.bench.target import BenchFault, Target

CONNECTIONS_MAX: Final = 5_000
PARTITIONS_MAX: Final = 10_000
IN_FLIGHT: Final = 64
RECORD_BYTES: Final = 100


def connections(target: Target, options: Options) -> Row:
    """1 to 5,000 connections, 64 requests in flight that go round over all of them."""
    watch, busiest = Watch(target), 0.0
    costs, memory = list[tuple[float, float]](), list[tuple[float, float]]()
    for count in series(options.series_max or CONNECTIONS_MAX):
        cost, resident, load = _with_connections(target, options, count)
        costs.append((count, cost))
        memory.append((count, resident))
        busiest = max(busiest, load)
    row = watch.row("connections", _measures(costs, memory, "connections"), busiest)
    return row._replace(
        series=(
            Series("CPU a request", "connections", "µs", tuple(costs)),
            Series("resident", "connections", "MB", tuple(memory)),
        )
    )


def _with_connections(target: Target, options: Options, count: int) -> tuple[float, float, float]:
    """(µs a request, resident MB with all of them open, percent of the load's core)."""
    partitions = 4
    with topic_of(target, options, partitions) as topic:
        load = start_raw(
            target,
            kind="many",
            topic=topic,
            partitions=partitions,
            connections=count,
            in_flight=IN_FLIGHT,
            record_bytes=RECORD_BYTES,
            batch_bytes=1,
            acks=options.acks,
            seconds=options.seconds,
        )
        wait_until_ready(load)
        before = target.usage()
        result = finish_load(load, "go\n")
        after = target.usage()
        check_count(target, topic, partitions, result["acknowledged"])
    if before is None or after is None:
        raise BenchFault("the broker's process is not known: it is not on this machine")
    cost = 1e6 * (after.cpu_s - before.cpu_s) / result["requests"]
    return cost, before.resident_bytes / 1e6, loads_percent(result["seconds"], result)


def partitions(target: Target, options: Options) -> Row:
    """1 to 10,000 partitions that all get records, from the same 64 requests in flight."""
    watch, busiest = Watch(target), 0.0
    costs, memory = list[tuple[float, float]](), list[tuple[float, float]]()
    created, open_files = list[tuple[float, float]](), list[tuple[float, float]]()
    for count in series(options.series_max or PARTITIONS_MAX):
        shape = Shape("partitions", RECORD_BYTES, 1, connections=4, window=16, partitions=count)
        sample = produced(target, options, shape)
        if "CPU a request" not in sample.values:
            raise BenchFault("the broker's process is not known: it is not on this machine")
        costs.append((count, sample.values["CPU a request"]))
        created.append((count, sample.values["create"]))
        memory.append((count, sample.values["resident"]))
        if target.pid is not None:
            open_files.append((count, descriptor_count(target.pid)))
        busiest = max(busiest, sample.load_percent)
    measures = _measures(costs, memory, "partitions")
    measures.append(Measure(f"create {created[-1][0]:,g}", created[-1][1], "s"))
    measures.append(Measure("descriptors afterwards", open_files[-1][1], ""))
    row = watch.row("partitions", measures, busiest)
    return row._replace(
        series=(
            Series("CPU a request", "partitions", "µs", tuple(costs)),
            Series("resident", "partitions", "MB", tuple(memory)),
            Series("create a topic", "partitions", "s", tuple(created)),
        )
    )


def series(last: int) -> Iterator[int]:
    """1, 10, 100, … and `last`."""
    number = 1
    while number < last:
        yield number
        number *= 10
    yield last


def _measures(
    costs: list[tuple[float, float]], memory: list[tuple[float, float]], noun: str
) -> list[Measure]:
    last, cost = costs[-1]
    first = memory[0]
    each = (memory[-1][1] - first[1]) * 1e3 / max(1.0, last - first[0])
    return [
        Measure("CPU a request with 1", costs[0][1], "µs"),
        Measure(f"with {last:,g}", cost, "µs"),
        Measure("resident with 1", first[1], "MB"),
        Measure(f"with {last:,g}", memory[-1][1], "MB"),
        Measure(f"memory for one of the {noun}", each, "KB"),
    ]
