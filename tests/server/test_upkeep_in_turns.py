"""Rolls and deletions of many partitions at once, in a simulated broker: they leave the device to
whoever writes.
"""

from __future__ import annotations

import asyncio
from dataclasses import replace
from itertools import pairwise

import pytest

from broker.config.alter import AlterOperation, ConfigChange
from broker.errors import ErrorCode
from broker.server.maintenance import PAUSE_S_MAX
from broker.server.partition import Partition
from broker.server.roll_order import LONGEST_EVERY, RollOrder
from broker.wire.messages.create_topics import (
    CreatableTopic,
    CreatableTopicConfig,
    CreateTopicsRequest,
)
from broker.wire.messages.delete_records import (
    DeleteRecordsPartition,
    DeleteRecordsRequest,
    DeleteRecordsTopic,
)
from tests.server.group_world import Cluster, simulate

PARTITIONS = 12
MARK = 1_000_000
SETTINGS: dict[str, object] = {
    "hermes.log.dir.min.free.bytes": MARK,
    "log.retention.check.interval.ms": 3_600_000,
}
RECORDS = [(None, b"v" * 600)]
OPERATIONS = 3 * 3
"""Of a partition's deletions: three segments, three files each, and little more."""


async def make(cluster: Cluster) -> list[Partition]:
    """Partitions of 2,000 bytes a segment that keep 2,000 bytes, once retention looks at them."""
    configs = [
        CreatableTopicConfig(name=name, value="2000")
        for name in ("segment.bytes", "retention.bytes")
    ]
    topic = CreatableTopic(
        name="many", num_partitions=PARTITIONS, replication_factor=1, configs=configs
    )
    answer = await cluster.ask(CreateTopicsRequest(topics=[topic], timeout_ms=5_000), 7)
    assert answer.topics[0].error_code == 0
    found = [cluster.broker.partitions.get("many", index) for index in range(PARTITIONS)]
    partitions = [each for each in found if each is not None]
    assert len(partitions) == PARTITIONS
    return partitions


async def append_to_all(cluster: Cluster, partitions: list[Partition]) -> None:
    answers: list[ErrorCode] = []
    for each in partitions:
        each.append_records(RECORDS, answers.append)
    await cluster.until(lambda: len(answers) == len(partitions))
    assert set(answers) == {ErrorCode.NONE}


def test_partitions_that_are_due_at_the_same_time_roll_one_after_the_other() -> None:
    async def scenario(cluster: Cluster) -> None:
        partitions = await make(cluster)
        faults, loop = cluster.host.image.faults, cluster.world.loop
        for _ in range(2):
            await append_to_all(cluster, partitions)
        faults.latency_s_min = faults.latency_s_max = 0.01
        began = loop.time()
        await append_to_all(cluster, partitions)
        assert all(each.is_rolling for each in partitions)
        await append_to_all(cluster, partitions)
        assert loop.time() < began + 0.1, "nobody's append waits for another one's roll"
        times: list[float] = []
        for count in range(1, PARTITIONS + 1):
            await cluster.until(
                lambda count=count: sum(not each.is_rolling for each in partitions) >= count
            )
            times.append(loop.time())
        assert min(after - before for before, after in pairwise(times)) > 0.03
        assert all(len(each.log.segments) == 2 for each in partitions)

    simulate(scenario, SETTINGS)


def test_the_partition_that_outgrows_its_segment_most_rolls_next() -> None:
    async def scenario(cluster: Cluster) -> None:
        partitions = await make(cluster)
        faults = cluster.host.image.faults
        for _ in range(2):
            await append_to_all(cluster, partitions)
        faults.latency_s_min = faults.latency_s_max = 0.01
        await append_to_all(cluster, partitions)
        assert all(each.is_rolling for each in partitions)
        fast, gone = partitions[-1], partitions[-2]
        gone.take_offline("a fault while it waits")
        for _ in range(20):
            fast.append_records(RECORDS, lambda _code: None)
        left = partitions[:-2]
        await cluster.until(lambda: not fast.is_rolling)
        assert sum(each.is_rolling for each in left) >= len(left) - 2
        assert fast.log.segments[-1].base_offset >= 20
        await cluster.until(lambda: not any(each.is_rolling for each in partitions))
        assert all(len(each.log.segments) == 2 for each in left)

    simulate(scenario, SETTINGS)


