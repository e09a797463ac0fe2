"""Administration against a real broker."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable

import pytest

from broker.client import admin, admin_configs, admin_groups
from broker.client.admin import NewTopic
from broker.client.admin_configs import ConfigEntry
from broker.client.blocking import BlockingClient
from broker.client.cluster import Cluster, parse_address
from broker.client.consumer import Consumer
from broker.client.failure import BrokerRefusal, ClientError, ErrorCode, TimedOut, Unsupported
from broker.client.offsets import EARLIEST, LATEST, NEWEST_TIMESTAMP
from broker.client.producer import Producer
from broker.model import TopicPartition
from tests.support.broker_process import BrokerProcess


async def eventually(look: Callable[[], Awaitable[object]], wanted: object) -> None:
    """A cluster tells its brokers of a change in its own time (ours at once)."""
    async with asyncio.timeout(10):
        while await look() != wanted:
            await asyncio.sleep(0.05)


async def is_listed(cluster: Cluster, name: str) -> bool:
    return name in [topic.name for topic in await admin.list_topics(cluster)]


async def test_topics_are_created_described_grown_and_deleted(cluster: Cluster, name: str) -> None:
    await admin.create_topics(cluster, [NewTopic(name, 3, 1, {"retention.ms": "1234567"})])
    view = await admin.describe_topic(cluster, name)
    assert [row.partition for row in view.partitions] == [0, 1, 2]
    assert view.topic_id != bytes(16)
    assert await is_listed(cluster, name)
    with pytest.raises(BrokerRefusal) as caught:
        await admin.create_topics(cluster, [NewTopic(name, 3, 1)])
    assert caught.value.code is ErrorCode.TOPIC_ALREADY_EXISTS
    await admin.create_partitions(cluster, name, 5)

    async def partition_count() -> int:
        return len((await admin.describe_topic(cluster, name)).partitions)

    await eventually(partition_count, 5)
    with pytest.raises(BrokerRefusal):
        await admin.create_partitions(cluster, name, 4)
    await admin.delete_topics(cluster, [name])
    await eventually(lambda: is_listed(cluster, name), False)
    with pytest.raises(BrokerRefusal) as gone:
        await admin.delete_topics(cluster, [name])
    assert gone.value.code is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


async def test_validation_alone_creates_nothing(cluster: Cluster, name: str) -> None:
    await admin.create_topics(cluster, [NewTopic(name, 1, 1)], validate_only=True)
    assert name not in [topic.name for topic in await admin.list_topics(cluster)]


async def test_settings_are_read_and_changed(cluster: Cluster, name: str) -> None:
    await admin.create_topics(cluster, [NewTopic(name, 1, 1)])

    async def retention() -> str | None:
        nonlocal entry
        entry = (await admin_configs.describe_topic_configs(cluster, [name]))[name]["retention.ms"]
        return entry.value

    entry: ConfigEntry | None = None
    await admin_configs.alter_topic_config(cluster, name, {"retention.ms": "3600000"})
    await eventually(retention, "3600000")
    assert entry is not None
    assert not entry.is_default
    assert entry.documentation
    await admin_configs.alter_topic_config(cluster, name, {"retention.ms": None})
    await eventually(retention, "604800000")
    with pytest.raises(BrokerRefusal) as caught:
        await admin_configs.alter_topic_config(cluster, name, {"retention.ms": "soon"})
    assert caught.value.code is ErrorCode.INVALID_CONFIG
    description = await admin.describe_cluster(cluster)
    (node,) = description.nodes
    assert description.controller_id == node.node_id
    assert len(description.cluster_id) == 22
    assert "log.retention.ms" in await admin_configs.describe_broker_configs(cluster, node.node_id)


async def test_offsets_by_time(cluster: Cluster, name: str) -> None:
    await admin.create_topics(cluster, [NewTopic(name, 2, 1)])
    producer = Producer(cluster)
    await producer.start()
    for number in range(10):
        await producer.send(name, b"v", partition=0, timestamp_ms=1000 + number * 10)
    await producer.close()
    full, empty = TopicPartition(name, 0), TopicPartition(name, 1)

    async def at(timestamp: int) -> tuple[int, int]:
        found = await admin_groups.offsets_at(cluster, {full: timestamp, empty: timestamp})
        return found[full].offset, found[empty].offset

    assert await at(EARLIEST) == (0, 0)
    assert await at(LATEST) == (10, 0)
    assert await at(NEWEST_TIMESTAMP) == (9, -1)
    assert await at(1041) == (5, -1)
    assert await at(5000) == (-1, -1)
    missing = TopicPartition(f"{name}-missing", 0)
    found = await admin_groups.offsets_where_known(cluster, {full: LATEST, missing: LATEST})
    assert set(found) == {full}


async def test_groups_are_listed_described_changed_and_deleted(cluster: Cluster, name: str) -> None:
    await admin.create_topics(cluster, [NewTopic(name, 2, 1)])
    consumer = Consumer(cluster, name, [name])
    await consumer.start()
    async with asyncio.timeout(10):
        while not consumer.assignment:
            await consumer.poll(50)
    listed = {row.group_id: row for row in await admin_groups.list_groups(cluster)}
    assert listed[name][1:] == ("consumer", "Stable", "classic")
    described, dead = await admin_groups.describe_groups(cluster, [name, f"{name}-none"])
    assert (described.state, described.protocol) == ("Stable", "range")
    (member,) = described.members
    assert member.assignment == (TopicPartition(name, 0), TopicPartition(name, 1))
    assert (member.member_id, member.client_id) == (consumer.member_id, "hermes")
    assert dead.state == "Dead"
    with pytest.raises(BrokerRefusal):
        await admin_groups.set_committed_offsets(cluster, name, {TopicPartition(name, 0): 1})
    with pytest.raises(BrokerRefusal) as caught:
        await admin_groups.delete_groups(cluster, [name])
    assert caught.value.code is ErrorCode.NON_EMPTY_GROUP
    await consumer.close()
    await admin_groups.set_committed_offsets(cluster, name, {TopicPartition(name, 1): 77})
    committed = await admin_groups.committed_offsets(cluster, [name, f"{name}-none"])
    assert committed[name][TopicPartition(name, 1)].offset == 77  # type: ignore[index]
    assert committed[f"{name}-none"] == {}
    await admin_groups.delete_groups(cluster, [name])
    assert name not in [row.group_id for row in await admin_groups.list_groups(cluster)]


def test_blocking_client_does_it_all_without_a_loop(broker: BrokerProcess, name: str) -> None:
    with BlockingClient(broker.bootstrap) as client:
        client.create_topic(name, partition_count=2, replication_factor=1)
        stored = [client.produce(name, b"%d" % number, key=b"k") for number in range(5)]
        partition = stored[0].partition
        records = client.read(name, partition, 1, count_max=3)
        assert [record.value for record in records] == [b"1", b"2", b"3"]
        assert client.read(name, 1 - partition, 0, count_max=3, wait_ms=50) == []
        where = TopicPartition(name, partition)
        assert client.offsets({where: LATEST})[where].offset == 5
        assert client.describe_topic(name).name == name
        client.set_committed_offsets(name, {where: 2})
        assert client.committed_offsets([name])[name][where].offset == 2  # type: ignore[index]
        assert name in [row.group_id for row in client.list_groups()]
        assert client.describe_groups([name])[0].state == "Empty"
        client.alter_topic_config(name, {"retention.ms": "1000000"})
        assert client.topic_configs([name])[name]["retention.ms"].value == "1000000"
        node = client.describe_cluster().nodes[0]
        assert client.broker_configs(node.node_id)
        client.delete_topics([name])
    with pytest.raises(ClientError):
        client.list_topics()


def test_blocking_client_never_waits_longer_than_its_timeout() -> None:
    begin = time.monotonic()
    with BlockingClient("127.0.0.1:1", timeout_ms=300) as client, pytest.raises(ClientError):
        client.list_topics()
    with BlockingClient("127.0.0.1:1", timeout_ms=300) as client, pytest.raises(TimedOut):
        client.run(lambda _cluster: asyncio.sleep(60))
    assert time.monotonic() - begin < 5


async def test_clients_of_a_wrong_address_say_so(open_cluster: Callable[..., Cluster]) -> None:
    cluster = open_cluster(bootstrap_servers=("127.0.0.1:1",), request_timeout_ms=200)
    with pytest.raises(TimedOut, match=r"127\.0\.0\.1:1"):
        await cluster.start()


@pytest.mark.parametrize("text", ["", "localhost", "host:port", ":9092", "host:99999"])
def test_bad_addresses(text: str) -> None:
    with pytest.raises(Unsupported):
        parse_address(text)


def test_good_addresses() -> None:
    assert parse_address("localhost:9092") == ("localhost", 9092)
    assert parse_address("[::1]:9092") == ("::1", 9092)
