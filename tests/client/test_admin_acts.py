"""Administration with an outcome per topic, partition, group or resource."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable

import confluent_kafka
import pytest

from broker.client import admin, admin_configs, admin_groups, admin_partitions
from broker.client.admin import NewTopic, TopicCreated
from broker.client.admin_configs import (
    ConfigChange,
    ConfigOperation,
    ConfigResource,
    ResourceKind,
)
from broker.client.admin_partitions import TO_HIGH_WATERMARK
from broker.client.cluster import Cluster
from broker.client.consumer import Consumer
from broker.client.failure import BrokerRefusal, ErrorCode
from broker.client.offsets import EARLIEST
from broker.client.producer import Producer
from broker.model import TopicPartition
from tests.client.test_admin import eventually, is_listed
from tests.support.broker_process import BrokerProcess


@pytest.fixture
async def topic(cluster: Cluster, name: str) -> str:
    """A topic with two partitions; its partition 0 has ten records."""
    await admin.create_topics(cluster, [NewTopic(name, 2, 1)])
    producer = Producer(cluster)
    await producer.start()
    for number in range(10):
        await producer.send(name, b"%d" % number, partition=0)
    await producer.close()
    return name


@pytest.fixture
async def member(cluster: Cluster, topic: str) -> AsyncIterator[Consumer]:
    """The only member of a group that has the topic's name and reads it."""
    consumer = Consumer(cluster, topic, [topic], commits_automatically=False)
    await consumer.start()
    async with asyncio.timeout(20):
        while not consumer.assignment:
            await consumer.poll(50)
    yield consumer
    await consumer.close()


async def test_of_many_new_topics_each_gets_its_outcome(cluster: Cluster, name: str) -> None:
    wanted = [
        NewTopic(f"{name}-a", 3, 1, {"cleanup.policy": "compact"}),
        NewTopic(f"{name} b", 1, 1),
        NewTopic(f"{name}-c", assignments=[[await any_node(cluster)]]),
    ]
    outcome = await admin.create_topics_each(cluster, wanted)
    created, refused, placed = (outcome[each.name] for each in wanted)
    assert isinstance(created, TopicCreated)
    assert (created.partition_count, created.replication_factor) == (3, 1)
    assert created.topic_id != bytes(16)
    assert created.configs["cleanup.policy"] == "compact"
    assert isinstance(refused, BrokerRefusal)
    assert refused.code is ErrorCode.INVALID_TOPIC_EXCEPTION
    assert isinstance(placed, TopicCreated)
    assert placed.partition_count == 1
    await eventually(lambda: is_listed(cluster, f"{name}-c"), True)
    gone = await admin.delete_topics_each(cluster, [f"{name}-a", f"{name}-none", f"{name}-c"])
    assert gone[f"{name}-a"] is gone[f"{name}-c"] is None
    missing = gone[f"{name}-none"]
    assert missing is not None
    assert missing.code is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


async def any_node(cluster: Cluster) -> int:
    return (await admin.describe_cluster(cluster)).nodes[0].node_id


async def test_a_topic_that_is_not_there_is_said_at_once(cluster: Cluster, topic: str) -> None:
    begin_ms = cluster.clock.monotonic_ms()
    found = await admin.describe_topics(cluster, [f"{topic}-none", topic])
    missing, there = found[f"{topic}-none"], found[topic]
    assert isinstance(missing, BrokerRefusal)
    assert missing.code is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert not isinstance(there, BrokerRefusal)
    assert len(there.partitions) == 2
    with pytest.raises(BrokerRefusal):
        await admin.describe_topic(cluster, f"{topic}-none")
    assert cluster.clock.monotonic_ms() - begin_ms < cluster.settings.request_timeout_ms
    assert not await is_listed(cluster, f"{topic}-none")


async def test_growing_can_be_tried_without_doing_it(cluster: Cluster, topic: str) -> None:
    await admin.create_partitions(cluster, topic, 4, validate_only=True)
    assert len((await admin.describe_topic(cluster, topic)).partitions) == 2


async def test_records_are_deleted_up_to_an_offset(cluster: Cluster, topic: str) -> None:
    first, second = TopicPartition(topic, 0), TopicPartition(topic, 1)
    missing = TopicPartition(topic, 7)
    outcome = await admin_partitions.delete_records(cluster, {first: 4, second: 1, missing: 0})
    assert outcome[first] == 4
    beyond, unknown = outcome[second], outcome[missing]
    assert isinstance(beyond, BrokerRefusal)
    assert beyond.code is ErrorCode.OFFSET_OUT_OF_RANGE
    assert isinstance(unknown, BrokerRefusal)
    assert unknown.code is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert (await admin_groups.offsets_at(cluster, {first: EARLIEST}))[first].offset == 4
    assert await admin_partitions.delete_records(cluster, {first: TO_HIGH_WATERMARK}) == {first: 10}
    assert await admin_partitions.delete_records(cluster, {}) == {}


