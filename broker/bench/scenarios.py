"""What is measured. A new scenario is a function and a row in SCENARIOS."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from typing import Any, Final, NamedTuple

from broker.bench.measure import Measure, Row, percentile, quantile_between
from broker.bench.target import BenchFault, OwnBroker, Target, Usage

LOOP_LAG_MS_MAX: Final = 5.0
_MIB: Final = 1024 * 1024
_LOAD_S_MAX: Final = 300.0


class Options(NamedTuple):
    """`seconds` is how long a load runs; `partitions` how many partitions it writes to."""

    seconds: float
    partitions: int
    record_bytes: int
    acks: str


class Scenario(NamedTuple):
    """`needs_own_broker`: restarts it or reads its process."""

    name: str
    summary: str
    run: Callable[[Target, Options], Row]
    needs_own_broker: bool = False


class _Watch:
    """The broker's CPU and loop lag between `__init__` and `row`."""

    def __init__(self, target: Target) -> None:
        self._target = target
        self._usage = target.usage()
        self._lag = target.loop_lag_buckets()
        self._started_s = time.monotonic()

    def row(self, name: str, measures: list[Measure], load_cpu: float, *notes: str) -> Row:
        seconds = time.monotonic() - self._started_s
        lag = self._target.loop_lag_buckets()
        if self._lag is not None and lag is not None:
            worst = quantile_between(self._lag, lag, 0.99)
            if worst is not None:
                bound = LOOP_LAG_MS_MAX
                measures.append(Measure("loop lag P99 ≤", worst * 1000, "ms", bound))
        cpu = _cpu_percent(self._usage, self._target.usage(), seconds)
        return Row(name, tuple(measures), cpu, load_cpu, notes)


def produce_large(target: Target, options: Options) -> Row:
    """Batches of 128 KB."""
    return _produce(target, options, "produce-128k", batch_bytes=131_072, floor=300_000)


def produce_small(target: Target, options: Options) -> Row:
    """Batches of 16 KB."""
    return _produce(target, options, "produce-16k", batch_bytes=16_384, floor=100_000)


def _produce(target: Target, options: Options, name: str, *, batch_bytes: int, floor: float) -> Row:
    topic = f"bench-{name}"
    target.create_topic(topic, options.partitions)
    watch = _Watch(target)
    result = _run_load(
        target, options, kind="produce", topic=topic, batch_bytes=batch_bytes, linger_ms=5
    )
    rate = result["sent"] / result["seconds"]
    is_promised = options.record_bytes == 1024 and options.acks == "all"
    measures = [
        Measure("produced", rate, "msg/s", floor if is_promised else None, is_floor=True),
        Measure("", rate * options.record_bytes / _MIB, "MiB/s"),
    ]
    row = watch.row(name, measures, _load_cpu(result))
    stored = target.count_records(topic, options.partitions)
    if options.acks != "0" and stored != result["sent"]:
        raise BenchFault(f"{name}: {result['sent']} records were acknowledged, {stored} are stored")
    target.delete_topic(topic)
    return row


def latency(target: Target, options: Options) -> Row:
    """10,000 records a second from one process to another, linger 1 ms."""
    topic, rate = "bench-latency", 10_000
    target.create_topic(topic, options.partitions)
    records = int(rate * options.seconds)
    consumer = _start_load(target, options, kind="consume", topic=topic, records=records)
    assert consumer.stdout is not None
    if consumer.stdout.readline().strip() != "ready":
        raise BenchFault("the consumer of the load did not start")
    watch = _Watch(target)
    sent = _run_load(
        target, options, kind="pace", topic=topic, rate=rate, batch_bytes=131_072, linger_ms=1
    )
    received = _finish_load(consumer)
    if received["received"] != records:
        raise BenchFault(f"latency: {records} records were sent, {received['received']} came")
    times_ms = sorted(value / 1000 for value in received["latencies_us"])
    measures = [
        Measure("end to end P50", percentile(times_ms, 0.5), "ms"),
        Measure("P99", percentile(times_ms, 0.99), "ms", 10.0),
        Measure("P99.9", percentile(times_ms, 0.999), "ms"),
    ]
    busiest = max(_load_cpu(sent), 100 * received["cpu_seconds"] / sent["seconds"])
    late = f"the sender was up to {sent['late_ms']:.1f} ms late" if sent["late_ms"] > 10 else ""
    row = watch.row("latency", measures, busiest, *filter(None, [late]))
    target.delete_topic(topic)
    return row


