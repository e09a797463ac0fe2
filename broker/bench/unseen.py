"""Scenarios of the raw load: produce in every shape, consume, latency and small requests."""

from __future__ import annotations

from broker.bench.measure import Measure, Row
from broker.bench.running import Options, Watch
from broker.bench.sample import (
    PING_PONG,
    PIPELINED,
    PRODUCE_SHAPES,
    UNITS,
    Sample,
    caught_up,
    consumed_live,
    paced,
    produced,
)
from broker.bench.target import Target

LATENCY_RATE = 10_000
LATE_MS_MAX = 10.0


def produce(target: Target, options: Options) -> Row:
    """100 B and 1 KB × 16 KB, 128 KB and 1 MB batches."""
    watch, measures, busiest = Watch(target), list[Measure](), 0.0
    for shape in PRODUCE_SHAPES:
        sample = produced(target, options, shape)
        measures += _measures(shape.name, sample, "produced", "MB/s", "CPU a GB")
        busiest = max(busiest, sample.load_percent)
    return watch.row("produce", measures, busiest)


def consume(target: Target, options: Options) -> Row:
    """Catch-up from the page cache, and live beside its producer."""
    watch = Watch(target)
    past = caught_up(target, options)
    now = consumed_live(target, options)
    measures = [
        *_measures("catch-up", past, "consumed", "MB/s", "CPU a GB"),
        *_measures("live", now, "consumed", "MB/s", "CPU a GB"),
    ]
    return watch.row("consume", measures, max(past.load_percent, now.load_percent))


def small_requests(target: Target, options: Options) -> Row:
    """One record a request, many in flight and one by one."""
    watch, measures, busiest = Watch(target), list[Measure](), 0.0
    for shape in (PIPELINED, PING_PONG):
        sample = produced(target, options, shape)
        measures += _measures(shape.name, sample, "produced", "CPU a request")
        busiest = max(busiest, sample.load_percent)
    return watch.row("small-requests", measures, busiest)


def latency(target: Target, options: Options) -> Row:
    """10,000 records a second, each timed from when it was due, linger 1 ms."""
    watch = Watch(target)
    rate = options.rate or LATENCY_RATE
    sample = paced(target, options, rate, record_bytes=options.record_bytes)
    values = sample.values
    measures = [
        Measure("end to end P50", values["P50"], "ms"),
        Measure("P99", values["P99"], "ms", 10.0),
        Measure("P99.9", values["P99.9"], "ms"),
        Measure("sent", values["produced"], "msg/s", 0.99 * rate, is_floor=True),
    ]
    return watch.row("latency", measures, sample.load_percent, *late_note(values["late"]))


def late_note(late_ms: float) -> tuple[str, ...]:
    """What a reader must know of a sender that could not keep its times."""
    if late_ms <= LATE_MS_MAX:
        return ()
    return (f"the sender was up to {late_ms:.1f} ms late, which the latencies include",)


def _measures(prefix: str, sample: Sample, *names: str) -> list[Measure]:
    return [
        Measure(f"{prefix}: {name}", sample.values[name], UNITS[name])
        for name in names
        if name in sample.values
    ]
