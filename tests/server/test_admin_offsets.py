"""ListOffsets against a real broker, compared with a search through everything that was written."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from broker.errors import ErrorCode
from broker.records.build import NewRecord, build_batch
from broker.wire import api
from broker.wire.messages.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsPartitionResponse,
    ListOffsetsRequest,
    ListOffsetsTopic,
)
from tests.support.broker_process import BrokerProcess
from tests.support.wire_client import WireClient

VERSIONS = range(1, 12)
LATEST, EARLIEST, MAX_TIMESTAMP, LOCAL, TIERED, PENDING = -1, -2, -3, -4, -5, -6
STAMPS = [
    [5_000, 3_000, 9_000],
    [4_000],
    [9_000, 9_000, 1_000, 12_000],
    [2_000, 11_000],
]
"""Timestamps by batch: out of order within batches and between them, with repetitions."""


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrokerProcess]:
    with BrokerProcess(tmp_path_factory.mktemp("offsets")) as process:
        with WireClient(process.kafka_port) as client:
            client.create_topic("plain", 2)
            client.create_topic("packed", 2)
            for stamps in STAMPS:
                client.produce("plain", batch(stamps, "none"))
                client.produce("packed", batch(stamps, "gzip"))
        yield process


@pytest.fixture
def client(broker: BrokerProcess) -> Iterator[WireClient]:
    with WireClient(broker.kafka_port) as connection:
        yield connection


def batch(stamps: list[int], compression: str) -> bytearray:
    records = [NewRecord(key=b"k", value=b"v" * 50, timestamp_ms=stamp) for stamp in stamps]
    return build_batch(records, timestamp_ms=stamps[0], compression=compression)


def ask(
    client: WireClient,
    topic: str,
    timestamp: int,
    *,
    version: int = 11,
    partition: int = 0,
    epoch: int = -1,
    isolation_level: int = 0,
) -> ListOffsetsPartitionResponse:
    question = ListOffsetsPartition(
        partition_index=partition, timestamp=timestamp, current_leader_epoch=epoch
    )
    request = ListOffsetsRequest(
        replica_id=-1,
        isolation_level=isolation_level,
        topics=[ListOffsetsTopic(name=topic, partitions=[question])],
    )
    answer: ListOffsetsPartitionResponse = (
        client.call(api.LIST_OFFSETS, version, request).topics[0].partitions[0]
    )
    return answer


@pytest.mark.parametrize("topic", ["plain", "packed"])
@pytest.mark.parametrize("version", VERSIONS)
def test_by_time_is_the_first_record_of_that_time_or_a_later_one(
    client: WireClient, topic: str, version: int
) -> None:
    written = [stamp for stamps in STAMPS for stamp in stamps]
    for wanted in {0, *written, *(stamp + 1 for stamp in written), 2**62}:
        found = ask(client, topic, wanted, version=version)
        expected = next(
            ((stamp, offset) for offset, stamp in enumerate(written) if stamp >= wanted), (-1, -1)
        )
        assert (found.error_code, found.timestamp, found.offset) == (0, *expected)
        if version >= 4 and found.offset >= 0:
            assert found.leader_epoch >= 0


@pytest.mark.parametrize("isolation_level", [0, 1])
def test_named_places(client: WireClient, isolation_level: int) -> None:
    def find(timestamp: int, topic: str = "plain", partition: int = 0) -> tuple[int, int, int]:
        found = ask(client, topic, timestamp, partition=partition, isolation_level=isolation_level)
        return found.error_code, found.timestamp, found.offset

    assert find(LATEST) == (0, -1, 10)
    assert find(EARLIEST) == (0, -1, 0)
    assert find(LOCAL) == (0, -1, 0)
    assert find(TIERED) == find(PENDING) == (0, -1, -1)
    assert find(MAX_TIMESTAMP) == (0, 12_000, 7)
    assert find(LATEST, partition=1) == (0, -1, 0)
    assert find(MAX_TIMESTAMP, partition=1) == (0, -1, -1)
    assert find(0, partition=1) == (0, -1, -1)


@pytest.mark.parametrize(
    ("timestamp", "first_version"), [(MAX_TIMESTAMP, 7), (LOCAL, 8), (TIERED, 9), (PENDING, 11)]
)
def test_a_place_has_a_meaning_from_its_version_on(
    client: WireClient, timestamp: int, first_version: int
) -> None:
    for version in VERSIONS:
        expected = 0 if version >= first_version else ErrorCode.UNSUPPORTED_VERSION
        assert ask(client, "plain", timestamp, version=version).error_code == expected
    for unknown in (-7, -(2**63)):
        found = ask(client, "plain", unknown)
        assert (found.error_code, found.offset) == (ErrorCode.UNSUPPORTED_VERSION, -1)


def test_leader_epochs_are_checked(client: WireClient) -> None:
    present = ask(client, "plain", LATEST).leader_epoch
    assert ask(client, "plain", LATEST, epoch=present).error_code == 0
    stale = ask(client, "plain", LATEST, epoch=present - 1)
    expected = ErrorCode.FENCED_LEADER_EPOCH if present > 0 else ErrorCode.NONE
    assert stale.error_code == expected
    unknown = ask(client, "plain", LATEST, epoch=present + 1)
    assert unknown.error_code == ErrorCode.UNKNOWN_LEADER_EPOCH


def test_unknown_partitions_and_repeated_questions(client: WireClient) -> None:
    unknown = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert ask(client, "nobody", LATEST).error_code == unknown
    assert ask(client, "plain", LATEST, partition=2).error_code == unknown
    assert ask(client, "plain", LATEST, partition=-1).error_code == unknown
    question = ListOffsetsPartition(partition_index=0, timestamp=LATEST)
    other = ListOffsetsPartition(partition_index=1, timestamp=LATEST)
    topics = [ListOffsetsTopic(name="plain", partitions=[question, other, question])]
    request = ListOffsetsRequest(replica_id=-1, topics=topics)
    answers = client.call(api.LIST_OFFSETS, 5, request).topics[0].partitions
    twice = ErrorCode.INVALID_REQUEST
    assert [answer.error_code for answer in answers] == [twice, 0, twice]
    empty = ListOffsetsRequest(replica_id=-1, topics=[])
    assert client.call(api.LIST_OFFSETS, 5, empty).topics == []
