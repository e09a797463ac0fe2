"""DeleteRecords against a real broker: what is gone, what stays, and what a restart finds."""

from __future__ import annotations

import importlib
import time
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import TopicPartition
from confluent_kafka.admin import AdminClient

from broker.errors import ErrorCode
from broker.records.build import build_batch
from broker.records.iterate import iterate_batches, iterate_records
from broker.wire import api
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
from broker.wire.messages.find_coordinator import FindCoordinatorRequest
from broker.wire.messages.init_producer_id import InitProducerIdRequest
from broker.wire.messages.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsTopic,
)
from broker.wire.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from tests.server.group_world import Cluster, simulate
from tests.support.broker_process import BrokerProcess
from tests.support.wire_client import WireClient, batch_of

TO_THE_END = -1
NOTHING = -1
pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning:kafka")


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrokerProcess]:
    with BrokerProcess(tmp_path_factory.mktemp("delete-records")) as process:
        yield process


@pytest.fixture
def client(broker: BrokerProcess) -> Iterator[WireClient]:
    with WireClient(broker.kafka_port) as connection:
        yield connection


def fill(client: WireClient, topic: str, batch_count: int, **settings: str) -> None:
    """`batch_count` batches of 3 records, values "0", "1" and so on."""
    client.create_topic(topic, **settings)
    for start in range(0, 3 * batch_count, 3):
        records = [(b"k", b"%d" % number) for number in range(start, start + 3)]
        assert client.produce(topic, records).error_code == 0


def delete(
    client: WireClient,
    topic: str,
    offset: int,
    *,
    partition: int = 0,
    version: int = 2,
    timeout_ms: int = 10_000,
) -> tuple[int, int]:
    """(error code, low watermark)."""
    wanted = DeleteRecordsPartition(partition_index=partition, offset=offset)
    request = DeleteRecordsRequest(
        topics=[DeleteRecordsTopic(name=topic, partitions=[wanted])], timeout_ms=timeout_ms
    )
    answer = client.call(api.DELETE_RECORDS, version, request).topics[0].partitions[0]
    return answer.error_code, answer.low_watermark


def listed(client: WireClient, topic: str, timestamp: int) -> int:
    question = ListOffsetsPartition(partition_index=0, timestamp=timestamp)
    request = ListOffsetsRequest(
        replica_id=-1, topics=[ListOffsetsTopic(name=topic, partitions=[question])]
    )
    return int(client.call(api.LIST_OFFSETS, 10, request).topics[0].partitions[0].offset)


def read(client: WireClient, topic: str, offset: int) -> list[int]:
    """The values from `offset` to the end, as a consumer sees them."""
    data = client.fetch(topic, offset)
    assert data.error_code == 0
    return [
        int(record.value or b"")
        for batch in iterate_batches(data.records)
        for record in iterate_records(batch, size_max=1 << 20)
        if record.offset >= offset
    ]


@pytest.mark.parametrize("version", range(3))
def test_records_below_the_offset_are_gone_and_the_others_stay(
    client: WireClient, version: int
) -> None:
    topic = f"cut-{version}"
    fill(client, topic, 3)
    assert delete(client, topic, 4, version=version) == (0, 4)
    assert (listed(client, topic, -2), listed(client, topic, -1)) == (4, 9)
    assert listed(client, topic, 0) == 4, "the first record by time is one that is left"
    below = client.fetch(topic, 3)
    assert below.error_code == ErrorCode.OFFSET_OUT_OF_RANGE
    assert client.fetch(topic, 4).log_start_offset == 4
    assert read(client, topic, 4) == [4, 5, 6, 7, 8]


def test_minus_one_means_everything_and_writing_goes_on(client: WireClient) -> None:
    fill(client, "emptied", 3)
    assert delete(client, "emptied", TO_THE_END) == (0, 9)
    assert (listed(client, "emptied", -2), listed(client, "emptied", -1)) == (9, 9)
    assert read(client, "emptied", 9) == []
    assert client.produce("emptied", [(b"k", b"9")]).base_offset == 9
    assert read(client, "emptied", 9) == [9]


