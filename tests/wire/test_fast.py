"""The fast ways for Produce and Fetch say the same as the compiled codecs."""

from __future__ import annotations

from random import Random

import pytest

from broker.wire import api, frame
from broker.wire.fast_fetch import (
    FetchedPartition,
    encode_fetch_response_parts,
    fetch_partition_tags,
)
from broker.wire.fast_fetch_request import decode_fetch, decode_usual, parts_of
from broker.wire.fast_produce import (
    ProducedPartition,
    decode_produce,
    encode_produce_response,
    encode_produce_responses,
)
from broker.wire.messages.fetch import (
    EpochEndOffset,
    FetchableTopicResponse,
    FetchPartition,
    FetchRequest,
    FetchResponse,
    FetchTopic,
    LeaderIdAndEpoch,
    PartitionData,
)
from broker.wire.messages.produce import (
    PartitionProduceResponse,
    ProduceRequest,
    ProduceResponse,
    TopicProduceResponse,
)
from broker.wire.primitives import MalformedMessage
from broker.wire.schema import decoder, encoder
from tests.wire.samples import sample

PRODUCE_VERSIONS = range(3, 12)
FETCH_VERSIONS = range(4, 18)


@pytest.mark.parametrize("version", PRODUCE_VERSIONS)
def test_produce_request_reads_as_the_compiled_decoder_reads_it(version: int) -> None:
    random = Random(version)
    for _ in range(60):
        body = bytearray(b"head")
        encoder(ProduceRequest, version)(body, sample(ProduceRequest, version, random))
        view = memoryview(body + b"tail")
        expected, _ = decoder(ProduceRequest, version)(view, 4)
        parts = decode_produce(view, 4, version)
        assert parts.transactional_id == expected.transactional_id
        assert (parts.acks, parts.timeout_ms) == (expected.acks, expected.timeout_ms)
        assert parts.topics == [
            (
                topic.name,
                [(partition.index, partition.records) for partition in topic.partition_data],
            )
            for topic in expected.topic_data
        ]


@pytest.mark.parametrize("version", PRODUCE_VERSIONS)
def test_produce_request_cut_anywhere_is_malformed(version: int) -> None:
    random = Random(version)
    message = sample(ProduceRequest, version, random)
    while len(message.topic_data) < 2:
        message = sample(ProduceRequest, version, random)
    body = bytearray()
    encoder(ProduceRequest, version)(body, message)
    for end in range(len(body)):
        with pytest.raises(MalformedMessage):
            decode_produce(memoryview(body)[:end], 0, version)


def _produce_response(
    topic: str, answers: list[ProducedPartition], throttle_time_ms: int
) -> ProduceResponse:
    partitions = [
        PartitionProduceResponse(
            index=answer.partition,
            error_code=answer.error_code,
            base_offset=answer.base_offset,
            log_append_time_ms=answer.log_append_time_ms,
            log_start_offset=answer.log_start_offset,
        )
        for answer in answers
    ]
    return ProduceResponse(
        responses=[TopicProduceResponse(name=topic, partition_responses=partitions)],
        throttle_time_ms=throttle_time_ms,
    )


@pytest.mark.parametrize("version", PRODUCE_VERSIONS)
@pytest.mark.parametrize(
    "topic", ["o", "x" * 125, "x" * 126, "x" * 127, "x" * 128, "x" * 249, "x" * 300, "größe"]
)
def test_produce_response_has_the_compiled_encoders_bytes(version: int, topic: str) -> None:
    answer = ProducedPartition(7, 3, 2**40, -1, 12)
    expected = frame.encode_response(
        api.PRODUCE, version, 99, _produce_response(topic, [answer], 250)
    )
    assert encode_produce_response(version, 99, topic, answer, 250) == expected
    assert encode_produce_responses(version, 99, [(topic, [answer])], 250) == expected


@pytest.mark.parametrize("version", PRODUCE_VERSIONS)
def test_produce_response_for_many_partitions_has_the_compiled_encoders_bytes(version: int) -> None:
    answers = [
        ProducedPartition(index, 0, index * 10, 1_700_000_000_000, 0) for index in range(200)
    ]
    expected = frame.encode_response(
        api.PRODUCE, version, 1, _produce_response("orders", answers, 0)
    )
    assert encode_produce_responses(version, 1, [("orders", answers)]) == expected


@pytest.mark.parametrize("version", FETCH_VERSIONS)
@pytest.mark.parametrize("is_read_committed", [False, True])
def test_fetch_response_parts_join_to_the_compiled_encoders_bytes(
    version: int, is_read_committed: bool
) -> None:
    topic_ids = [bytes([index + 1]) * 16 for index in range(3)]
    batches = [b"a" * 10, memoryview(b"b" * 300)]
    diverging = EpochEndOffset(epoch=3, end_offset=70)
    leader = LeaderIdAndEpoch(leader_id=2, leader_epoch=9)
    one = fetch_partition_tags(diverging_epoch=diverging)
    both = fetch_partition_tags(diverging_epoch=diverging, current_leader=leader)
    rows = [
        (FetchedPartition(0, 0, 50, 50, 0, batches), PartitionData()),
        (FetchedPartition(1, 0, 50, 50, 0, ()), PartitionData()),
        (FetchedPartition(2, 1, -1, -1, -1, (), one), PartitionData(diverging_epoch=diverging)),
        (
            FetchedPartition(3, 6, -1, -1, -1, (b"x",), both),
            PartitionData(diverging_epoch=diverging, current_leader=leader),
        ),
    ]
    if version < 12:
        rows = rows[:2]
    for answer, twin in rows:
        twin.partition_index, twin.error_code, twin.high_watermark = answer[:3]
        twin.last_stable_offset, twin.log_start_offset = answer[3:5]
        twin.aborted_transactions = [] if is_read_committed else None
        twin.records = answer.records
    topics = [topic_ids[index] if version >= 13 else f"topic-{index}" for index in range(3)]
    message = FetchResponse(throttle_time_ms=5)
    if version >= 7:
        message.error_code, message.session_id = 71, 12345
    for topic in topics:
        named = {"topic_id": topic} if version >= 13 else {"topic": topic}
        message.responses.append(
            FetchableTopicResponse(partitions=[twin for _, twin in rows], **named)
        )
    expected = frame.encode_response(api.FETCH, version, 77, message)

    parts = encode_fetch_response_parts(
        version,
        77,
        [(topic, [answer for answer, _ in rows]) for topic in topics],
        throttle_time_ms=5,
        error_code=71,
        session_id=12345,
        is_read_committed=is_read_committed,
    )
    assert b"".join(parts) == expected
    assert any(part is batches[1] for part in parts), "records were copied"