def idle(target: Target, options: Options) -> Row:
    """A broker that nobody uses."""
    time.sleep(2)
    watch = _Watch(target)
    before = target.usage()
    time.sleep(max(options.seconds, 5))
    after = target.usage()
    assert before is not None, "idle needs a process of ours"
    assert after is not None, "idle needs a process of ours"
    cpu = 100 * (after.cpu_s - before.cpu_s) / max(options.seconds, 5)
    measures = [
        Measure("resident", after.resident_bytes / 1e6, "MB", 80.0),
        Measure("CPU", cpu, "%", 1.0),
    ]
    return watch.row("idle", measures, 0.0)


def open_partitions(target: Target, _options: Options) -> Row:
    """1,000 partitions, each with a record, after a clean stop: from process start to ready."""
    assert isinstance(target, OwnBroker), "a restart needs a process of ours"
    partitions = 1_000
    target.create_topic("bench-many", partitions)
    _run_load(
        target,
        Options(1, partitions, 100, "all"),
        kind="produce",
        topic="bench-many",
        batch_bytes=100,
        linger_ms=5,
    )
    target.stop()
    seconds = target.start()
    watch = _Watch(target)
    target.delete_topic("bench-many")
    measures = [Measure("1,000 partitions ready after", seconds, "s", 3.0)]
    return watch.row("open-partitions", measures, 0.0)


SCENARIOS: Final = (
    Scenario("idle", "resident memory and CPU of an unused broker", idle, needs_own_broker=True),
    Scenario("produce-128k", "throughput, batches of 128 KB", produce_large),
    Scenario("produce-16k", "throughput, batches of 16 KB", produce_small),
    Scenario("latency", "end to end at 10,000 records a second, linger 1 ms", latency),
    Scenario(
        "open-partitions", "start with 1,000 partitions", open_partitions, needs_own_broker=True
    ),
)


def _start_load(target: Target, options: Options, **job: Any) -> subprocess.Popen[str]:
    full_job = {
        "bootstrap": target.bootstrap,
        "seconds": options.seconds,
        "partitions": options.partitions,
        "record_bytes": options.record_bytes,
        "acks": options.acks,
        **job,
    }
    return subprocess.Popen(
        [sys.executable, "-m", "broker.bench.load", json.dumps(full_job)],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        text=True,
    )


def _finish_load(process: subprocess.Popen[str]) -> dict[str, Any]:
    try:
        output, _ = process.communicate(timeout=_LOAD_S_MAX)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
        raise BenchFault(f"the load did not end within {_LOAD_S_MAX:.0f} s") from None
    with suppress(ValueError, IndexError):
        result: dict[str, Any] = json.loads(output.splitlines()[-1])
        if process.returncode == 0:
            return result
    raise BenchFault(f"the load failed with exit code {process.returncode}")


def _run_load(target: Target, options: Options, **job: Any) -> dict[str, Any]:
    result = _finish_load(_start_load(target, options, **job))
    if result.get("left"):
        raise BenchFault(f"{result['left']} records were not acknowledged in time")
    return result


def _load_cpu(result: dict[str, Any]) -> float:
    return float(100 * result["cpu_seconds"] / result["seconds"])


def _cpu_percent(before: Usage | None, after: Usage | None, seconds: float) -> float | None:
    if before is None or after is None:
        return None
    return 100 * (after.cpu_s - before.cpu_s) / seconds