def test_an_offset_below_the_start_changes_nothing(client: WireClient) -> None:
    fill(client, "below", 3)
    assert delete(client, "below", 6) == (0, 6)
    assert delete(client, "below", 2) == (0, 6)
    assert delete(client, "below", 6, timeout_ms=0) == (0, 6), "no time-out for what takes none"
    assert read(client, "below", 6) == [6, 7, 8]


def test_what_cannot_be_deleted_is_refused(client: WireClient) -> None:
    fill(client, "kept", 2)
    fill(client, "compacted", 1, cleanup_policy="compact")
    fill(client, "both", 1, cleanup_policy="compact,delete")
    client.call(api.FIND_COORDINATOR, 3, FindCoordinatorRequest(key="any"))
    assert delete(client, "kept", 7) == (ErrorCode.OFFSET_OUT_OF_RANGE, NOTHING)
    assert delete(client, "kept", -2) == (ErrorCode.OFFSET_OUT_OF_RANGE, NOTHING)
    assert delete(client, "kept", 2**63 - 1) == (ErrorCode.OFFSET_OUT_OF_RANGE, NOTHING)
    assert delete(client, "kept", 1, partition=1)[0] == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert delete(client, "nobody", 1)[0] == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert delete(client, "compacted", 1) == (ErrorCode.POLICY_VIOLATION, NOTHING)
    assert delete(client, "both", 1) == (0, 1)
    internal = delete(client, "__consumer_offsets", 0)
    assert internal == (ErrorCode.INVALID_TOPIC_EXCEPTION, NOTHING)
    assert read(client, "kept", 0) == list(range(6))
    assert read(client, "compacted", 0) == list(range(3))


def test_every_partition_of_a_request_has_an_outcome_of_its_own(client: WireClient) -> None:
    client.create_topic("many", 40)
    for partition in range(0, 40, 2):
        client.produce("many", [(b"k", b"v")], partition=partition)
    wanted = [DeleteRecordsPartition(partition_index=index, offset=1) for index in range(41)]
    request = DeleteRecordsRequest(
        topics=[DeleteRecordsTopic(name="many", partitions=wanted)], timeout_ms=30_000
    )
    answers = client.call(api.DELETE_RECORDS, 2, request).topics[0].partitions
    found = {item.partition_index: (item.error_code, item.low_watermark) for item in answers}
    out_of_range = (ErrorCode.OFFSET_OUT_OF_RANGE, NOTHING)
    expected = {index: out_of_range if index % 2 else (0, 1) for index in range(40)}
    assert found == {**expected, 40: (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, NOTHING)}


@pytest.mark.parametrize("way", ["kill", "terminate"])
def test_the_new_start_and_the_producers_survive_a_restart(tmp_path: Path, way: str) -> None:
    """KAFKA-7190: a producer goes on after every record of it was deleted."""
    with BrokerProcess(tmp_path) as process:
        with WireClient(process.kafka_port) as client:
            client.create_topic("orders")
            identity = client.call(
                api.INIT_PRODUCER_ID, 4, InitProducerIdRequest(transactional_id=None)
            )
            assert identity.error_code == 0

            def send(sequence: int, connection: WireClient) -> tuple[int, int]:
                batch = build_batch(
                    [(b"k", b"%d" % sequence)],
                    timestamp_ms=1_700_000_000_000,
                    producer_id=identity.producer_id,
                    producer_epoch=identity.producer_epoch,
                    base_sequence=sequence,
                )
                answer = connection.produce("orders", batch)
                return answer.error_code, answer.base_offset

            assert [send(number, client) for number in range(5)] == [(0, n) for n in range(5)]
            assert delete(client, "orders", TO_THE_END) == (0, 5)
            assert send(5, client) == (0, 5)
            assert delete(client, "orders", TO_THE_END) == (0, 6)
        getattr(process, way)()
        process.start()
        with WireClient(process.kafka_port) as client:
            assert (listed(client, "orders", -2), listed(client, "orders", -1)) == (6, 6)
            assert send(5, client) == (0, 5), "a repetition of what was deleted is recognized"
            assert send(6, client) == (0, 6)
            gap = send(8, client)[0]
            assert gap == ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
            assert read(client, "orders", 6) == [6]


