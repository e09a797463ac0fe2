"""The group consumer and plain reading against a real broker."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import Any

import pytest

from broker.client import admin, admin_groups
from broker.client.admin import NewTopic
from broker.client.cluster import Cluster
from broker.client.consumer import ConsumedRecord, Consumer
from broker.client.failure import BrokerRefusal, ClientError, ErrorCode
from broker.client.fetcher import Fetcher
from broker.client.producer import Producer
from broker.model import TopicPartition


async def fill(cluster: Cluster, topic: str, count: int, *, partitions: int = 1) -> None:
    """Create the topic and put `count` numbered records into it, over its partitions."""
    await admin.create_topics(cluster, [NewTopic(topic, partitions, 1)])
    await produce(cluster, topic, range(count), partitions=partitions)


async def produce(cluster: Cluster, topic: str, numbers: range, *, partitions: int = 1) -> None:
    producer = Producer(cluster)
    await producer.start()
    futures = [
        await producer.send(topic, str(number).encode(), partition=number % partitions)
        for number in numbers
    ]
    await asyncio.gather(*futures)
    await producer.close()


async def poll_until(
    consumer: Consumer, records: list[ConsumedRecord], is_done: Callable[[], bool]
) -> None:
    async with asyncio.timeout(15):
        while not is_done():
            records += await consumer.poll(50)


async def keep_polling(consumer: Consumer, records: list[ConsumedRecord]) -> None:
    while True:
        records += await consumer.poll(50)


async def eventually(condition: Callable[[], bool]) -> None:
    async with asyncio.timeout(15):
        while not condition():
            await asyncio.sleep(0.02)


def numbers(records: Sequence[ConsumedRecord]) -> list[int]:
    return [int(record.value or b"") for record in records]


async def test_a_lone_member_reads_everything_in_order_and_resumes_at_its_commit(
    cluster: Cluster, name: str
) -> None:
    await fill(cluster, name, 100)
    first = Consumer(cluster, name, [name])
    await first.start()
    records: list[ConsumedRecord] = []
    await poll_until(first, records, lambda: len(records) >= 100)
    assert numbers(records) == list(range(100))
    assert first.assignment == (TopicPartition(name, 0),)
    await first.close()

    await produce(cluster, name, range(100, 120))
    second = Consumer(cluster, name, [name])
    await second.start()
    later: list[ConsumedRecord] = []
    await poll_until(second, later, lambda: len(later) >= 20)
    assert numbers(later) == list(range(100, 120))
    await second.close()


async def test_manual_commits_are_where_the_next_member_begins(cluster: Cluster, name: str) -> None:
    await fill(cluster, name, 10)
    first = Consumer(cluster, name, [name], commits_automatically=False)
    await first.start()
    records: list[ConsumedRecord] = []
    await poll_until(first, records, lambda: len(records) >= 10)
    await first.commit({TopicPartition(name, 0): 4})
    await first.close()
    committed = await admin_groups.committed_offsets(cluster, [name])
    assert committed[name][TopicPartition(name, 0)].offset == 4  # type: ignore[index]
    second = Consumer(cluster, name, [name])
    await second.start()
    later: list[ConsumedRecord] = []
    await poll_until(second, later, lambda: len(later) >= 6)
    assert numbers(later) == [4, 5, 6, 7, 8, 9]
    await second.close()


async def test_partitions_are_shared_and_taken_over(
    open_cluster: Callable[..., Cluster], cluster: Cluster, name: str
) -> None:
    await fill(cluster, name, 40, partitions=4)
    events: list[tuple[str, int, list[int]]] = []

    def note(who: int, what: str) -> Callable[[Sequence[TopicPartition]], Awaitable[None]]:
        async def callback(partitions: Sequence[TopicPartition]) -> None:
            events.append((what, who, [row.partition for row in partitions]))

        return callback

    read: list[list[ConsumedRecord]] = [[], [], []]
    members = []
    async with asyncio.TaskGroup() as group:
        for number in range(3):
            member = Consumer(
                open_cluster(),
                name,
                [name],
                on_revoked=note(number, "revoked"),
                on_assigned=note(number, "assigned"),
            )
            await member.start()
            task = group.create_task(keep_polling(member, read[number]))
            members.append((member, task))
            await eventually(lambda: len({m.generation for m, _ in members}) == 1)
            await eventually(lambda: sum(len(m.assignment) for m, _ in members) == 4)
        assert sorted(len(member.assignment) for member, _ in members) == [1, 1, 2]
        owned = [where for member, _ in members for where in member.assignment]
        assert sorted(row.partition for row in owned) == [0, 1, 2, 3]

        gone, task = members.pop(0)
        task.cancel()
        await gone.close()
        await eventually(lambda: sum(len(m.assignment) for m, _ in members) == 4)
        await produce(cluster, name, range(40, 80), partitions=4)
        await eventually(lambda: len({n for rows in read for n in numbers(rows)}) == 80)
        for _, task in members:
            task.cancel()
    for member, _ in members:
        await member.close()
    assert ("assigned", 0, [0, 1, 2, 3]) in events
    assert ("revoked", 0, [0, 1, 2, 3]) in events
    for rows in read:
        for partition in range(4):
            values = [int(row.value or b"") for row in rows if row.partition == partition]
            assert values == sorted(values)


async def test_a_member_that_vanishes_is_replaced_after_its_session(
    open_cluster: Callable[..., Cluster], cluster: Cluster, name: str
) -> None:
    await fill(cluster, name, 10)
    dead_cluster = open_cluster(session_timeout_ms=1000)
    dead = Consumer(dead_cluster, name, [name])
    await dead.start()
    records: list[ConsumedRecord] = []
    await poll_until(dead, records, lambda: len(records) >= 10)
    await dead._scope.close()  # no heartbeat, no farewell
    await dead_cluster.close()
    heir = Consumer(cluster, name, [name])
    await heir.start()
    later: list[ConsumedRecord] = []
    await poll_until(heir, later, lambda: len(later) >= 10)
    assert numbers(later) == list(range(10)), "nothing had been committed"
    await heir.close()


async def test_a_member_that_does_not_poll_leaves_and_comes_back(
    open_cluster: Callable[..., Cluster], cluster: Cluster, name: str
) -> None:
    await fill(cluster, name, 10)
    slow = Consumer(open_cluster(max_poll_interval_ms=600), name, [name])
    await slow.start()
    records: list[ConsumedRecord] = []
    await poll_until(slow, records, lambda: len(records) >= 10)
    await eventually(lambda: slow.generation == -1)
    (described,) = await admin_groups.describe_groups(cluster, [name])
    assert described.members == ()
    with pytest.raises(BrokerRefusal):
        await slow.commit()
    await poll_until(slow, records, lambda: len(records) >= 20)
    assert numbers(records) == [*range(10), *range(10)]
    await slow.close()


async def test_a_static_member_keeps_its_partitions_over_a_restart(
    open_cluster: Callable[..., Cluster], cluster: Cluster, name: str
) -> None:
    await fill(cluster, name, 10)
    records: list[ConsumedRecord] = []
    first = Consumer(cluster, name, [name], instance_id="worker-1")
    await first.start()
    await poll_until(first, records, lambda: len(records) >= 10)
    generation = first.generation
    await first.close()
    again = Consumer(open_cluster(), name, [name], instance_id="worker-1")
    await again.start()
    await poll_until(again, records, lambda: bool(again.assignment))
    assert again.generation == generation
    usurper = Consumer(open_cluster(), name, [name], instance_id="worker-1")
    await usurper.start()
    await poll_until(usurper, records, lambda: bool(usurper.assignment))
    with pytest.raises(BrokerRefusal) as caught:
        await poll_until(again, records, lambda: False)
    assert caught.value.code is ErrorCode.FENCED_INSTANCE_ID
    await again.close()
    await usurper.close()


async def test_a_topic_that_grows_is_noticed(
    open_cluster: Callable[..., Cluster], cluster: Cluster, name: str
) -> None:
    await fill(cluster, name, 4)
    consumer = Consumer(open_cluster(metadata_max_age_ms=100), name, [name])
    await consumer.start()
    records: list[ConsumedRecord] = []
    await poll_until(consumer, records, lambda: len(records) >= 4)
    await admin.create_partitions(cluster, name, 3)
    await poll_until(consumer, records, lambda: len(consumer.assignment) == 3)
    await consumer.close()


async def test_plain_reading_starts_anywhere_and_filters_what_is_before(
    open_cluster: Callable[..., Cluster], cluster: Cluster, name: str
) -> None:
    await fill(cluster, name, 50)
    where = TopicPartition(name, 0)
    fetcher = Fetcher(cluster)
    fetcher.assign({where: 33})
    records: list[ConsumedRecord] = []
    async with asyncio.timeout(5):
        while len(records) < 17:
            records += await fetcher.poll(100)
    assert [record.offset for record in records] == list(range(33, 50))
    assert fetcher.positions[where] == 50
    fetcher.seek(where, 48)
    assert [record.offset for record in await fetcher.poll(1000)] == [48, 49]
    assert await fetcher.poll(20) == []
    fetcher.close()

    strict = Fetcher(open_cluster(auto_offset_reset="none"))
    strict.assign({where: 999})
    with pytest.raises(BrokerRefusal) as caught:
        await strict.poll(100)
    assert caught.value.code is ErrorCode.OFFSET_OUT_OF_RANGE

    lenient = Fetcher(open_cluster(auto_offset_reset="earliest"))
    lenient.assign({where: 999})
    async with asyncio.timeout(5):
        while not (again := await lenient.poll(100)):
            pass
    assert again[0].offset == 0


async def test_a_recreated_topic_is_read_from_its_own_beginning(
    cluster: Cluster, name: str
) -> None:
    await fill(cluster, name, 50)
    where = TopicPartition(name, 0)
    fetcher = Fetcher(cluster)
    fetcher.assign({where: 0})
    async with asyncio.timeout(5):
        while fetcher.positions[where] < 50:
            await fetcher.poll(100)
    await admin.delete_topics(cluster, [name])
    await admin.create_topics(cluster, [NewTopic(name, 1, 1)])
    await produce(cluster, name, range(500, 505))
    records: list[ConsumedRecord] = []
    async with asyncio.timeout(10):
        while len(records) < 5:
            records += await fetcher.poll(100)
    assert numbers(records) == list(range(500, 505))
    fetcher.close()


async def test_after_close_nothing_can_be_polled(cluster: Cluster, name: str) -> None:
    await fill(cluster, name, 1)
    consumer = Consumer(cluster, name, [name])
    await consumer.start()
    await consumer.poll(10)
    await consumer.close()
    await consumer.close()
    with pytest.raises(ClientError):
        await consumer.poll(10)


async def test_a_commit_that_outlives_its_membership_is_refused(
    cluster: Cluster, name: str
) -> None:
    """Between two tries the group may lose its last member: then anyone may store offsets."""
    await fill(cluster, name, 3)
    consumer = Consumer(cluster, f"{name}-group", [name], commits_automatically=False)
    await consumer.start()
    records: list[ConsumedRecord] = []
    await poll_until(consumer, records, lambda: len(records) == 3)
    call = cluster.call

    async def call_after_the_membership_ended(
        attempt: Callable[[], Awaitable[None]], **how: Any
    ) -> Any:
        await consumer._membership.leave()
        return await call(attempt, **how)

    cluster.call = call_after_the_membership_ended  # type: ignore[method-assign]
    with pytest.raises(BrokerRefusal) as refused:
        await consumer.commit()
    cluster.call = call  # type: ignore[method-assign]
    assert refused.value.code is ErrorCode.UNKNOWN_MEMBER_ID
    stored = await admin_groups.committed_offsets(cluster, [f"{name}-group"])
    assert stored == {f"{name}-group": {}}
    await consumer.close()