def test_a_segment_that_may_go_on_when_its_turn_comes_is_not_rolled() -> None:
    async def scenario(cluster: Cluster) -> None:
        partitions = await make(cluster)
        faults = cluster.host.image.faults
        for _ in range(2):
            await append_to_all(cluster, partitions)
        faults.latency_s_min = faults.latency_s_max = 0.01
        await append_to_all(cluster, partitions)
        assert all(each.is_rolling for each in partitions)
        larger = ConfigChange("segment.bytes", AlterOperation.SET, "1000000")
        await cluster.broker.catalog.alter_topic_config("many", [larger])
        await cluster.until(lambda: not any(each.is_rolling for each in partitions))
        rolled = sum(len(each.log.segments) > 1 for each in partitions)
        assert rolled < PARTITIONS // 2, "those that began before the change"
        assert cluster.broker.metrics.segments_rolled_total.labels().value == rolled

    simulate(scenario, SETTINGS)


def test_who_gives_up_waiting_passes_its_turn_on() -> None:
    async def scenario(cluster: Cluster) -> None:
        partitions = (await make(cluster))[:6]
        for number, each in enumerate(partitions):
            each.append_records([(None, b"v" * 100 * number)], lambda _code: None)
        order = RollOrder()
        rolled: list[int] = []

        async def roll(number: int) -> None:
            async with order.turn(partitions[number]):
                await asyncio.sleep(0.01)
                rolled.append(number)

        tasks = [asyncio.create_task(roll(number)) for number in range(6)]
        await asyncio.sleep(0)
        tasks[3].cancel()  # it waits
        await asyncio.wait([tasks[0]])
        tasks[5].cancel()  # the largest: its turn has come in this very step
        await asyncio.wait(tasks)
        assert rolled == [0, 4, 2, 1]
        await asyncio.wait_for(roll(3), 1)

    simulate(scenario, SETTINGS)


def test_who_outgrows_nobody_has_its_turn_while_busy_ones_are_due_again_and_again() -> None:
    async def scenario(cluster: Cluster) -> None:
        quiet, *busy = (await make(cluster))[:5]
        for each in busy:
            each.append_records(RECORDS, lambda _code: None)
        order = RollOrder()

        async def roll_again_and_again(partition: Partition) -> None:
            while True:
                async with order.turn(partition):
                    await asyncio.sleep(0.01)

        async def roll_once() -> None:
            async with order.turn(quiet):
                pass

        tasks = [asyncio.create_task(roll_again_and_again(each)) for each in busy]
        await asyncio.sleep(0)
        await asyncio.wait_for(roll_once(), 0.01 * LONGEST_EVERY * PARTITIONS)
        for task in tasks:
            task.cancel()
        await asyncio.wait(tasks)

    simulate(scenario, SETTINGS)


def test_a_broker_that_stops_while_partitions_wait_to_roll_stops_cleanly() -> None:
    async def scenario(cluster: Cluster) -> None:
        partitions = await make(cluster)
        for _ in range(2):
            await append_to_all(cluster, partitions)
        faults = cluster.host.image.faults
        faults.latency_s_min = faults.latency_s_max = 0.01
        await append_to_all(cluster, partitions)
        assert all(each.is_rolling for each in partitions)
        await cluster.host.stop()
        assert not any(each.is_rolling for each in partitions)

    simulate(scenario, SETTINGS)  # which would find a task that crashed