def test_whole_segments_below_the_start_leave_the_disk_at_once(
    broker: BrokerProcess, client: WireClient
) -> None:
    client.create_topic("rolled", segment_bytes="4096")
    directory = broker.data / "topics" / "rolled" / "partition-00"

    def segments() -> list[int]:
        return sorted(int(path.stem) for path in directory.glob("0*.log"))

    def has_rolled_thrice() -> bool:
        client.produce("rolled", [(b"k", b"v" * 1000)])
        return len(segments()) > 3

    wait_until(has_rolled_thrice)
    last = segments()[-1]
    assert delete(client, "rolled", last) == (0, last)
    wait_until(lambda: segments()[0] == last)


def test_on_a_full_disk_it_makes_the_room_that_it_needs() -> None:
    async def scenario(cluster: Cluster) -> None:
        wanted = CreatableTopic(
            name="full",
            num_partitions=1,
            replication_factor=1,
            configs=[CreatableTopicConfig(name="segment.bytes", value="2048")],
        )
        made = await cluster.ask(CreateTopicsRequest(topics=[wanted], timeout_ms=5_000), 7)
        assert made.topics[0].error_code == 0
        for _ in range(12):
            data = PartitionProduceData(index=0, records=bytes(batch_of([(b"k", b"v" * 500)])))
            topic = TopicProduceData(name="full", partition_data=[data])
            await cluster.ask(ProduceRequest(acks=-1, timeout_ms=5_000, topic_data=[topic]), 9)
        partition = cluster.broker.partitions.get("full", 0)
        assert partition is not None
        log = partition.log
        await cluster.until(lambda: len(log.segments) > 2)
        full_bytes = log.log_size()
        cluster.host.image.faults.is_full = True
        asked = DeleteRecordsPartition(partition_index=0, offset=12)
        request = DeleteRecordsRequest(
            topics=[DeleteRecordsTopic(name="full", partitions=[asked])], timeout_ms=5_000
        )
        refused = (await cluster.ask(request, 2)).topics[0].partitions[0]
        assert refused.error_code == ErrorCode.KAFKA_STORAGE_ERROR
        await cluster.until(lambda: log.log_size() < full_bytes)
        cluster.host.image.faults.is_full = False
        answer = (await cluster.ask(request, 2)).topics[0].partitions[0]
        assert (answer.error_code, answer.low_watermark) == (0, 12)

    simulate(scenario)


def test_librdkafka_deletes_records(broker: BrokerProcess, client: WireClient) -> None:
    fill(client, "librdkafka", 2)
    admin = AdminClient({"bootstrap.servers": broker.bootstrap})
    (future,) = admin.delete_records([TopicPartition("librdkafka", 0, 4)]).values()
    assert future.result(20).low_watermark == 4
    assert read(client, "librdkafka", 4) == [4, 5]


def test_kafka_python_deletes_records(broker: BrokerProcess, client: WireClient) -> None:
    fill(client, "pure", 2)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        kafka: Any = importlib.import_module("kafka")
    admin = kafka.KafkaAdminClient(bootstrap_servers=broker.bootstrap)
    try:
        admin.delete_records({kafka.TopicPartition("pure", 0): 5})
    finally:
        admin.close()
    assert read(client, "pure", 5) == [5]


def wait_until(condition: Any) -> None:
    deadline = time.monotonic() + 20
    while not condition():
        assert time.monotonic() < deadline, "it did not happen in time"
        time.sleep(0.02)


def test_what_is_asked_right_after_a_deletion_on_a_connection_sees_it(client: WireClient) -> None:
    """Not waiting for the first answer: Kafka handles a connection's requests one by one."""
    for attempt in range(10):
        topic = f"pipelined-{attempt}"
        fill(client, topic, 2)
        partition = DeleteRecordsPartition(partition_index=0, offset=4)
        place = ListOffsetsPartition(partition_index=0, timestamp=-2)
        client.send(
            api.DELETE_RECORDS,
            2,
            DeleteRecordsRequest(
                topics=[DeleteRecordsTopic(name=topic, partitions=[partition])], timeout_ms=10_000
            ),
        )
        client.send(
            api.LIST_OFFSETS,
            10,
            ListOffsetsRequest(
                replica_id=-1, topics=[ListOffsetsTopic(name=topic, partitions=[place])]
            ),
        )
        assert client.receive().topics[0].partitions[0].low_watermark == 4
        assert client.receive().topics[0].partitions[0].offset == 4