async def test_sizes_of_partitions(cluster: Cluster, topic: str) -> None:
    where = TopicPartition(topic, 0)
    found = await admin_partitions.describe_log_dirs(cluster, topics=[topic])
    ((node_id, directories),) = found.items()
    assert node_id == await any_node(cluster)
    assert not isinstance(directories, BrokerRefusal)
    (directory,) = directories
    assert directory.error is None
    assert directory.path.startswith("/")
    assert set(directory.replicas) == {where, TopicPartition(topic, 1)}
    assert directory.replicas[where].size_bytes > directory.replicas[where._replace(partition=1)][0]
    assert directory.total_bytes >= directory.usable_bytes > 0
    everything = (await admin_partitions.describe_log_dirs(cluster, [node_id]))[node_id]
    assert not isinstance(everything, BrokerRefusal)
    assert where in everything[0].replicas


async def test_producers_of_a_partition(cluster: Cluster, topic: str) -> None:
    first, second = TopicPartition(topic, 0), TopicPartition(topic, 1)
    missing = TopicPartition(topic, 9)
    found = await admin_partitions.describe_producers(cluster, [first, second, missing])
    active = found[first]
    assert not isinstance(active, BrokerRefusal)
    (producer,) = active
    assert producer.producer_id >= 0
    assert (producer.producer_epoch, producer.last_sequence) == (0, 9)
    assert producer.transaction_start_offset == -1
    assert abs(producer.last_timestamp_ms - cluster.clock.wall_ms()) < 3_600_000
    assert found[second] == ()
    assert isinstance(found[missing], BrokerRefusal)


async def test_leaders_that_lead_already_need_no_election(cluster: Cluster, topic: str) -> None:
    where = TopicPartition(topic, 0)
    outcome = await admin_partitions.elect_leaders(cluster, [where, TopicPartition(topic, 9)])
    led, missing = outcome[where], outcome[TopicPartition(topic, 9)]
    assert led is not None
    assert led.code is ErrorCode.ELECTION_NOT_NEEDED
    assert missing is not None
    assert missing.code is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


async def test_nothing_moves_between_brokers_here(cluster: Cluster, topic: str) -> None:
    where = TopicPartition(topic, 0)
    assert await admin_partitions.list_partition_reassignments(cluster, [where]) == {}
    assert await admin_partitions.list_partition_reassignments(cluster) == {}


async def test_resources_with_settings_are_listed(cluster: Cluster, topic: str) -> None:
    wanted = ConfigResource(ResourceKind.TOPIC, topic)
    assert wanted in await admin_configs.list_config_resources(cluster, [ResourceKind.TOPIC])
    node = ConfigResource(ResourceKind.BROKER, str(await any_node(cluster)))
    listed = await admin_configs.list_config_resources(cluster)
    assert {wanted, node} <= set(listed)


async def test_settings_say_where_they_come_from(cluster: Cluster, topic: str) -> None:
    resource = ConfigResource(ResourceKind.TOPIC, topic)
    missing = ConfigResource(ResourceKind.TOPIC, f"{topic}-none")
    node = ConfigResource(ResourceKind.BROKER, str(await any_node(cluster)))
    change = ConfigChange("retention.ms", str(2**53 + 1))
    assert await admin_configs.alter_configs(cluster, {resource: [change]}) == {resource: None}

    async def look() -> tuple[str | None, str]:
        found = await admin_configs.describe_configs(cluster, [resource, missing, node])
        entries = found[resource]
        assert not isinstance(entries, BrokerRefusal)
        assert isinstance(found[missing], BrokerRefusal)
        assert not isinstance(found[node], BrokerRefusal)
        entry = entries["retention.ms"]
        assert (entry.type_name, entry.is_read_only, entry.is_sensitive) == ("long", False, False)
        assert entry.synonyms[0] == ("retention.ms", entry.value, entry.source)
        assert entries["cleanup.policy"].is_default
        return entry.value, entry.source_name

    await eventually(look, (str(2**53 + 1), "topic"))


async def test_lists_grow_and_shrink(cluster: Cluster, topic: str) -> None:
    resource = ConfigResource(ResourceKind.TOPIC, topic)

    async def change(operation: ConfigOperation, value: str | None) -> None:
        row = ConfigChange("cleanup.policy", value, operation)
        assert await admin_configs.alter_configs(cluster, {resource: [row]}) == {resource: None}

    async def policies() -> set[str]:
        found = await admin_configs.describe_topic_configs(cluster, [topic])
        return set((found[topic]["cleanup.policy"].value or "").split(","))

    await change(ConfigOperation.APPEND, "compact")
    await eventually(policies, {"delete", "compact"})
    await change(ConfigOperation.SUBTRACT, "delete")
    await eventually(policies, {"compact"})
    await change(ConfigOperation.DELETE, None)
    await eventually(policies, {"delete"})


