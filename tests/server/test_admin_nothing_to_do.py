"""APIs whose answer on one node is short: elections, reassignments, what has settings, SASL."""

from __future__ import annotations

import importlib
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from broker.errors import ErrorCode
from broker.wire import api
from broker.wire.messages.elect_leaders import ElectLeadersRequest, TopicPartitions
from broker.wire.messages.list_config_resources import ListConfigResourcesRequest
from broker.wire.messages.list_partition_reassignments import (
    ListPartitionReassignmentsRequest,
    ListPartitionReassignmentsTopics,
)
from broker.wire.messages.metadata import MetadataRequest
from broker.wire.messages.sasl_handshake import SaslHandshakeRequest
from tests.support.broker_process import BrokerProcess
from tests.support.wire_client import WireClient

NOT_NEEDED = ErrorCode.ELECTION_NOT_NEEDED
UNKNOWN = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning:kafka")


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrokerProcess]:
    with BrokerProcess(tmp_path_factory.mktemp("nothing")) as process:
        with WireClient(process.kafka_port) as client:
            client.create_topic("orders", 2)
            client.create_topic("payments")
        yield process


@pytest.fixture
def client(broker: BrokerProcess) -> Iterator[WireClient]:
    with WireClient(broker.kafka_port) as connection:
        yield connection


def elect(
    client: WireClient, wanted: dict[str, list[int]] | None, *, kind: int = 0, version: int = 2
) -> dict[tuple[str, int], int]:
    asked = None
    if wanted is not None:
        asked = [TopicPartitions(topic=name, partitions=wanted[name]) for name in wanted]
    request = ElectLeadersRequest(election_type=kind, topic_partitions=asked)
    response = client.call(api.ELECT_LEADERS, version, request)
    assert response.error_code == 0
    found = [(result.topic, item) for result in response.replica_election_results
             for item in result.partition_result]  # fmt: skip
    assert all(item.error_message for _, item in found)
    return {(topic, item.partition_id): item.error_code for topic, item in found}


@pytest.mark.parametrize(("version", "kind"), [(0, 0), (1, 0), (1, 1), (2, 0), (2, 1)])
def test_no_election_is_needed_where_the_only_replica_leads(
    client: WireClient, version: int, kind: int
) -> None:
    wanted = {"orders": [0, 1, 2, -1], "nobody": [0]}
    assert elect(client, wanted, kind=kind, version=version) == {
        ("orders", 0): NOT_NEEDED,
        ("orders", 1): NOT_NEEDED,
        ("orders", 2): UNKNOWN,
        ("orders", -1): UNKNOWN,
        ("nobody", 0): UNKNOWN,
    }
    assert elect(client, {}, kind=kind, version=version) == {}
    assert elect(client, None, kind=kind, version=version) == {}, "all are led as wanted"


def test_an_unknown_kind_of_election_is_refused(client: WireClient) -> None:
    for wanted in (None, [TopicPartitions(topic="orders", partitions=[0])]):
        request = ElectLeadersRequest(election_type=5, topic_partitions=wanted)
        response = client.call(api.ELECT_LEADERS, 2, request)
        assert response.error_code == ErrorCode.INVALID_REQUEST


def test_an_offline_partition_has_nobody_to_elect(tmp_path: Path) -> None:
    with BrokerProcess(tmp_path) as process:
        with WireClient(process.kafka_port) as client:
            client.create_topic("orders", 2)
        process.terminate()
        damaged = process.data / "topics" / "orders" / "partition-01" / "partition.json"
        damaged.write_bytes(b"not what was written")
        process.start()
        with WireClient(process.kafka_port) as client:
            for kind, code in (
                (0, ErrorCode.PREFERRED_LEADER_NOT_AVAILABLE),
                (1, ErrorCode.ELIGIBLE_LEADERS_NOT_AVAILABLE),
            ):
                assert elect(client, None, kind=kind) == {("orders", 1): code}
                everyone = elect(client, {"orders": [0, 1]}, kind=kind)
                assert everyone == {("orders", 0): NOT_NEEDED, ("orders", 1): code}


def test_no_partition_is_ever_on_its_way(client: WireClient) -> None:
    asked = ListPartitionReassignmentsTopics(name="orders", partition_indexes=[0, 9])
    nobody = ListPartitionReassignmentsTopics(name="nobody", partition_indexes=[0])
    for topics in (None, [], [asked, nobody]):
        request = ListPartitionReassignmentsRequest(topics=topics)
        response = client.call(api.LIST_PARTITION_REASSIGNMENTS, 0, request)
        assert (response.error_code, response.error_message, response.topics) == (0, None, [])


@pytest.mark.parametrize(
    ("version", "types", "expected"),
    [
        (1, [], [("orders", 2), ("payments", 2), ("0", 4)]),
        (1, [2], [("orders", 2), ("payments", 2)]),
        (1, [4, 4], [("0", 4)]),
        (1, [8, 16, 32], []),
        (0, [], []),
    ],
)
def test_what_has_settings(
    client: WireClient, version: int, types: list[int], expected: list[tuple[str, int]]
) -> None:
    request = ListConfigResourcesRequest(resource_types=types)
    response = client.call(api.LIST_CONFIG_RESOURCES, version, request)
    found = [(item.resource_name, item.resource_type) for item in response.config_resources]
    assert (response.error_code, found) == (0, expected)


@pytest.mark.parametrize("types", [[0], [99], [2, 3]])
def test_an_unknown_type_of_resource_is_refused(client: WireClient, types: list[int]) -> None:
    request = ListConfigResourcesRequest(resource_types=types)
    response = client.call(api.LIST_CONFIG_RESOURCES, 1, request)
    assert response.error_code == ErrorCode.UNSUPPORTED_VERSION
    assert response.config_resources == []


@pytest.mark.parametrize("version", [0, 1])
def test_a_client_that_wants_to_authenticate_is_told_that_nobody_does(
    client: WireClient, version: int
) -> None:
    for mechanism in ("PLAIN", "SCRAM-SHA-512", ""):
        request = SaslHandshakeRequest(mechanism=mechanism)
        response = client.call(api.SASL_HANDSHAKE, version, request)
        assert (response.error_code, response.mechanisms) == (ErrorCode.ILLEGAL_SASL_STATE, [])
    assert client.call(api.METADATA, 9, MetadataRequest(topics=[])).topics == []


def test_kafka_python_hears_that_there_is_nothing_to_do(broker: BrokerProcess) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        kafka: Any = importlib.import_module("kafka")
    admin = kafka.KafkaAdminClient(bootstrap_servers=broker.bootstrap)
    try:
        assert not admin.list_partition_reassignments()
        assert "orders" in str(admin.list_config_resources())
        elected = str(
            admin.elect_leaders(0, [kafka.TopicPartition("orders", 0)], raise_errors=False)
        )
    finally:
        admin.close()
    assert "orders" in elected
