"""Compaction and retention while space is low, in a simulated broker: retention goes first, and a
cleaning that has no room for what it writes waits.
"""

from __future__ import annotations

from broker.server.partition import Partition
from broker.wire.messages.create_topics import (
    CreatableTopic,
    CreatableTopicConfig,
    CreateTopicsRequest,
)
from tests.server.group_world import Cluster, simulate

MARK = 1_000_000
PLENTY, NO_ROOM, SOME_ROOM = 10 * MARK, MARK // 4, MARK * 3 // 4
SETTINGS: dict[str, object] = {
    "hermes.log.dir.min.free.bytes": MARK,
    "log.cleaner.backoff.ms": 1_000,
    "log.retention.check.interval.ms": 3_600_000,
}


async def make(cluster: Cluster, **settings: str) -> Partition:
    """A compacted topic with 60 segments' worth of three keys."""
    wanted = {"segment.bytes": "2000", "min.cleanable.dirty.ratio": "0.1", **settings}
    configs = [
        CreatableTopicConfig(name=name.replace("_", "."), value=value)
        for name, value in wanted.items()
    ]
    topic = CreatableTopic(name="states", num_partitions=1, replication_factor=1, configs=configs)
    answer = await cluster.ask(CreateTopicsRequest(topics=[topic], timeout_ms=5_000), 7)
    assert answer.topics[0].error_code == 0
    partition = cluster.broker.partitions.get("states", 0)
    assert partition is not None
    return partition


async def fill(cluster: Cluster, partition: Partition) -> None:
    for number in range(120):
        end = partition.log.log_end_offset
        partition.append_records([(b"k%d" % (number % 3), b"v" * 500)], lambda _code: None)
        await cluster.until(lambda end=end: partition.high_watermark > end)


async def low_with(cluster: Cluster, free_bytes: int) -> None:
    cluster.host.image.faults.free_bytes = free_bytes
    await cluster.until(lambda: cluster.broker.space.is_low == (free_bytes < MARK))


def test_a_cleaning_waits_for_room_and_uses_what_there_is() -> None:
    async def scenario(cluster: Cluster) -> None:
        partition = await make(cluster, cleanup_policy="compact")
        await low_with(cluster, NO_ROOM)
        await fill(cluster, partition)
        size, began = partition.log.log_size(), cluster.world.loop.time()
        await cluster.until(lambda: cluster.world.loop.time() > began + 20)
        assert partition.log.log_size() == size, "what a cleaning writes would take the last bytes"
        await low_with(cluster, SOME_ROOM)
        await cluster.until(lambda: partition.log.log_size() < size // 4)
        assert cluster.broker.space.is_low, "it was the cleaning that made room"

    simulate(scenario, SETTINGS)


def test_a_cleaning_under_way_pauses_when_the_room_is_gone_and_goes_on_later() -> None:
    async def scenario(cluster: Cluster) -> None:
        partition = await make(cluster, cleanup_policy="compact")
        await fill(cluster, partition)
        log, runs = partition.log, cluster.broker.metrics.cleaner_runs_total
        await cluster.until(lambda: log.is_in_upkeep)
        cluster.host.image.faults.free_bytes = NO_ROOM
        cluster.broker.space.check()
        await cluster.until(lambda: not log.is_in_upkeep)
        assert ("paused",) in runs.children
        size = log.log_size()
        names = cluster.broker.disk.list_directory(log.directory)
        assert not [name for name in names if name.endswith(".cleaned")]
        await low_with(cluster, PLENTY)
        await cluster.until(lambda: log.log_size() < size // 4)

    simulate(scenario, {**SETTINGS, "log.cleaner.io.max.bytes.per.second": 20_000})


def test_retention_does_not_wait_for_a_cleaning_while_space_is_low() -> None:
    async def scenario(cluster: Cluster) -> None:
        partition = await make(cluster, cleanup_policy="compact,delete", retention_ms="60000")
        await fill(cluster, partition)
        log = partition.log
        await cluster.until(lambda: log.is_in_upkeep)
        assert log.log_start_offset == 0
        cluster.world.wall.skew_ms += 120_000
        began = cluster.world.loop.time()
        await low_with(cluster, SOME_ROOM)
        await cluster.until(lambda: log.log_start_offset > 0)
        assert cluster.world.loop.time() < began + 3, "a cleaning takes longer at this speed"

    simulate(scenario, {**SETTINGS, "log.cleaner.io.max.bytes.per.second": 20_000})
