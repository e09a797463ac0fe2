"""DescribeTopicPartitions against a real broker: pages over topics and their partitions."""

from __future__ import annotations

import importlib
import warnings
from collections.abc import Iterator
from typing import Any

import pytest

from broker.errors import ErrorCode
from broker.wire import api
from broker.wire.messages.describe_topic_partitions import (
    Cursor,
    DescribeTopicPartitionsRequest,
    DescribeTopicPartitionsResponse,
    TopicRequest,
)
from broker.wire.messages.find_coordinator import FindCoordinatorRequest
from tests.support.broker_process import BrokerProcess
from tests.support.wire_client import WireClient

TOPICS = {"a": 3, "b": 2, "c": 1, "d": 700}
pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning:kafka")


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrokerProcess]:
    settings = {"offsets.topic.num.partitions": 4}
    with BrokerProcess(tmp_path_factory.mktemp("pages"), settings) as process:
        with WireClient(process.kafka_port) as client:
            for name, count in TOPICS.items():
                client.create_topic(name, count)
            client.call(api.FIND_COORDINATOR, 3, FindCoordinatorRequest(key="any"))
        yield process


@pytest.fixture
def client(broker: BrokerProcess) -> Iterator[WireClient]:
    with WireClient(broker.kafka_port, 60) as connection:  # 1,500 partitions take their time
        yield connection


def ask(
    client: WireClient, *names: str, limit: int = 2_000, cursor: tuple[str, int] | None = None
) -> DescribeTopicPartitionsResponse:
    request = DescribeTopicPartitionsRequest(
        topics=[TopicRequest(name=name) for name in names],
        response_partition_limit=limit,
        cursor=None if cursor is None else Cursor(topic_name=cursor[0], partition_index=cursor[1]),
    )
    response = client.call(api.DESCRIBE_TOPIC_PARTITIONS, 0, request)
    assert isinstance(response, DescribeTopicPartitionsResponse)
    return response


def shape(response: DescribeTopicPartitionsResponse) -> tuple[dict[str, list[int]], Any]:
    """(partitions by topic, where the next page begins)."""
    topics = {
        topic.name or "": [item.partition_index for item in topic.partitions]
        for topic in response.topics
    }
    cursor = response.next_cursor
    return topics, None if cursor is None else (cursor.topic_name, cursor.partition_index)


def test_a_topic_is_described_as_metadata_does(client: WireClient) -> None:
    response = ask(client, "a")
    (topic,) = response.topics
    assert (topic.error_code, topic.name, topic.is_internal) == (0, "a", False)
    assert topic.topic_id != bytes(16)
    assert topic.topic_authorized_operations > 0
    for item in topic.partitions:
        assert (item.error_code, item.leader_id) == (0, 0)
        assert item.leader_epoch >= 0
        assert (item.replica_nodes, item.isr_nodes, item.offline_replicas) == ([0], [0], [])
        lists = (item.eligible_leader_replicas, item.last_known_elr)
        assert lists == ([], []), "the Java client reads no null here, whatever the schema says"


@pytest.mark.parametrize(
    ("names", "limit", "cursor", "expected"),
    [
        (("b", "a", "b"), 2_000, None, ({"a": [0, 1, 2], "b": [0, 1]}, None)),
        (("b", "a"), 2, None, ({"a": [0, 1]}, ("a", 2))),
        (("b", "a"), 3, None, ({"a": [0, 1, 2]}, ("b", 0))),
        (("a", "b", "c"), 4, ("a", 1), ({"a": [1, 2], "b": [0, 1]}, ("c", 0))),
        (("a", "b", "c"), 3, ("b", 1), ({"b": [1], "c": [0]}, None)),
        (("a",), 0, None, ({"a": [0]}, ("a", 1))),
        (("a",), -5, ("a", 2), ({"a": [2]}, None)),
        (("a",), 5, ("a", 9), ({"a": []}, None)),
        ((), 2, ("b", 1), ({"b": [1], "c": [0]}, ("d", 0))),
        ((), 2, ("bb", 1), ({"c": [0], "d": [0]}, ("d", 1))),
        ((), 2, ("zzz", 0), ({}, None)),
    ],
)
def test_pages(
    client: WireClient,
    names: tuple[str, ...],
    limit: int,
    cursor: tuple[str, int] | None,
    expected: Any,
) -> None:
    assert shape(ask(client, *names, limit=limit, cursor=cursor)) == expected


@pytest.mark.parametrize("limit", [1, 7, 250, 2_000, 2**31 - 1])
def test_pages_put_together_are_everything_once(client: WireClient, limit: int) -> None:
    found: list[tuple[str, int]] = []
    cursor = ("__consumer_offsets", 0)
    page_count = 0
    while True:
        if limit == 1 and page_count > 20:
            break
        response = ask(client, limit=limit, cursor=cursor)
        topics, following = shape(response)
        found += [(name, index) for name, indexes in topics.items() for index in indexes]
        page_count += 1
        if following is None:
            break
        cursor = following
    everything = [
        (name, index)
        for name, count in {"__consumer_offsets": 4, **TOPICS}.items()
        for index in range(count)
    ]
    assert found == everything[: len(found)]
    assert len(found) == len(everything) or limit == 1
    assert [topic.is_internal for topic in ask(client, limit=1).topics] == [True]


def test_what_does_not_exist_has_its_error_among_the_others(client: WireClient) -> None:
    response = ask(client, "c", "nobody", "a b", "")
    assert {topic.name: topic.error_code for topic in response.topics} == {
        "": ErrorCode.INVALID_TOPIC_EXCEPTION,
        "a b": ErrorCode.INVALID_TOPIC_EXCEPTION,
        "c": 0,
        "nobody": ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
    }


@pytest.mark.parametrize("cursor", [("a", -1), ("nobody", 0)])
def test_a_cursor_that_no_page_gave_is_refused(client: WireClient, cursor: tuple[str, int]) -> None:
    response = ask(client, "a", "b", cursor=cursor)
    codes = [topic.error_code for topic in response.topics]
    assert codes == [ErrorCode.INVALID_REQUEST] * 2


def test_a_page_never_has_more_than_2000_partitions(client: WireClient) -> None:
    client.create_topic("huge", 1_500)
    topics, following = shape(ask(client, "d", "huge", limit=2**31 - 1))
    assert sum(len(indexes) for indexes in topics.values()) == 2_000
    assert following == ("huge", 1_300)


def test_kafka_python_describes_topic_partitions(broker: BrokerProcess) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        kafka: Any = importlib.import_module("kafka")
    admin = kafka.KafkaAdminClient(bootstrap_servers=broker.bootstrap)
    try:
        found = str(admin.describe_topic_partitions(["a", "b"]))
    finally:
        admin.close()
    assert "'a'" in found