def test_on_a_full_disk_no_deletion_waits_for_a_roll_that_has_no_room() -> None:
    async def scenario(cluster: Cluster) -> None:
        partitions = await make(cluster)
        for _ in range(10):
            await append_to_all(cluster, partitions)
            await cluster.until(lambda: not any(each.is_rolling for each in partitions))
        for each in partitions:
            each.log.configure(replace(each.log.config, segment_bytes=100))
        assert all(each.log.needs_roll and not each.is_rolling for each in partitions)
        cluster.host.image.faults.is_full = True
        cluster.broker.space.check()
        await cluster.until(lambda: all(each.log_start_offset > 0 for each in partitions), 1)

    simulate(scenario, SETTINGS)


async def seconds_for_each(cluster: Cluster, latency_s: float, *, is_low: bool) -> float:
    """From one partition's deletions to the next one's, with a device that takes so long."""
    partitions = await make(cluster)
    faults, loop = cluster.host.image.faults, cluster.world.loop
    for _ in range(16):
        await append_to_all(cluster, partitions)
        await cluster.until(lambda: not any(each.is_rolling for each in partitions))
    assert all(each.log_start_offset == 0 for each in partitions)
    faults.latency_s_min = faults.latency_s_max = latency_s
    if is_low:
        faults.free_bytes = MARK // 2
        cluster.broker.space.check()
    else:
        cluster.broker.maintenance.retain_all_soon()
    times: list[float] = []
    for each in partitions:
        await cluster.until(lambda each=each: each.log_start_offset > 0)
        times.append(loop.time())
    await asyncio.sleep(100 * latency_s)
    assert all(each.log.log_size() <= 6_000 for each in partitions)
    return (times[-1] - times[0]) / (PARTITIONS - 1)


@pytest.mark.parametrize("is_low", [False, True])
def test_deletions_take_a_fifth_of_the_time_unless_space_is_low(*, is_low: bool) -> None:
    async def scenario(cluster: Cluster) -> None:
        each_s = await seconds_for_each(cluster, 0.01, is_low=is_low)
        deleting_s = 0.01 * OPERATIONS
        assert deleting_s < each_s < 2 * deleting_s if is_low else each_s > 4 * deleting_s

    simulate(scenario, SETTINGS)


def test_deletions_that_take_long_are_paused_after_for_a_second() -> None:
    async def scenario(cluster: Cluster) -> None:
        each_s = await seconds_for_each(cluster, 0.2, is_low=False)
        deleting_s = 0.2 * OPERATIONS
        assert deleting_s < each_s - PAUSE_S_MAX < 2 * deleting_s

    simulate(scenario, SETTINGS)


def test_after_deletions_of_records_the_files_of_many_partitions_go_one_after_the_other() -> None:
    async def scenario(cluster: Cluster) -> None:
        partitions = await make(cluster)
        faults, loop = cluster.host.image.faults, cluster.world.loop
        for _ in range(16):
            await append_to_all(cluster, partitions)
            await cluster.until(lambda: not any(each.is_rolling for each in partitions))
        faults.latency_s_min = faults.latency_s_max = 0.01
        wanted = [
            DeleteRecordsPartition(partition_index=index, offset=14) for index in range(PARTITIONS)
        ]
        topic = DeleteRecordsTopic(name="many", partitions=wanted)
        began = loop.time()
        answer = await cluster.ask(DeleteRecordsRequest(topics=[topic], timeout_ms=5_000), 2)
        assert {each.error_code for each in answer.topics[0].partitions} == {0}
        assert loop.time() < began + 1, "the answer waits for no file"
        times: list[float] = []
        for count in range(1, PARTITIONS + 1):
            await cluster.until(lambda count=count: sum(map(begins_later, partitions)) >= count)
            times.append(loop.time())
        deleting_s = 0.01 * 3 * 3  # as above, at least
        assert (times[-1] - times[0]) / (PARTITIONS - 1) > 4 * deleting_s
        assert all(each.log.log_size() <= 6_000 for each in partitions)

    simulate(scenario, SETTINGS)


def begins_later(partition: Partition) -> bool:
    return partition.log.segments[0].base_offset > 0
