"""CreateTopics, DeleteTopics and CreatePartitions against a real broker, frame by frame."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from broker.errors import ErrorCode
from broker.wire import api
from broker.wire.messages.create_partitions import (
    CreatePartitionsAssignment,
    CreatePartitionsRequest,
    CreatePartitionsTopic,
    CreatePartitionsTopicResult,
)
from broker.wire.messages.create_topics import (
    CreatableReplicaAssignment,
    CreatableTopic,
    CreatableTopicConfig,
    CreatableTopicResult,
    CreateTopicsRequest,
)
from broker.wire.messages.delete_topics import (
    DeletableTopicResult,
    DeleteTopicsRequest,
    DeleteTopicState,
)
from broker.wire.messages.metadata import MetadataRequest, MetadataRequestTopic
from tests.support.broker_process import BrokerProcess
from tests.support.wire_client import WireClient

PARTITIONS_MAX = 60


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrokerProcess]:
    settings = {
        "hermes.partitions.max": PARTITIONS_MAX,
        "num.partitions": 2,
        "offsets.topic.num.partitions": 1,
    }
    with BrokerProcess(tmp_path_factory.mktemp("topics"), settings) as process:
        yield process


@pytest.fixture
def client(broker: BrokerProcess) -> Iterator[WireClient]:
    with WireClient(broker.kafka_port) as connection:
        yield connection


def create(
    client: WireClient, *topics: CreatableTopic, **fields: object
) -> list[CreatableTopicResult]:
    request = CreateTopicsRequest(topics=list(topics), **{"timeout_ms": 10_000, **fields})
    results: list[CreatableTopicResult] = client.call(api.CREATE_TOPICS, 7, request).topics
    return results


def topic(name: str, partitions: int = 1, factor: int = 1, **configs: str | None) -> CreatableTopic:
    return CreatableTopic(
        name=name,
        num_partitions=partitions,
        replication_factor=factor,
        configs=[
            CreatableTopicConfig(name=k.replace("_", "."), value=v) for k, v in configs.items()
        ],
    )


def delete(
    client: WireClient, *wanted: str | bytes, timeout_ms: int = 10_000
) -> list[DeletableTopicResult]:
    states = [
        DeleteTopicState(name=item) if isinstance(item, str) else DeleteTopicState(topic_id=item)
        for item in wanted
    ]
    request = DeleteTopicsRequest(topics=states, timeout_ms=timeout_ms)
    results: list[DeletableTopicResult] = client.call(api.DELETE_TOPICS, 6, request).responses
    return results


def grow(
    client: WireClient,
    name: str,
    count: int,
    assignments: list[list[int]] | None = None,
    *,
    dry: bool = False,
) -> CreatePartitionsTopicResult:
    wanted = CreatePartitionsTopic(name=name, count=count)
    if assignments is not None:
        wanted.assignments = [CreatePartitionsAssignment(broker_ids=ids) for ids in assignments]
    request = CreatePartitionsRequest(topics=[wanted], timeout_ms=10_000, validate_only=dry)
    result: CreatePartitionsTopicResult = client.call(api.CREATE_PARTITIONS, 3, request).results[0]
    return result


def partition_count(client: WireClient, name: str) -> int:
    request = MetadataRequest(
        topics=[MetadataRequestTopic(name=name)], allow_auto_topic_creation=False
    )
    return len(client.call(api.METADATA, 12, request).topics[0].partitions)


def test_a_created_topic_answers_with_its_id_its_size_and_its_settings(client: WireClient) -> None:
    (result,) = create(client, topic("made", 3, retention_ms="1000"))
    assert result.error_code == 0
    assert (result.num_partitions, result.replication_factor) == (3, 1)
    assert result.topic_id != bytes(16)
    settings = {
        config.name: (config.value, config.config_source) for config in result.configs or []
    }
    assert settings["retention.ms"] == ("1000", 1)
    assert settings["segment.bytes"] == (str(1 << 30), 5)
    assert partition_count(client, "made") == 3
    delete(client, "made")


def test_minus_one_takes_the_brokers_defaults(client: WireClient) -> None:
    (result,) = create(client, topic("defaults", -1, -1))
    assert (result.error_code, result.num_partitions, result.replication_factor) == (0, 2, 1)
    delete(client, "defaults")


@pytest.mark.parametrize(
    "name", ["", ".", "..", "../x", "a/b", "a\x00b", "a b", "ä", "x" * 250, "a\n", "{}", "a:b"]
)
def test_a_name_that_cannot_be_one_is_refused(client: WireClient, name: str) -> None:
    (result,) = create(client, topic(name))
    assert result.error_code == ErrorCode.INVALID_TOPIC_EXCEPTION
    assert result.error_message


def test_the_longest_name_is_fine(client: WireClient) -> None:
    name = "x" * 249
    assert create(client, topic(name))[0].error_code == 0
    assert delete(client, name)[0].error_code == 0


def test_names_that_differ_in_dot_and_underscore_only_collide(client: WireClient) -> None:
    create(client, topic("a.b_c"))
    (result,) = create(client, topic("a_b.c"))
    assert result.error_code == ErrorCode.INVALID_TOPIC_EXCEPTION
    assert "a.b_c" in (result.error_message or "")
    delete(client, "a.b_c")
    assert create(client, topic("a_b.c"))[0].error_code == 0
    delete(client, "a_b.c")


@pytest.mark.parametrize("name", ["__consumer_offsets", "__transaction_state"])
def test_clients_may_not_create_internal_topics(client: WireClient, name: str) -> None:
    assert create(client, topic(name))[0].error_code == ErrorCode.INVALID_TOPIC_EXCEPTION


@pytest.mark.parametrize(
    ("wanted", "code"),
    [
        (topic("w", 0), ErrorCode.INVALID_PARTITIONS),
        (topic("w", -2), ErrorCode.INVALID_PARTITIONS),
        (topic("w", PARTITIONS_MAX + 1), ErrorCode.INVALID_PARTITIONS),
        (topic("w", 2**31 - 1), ErrorCode.INVALID_PARTITIONS),
        (topic("w", 1, 0), ErrorCode.INVALID_REPLICATION_FACTOR),
        (topic("w", 1, 3), ErrorCode.INVALID_REPLICATION_FACTOR),
        (topic("w", retention_m="1"), ErrorCode.INVALID_CONFIG),
        (topic("w", retention_ms="soon"), ErrorCode.INVALID_CONFIG),
        (topic("w", retention_ms=None), ErrorCode.INVALID_CONFIG),
        (topic("w", durability="disk"), ErrorCode.INVALID_CONFIG),
    ],
)
def test_what_cannot_be_is_refused_with_a_sentence_and_not_made(
    client: WireClient, wanted: CreatableTopic, code: ErrorCode
) -> None:
    (result,) = create(client, wanted)
    assert result.error_code == code
    assert result.error_message
    assert partition_count(client, "w") == 0


def test_manual_assignments_must_be_whole_and_name_the_broker(client: WireClient) -> None:
    def assigned(*brokers: tuple[int, list[int]], partitions: int = -1) -> int:
        wanted = CreatableTopic(
            name="assigned",
            num_partitions=partitions,
            replication_factor=-1,
            assignments=[
                CreatableReplicaAssignment(partition_index=index, broker_ids=ids)
                for index, ids in brokers
            ],
        )
        return create(client, wanted, validate_only=True)[0].error_code

    assert assigned((0, [0]), (1, [0])) == 0
    assert assigned((0, [0]), partitions=1) == ErrorCode.INVALID_REQUEST
    for wrong in [((1, [0]),), ((0, [1]),), ((0, []),), ((0, [0, 0]),), ((0, [0]), (0, [0]))]:
        assert assigned(*wrong) == ErrorCode.INVALID_REPLICA_ASSIGNMENT


def test_validation_only_makes_nothing(client: WireClient) -> None:
    assert create(client, topic("dry"), validate_only=True)[0].error_code == 0
    assert create(client, topic("dry", 0), validate_only=True)[0].error_code != 0
    assert partition_count(client, "dry") == 0


def test_a_name_that_stands_twice_is_refused_and_the_others_are_made(client: WireClient) -> None:
    results = create(client, topic("twice"), topic("once"), topic("twice"))
    codes = {result.name: result.error_code for result in results}
    assert codes == {"twice": ErrorCode.INVALID_REQUEST, "once": 0}
    delete(client, "once")


def test_of_concurrent_creations_of_one_name_exactly_one_wins(broker: BrokerProcess) -> None:
    codes: list[int] = []

    def run() -> None:
        with WireClient(broker.kafka_port) as own:
            codes.append(create(own, topic("raced", 2))[0].error_code)

    threads = [threading.Thread(target=run) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(codes) == [0] + [ErrorCode.TOPIC_ALREADY_EXISTS] * 7
    with WireClient(broker.kafka_port) as own:
        delete(own, "raced")


def test_no_time_means_timed_out_and_it_is_made_all_the_same(client: WireClient) -> None:
    (result,) = create(client, topic("late"), timeout_ms=0)
    assert result.error_code == ErrorCode.REQUEST_TIMED_OUT
    assert create(client, topic("late"))[0].error_code == ErrorCode.TOPIC_ALREADY_EXISTS
    delete(client, "late")


def test_a_recreated_topic_has_another_id_and_none_of_the_old_records(client: WireClient) -> None:
    first = client.create_topic("again")
    assert client.produce("again", [(b"k", b"v")]).base_offset == 0
    (gone,) = delete(client, "again")
    assert (gone.name, bytes(gone.topic_id)) == ("again", first)
    second = client.create_topic("again")
    assert second != first
    assert client.produce("again", [(b"k", b"v")]).base_offset == 0
    assert delete(client, first)[0].error_code == ErrorCode.UNKNOWN_TOPIC_ID
    assert delete(client, second)[0].error_code == 0


def test_what_cannot_be_deleted(client: WireClient) -> None:
    assert delete(client, "nobody")[0].error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert delete(client, b"\x01" * 16)[0].error_code == ErrorCode.UNKNOWN_TOPIC_ID
    client.create_topic("doubled")
    (both,) = delete(client, "doubled", "doubled")
    assert both.error_code == ErrorCode.INVALID_REQUEST
    request = DeleteTopicsRequest(topic_names=["doubled", "nobody"], timeout_ms=10_000)
    old = client.call(api.DELETE_TOPICS, 5, request).responses
    assert [(item.name, item.error_code) for item in old] == [("doubled", 0), ("nobody", 3)]
    neither = DeleteTopicsRequest(topics=[DeleteTopicState()], timeout_ms=10_000)
    (result,) = client.call(api.DELETE_TOPICS, 6, neither).responses
    assert result.error_code == ErrorCode.INVALID_REQUEST


def test_a_topic_grows_and_never_shrinks(client: WireClient) -> None:
    client.create_topic("growing", 2)
    assert grow(client, "growing", 4, dry=True).error_code == 0
    assert partition_count(client, "growing") == 2
    assert grow(client, "growing", 4).error_code == 0
    assert partition_count(client, "growing") == 4
    assert client.produce("growing", [(b"k", b"v")], partition=3).error_code == 0
    for wrong in (4, 3, 0, -1, PARTITIONS_MAX + 1):
        assert grow(client, "growing", wrong).error_code == ErrorCode.INVALID_PARTITIONS
    assert grow(client, "growing", 6, [[0], [0]]).error_code == 0
    assert grow(client, "growing", 7, [[0], [0]]).error_code == ErrorCode.INVALID_REPLICA_ASSIGNMENT
    assert grow(client, "growing", 7, [[5]]).error_code == ErrorCode.INVALID_REPLICA_ASSIGNMENT
    assert grow(client, "nobody", 7).error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    delete(client, "growing")


def test_topics_survive_a_kill_and_what_nobody_knows_is_moved_away(tmp_path: Path) -> None:
    with BrokerProcess(tmp_path) as broker:
        with WireClient(broker.kafka_port) as client:
            kept = client.create_topic("kept", 3, retention_ms="12345")
            client.produce("kept", [(b"k", b"v")], partition=2)
            epoch = _leader_epochs(client, "kept")[2]
        broker.kill()
        topics = broker.data / "topics"
        (topics / "orphan" / "partition-00").mkdir(parents=True)
        broker.start()
        with WireClient(broker.kafka_port) as client:
            request = MetadataRequest(topics=None)
            (found,) = client.call(api.METADATA, 12, request).topics
            assert (found.name, bytes(found.topic_id)) == ("kept", kept)
            assert _leader_epochs(client, "kept")[2] > epoch, "a new incarnation, a new epoch"
            assert client.produce("kept", [(b"k", b"v")], partition=2).base_offset == 1
        assert not (topics / "orphan").exists()


def _leader_epochs(client: WireClient, name: str) -> dict[int, int]:
    request = MetadataRequest(topics=[MetadataRequestTopic(name=name)])
    partitions = client.call(api.METADATA, 12, request).topics[0].partitions
    return {item.partition_index: item.leader_epoch for item in partitions}


def test_a_topic_that_others_delete_at_the_same_time_is_unknown_by_its_name(
    broker: BrokerProcess, client: WireClient
) -> None:
    ready = threading.Barrier(6)
    codes: list[int] = []

    def race(name: str) -> None:
        with WireClient(broker.kafka_port) as own:
            ready.wait(30)
            codes.append(delete(own, name)[0].error_code)

    for name in ("contested-0", "contested-1", "contested-2"):
        client.create_topic(name)
        codes.clear()
        threads = [threading.Thread(target=race, args=(name,)) for _ in range(6)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert sorted(codes) == [0] + [ErrorCode.UNKNOWN_TOPIC_OR_PARTITION] * 5
