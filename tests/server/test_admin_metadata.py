"""Metadata, ApiVersions and DescribeCluster against a real broker."""

from __future__ import annotations

import struct
from collections.abc import Iterator

import pytest

from broker.errors import ErrorCode
from broker.server.authorized import CLUSTER_OPERATIONS, TOPIC_OPERATIONS
from broker.server.metadata_answers import PARTITIONS_PER_STEP
from broker.wire import api
from broker.wire.messages.api_versions import ApiVersionsRequest
from broker.wire.messages.describe_cluster import DescribeClusterRequest
from broker.wire.messages.metadata import MetadataRequest, MetadataRequestTopic, MetadataResponse
from tests.support.broker_process import BrokerProcess
from tests.support.wire_client import WireClient

VERSIONS = range(14)
NOT_ASKED = -(2**31)


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrokerProcess]:
    settings = {"num.partitions": 2, "hermes.partitions.max": 1_000}
    with BrokerProcess(tmp_path_factory.mktemp("metadata"), settings) as process:
        with WireClient(process.kafka_port) as client:
            client.create_topic("one")
            client.create_topic("three", 3)
        yield process


@pytest.fixture
def client(broker: BrokerProcess) -> Iterator[WireClient]:
    with WireClient(broker.kafka_port) as connection:
        yield connection


def ask(
    client: WireClient, version: int, topics: list[str | bytes | None] | None, **fields: object
) -> MetadataResponse:
    wanted = None
    if topics is not None:
        wanted = [
            MetadataRequestTopic(topic_id=item, name=None)
            if isinstance(item, bytes)
            else MetadataRequestTopic(name=item)
            for item in topics
        ]
    if version >= 4:
        fields.setdefault("allow_auto_topic_creation", False)
    answer: MetadataResponse = client.call(
        api.METADATA, version, MetadataRequest(topics=wanted, **fields)
    )
    return answer


@pytest.mark.parametrize("version", VERSIONS)
def test_every_version_tells_the_broker_and_the_leaders(
    broker: BrokerProcess, client: WireClient, version: int
) -> None:
    answer = ask(client, version, ["three"])
    assert [(b.node_id, b.host, b.port) for b in answer.brokers] == [
        (0, "127.0.0.1", broker.kafka_port)
    ]
    (topic,) = answer.topics
    assert (topic.error_code, topic.name, topic.is_internal) == (0, "three", False)
    assert [p.partition_index for p in topic.partitions] == [0, 1, 2]
    assert all(
        (p.leader_id, p.replica_nodes, p.isr_nodes) == (0, [0], [0]) for p in topic.partitions
    )
    if version >= 1:
        assert answer.controller_id == 0
    if version >= 2:
        assert len(answer.cluster_id or "") == 22
    if version >= 7:
        assert all(partition.leader_epoch >= 0 for partition in topic.partitions)
    if version >= 8:
        assert topic.topic_authorized_operations == NOT_ASKED
    if version >= 10:
        assert topic.topic_id != bytes(16)


@pytest.mark.parametrize("version", VERSIONS)
def test_null_is_every_topic_and_nothing_is_none_but_in_version_0(
    client: WireClient, version: int
) -> None:
    if version == 0:
        assert [topic.name for topic in ask(client, 0, []).topics] == ["one", "three"]
    else:
        assert [topic.name for topic in ask(client, version, None).topics] == ["one", "three"]
        assert ask(client, version, []).topics == []


@pytest.mark.parametrize("version", [4, 9, 12, 13])
def test_unknown_names_and_ids(client: WireClient, version: int) -> None:
    (unknown,) = ask(client, version, ["nobody"]).topics
    assert (unknown.error_code, unknown.name) == (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, "nobody")
    (wrong,) = ask(client, version, ["no/body"]).topics
    assert (wrong.error_code, wrong.name) == (ErrorCode.INVALID_TOPIC_EXCEPTION, "no/body")
    if version >= 12:
        (by_id,) = ask(client, version, [b"\x07" * 16]).topics
        assert (by_id.error_code, by_id.name) == (ErrorCode.UNKNOWN_TOPIC_ID, None)


def test_by_id_and_names_asked_for_twice(client: WireClient) -> None:
    (named,) = ask(client, 12, ["one", "one"]).topics
    (found,) = ask(client, 12, [bytes(named.topic_id)]).topics
    assert (found.name, found.error_code) == ("one", 0)


def test_ids_before_version_12_are_refused(client: WireClient) -> None:
    (answer,) = ask(client, 10, [b"\x07" * 16]).topics
    assert answer.error_code == ErrorCode.INVALID_REQUEST


