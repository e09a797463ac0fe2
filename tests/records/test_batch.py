"""Headers of record batches: what a client may send, and what the broker changes in place."""

from __future__ import annotations

from struct import pack_into

import pytest
from hypothesis import given
from hypothesis import strategies as st

from broker.errors import ErrorCode, Refusal
from broker.records.batch import (
    CONTROL_BIT,
    DELETE_HORIZON_BIT,
    HEADER_BYTES,
    TRANSACTIONAL_BIT,
    BatchRules,
    assign,
    is_control,
    is_intact,
    is_log_append_time,
    read_header,
    seal,
    set_log_append_time,
    validate_batch,
)
from broker.records.build import build_batch

NOW_MS = 1_700_000_000_000
RULES = BatchRules(
    max_message_bytes=10_000, timestamp_before_max_ms=86_400_000, timestamp_after_max_ms=3_600_000
)


def a_batch(**options: object) -> bytearray:
    arguments: dict[str, object] = {"timestamp_ms": NOW_MS, **options}
    return build_batch([(b"k1", b"v1"), (b"k2", b"v2")], **arguments)


def patched(fmt: str, position: int, value: int) -> bytearray:
    """A batch with one header field replaced, its CRC right."""
    batch = a_batch()
    pack_into(fmt, batch, position, value)
    seal(batch)
    return batch


def refusal(
    batch: bytes | bytearray, rules: BatchRules = RULES, *, is_client: bool = True
) -> ErrorCode | None:
    try:
        validate_batch(memoryview(batch), rules, now_wall_ms=NOW_MS, is_client=is_client)
    except Refusal as refused:
        return refused.code if len(refused.message) > 10 else None  # a refusal explains itself
    return None


def test_a_good_batch_is_accepted() -> None:
    assert refusal(a_batch()) is None
    assert refusal(a_batch(producer_id=5, producer_epoch=0, base_sequence=0)) is None
    assert refusal(a_batch(compression="zstd")) is None


@pytest.mark.parametrize(
    ("fmt", "position", "value", "code"),
    [
        (">b", 16, 0, ErrorCode.INVALID_RECORD),
        (">b", 16, 1, ErrorCode.INVALID_RECORD),
        (">b", 16, 3, ErrorCode.INVALID_RECORD),
        (">i", 8, -1, ErrorCode.CORRUPT_MESSAGE),
        (">i", 8, 0, ErrorCode.CORRUPT_MESSAGE),
        (">i", 8, 2**31 - 1, ErrorCode.CORRUPT_MESSAGE),
        (">i", 8, 49, ErrorCode.INVALID_RECORD),
        (">i", 57, 0, ErrorCode.INVALID_RECORD),
        (">i", 57, -2, ErrorCode.INVALID_RECORD),
        (">i", 57, 3, ErrorCode.INVALID_RECORD),
        (">i", 57, 2**31 - 1, ErrorCode.INVALID_RECORD),
        (">i", 23, -1, ErrorCode.INVALID_RECORD),
        (">i", 23, 0, ErrorCode.INVALID_RECORD),
        (">i", 23, 2**31 - 1, ErrorCode.INVALID_RECORD),
        (">h", 21, 5, ErrorCode.UNSUPPORTED_COMPRESSION_TYPE),
        (">h", 21, 7, ErrorCode.UNSUPPORTED_COMPRESSION_TYPE),
        (">h", 21, CONTROL_BIT, ErrorCode.INVALID_RECORD),
        (">h", 21, DELETE_HORIZON_BIT, ErrorCode.INVALID_RECORD),
        (">h", 21, TRANSACTIONAL_BIT, ErrorCode.INVALID_TXN_STATE),
        (">q", 27, -(2**63), ErrorCode.INVALID_TIMESTAMP),
        (">q", 27, 2**63 - 1, ErrorCode.INVALID_TIMESTAMP),
        (">q", 35, 2**63 - 1, ErrorCode.INVALID_TIMESTAMP),
        (">q", 35, -(2**63), ErrorCode.INVALID_TIMESTAMP),
        (">q", 35, NOW_MS + 3_600_001, ErrorCode.INVALID_TIMESTAMP),
        (">q", 27, NOW_MS - 86_400_001, ErrorCode.INVALID_TIMESTAMP),
        (">q", 35, NOW_MS + 3_600_000, None),
        (">q", 27, NOW_MS - 86_400_000, None),
        (">q", 43, 7, ErrorCode.INVALID_RECORD),
        (">q", 43, -2, ErrorCode.INVALID_RECORD),
    ],
)
def test_a_header_that_lies_is_refused(
    fmt: str, position: int, value: int, code: ErrorCode | None
) -> None:
    assert refusal(patched(fmt, position, value)) == code


