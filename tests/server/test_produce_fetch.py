"""What produce and fetch promise, against a real process, request by request."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from broker.errors import ErrorCode
from broker.records.batch import read_header
from broker.records.iterate import iterate_records
from broker.wire import api
from broker.wire.messages.delete_topics import DeleteTopicsRequest, DeleteTopicState
from broker.wire.messages.fetch import (
    FetchPartition,
    FetchRequest,
    FetchTopic,
    ForgottenTopic,
    ReplicaState,
)
from broker.wire.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from tests.support.broker_process import BrokerProcess
from tests.support.wire_client import WireClient, batch_of, fetch_request

RECORDS: list[tuple[bytes | None, bytes | None]] = [(b"k", b"1"), (b"k", b"2")]
SIZE_MAX = 64 << 20


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrokerProcess]:
    with BrokerProcess(tmp_path_factory.mktemp("requests")) as process:
        yield process


@pytest.fixture
def client(broker: BrokerProcess) -> Iterator[WireClient]:
    with WireClient(broker.kafka_port) as connected:
        yield connected


@pytest.fixture
def topic(client: WireClient, request: pytest.FixtureRequest) -> str:
    name = f"t{abs(hash(request.node.nodeid))}"
    client.create_topic(name, 3)
    return name


def values(records: object) -> list[bytes | None]:
    """The values of all batches."""
    data = memoryview(bytes(records))  # type: ignore[call-overload]
    found: list[bytes | None] = []
    while data:
        size = read_header(data).batch_length + 12
        batch = data[:size]
        found += [record.value for record in iterate_records(batch, size_max=SIZE_MAX)]
        data = data[size:]
    return found


# produce


@pytest.mark.parametrize("version", range(3, 12))
@pytest.mark.parametrize("acks", [1, -1])
def test_every_version_appends_and_answers(
    client: WireClient, topic: str, version: int, acks: int
) -> None:
    for base_offset in (0, 2, 4):
        answer = client.produce(topic, RECORDS, version=version, acks=acks)
        assert (answer.error_code, answer.base_offset) == (0, base_offset)
    assert client.fetch(topic, 0).high_watermark == 6


def test_one_bad_batch_of_a_request_does_not_touch_the_others(
    client: WireClient, topic: str
) -> None:
    bad = batch_of(RECORDS)
    bad[-1] ^= 1
    data = [
        PartitionProduceData(index=0, records=batch_of(RECORDS)),
        PartitionProduceData(index=1, records=bad),
        PartitionProduceData(index=7, records=batch_of(RECORDS)),
        PartitionProduceData(index=2, records=batch_of(RECORDS)),
    ]
    topics = [
        TopicProduceData(name=topic, partition_data=data),
        TopicProduceData(name="missing", partition_data=data[:1]),
    ]
    request = ProduceRequest(acks=-1, timeout_ms=1000, topic_data=topics)
    first, second = client.call(api.PRODUCE, 9, request).responses
    codes = [answer.error_code for answer in first.partition_responses]
    assert codes == [0, ErrorCode.CORRUPT_MESSAGE, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, 0]
    assert first.partition_responses[1].error_message
    assert second.partition_responses[0].error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert [client.fetch(topic, 0, partition=index).high_watermark for index in range(3)] == [
        2,
        0,
        2,
    ]


def test_an_internal_topic_takes_no_records_from_clients(client: WireClient) -> None:
    from broker.wire.messages.find_coordinator import FindCoordinatorRequest

    client.call(api.FIND_COORDINATOR, 4, FindCoordinatorRequest(coordinator_keys=["g"]))
    answer = client.produce("__consumer_offsets", RECORDS)
    assert answer.error_code == ErrorCode.INVALID_TOPIC_EXCEPTION


def test_a_transactional_id_gets_the_documented_refusal(client: WireClient, topic: str) -> None:
    data = PartitionProduceData(index=0, records=batch_of(RECORDS))
    request = ProduceRequest(
        transactional_id="mine",
        acks=-1,
        timeout_ms=1000,
        topic_data=[TopicProduceData(name=topic, partition_data=[data])],
    )
    answer = client.call(api.PRODUCE, 9, request).responses[0].partition_responses[0]
    assert answer.error_code == ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED
    assert "transactional.id" in answer.error_message


def test_more_min_insync_replicas_than_there_are_refuse_acks_all_before_the_append(
    client: WireClient,
) -> None:
    client.create_topic("two-replicas", min_insync_replicas="2")
    refused = client.produce("two-replicas", RECORDS)
    assert refused.error_code == ErrorCode.NOT_ENOUGH_REPLICAS
    assert client.produce("two-replicas", RECORDS, acks=1).base_offset == 0


def test_log_append_time_is_told_and_stored(client: WireClient) -> None:
    client.create_topic("by-broker", message_timestamp_type="LogAppendTime")
    answer = client.produce("by-broker", RECORDS)
    now_ms = time.time() * 1000
    assert abs(answer.log_append_time_ms - now_ms) < 60_000
    header = read_header(memoryview(bytes(client.fetch("by-broker", 0).records)))
    assert header.max_timestamp == answer.log_append_time_ms


@pytest.mark.parametrize("retried", range(5))
def test_a_retry_of_any_of_the_last_five_batches_gets_its_first_offset(
    client: WireClient, topic: str, retried: int
) -> None:
    def batch(sequence: int) -> bytearray:
        return batch_of(RECORDS, producer_id=77, producer_epoch=0, base_sequence=sequence)

    offsets = [client.produce(topic, batch(2 * number)).base_offset for number in range(5)]
    again = client.produce(topic, batch(2 * retried))
    assert (again.error_code, again.base_offset) == (0, offsets[retried])
    assert client.fetch(topic, 0).high_watermark == 10
    gap = client.produce(topic, batch(14))
    assert gap.error_code == ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER


def test_a_retry_pipelined_with_its_original_is_stored_once(client: WireClient, topic: str) -> None:
    batch = batch_of(RECORDS, producer_id=78, producer_epoch=0, base_sequence=0)
    client.send_batch(topic, bytearray(batch))
    client.send_batch(topic, bytearray(batch))
    answers = [client.receive().responses[0].partition_responses[0] for _ in range(2)]
    assert [(answer.error_code, answer.base_offset) for answer in answers] == [(0, 0), (0, 0)]
    assert client.fetch(topic, 0).high_watermark == 2


# fetch


@pytest.mark.parametrize("version", range(4, 13))
def test_every_version_by_name_reads(client: WireClient, topic: str, version: int) -> None:
    client.produce(topic, RECORDS)
    found = client.fetch(topic, 0, version=version)
    assert (found.error_code, found.high_watermark, values(found.records)) == (0, 2, [b"1", b"2"])


@pytest.mark.parametrize("version", range(13, 18))
def test_every_version_by_id_reads(client: WireClient, version: int) -> None:
    topic_id = client.create_topic(f"by-id-{version}")
    client.produce(f"by-id-{version}", RECORDS)
    (answer,) = client.call(api.FETCH, version, by_id(topic_id)).responses
    assert answer.topic_id == topic_id
    assert values(answer.partitions[0].records) == [b"1", b"2"]


def test_an_id_that_is_gone_is_unknown(client: WireClient) -> None:
    (answer,) = client.call(api.FETCH, 13, by_id(bytes(range(16)))).responses
    assert answer.partitions[0].error_code == ErrorCode.UNKNOWN_TOPIC_ID


def by_id(topic_id: bytes) -> FetchRequest:
    wanted = FetchPartition(partition=0, fetch_offset=0, partition_max_bytes=1 << 20)
    return FetchRequest(
        max_wait_ms=0, min_bytes=1, topics=[FetchTopic(topic_id=topic_id, partitions=[wanted])]
    )


def test_the_first_batch_comes_whatever_the_limits(client: WireClient, topic: str) -> None:
    client.produce(topic, [(b"k", b"x" * 10_000)])
    client.produce(topic, [(b"k", b"y" * 10_000)])
    for limits in ({"partition_max_bytes": 1}, {"max_bytes": 1}, {"partition_max_bytes": 15_000}):
        assert values(client.fetch(topic, 0, **limits).records) == [b"x" * 10_000]


def test_a_fetch_inside_a_batch_gets_the_batch_that_contains_it(
    client: WireClient, topic: str
) -> None:
    client.produce(topic, RECORDS)
    assert values(client.fetch(topic, 1).records) == [b"1", b"2"]


@pytest.mark.parametrize("offset", [-1, 3, 2**62])
def test_an_offset_outside_the_log_is_out_of_range(
    client: WireClient, topic: str, offset: int
) -> None:
    client.produce(topic, RECORDS)
    found = client.fetch(topic, offset)
    assert (found.error_code, found.high_watermark) == (ErrorCode.OFFSET_OUT_OF_RANGE, -1)


def test_a_parked_fetch_wakes_when_a_record_arrives(
    broker: BrokerProcess, client: WireClient, topic: str
) -> None:
    with WireClient(broker.kafka_port) as waiting:
        waiting.send_fetch(topic, 0, max_wait_ms=5000)
        time.sleep(0.1)
        began = time.monotonic()
        client.produce(topic, RECORDS)
        answer = waiting.receive().responses[0].partitions[0]
        assert values(answer.records) == [b"1", b"2"]
        assert time.monotonic() - began < 1


def test_a_parked_fetch_waits_for_min_bytes_or_the_end_of_its_time(
    broker: BrokerProcess, client: WireClient, topic: str
) -> None:
    with WireClient(broker.kafka_port) as waiting:
        began = time.monotonic()
        waiting.send_fetch(topic, 0, max_wait_ms=400, min_bytes=100_000)
        time.sleep(0.1)
        client.produce(topic, RECORDS)
        answer = waiting.receive().responses[0].partitions[0]
        assert 0.35 < time.monotonic() - began < 2
        assert values(answer.records) == [b"1", b"2"], "at the end it gets what is there"
        waiting.send_fetch(topic, 2, max_wait_ms=5000, min_bytes=20_000)
        for _ in range(3):
            client.produce(topic, [(b"k", b"z" * 9_000)])
        answer = waiting.receive().responses[0].partitions[0]
        assert len(values(answer.records)) == 3


def test_a_parked_fetch_learns_that_its_topic_was_deleted(
    broker: BrokerProcess, client: WireClient, topic: str
) -> None:
    with WireClient(broker.kafka_port) as waiting:
        waiting.send_fetch(topic, 0, max_wait_ms=10_000)
        time.sleep(0.1)
        began = time.monotonic()
        state = DeleteTopicState(name=topic)
        client.call(api.DELETE_TOPICS, 6, DeleteTopicsRequest(topics=[state], timeout_ms=5000))
        answer = waiting.receive().responses[0].partitions[0]
        assert answer.error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        assert time.monotonic() - began < 2


def test_a_recreated_topic_starts_empty(client: WireClient, topic: str) -> None:
    client.produce(topic, RECORDS)
    state = DeleteTopicState(name=topic)
    client.call(api.DELETE_TOPICS, 6, DeleteTopicsRequest(topics=[state], timeout_ms=5000))
    client.create_topic(topic)
    found = client.fetch(topic, 0)
    assert (found.error_code, found.high_watermark, bytes(found.records)) == (0, 0, b"")


def test_a_client_may_not_pass_for_a_replica(client: WireClient, topic: str) -> None:
    client.produce(topic, RECORDS)
    for version, fields in ((12, {"replica_id": 2}), (4, {"replica_id": 0})):
        found = client.fetch(topic, 0, version=version, **fields)
        assert found.error_code == ErrorCode.CLUSTER_AUTHORIZATION_FAILED
    request = by_id(bytes(16))
    request.replica_state = ReplicaState(replica_id=2)
    (answer,) = client.call(api.FETCH, 15, request).responses
    assert answer.partitions[0].error_code == ErrorCode.CLUSTER_AUTHORIZATION_FAILED
    assert client.fetch(topic, 0).high_watermark == 2


# leader epochs


def leader_epoch(client: WireClient, topic: str) -> int:
    client.produce(topic, RECORDS)
    return read_header(memoryview(bytes(client.fetch(topic, 0).records))).partition_leader_epoch


def test_an_old_or_a_future_leader_epoch_is_refused(
    tmp_path: Path,
) -> None:
    with BrokerProcess(tmp_path) as broker:
        with WireClient(broker.kafka_port) as client:
            client.create_topic("t")
            first = leader_epoch(client, "t")
        broker.restart()
        with WireClient(broker.kafka_port) as client:
            client.produce("t", RECORDS)
            batches = bytes(client.fetch("t", 2).records)
            second = read_header(memoryview(batches)).partition_leader_epoch
            assert second > first, "a new incarnation raises the epoch"
            codes = [
                client.fetch("t", 0, leader_epoch=epoch).error_code
                for epoch in (first, second, second + 1)
            ]
            assert codes == [
                ErrorCode.FENCED_LEADER_EPOCH,
                ErrorCode.NONE,
                ErrorCode.UNKNOWN_LEADER_EPOCH,
            ]
            found = client.fetch("t", 4, last_fetched_epoch=first)
            assert found.diverging_epoch.epoch == first
            assert found.diverging_epoch.end_offset == 2


def test_the_second_fetch_of_a_session_still_checks_the_epoch(
    client: WireClient, topic: str
) -> None:
    client.produce(topic, RECORDS)
    first = client.call(
        api.FETCH, 12, fetch_request(topic, 2, session_epoch=0, leader_epoch=10_000)
    )
    assert first.responses[0].partitions[0].error_code == ErrorCode.UNKNOWN_LEADER_EPOCH
    second = client.call(
        api.FETCH, 12, FetchRequest(session_id=first.session_id, session_epoch=1, max_wait_ms=0)
    )
    assert second.responses[0].partitions[0].error_code == ErrorCode.UNKNOWN_LEADER_EPOCH


# sessions


def test_an_incremental_fetch_brings_only_news(client: WireClient, topic: str) -> None:
    wanted = [
        FetchPartition(partition=index, fetch_offset=0, partition_max_bytes=1 << 20)
        for index in range(3)
    ]
    full = FetchRequest(
        max_wait_ms=0,
        min_bytes=1,
        session_epoch=0,
        topics=[FetchTopic(topic=topic, partitions=wanted)],
    )
    first = client.call(api.FETCH, 12, full)
    assert first.session_id > 0
    assert len(first.responses[0].partitions) == 3

    def incremental(epoch: int, **fields: object) -> list[int]:
        request = FetchRequest(
            session_id=first.session_id, session_epoch=epoch, max_wait_ms=0, min_bytes=1, **fields
        )
        response = client.call(api.FETCH, 12, request)
        assert (response.error_code, response.session_id) == (0, first.session_id)
        return [
            answer.partition_index for topic in response.responses for answer in topic.partitions
        ]

    assert incremental(1) == []
    client.produce(topic, RECORDS, partition=1)
    assert incremental(2) == [1]
    assert incremental(3) == [1], "it was not read on"
    moved = FetchPartition(partition=1, fetch_offset=2, partition_max_bytes=1 << 20)
    assert incremental(4, topics=[FetchTopic(topic=topic, partitions=[moved])]) == []
    client.produce(topic, RECORDS, partition=2)
    forgotten = [ForgottenTopic(topic=topic, partitions=[2])]
    assert incremental(5, forgotten_topics_data=forgotten) == []


def test_a_fetch_of_many_partitions_brings_each_of_them_and_then_their_news(
    client: WireClient,
) -> None:
    """More than are read in one step of the loop, in a session with quiet ones between."""
    client.create_topic("many", 100)
    for index in range(100):
        assert client.produce("many", [(b"k", b"%d" % index)], partition=index).error_code == 0
    wanted = [
        FetchPartition(partition=index, fetch_offset=0, partition_max_bytes=1 << 20)
        for index in range(100)
    ]
    full = FetchRequest(
        max_wait_ms=0,
        min_bytes=1,
        session_epoch=0,
        topics=[FetchTopic(topic="many", partitions=wanted)],
    )
    first = client.call(api.FETCH, 12, full)
    assert [values(each.records) for each in first.responses[0].partitions] == [
        [b"%d" % index] for index in range(100)
    ]
    for each in wanted:
        each.fetch_offset = 1
    news = range(0, 100, 2)
    for index in news:
        client.produce("many", [(b"k", b"new %d" % index)], partition=index)
    second = FetchRequest(
        session_id=first.session_id,
        session_epoch=1,
        max_wait_ms=0,
        min_bytes=1,
        topics=[FetchTopic(topic="many", partitions=wanted)],
    )
    answers = client.call(api.FETCH, 12, second).responses[0].partitions
    assert {each.partition_index: values(each.records) for each in answers if each.records} == {
        index: [b"new %d" % index] for index in news
    }


@pytest.mark.parametrize(
    ("session_id", "epoch", "code"),
    [
        (4711, 1, ErrorCode.FETCH_SESSION_ID_NOT_FOUND),
        (None, 7, ErrorCode.INVALID_FETCH_SESSION_EPOCH),
    ],
)
def test_a_session_that_does_not_fit_is_refused(
    client: WireClient, topic: str, session_id: int | None, epoch: int, code: ErrorCode
) -> None:
    first = client.call(api.FETCH, 12, fetch_request(topic, 0, session_epoch=0))
    request = FetchRequest(session_id=session_id or first.session_id, session_epoch=epoch)
    assert client.call(api.FETCH, 12, request).error_code == code


def test_responses_leave_in_request_order_behind_a_parked_fetch(
    client: WireClient, topic: str
) -> None:
    client.send_fetch(topic, 0, max_wait_ms=300)
    client.send_batch(topic, RECORDS, partition=1)
    client.send_fetch(topic, 0, partition=1, max_wait_ms=10_000)
    began = time.monotonic()
    assert not bytes(client.receive().responses[0].partitions[0].records)
    assert time.monotonic() - began > 0.2
    assert client.receive().responses[0].partition_responses[0].error_code == 0
    assert values(client.receive().responses[0].partitions[0].records) == [b"1", b"2"]
