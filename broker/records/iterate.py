"""The records inside a batch, and the batches inside a buffer, one by one.

Not here: validation of headers, building. Bytes are never trusted: every length is checked against
what is left before anything is allocated, decompression is bounded, and whatever is wrong raises
Refusal(CORRUPT_MESSAGE). A record (all varints zigzag): length, attributes i8, timestamp delta,
offset delta, key length (-1 null), key, value length (-1 null), value, header count, then per
header: key length, key (UTF-8), value length, value.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final, NamedTuple

from broker.errors import ErrorCode, Refusal
from broker.model import INT64_MAX
from broker.ports import Buffer
from broker.records.batch import (
    CODEC_MASK,
    HEADER_BYTES,
    LENGTH_OVERHEAD,
    LOG_APPEND_TIME_BIT,
    MAGIC,
    BatchHeader,
    read_header,
)
from broker.records.compression import decompress

UNPACKED_BYTES_DEFAULT_MAX: Final = 64 * 1024 * 1024
SEARCHED_RECORDS_MAX: Final = 250_000
"""The broker itself (lookups by time, compaction) opens no batch of more records: six kilobytes may
claim millions, which cost half a minute of processor time. Twice what fits an uncompressed batch of
the default `max.message.bytes`.
"""
VARINT_BITS_MAX: Final = 64

RecordHeaders = tuple[tuple[str, bytes | None], ...]


class Record(NamedTuple):
    """One record as stored. `timestamp` in ms (the batch's for LogAppendTime); null key and value
    are None.
    """

    offset: int
    timestamp: int
    key: bytes | None
    value: bytes | None
    headers: RecordHeaders


class RawRecord(NamedTuple):
    """A record not fully opened. `body_position` is where the key length begins in the payload,
    `end` is exclusive.
    """

    timestamp_delta: int
    offset_delta: int
    key: bytes | None
    is_tombstone: bool
    body_position: int
    end: int


def iterate_batches(buffer: Buffer) -> Iterator[memoryview]:
    """Each whole batch of `buffer` in order; a partial one at the end is left out.

    Raises Refusal(CORRUPT_MESSAGE) when a header cannot be one.
    """
    view = memoryview(buffer)
    position = 0
    while len(view) - position >= HEADER_BYTES:
        header = read_header(view, position)
        if header.magic != MAGIC or header.batch_length < HEADER_BYTES - LENGTH_OVERHEAD:
            raise _corrupt(
                f"no batch begins at byte {position}: "
                f"magic {header.magic}, length {header.batch_length}"
            )
        end = position + header.batch_length + LENGTH_OVERHEAD
        if end > len(view):
            return
        yield view[position:end]
        position = end


def iterate_records(
    batch: Buffer, *, size_max: int = UNPACKED_BYTES_DEFAULT_MAX
) -> Iterator[Record]:
    """Each record of one whole batch, in order. At most `size_max` bytes are unpacked.

    Raises Refusal: CORRUPT_MESSAGE for damage, MESSAGE_TOO_LARGE for a bomb. The CRC is not
    checked.
    """
    header, payload = open_batch(batch, size_max)
    fixed_timestamp = header.max_timestamp if header.attributes & LOG_APPEND_TIME_BIT else None
    for raw in iterate_raw(payload, header):
        position = raw.body_position
        _, position = read_nullable(payload, position, raw.end)
        value, position = read_nullable(payload, position, raw.end)
        headers = _read_headers(payload, position, raw.end)
        timestamp = (
            header.base_timestamp + raw.timestamp_delta
            if fixed_timestamp is None
            else fixed_timestamp
        )
        yield Record(header.base_offset + raw.offset_delta, timestamp, raw.key, value, headers)


def open_to_search(batch: Buffer) -> tuple[BatchHeader, bytes]:
    """`open_batch` with bounds on bytes and records. Raises Refusal: MESSAGE_TOO_LARGE beyond them,
    else as `open_batch`.
    """
    count = read_header(batch).record_count
    if count > SEARCHED_RECORDS_MAX:
        raise Refusal(
            ErrorCode.MESSAGE_TOO_LARGE,
            f"{count} records in one batch, the broker opens at most {SEARCHED_RECORDS_MAX}",
        )
    return open_batch(batch, UNPACKED_BYTES_DEFAULT_MAX)


def open_batch(batch: Buffer, size_max: int) -> tuple[BatchHeader, bytes]:
    """(header, unpacked records) of exactly one batch. Raises Refusal as `iterate_records` does."""
    header = read_header(batch)
    if (
        header.magic != MAGIC
        or header.batch_length != len(batch) - LENGTH_OVERHEAD
        or header.record_count < 0
    ):
        raise _corrupt(
            f"not one whole batch: magic {header.magic}, length {header.batch_length}, "
            f"{len(batch)} bytes"
        )
    return header, decompress(
        header.attributes & CODEC_MASK, memoryview(batch)[HEADER_BYTES:], size_max
    )


def iterate_raw(payload: bytes, header: BatchHeader) -> Iterator[RawRecord]:
    """Each record's coordinates without its value and headers. Their offsets rise within the
    batch and their timestamps fit int64. Raises Refusal(CORRUPT_MESSAGE).
    """
    position = 0
    payload_end = len(payload)
    last_delta = header.last_offset_delta
    latest = INT64_MAX - header.base_timestamp
    earliest = -INT64_MAX - 1 - header.base_timestamp
    previous_delta = -1
    for _ in range(header.record_count):
        size, position = read_varint(payload, position, payload_end)
        end = position + size
        if size < 0 or end > payload_end:
            raise _corrupt(f"a record of {size} bytes does not fit in the batch")
        timestamp_delta, position = read_varint(payload, position + 1, end)
        offset_delta, position = read_varint(payload, position, end)
        if not (
            previous_delta < offset_delta <= last_delta and earliest <= timestamp_delta <= latest
        ):
            raise _corrupt(
                f"a record's deltas are {offset_delta} after {previous_delta} (offset) and "
                f"{timestamp_delta} (timestamp): the batch ends at {last_delta}"
            )
        previous_delta = offset_delta
        key, value_position = read_nullable(payload, position, end)
        value_size, value_start = read_varint(payload, value_position, end)
        if value_size < -1 or value_start + value_size > end:
            raise _corrupt(f"a value of {value_size} bytes does not fit in its record")
        yield RawRecord(timestamp_delta, offset_delta, key, value_size == -1, position, end)
        position = end
    if position != payload_end:
        raise _corrupt(
            f"{payload_end - position} bytes follow the batch's {header.record_count} records"
        )


def read_varint(payload: bytes, position: int, end: int) -> tuple[int, int]:
    """(zigzag-decoded integer, position after it). Raises Refusal when it is longer than 64 bits or
    cut off.
    """
    if position < end:
        byte = payload[position]
        if byte < 0x80:
            return (byte >> 1) ^ -(byte & 1), position + 1
    value = shift = 0
    while position < end and shift < VARINT_BITS_MAX:
        byte = payload[position]
        position += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return (value >> 1) ^ -(value & 1), position
        shift += 7
    raise _corrupt("a varint is cut off or too long")


def read_nullable(payload: bytes, position: int, end: int) -> tuple[bytes | None, int]:
    """(bytes or None for length -1, position after them). Raises Refusal when they do not fit
    before `end`.
    """
    size, position = read_varint(payload, position, end)
    if size < 0:
        if size != -1:
            raise _corrupt(f"a length of {size}")
        return None, position
    after = position + size
    if after > end:
        raise _corrupt(f"{size} bytes do not fit in their record")
    return payload[position:after], after


def _read_headers(payload: bytes, position: int, end: int) -> RecordHeaders:
    count, position = read_varint(payload, position, end)
    if count == 0 and position == end:
        return ()
    if count < 0 or count * 2 > end - position:
        raise _corrupt(f"{count} headers do not fit in their record")
    headers = []
    for _ in range(count):
        name, position = read_nullable(payload, position, end)
        if name is None:
            raise _corrupt("a header's key is null")
        value, position = read_nullable(payload, position, end)
        headers.append((name.decode("utf-8", "replace"), value))
    if position != end:
        raise _corrupt(f"{end - position} bytes follow a record's headers")
    return tuple(headers)


def _corrupt(reason: str) -> Refusal:
    return Refusal(ErrorCode.CORRUPT_MESSAGE, reason)
