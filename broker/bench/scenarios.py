"""What is measured. A new scenario is a function and a row in SCENARIOS."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Final, NamedTuple

from broker.bench.gateway import gateway_batch, gateway_put
from broker.bench.growth import connections, partitions
from broker.bench.measure import Measure, Row
from broker.bench.replay import catch_up
from broker.bench.running import Options, Watch, load_cpu, run_load
from broker.bench.segments import open_segments
from broker.bench.stalled_group import stalled_group
from broker.bench.steady import BROKER_FLAGS, hold, hold_100, soak
from broker.bench.target import BenchFault, OwnBroker, Target
from broker.bench.unseen import consume, latency, produce, small_requests

_MIB: Final = 1024 * 1024


class Scenario(NamedTuple):
    """`needs_own_broker`: restarts it or reads its process. `is_long`: run only when it is named.
    `flags` are for the broker that is started for it.
    """

    name: str
    summary: str
    run: Callable[[Target, Options], Row]
    needs_own_broker: bool = False
    is_long: bool = False
    flags: tuple[str, ...] = ()


def produce_large(target: Target, options: Options) -> Row:
    """Batches of 128 KB."""
    return _produce(target, options, "produce-128k", batch_bytes=131_072, floor=300_000)


def produce_small(target: Target, options: Options) -> Row:
    """Batches of 16 KB."""
    return _produce(target, options, "produce-16k", batch_bytes=16_384, floor=100_000)


def _produce(target: Target, options: Options, name: str, *, batch_bytes: int, floor: float) -> Row:
    topic = f"bench-{name}"
    target.create_topic(topic, options.partitions, options.topic_settings(target))
    watch = Watch(target)
    result = run_load(
        target, options, kind="produce", topic=topic, batch_bytes=batch_bytes, linger_ms=5
    )
    rate = result["sent"] / result["seconds"]
    is_promised = options.record_bytes == 1024 and options.acks == "all"
    measures = [
        Measure("produced", rate, "msg/s", floor if is_promised else None, is_floor=True),
        Measure("", rate * options.record_bytes / _MIB, "MiB/s"),
    ]
    row = watch.row(name, measures, load_cpu(result))
    stored = target.count_records(topic, options.partitions)
    if options.acks != "0" and stored != result["sent"]:
        raise BenchFault(f"{name}: {result['sent']} records were acknowledged, {stored} are stored")
    target.delete_topic(topic)
    return row


def idle(target: Target, options: Options) -> Row:
    """A broker that nobody uses."""
    time.sleep(2)
    watch = Watch(target)
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
    run_load(
        target,
        Options(1, partitions, 100, "all"),
        kind="produce",
        topic="bench-many",
        batch_bytes=100,
        linger_ms=5,
    )
    target.stop()
    seconds = target.start()
    watch = Watch(target)
    target.delete_topic("bench-many")
    measures = [Measure("1,000 partitions ready after", seconds, "s", 3.0)]
    return watch.row("open-partitions", measures, 0.0)


SCENARIOS: Final = (
    Scenario("idle", "resident memory and CPU of an unused broker", idle, needs_own_broker=True),
    Scenario("produce", "throughput, 100 B and 1 KB × 16 KB, 128 KB and 1 MB batches", produce),
    Scenario("produce-128k", "throughput with librdkafka, batches of 128 KB", produce_large),
    Scenario("produce-16k", "throughput with librdkafka, batches of 16 KB", produce_small),
    Scenario("consume", "throughput, live and catching up from the page cache", consume),
    Scenario("latency", "end to end at 10,000 records a second, open loop", latency),
    Scenario("small-requests", "one record a request, pipelined and ping-pong", small_requests),
    Scenario("stalled-group", "producer and two groups while a third stands still", stalled_group),
    Scenario(
        "open-partitions", "start with 1,000 partitions", open_partitions, needs_own_broker=True
    ),
    Scenario(
        "open-segments",
        "start with 1,000 closed segments, over one with none",
        open_segments,
        needs_own_broker=True,
    ),
    Scenario("gateway-put", "HTTP gateway: single puts for a core second", gateway_put),
    Scenario("gateway-batch", "HTTP gateway: puts of 500 for a core second", gateway_batch),
    Scenario("connections", "what a request costs with 1 to 5,000 connections", connections),
    Scenario(
        "partitions", "what a request costs with 1 to 10,000 partitions", partitions, is_long=True
    ),
    Scenario(
        "catch-up",
        "live latency while 10 GB of cold history is read in 2 GiB of memory",
        catch_up,
        needs_own_broker=True,
        is_long=True,
    ),
    Scenario(
        "soak", "50,000 records a second for --minutes", soak, is_long=True, flags=BROKER_FLAGS
    ),
    Scenario(
        "hold",
        "100,000 fsynced records a second for --minutes",
        hold,
        is_long=True,
        flags=BROKER_FLAGS,
    ),
    Scenario(
        "hold-100", "the same into 100 partitions", hold_100, is_long=True, flags=BROKER_FLAGS
    ),
)
