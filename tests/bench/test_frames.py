"""The raw load's frames, against the codecs of the broker."""

import pytest

from broker.bench.frames import (
    FETCH_VERSION,
    PRODUCE_VERSION,
    BenchRefusal,
    FetchFrame,
    Stamped,
    build,
    check_produced,
    error_position,
    fetch_head_bytes,
    of_records,
    produce_frame,
    read_fetch_head,
)
from broker.bench.raw_pace import Timing, shape_of, tick_ns_of
from broker.records.batch import is_intact, read_header
from broker.records.iterate import iterate_records
from broker.wire import api
from broker.wire.fast_fetch import FetchedPartition, encode_fetch_response_parts
from broker.wire.fast_produce import ProducedPartition, decode_produce, encode_produce_response
from broker.wire.frame import decode_request_header
from broker.wire.messages.fetch import FetchRequest
from broker.wire.schema import decoder


@pytest.mark.parametrize("batch_bytes", [16_384, 131_072, 1_048_576])
@pytest.mark.parametrize("record_bytes", [100, 1024])
def test_a_batch_is_as_large_as_fits_and_valid(batch_bytes: int, record_bytes: int) -> None:
    batch = build(batch_bytes, record_bytes)
    assert batch_bytes - record_bytes - 20 < len(batch.content) <= batch_bytes
    header = read_header(batch.content)
    assert (header.size, header.record_count) == (len(batch.content), batch.records)
    assert is_intact(batch.content)
    records = list(iterate_records(memoryview(batch.content), size_max=1 << 24))
    assert {len(record.value or b"") for record in records} == {record_bytes}


def test_a_record_larger_than_the_batch_goes_alone() -> None:
    assert build(1, 100).records == 1


def test_a_stamp_is_in_the_first_record_of_every_batch_and_the_batch_stays_valid() -> None:
    batch = of_records(3, 64)
    frame = memoryview(Stamped("orders", [2, 0], batch, -1).stamp(123_456_789))[4:]
    header = decode_request_header(frame)
    assert (header.api_key, header.api_version) == (api.PRODUCE, PRODUCE_VERSION)
    ((topic, partitions),) = decode_produce(frame, header.body_position, PRODUCE_VERSION).topics
    assert (topic, [index for index, _ in partitions]) == ("orders", [2, 0])
    for _, content in partitions:
        assert content is not None
        assert is_intact(content)
        first, second, third = iterate_records(content, size_max=1 << 20)
        assert first.value is not None
        assert int.from_bytes(first.value[:8]) == 123_456_789
        assert second.value != third.value


@pytest.mark.parametrize("topic", ["t", "orders", "x" * 200])
def test_the_error_code_of_an_answer_to_produce_is_where_the_load_looks(topic: str) -> None:
    answer = encode_produce_response(
        PRODUCE_VERSION, 1, topic, ProducedPartition(7, 19, -1, -1, -1)
    )
    position = error_position(topic)
    assert answer[position : position + 2] == b"\0\x13"
    with pytest.raises(BenchRefusal, match=f"{topic}-7 was refused with error 19"):
        check_produced(answer[4:])


@pytest.mark.parametrize("topic", ["t", "orders", "x" * 200])
@pytest.mark.parametrize("size", [0, 1, 300, 70_000])
def test_the_head_of_an_answer_to_a_fetch_tells_how_many_bytes_follow(
    topic: str, size: int
) -> None:
    frame = b"".join(fetch_answer(topic, 0, bytes(size)))
    head = read_fetch_head(frame[: fetch_head_bytes(topic)], topic)
    assert (head.high_watermark, head.records_bytes) == (42, size)
    assert frame[head.records_position :][:size] == bytes(size)
    with pytest.raises(BenchRefusal, match=f"{topic} was refused with error 3"):
        read_fetch_head(b"".join(fetch_answer(topic, 3, b"")), topic)


def fetch_answer(topic: str, error: int, records: bytes) -> list[bytes]:
    partition = FetchedPartition(0, error, 42, 42, 0, [records] if records else [], b"\0")
    return [
        bytes(part)
        for part in encode_fetch_response_parts(
            FETCH_VERSION, 1, [(topic, [partition])], session_id=0, is_read_committed=False
        )
    ]


def test_a_fetch_reads_from_the_offsets_that_it_is_given() -> None:
    frame = FetchFrame("orders", [0, 3], partition_bytes_max=99, wait_ms=5)
    frame.at([7, 8])
    view = memoryview(frame.at([10, 1 << 40]))[4:]
    header = decode_request_header(view)
    request, _ = decoder(FetchRequest, FETCH_VERSION)(view, header.body_position)
    wanted = [(one.partition, one.fetch_offset) for one in request.topics[0].partitions]
    assert wanted == [(0, 10), (3, 1 << 40)]


def test_all_frames_of_a_shape_have_one_size() -> None:
    content = build(16_384, 100).content
    assert len({len(produce_frame("orders", [(n, content)], -1)) for n in (0, 9_999)}) == 1


@pytest.mark.parametrize(
    ("records", "partitions", "expected"),
    [(10, 6, (5, 2)), (100, 1, (1, 100)), (500, 100, (100, 5)), (1, 6, (1, 1)), (7, 6, (1, 7))],
)
def test_a_tick_goes_to_as_many_partitions_as_share_it_evenly(
    records: int, partitions: int, expected: tuple[int, int]
) -> None:
    job = {"rate": 1_000 * records, "tick_ms": 1.0, "partitions": partitions}
    assert shape_of(job) == (*expected, 0.0)


def test_a_batch_of_a_longer_time_goes_to_a_part_of_the_partitions_each_tick() -> None:
    job = {"rate": 100_000, "tick_ms": 1.0, "partitions": 100, "batch_ms": 20.0}
    partitions, records, linger_ms = shape_of(job)
    assert (partitions, records) == (5, 20)
    assert linger_ms == 19.0, "before the last of its records the first one was due"


@pytest.mark.parametrize("batch_ms", [None, 20.0])
@pytest.mark.parametrize("rate", [100, 1_400, 13_000, 32_000, 33_333, 99_991, 100_000])
def test_any_rate_is_sent_as_it_was_asked_for(rate: int, batch_ms: float | None) -> None:
    job = {"rate": rate, "tick_ms": 1.0, "partitions": 100, "batch_ms": batch_ms}
    partitions, records, linger_ms = shape_of(job)
    assert partitions * records * 1e9 / tick_ns_of(job) == pytest.approx(rate, rel=1e-5)
    if batch_ms:
        partition_ns = tick_ns_of(job) * 100 / partitions
        share = (records - 1) / records
        assert linger_ms * 1e6 == pytest.approx(partition_ns * share, rel=1e-5)


def test_a_batch_that_is_missing_or_comes_again_ends_the_timing() -> None:
    batch = of_records(2, 64)
    timing = Timing(1, batch.stamp_position)
    timing.add(0, memoryview(bytes(batch.content)))
    assert timing.records == 2
    with pytest.raises(BenchRefusal, match="offset 0 came, 2 was next"):
        timing.add(0, memoryview(bytes(batch.content)))