def test_empty_fetch_response_is_one_buffer() -> None:
    (only,) = encode_fetch_response_parts(12, 5, [])
    assert only == frame.encode_response(api.FETCH, 12, 5, FetchResponse())


@pytest.mark.parametrize("version", FETCH_VERSIONS)
def test_fetch_request_reads_as_the_compiled_decoder_reads_it(version: int) -> None:
    random = Random(version)
    for _ in range(60):
        _assert_reads_alike(version, sample(FetchRequest, version, random))


@pytest.mark.parametrize("version", FETCH_VERSIONS)
@pytest.mark.parametrize("count", [1, 2, 126, 127, 128, 300])
def test_fetch_request_of_a_consumer_reads_as_the_compiled_decoder_reads_it(
    version: int, count: int
) -> None:
    for topics in (1, 3):
        message = _consumer_fetch(version, topics, count)
        _assert_reads_alike(version, message)
        body = bytearray(b"head")
        encoder(FetchRequest, version)(body, message)
        if version >= 12:
            assert decode_usual(memoryview(body), 4, version) is not None, "it is the usual one"


@pytest.mark.parametrize("version", FETCH_VERSIONS)
def test_fetch_request_cut_anywhere_is_malformed(version: int) -> None:
    body = bytearray()
    encoder(FetchRequest, version)(body, _consumer_fetch(version, 2, 3))
    for end in range(len(body)):
        with pytest.raises(MalformedMessage):
            decode_fetch(memoryview(body)[:end], 0, version)


@pytest.mark.parametrize("version", FETCH_VERSIONS)
def test_fetch_request_with_any_byte_changed_reads_as_the_compiled_decoder_reads_it(
    version: int,
) -> None:
    body = bytearray()
    encoder(FetchRequest, version)(body, _consumer_fetch(version, 2, 2))
    for position in range(len(body)):
        for value in (0, 1, 2, 0x7F, 0x80, 0xFF):
            changed = bytearray(body)
            changed[position] = value
            _assert_bytes_read_alike(version, memoryview(changed))


@pytest.mark.parametrize("version", FETCH_VERSIONS)
def test_fetch_request_of_too_many_partitions_is_malformed_however_many_topics_have_them(
    version: int,
) -> None:
    for topics, count in ((1, 26_000), (3, 9_000), (100, 300)):
        body = bytearray()
        encoder(FetchRequest, version)(body, _consumer_fetch(version, topics, count))
        with pytest.raises(MalformedMessage, match="more than 25000 array elements"):
            decode_fetch(memoryview(body), 0, version)
    for topics, count in ((1, 10_000), (1, 10_001), (2, 5_001), (100, 200)):
        body = bytearray()
        encoder(FetchRequest, version)(body, _consumer_fetch(version, topics, count))
        _assert_bytes_read_alike(version, memoryview(body))


def _consumer_fetch(version: int, topics: int, count: int) -> FetchRequest:
    partitions = [
        FetchPartition(partition=index, fetch_offset=2**40 + index, partition_max_bytes=1 << 20)
        for index in range(count)
    ]
    if version >= 12:
        for partition in partitions:
            partition.current_leader_epoch, partition.last_fetched_epoch = 5, 4
    request = FetchRequest(max_wait_ms=500, min_bytes=1, max_bytes=1 << 20)
    for index in range(topics):
        named = {"topic_id": bytes([index + 1]) * 16} if version >= 13 else {"topic": f"t-{index}"}
        request.topics.append(FetchTopic(partitions=partitions, **named))
    if version >= 7:
        request.session_id, request.session_epoch = 77, 3
    if version >= 11:
        request.rack_id = "größe"
    return request


def _assert_reads_alike(version: int, message: FetchRequest) -> None:
    body = bytearray()
    encoder(FetchRequest, version)(body, message)
    _assert_bytes_read_alike(version, memoryview(body + b"tail"))


def _assert_bytes_read_alike(version: int, view: memoryview) -> None:
    try:
        message, _ = decoder(FetchRequest, version)(view, 0)
    except MalformedMessage:
        with pytest.raises(MalformedMessage):
            decode_fetch(view, 0, version)
        return
    expected = parts_of(message, uses_ids=version >= 13)
    found = decode_fetch(view, 0, version)
    assert found[:7] == expected[:7]
    assert [(topic, list(wants)) for topic, wants in found.topics] == expected.topics
    assert list(found.forgotten) == expected.forgotten
