"""The check of single records, against what kafka-python reads from the same bytes."""

from __future__ import annotations

import itertools
import pickle
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from kafka.record.default_records import DefaultRecordBatch
from kafka.record.util import decode_varint

from broker.errors import ErrorCode
from broker.records.batch import HEADER, HEADER_BYTES, BatchRules
from broker.records.build import (
    NewRecord,
    append_record,
    build_batch,
    encode_body,
    encode_varint,
    frame_batch,
)
from broker.records.rules import (
    RECORD_ERRORS_MAX,
    Meter,
    RecordRules,
    RecordsRefused,
    TooManySteps,
    check_records,
)

NOW_MS = 1_700_000_000_000
RULES = RecordRules(1 << 20, 100, 10_000, is_key_required=False)
BATCH_RULES = BatchRules(1 << 24)
STEPS = 1_000_000

TEXTS = st.text(max_size=12)
BYTES = st.none() | st.binary(max_size=90)
RECORDS = st.lists(
    st.builds(
        NewRecord,
        BYTES,
        BYTES,
        st.lists(st.tuples(TEXTS, st.none() | st.binary(max_size=10)), max_size=3),
        st.integers(NOW_MS, NOW_MS + 10_000),
        st.none(),
    ),
    min_size=1,
    max_size=80,
)


def check(batch: bytes | bytearray, rules: RecordRules = RULES, **fields: Any) -> None:
    batch_rules = fields.pop("batch_rules", BATCH_RULES)
    header: Any = HEADER.unpack_from(batch)
    check_records(
        bytes(batch[HEADER_BYTES:]),
        header,
        rules,
        batch_rules,
        now_wall_ms=NOW_MS,
        steps_max=fields.pop("steps_max", STEPS),
        meter=Meter(),
    )


def refusal_of(
    batch: bytes | bytearray, rules: RecordRules = RULES, **fields: Any
) -> RecordsRefused:
    with pytest.raises(RecordsRefused) as refused:
        check(batch, rules, **fields)
    assert "record" in refused.value.message
    return refused.value


def framed(payload: bytes, count: int, last_ms: int = NOW_MS) -> bytearray:
    return frame_batch(
        payload,
        record_count=count,
        last_offset_delta=count - 1,
        base_timestamp=NOW_MS,
        max_timestamp=last_ms,
        codec=0,
        producer=(-1, -1, -1),
        base_offset=0,
        leader_epoch=-1,
        attributes=0,
    )


def one(
    body: bytes, timestamp_delta: int = 0, offset_delta: int = 0, last_ms: int = NOW_MS
) -> bytearray:
    payload = bytearray()
    append_record(payload, timestamp_delta, offset_delta, body)
    return framed(bytes(payload), 1, last_ms)


@given(RECORDS)
def test_what_a_client_builds_is_accepted(records: list[NewRecord]) -> None:
    check(build_batch(records, timestamp_ms=NOW_MS))


@settings(max_examples=400)
@given(RECORDS, st.data())
def test_what_is_accepted_after_a_mutation_is_what_another_reader_reads(
    records: list[NewRecord], data: st.DataObject
) -> None:
    batch = build_batch(records, timestamp_ms=NOW_MS)
    payload = bytearray(batch[HEADER_BYTES:])
    for _ in range(data.draw(st.integers(1, 3))):
        place = data.draw(st.integers(0, max(0, len(payload) - 1)))
        kind = data.draw(st.sampled_from(("set", "insert", "cut", "remove")))
        value = data.draw(st.integers(0, 255))
        if kind == "insert" or not payload:
            payload.insert(place, value)
        elif kind == "set":
            payload[place] = value
        elif kind == "remove":
            del payload[place]
        else:
            del payload[place:]
    mutated = framed(bytes(payload), len(records), NOW_MS + 10_000)
    read = read_with_kafka_python(mutated)
    try:
        check(mutated)
    except RecordsRefused:
        is_accepted = False
    else:
        is_accepted = True
        assert read is not None, "the other reader finds it broken"
        assert [record.offset for record in read] == list(range(len(records)))
        assert all(record.timestamp <= NOW_MS + 10_000 for record in read)
    if read is not None and is_canonical(read, payload):
        assert is_accepted, "a batch that a client may have built is refused"


class OtherReader(DefaultRecordBatch):  # type: ignore[misc]
    """kafka-python's, which takes the byte of attributes, second in a record, for a varint."""

    def _read_msg(self) -> Any:
        numbers = itertools.count()

        def read(buffer: Any, position: int) -> tuple[int, int]:
            if next(numbers) == 1:
                return buffer[position], position + 1
            result: tuple[int, int] = decode_varint(buffer, position)
            return result

        return super()._read_msg(read)


def read_with_kafka_python(batch: bytearray) -> list[Any] | None:
    """Its records, None when it cannot read them."""
    try:
        return list(OtherReader(bytes(batch)))
    except Exception:
        return None


def is_canonical(read: list[Any], payload: bytearray) -> bool:
    """Whether a client that sends these records sends exactly these bytes, and may send them."""
    again = bytearray()
    for place, record in enumerate(read):
        body = encode_body(record.key, record.value, record.headers)
        append_record(again, record.timestamp - NOW_MS, place, body)
    return again == payload and all(0 <= record.timestamp <= NOW_MS + 10_000 for record in read)