async def test_of_many_changes_only_the_bad_resource_is_refused(
    cluster: Cluster, topic: str
) -> None:
    good = ConfigResource(ResourceKind.TOPIC, topic)
    bad = ConfigResource(ResourceKind.TOPIC, f"{topic}-none")
    rows = [ConfigChange("retention.ms", "86400000")]
    outcome = await admin_configs.alter_configs(cluster, {good: rows, bad: rows})
    assert outcome[good] is None
    assert isinstance(outcome[bad], BrokerRefusal)
    wrong = ConfigChange("retention.ms", "soon")
    for only in (True, False):
        tried = await admin_configs.alter_configs(cluster, {good: [wrong]}, validate_only=only)
        refusal = tried[good]
        assert refusal is not None
        assert refusal.code is ErrorCode.INVALID_CONFIG


async def test_a_broker_that_is_not_there_is_named(cluster: Cluster) -> None:
    with pytest.raises(BrokerRefusal, match="no broker 4711; its brokers are"):
        await admin_configs.describe_broker_configs(cluster, 4711)


async def test_commits_of_a_topic_nobody_reads_are_deleted(cluster: Cluster, topic: str) -> None:
    first, second = TopicPartition(topic, 0), TopicPartition(topic, 1)
    group = f"{topic}-quiet"
    await admin_groups.set_committed_offsets(cluster, group, {first: 3, second: 0})
    outcome = await admin_groups.delete_committed_offsets(cluster, group, [first])
    assert outcome == {first: None}
    left = await admin_groups.committed_offsets(cluster, [group])
    assert set(left[group]) == {second}  # type: ignore[arg-type]
    with pytest.raises(BrokerRefusal) as caught:
        await admin_groups.delete_committed_offsets(cluster, f"{group}-none", [first])
    assert caught.value.code is ErrorCode.GROUP_ID_NOT_FOUND


async def test_commits_of_a_topic_that_members_read_stay(
    cluster: Cluster, topic: str, member: Consumer
) -> None:
    where = TopicPartition(topic, 0)
    await member.commit({where: 5})
    outcome = await admin_groups.delete_committed_offsets(cluster, topic, [where])
    refusal = outcome[where]
    assert refusal is not None
    assert refusal.code is ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC


async def test_members_are_removed_and_groups_deleted_one_by_one(
    cluster: Cluster, topic: str, member: Consumer
) -> None:
    refusals = await admin_groups.delete_groups_each(cluster, [topic, f"{topic}-none"])
    busy, missing = refusals[topic], refusals[f"{topic}-none"]
    assert busy is not None
    assert busy.code is ErrorCode.NON_EMPTY_GROUP
    assert missing is not None
    assert missing.code is ErrorCode.GROUP_ID_NOT_FOUND
    outcome = await admin_groups.remove_group_members(cluster, topic)
    assert outcome == {member.member_id: None}
    assert await admin_groups.remove_group_members(cluster, f"{topic}-none") == {}


async def test_a_group_of_the_newest_protocol_has_members_too(
    cluster: Cluster, topic: str, broker: BrokerProcess
) -> None:
    """Apache Kafka has groups of the consumer protocol (KIP-848), ours the classic one alone."""
    offered = {row.name for row in await admin.api_versions(cluster)}
    protocol = "consumer" if "ConsumerGroupHeartbeat" in offered else "classic"
    reader = confluent_kafka.Consumer(
        {"bootstrap.servers": broker.bootstrap, "group.id": topic, "group.protocol": protocol}
    )
    reader.subscribe([topic])
    try:
        async with asyncio.timeout(30):
            while not await asyncio.to_thread(lambda: reader.poll(0.1) or reader.assignment()):
                pass
        (group,) = await admin_groups.describe_groups(cluster, [topic])
        listed = {row.group_id: row for row in await admin_groups.list_groups(cluster)}
        assert listed[topic].group_type == protocol
        assert (group.error, group.protocol_type) == (None, "consumer")
        (member,) = group.members
        assert member.client_id == "rdkafka"
        assert sorted(member.assignment) == [TopicPartition(topic, 0), TopicPartition(topic, 1)]
    finally:
        reader.close()


async def test_what_the_broker_offers(cluster: Cluster) -> None:
    offered = {row.name: row for row in await admin.api_versions(cluster)}
    fetch = offered["Fetch"]
    assert fetch.min_version <= 4
    assert fetch.used_version is not None
    assert fetch.used_version <= fetch.max_version
    node_id = await any_node(cluster)
    assert set(offered) == {row.name for row in await admin.api_versions(cluster, node_id)}


async def test_many_groups_at_once(
    cluster: Cluster, topic: str, open_cluster: Callable[..., Cluster]
) -> None:
    groups = [f"{topic}-{number}" for number in range(20)]
    for group in groups:
        await admin_groups.set_committed_offsets(cluster, group, {TopicPartition(topic, 0): 1})
    assert set((await admin_groups.delete_groups_each(open_cluster(), groups)).values()) == {None}