def test_operations_are_told_when_asked(client: WireClient) -> None:
    answer = ask(
        client,
        10,
        ["one"],
        include_cluster_authorized_operations=True,
        include_topic_authorized_operations=True,
    )
    assert answer.cluster_authorized_operations == CLUSTER_OPERATIONS
    assert answer.topics[0].topic_authorized_operations == TOPIC_OPERATIONS


def test_an_unknown_topic_is_made_when_the_client_allows_it(client: WireClient) -> None:
    asked: list[str | bytes | None] = ["born", "bad/name", "bo.rn", "bo_rn", "__consumer_offsets"]
    answer = ask(client, 9, asked, allow_auto_topic_creation=True)
    found = {topic.name: (topic.error_code, len(topic.partitions)) for topic in answer.topics}
    assert found == {
        "born": (0, 2),
        "bad/name": (ErrorCode.INVALID_TOPIC_EXCEPTION, 0),
        "bo.rn": (0, 2),
        "bo_rn": (ErrorCode.INVALID_TOPIC_EXCEPTION, 0),
        "__consumer_offsets": (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, 0),
    }


def test_answers_change_at_once_when_topics_do(client: WireClient) -> None:
    assert ask(client, 9, ["fresh"]).topics[0].error_code != 0
    client.create_topic("fresh")
    assert ask(client, 9, ["fresh"]).topics[0].error_code == 0


@pytest.mark.parametrize("version", [0, 5, 8, 9, 12, 13])
def test_answers_made_in_slices_are_as_whole_ones(client: WireClient, version: int) -> None:
    size = PARTITIONS_PER_STEP * 2 + 7
    if ask(client, 9, ["big"]).topics[0].error_code:
        client.create_topic("big", size)
    topics = ask(client, version, ["one", "big", "three"]).topics
    assert [(topic.name, len(topic.partitions)) for topic in topics] == [
        ("one", 1),
        ("big", size),
        ("three", 3),
    ]
    assert [item.partition_index for item in topics[1].partitions] == list(range(size))


def test_trailing_bytes_are_ignored(client: WireClient) -> None:
    """librdkafka 2.15 and 2.16 send three more bytes when they ask for all topics."""
    body = struct.pack(">hhih4s", api.METADATA, 9, 77, 4, b"test")
    body += b"\x00" + b"\x00" + b"\x01\x00\x00\x00" + b"\xff\xff\xff"
    client.send_raw(struct.pack(">i", len(body)) + body)
    assert struct.unpack(">i", client.receive_frame()[:4]) == (77,)


@pytest.mark.parametrize("version", range(5))
def test_api_versions_lists_each_api_once(client: WireClient, version: int) -> None:
    request = ApiVersionsRequest(client_software_name="test", client_software_version="1.0-x")
    answer = client.call(api.API_VERSIONS, version, request)
    assert answer.error_code == 0
    found = {item.api_key: (item.min_version, item.max_version) for item in answer.api_keys}
    assert len(found) == len(answer.api_keys)
    assert found[api.PRODUCE] == (0, 11)
    assert found[api.FETCH] == (4, 17)
    assert found[api.METADATA] == (0, 13)
    assert found[api.API_VERSIONS] == (0, 4)
    assert all(0 <= low <= high for low, high in found.values())
    assert answer.supported_features == []


@pytest.mark.parametrize(("name", "version"), [("", "1"), ("x y", "1"), ("x", "-1"), ("x", "1\n")])
def test_software_names_are_plain(client: WireClient, name: str, version: str) -> None:
    request = ApiVersionsRequest(client_software_name=name, client_software_version=version)
    answer = client.call(api.API_VERSIONS, 3, request)
    assert answer.error_code == ErrorCode.INVALID_REQUEST


@pytest.mark.parametrize("version", range(3))
def test_describe_cluster(broker: BrokerProcess, client: WireClient, version: int) -> None:
    answer = client.call(api.DESCRIBE_CLUSTER, version, DescribeClusterRequest())
    assert answer.error_code == 0
    assert (answer.controller_id, len(answer.cluster_id)) == (0, 22)
    assert [(b.broker_id, b.port) for b in answer.brokers] == [(0, broker.kafka_port)]
    assert answer.cluster_authorized_operations == NOT_ASKED
    asked = DescribeClusterRequest(include_cluster_authorized_operations=True)
    answer = client.call(api.DESCRIBE_CLUSTER, version, asked)
    assert answer.cluster_authorized_operations == CLUSTER_OPERATIONS


def test_controllers_are_not_described(client: WireClient) -> None:
    for endpoint, code in ((2, 114), (9, 115)):
        request = DescribeClusterRequest(endpoint_type=endpoint)
        assert client.call(api.DESCRIBE_CLUSTER, 1, request).error_code == code