def test_counts_that_agree_but_cannot_fit_are_refused() -> None:
    batch = a_batch()
    pack_into(">i", batch, 57, 1_000_000)
    pack_into(">i", batch, 23, 999_999)
    seal(batch)
    assert refusal(batch) == ErrorCode.INVALID_RECORD
    packed = a_batch(compression="gzip")
    pack_into(">i", packed, 57, 2**31 - 1)
    pack_into(">i", packed, 23, 2**31 - 2)
    seal(packed)
    assert refusal(packed) == ErrorCode.INVALID_RECORD


def test_every_flipped_bit_below_the_crc_is_noticed() -> None:
    batch = a_batch()
    for position in range(17, len(batch)):
        batch[position] ^= 0x10
        assert refusal(batch) is not None
        assert not is_intact(batch)
        batch[position] ^= 0x10
    assert is_intact(batch)


def test_a_batch_over_max_message_bytes_is_too_large_for_a_client_only() -> None:
    big = build_batch([(None, bytes(20_000))], timestamp_ms=NOW_MS)
    assert refusal(big) == ErrorCode.MESSAGE_TOO_LARGE
    assert refusal(big, is_client=False) is None


def test_none_less_or_more_than_one_batch_is_refused() -> None:
    batch = a_batch()
    assert refusal(b"") == ErrorCode.INVALID_RECORD
    assert refusal(bytes(batch) * 2) == ErrorCode.INVALID_RECORD
    for size in range(1, len(batch)):
        assert refusal(batch[:size]) == ErrorCode.CORRUPT_MESSAGE


def test_the_broker_itself_may_write_control_batches() -> None:
    batch = a_batch(attributes=CONTROL_BIT | TRANSACTIONAL_BIT)
    assert refusal(batch, is_client=False) is None
    assert is_control(read_header(batch).attributes)


def test_a_log_append_time_topic_does_not_look_at_client_timestamps() -> None:
    rules = BatchRules(10_000, is_log_append_time=True, timestamp_after_max_ms=0)
    assert refusal(a_batch(timestamp_ms=2**62), rules) is None


def test_assign_changes_offset_and_epoch_only_and_keeps_the_crc() -> None:
    batch = a_batch()
    before = read_header(batch)
    assign(memoryview(batch), 2**40 + 5, 77)
    after = read_header(batch)
    assert after == before._replace(base_offset=2**40 + 5, partition_leader_epoch=77)
    assert is_intact(batch)
    assert after.last_offset == 2**40 + 6
    assert after.next_offset == 2**40 + 7


def test_log_append_time_is_written_with_a_right_crc() -> None:
    batch = a_batch()
    set_log_append_time(memoryview(batch), 123)
    header = read_header(batch)
    assert header.max_timestamp == 123
    assert is_log_append_time(header.attributes)
    assert is_intact(batch)


def test_a_header_is_never_read_beyond_the_buffer() -> None:
    with pytest.raises(Refusal) as refused:
        read_header(bytes(HEADER_BYTES - 1))
    assert refused.value.code == ErrorCode.CORRUPT_MESSAGE


@given(st.binary(max_size=200), st.booleans())
def test_random_bytes_are_refused_and_nothing_else(content: bytes, is_client: bool) -> None:
    assert refusal(content, is_client=is_client) is not None