BODY = encode_body(b"k", b"v", [("h", b"1")])
LIES = {
    "nothing": framed(b"", 1),
    "a length beyond the batch": framed(encode_varint(500) + b"\0\0\0\1\1\0", 1),
    "a negative length": framed(encode_varint(-7) + b"\0\0\0\1\1\0", 1),
    "a varint without an end": framed(b"\xff" * 12, 1),
    "bytes after the last record": one(BODY) + b"\0",
    "one record fewer than the header says": framed(bytes(one(BODY)[HEADER_BYTES:]), 2),
    "an offset delta of one": one(BODY, 0, 1),
    "a negative offset delta": one(BODY, 0, -1),
    "a key beyond the record": one(encode_varint(50) + b"k"),
    "a key of length -2": one(encode_varint(-2) + b"\1\0"),
    "a value beyond the record": one(b"\1" + encode_varint(9) + b"v"),
    "a header count beyond the record": one(b"\1\1" + encode_varint(60)),
    "a negative header count": one(b"\1\1" + encode_varint(-1)),
    "a header without a key": one(b"\1\1\2\1\1"),
    "a header's key that is not UTF-8": one(b"\1\1\2\2\xff\1"),
    "bytes after the headers": one(BODY + b"\0"),
    "a record that ends in its head": framed(encode_varint(2) + b"\0\0", 1),
}


@pytest.mark.parametrize("lie", LIES)
def test_records_that_cannot_be_read_are_refused_for_good(lie: str) -> None:
    assert refusal_of(LIES[lie]).code is ErrorCode.INVALID_RECORD


def test_records_in_another_order_are_refused_with_the_index_of_the_first() -> None:
    payload = bytearray()
    for delta in (0, 1, 3, 2):
        append_record(payload, 0, delta, BODY)
    refusal = refusal_of(framed(bytes(payload), 4))
    assert refusal.record_errors == ((2, "its offset delta is 3, expected 2"),)


def test_every_record_without_a_key_is_named_where_keys_are_needed() -> None:
    keys = (b"a", None, b"", None)
    batch = build_batch([(key, b"v") for key in keys], timestamp_ms=NOW_MS)
    check(batch)
    refusal = refusal_of(batch, RULES._replace(is_key_required=True))
    assert refusal.code is ErrorCode.INVALID_RECORD
    assert [index for index, _words in refusal.record_errors] == [1, 3]
    assert "key" in refusal.message


def test_only_so_many_records_are_named() -> None:
    batch = build_batch([(None, b"v")] * 500, timestamp_ms=NOW_MS)
    refusal = refusal_of(batch, RULES._replace(is_key_required=True))
    assert len(refusal.record_errors) == RECORD_ERRORS_MAX
    assert "499 more" in refusal.message


@pytest.mark.parametrize(
    ("rules", "code", "name"),
    [
        (RULES._replace(record_bytes_max=119), ErrorCode.MESSAGE_TOO_LARGE, "max.record.bytes"),
        (RULES._replace(headers_max=1), ErrorCode.INVALID_RECORD, "max.record.headers"),
        (RULES._replace(header_bytes_max=9), ErrorCode.INVALID_RECORD, "max.record.header.bytes"),
    ],
)
def test_a_limit_holds_to_the_byte_and_its_setting_is_named(
    rules: RecordRules, code: ErrorCode, name: str
) -> None:
    headers = [("one", b"1"), ("two", b"333")]
    record = NewRecord(b"key", b"v" * 94, headers)
    batch = build_batch([(b"k", b"v"), record], timestamp_ms=NOW_MS)
    assert len(build_batch([record], timestamp_ms=NOW_MS)) - HEADER_BYTES == 120
    check(batch, RecordRules(120, 2, 10, is_key_required=True))
    refusal = refusal_of(batch, rules)
    assert (refusal.code, [index for index, _ in refusal.record_errors]) == (code, [1])
    assert name in refusal.record_errors[0][1]


def test_a_record_may_not_be_later_than_the_batch_says() -> None:
    check(one(BODY, 5, last_ms=NOW_MS + 5))
    refusal = refusal_of(one(BODY, 6, last_ms=NOW_MS + 5))
    assert refusal.code is ErrorCode.INVALID_RECORD
    assert "maxTimestamp" in refusal.message


def test_each_timestamp_lies_in_the_topics_window() -> None:
    window = BatchRules(1 << 24, timestamp_before_max_ms=1_000)
    check(one(BODY, -1_000), batch_rules=window)
    refusal = refusal_of(one(BODY, -1_001), batch_rules=window)
    assert refusal.code is ErrorCode.INVALID_TIMESTAMP
    assert "message.timestamp.before.max.ms" in refusal.message
    check(one(BODY, -1_001), batch_rules=window._replace(is_log_append_time=True))
    check(one(BODY, -1 - NOW_MS), batch_rules=window)
    assert refusal_of(one(BODY, -2 - NOW_MS)).code is ErrorCode.INVALID_TIMESTAMP


def test_records_without_a_time_are_accepted() -> None:
    check(build_batch([(b"k", b"v")] * 3, timestamp_ms=-1))


def test_work_is_bounded_in_records_and_in_headers() -> None:
    many = build_batch([(b"k", b"v")] * 10, timestamp_ms=NOW_MS)
    check(many, steps_max=10)
    with pytest.raises(TooManySteps):
        check(many, steps_max=9)
    headed = build_batch([NewRecord(b"k", b"v", [("h", b"")] * 5)] * 2, timestamp_ms=NOW_MS)
    check(headed, steps_max=12)
    with pytest.raises(TooManySteps):
        check(headed, steps_max=11)


def test_a_refusal_comes_back_from_another_process_as_itself() -> None:
    refusal = refusal_of(one(BODY, 0, 1))
    again = pickle.loads(pickle.dumps(refusal))
    assert type(again) is RecordsRefused
    assert (again.code, again.message) == (refusal.code, refusal.message)
    assert again.record_errors == refusal.record_errors
