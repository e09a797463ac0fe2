"""The header of a RecordBatch v2: its layout, its validation, and the in-place changes a broker
makes.

Not here: the records inside a batch (`iterate`, `build`). Layout, big endian (Kafka protocol guide,
"Record Batch"): 0 baseOffset i64 · 8 batchLength i32 (bytes after it) · 12 partitionLeaderEpoch i32
16 magic i8 · 17 crc u32 · 21 attributes i16 · 23 lastOffsetDelta i32 · 27 baseTimestamp i64
35 maxTimestamp i64 · 43 producerId i64 · 51 producerEpoch i16 · 53 baseSequence i32
57 recordCount i32 · 61 records. The CRC-32C covers 21 to the end.
"""

from __future__ import annotations

from struct import Struct
from typing import Final, NamedTuple

from broker.errors import ErrorCode, Refusal
from broker.model import INT64_MAX, NO_PRODUCER_ID, NO_TIMESTAMP
from broker.ports import Buffer
from broker.records.crc import crc32c

HEADER: Final = Struct(">qiibIhiqqqhii")
HEADER_BYTES: Final = 61
LENGTH_OVERHEAD: Final = 12
"""Bytes of a batch that `batchLength` does not count."""
CRC_START: Final = 21
MAGIC: Final = 2

CODEC_MASK: Final = 0x07
LOG_APPEND_TIME_BIT: Final = 0x08
TRANSACTIONAL_BIT: Final = 0x10
CONTROL_BIT: Final = 0x20
DELETE_HORIZON_BIT: Final = 0x40
CODEC_MAX: Final = 4
"""none 0, gzip 1, snappy 2, lz4 3, zstd 4."""

RECORD_BYTES_MIN: Final = 7
"""An empty record: length, attributes, two deltas, null key, null value, no headers: one byte each.
"""
UNPACKED_BYTES_MAX: Final = 256 * 1024 * 1024
"""A compressed batch may not claim more records than would fit in this many bytes once unpacked."""

BatchFields = tuple[int, int, int, int, int, int, int, int, int, int, int, int, int]
"""A header as unpacked, in `BatchHeader`'s order: the hot path's form."""

_LENGTH_AND_EPOCH: Final = Struct(">qii")
_CRC: Final = Struct(">I")
_ATTRIBUTES: Final = Struct(">h")
_MAX_TIMESTAMP: Final = Struct(">q")


class BatchHeader(NamedTuple):
    """One header. `batch_length` counts from offset 12; deltas are relative to `base_offset` and
    `base_timestamp`.
    """

    base_offset: int
    batch_length: int
    partition_leader_epoch: int
    magic: int
    crc: int
    attributes: int
    last_offset_delta: int
    base_timestamp: int
    max_timestamp: int
    producer_id: int
    producer_epoch: int
    base_sequence: int
    record_count: int

    @property
    def size(self) -> int:
        """Bytes of the whole batch."""
        return self.batch_length + LENGTH_OVERHEAD

    @property
    def last_offset(self) -> int:
        """Offset of the last record, inclusive (it may be compacted away)."""
        return self.base_offset + self.last_offset_delta

    @property
    def next_offset(self) -> int:
        """The first offset after this batch."""
        return self.base_offset + self.last_offset_delta + 1


class BatchRules(NamedTuple):
    """What a topic demands of a client's batch. Sizes in bytes, spans in milliseconds."""

    max_message_bytes: int
    is_log_append_time: bool = False
    timestamp_before_max_ms: int = INT64_MAX
    timestamp_after_max_ms: int = INT64_MAX


def read_header(buffer: Buffer, position: int = 0) -> BatchHeader:
    """The header at `position`, unchecked. Raises Refusal(CORRUPT_MESSAGE) when fewer than 61 bytes
    are left.
    """
    if position < 0 or len(buffer) - position < HEADER_BYTES:
        raise Refusal(
            ErrorCode.CORRUPT_MESSAGE,
            f"a batch header has {HEADER_BYTES} bytes, found {max(0, len(buffer) - position)}",
        )
    return BatchHeader._make(HEADER.unpack_from(buffer, position))


def is_log_append_time(attributes: int) -> bool:
    """True when every record's timestamp is the batch's max timestamp, set by the broker."""
    return bool(attributes & LOG_APPEND_TIME_BIT)


def is_control(attributes: int) -> bool:
    """True for a batch of control records (transaction markers), which consumers skip."""
    return bool(attributes & CONTROL_BIT)


def is_intact(batch: Buffer) -> bool:
    """True when `batch` is exactly one well-formed v2 batch whose CRC holds: what recovery asks of
    stored bytes.
    """
    size = len(batch)
    if size < HEADER_BYTES:
        return False
    fields = HEADER.unpack_from(batch)
    if (
        fields[3] != MAGIC
        or fields[1] != size - LENGTH_OVERHEAD
        or fields[6] < 0
        or fields[12] < 0
        or fields[0] < 0
    ):
        return False
    return bool(crc32c(memoryview(batch)[CRC_START:]) == fields[4])


def validate_batch(
    view: memoryview, rules: BatchRules, *, now_wall_ms: int, is_client: bool = True
) -> BatchFields:
    """The header's fields when `view` is exactly one batch that may be appended; nothing is
    changed.

    Raises Refusal: CORRUPT_MESSAGE for damage (size, CRC), INVALID_RECORD for what no client may
    send, MESSAGE_TOO_LARGE, INVALID_TIMESTAMP, INVALID_TXN_STATE, UNSUPPORTED_COMPRESSION_TYPE.
    Only the header is looked at: the records are not opened (`record.validation=header`).
    """
    size = len(view)
    if size < HEADER_BYTES:
        raise _refuse_short(size)
    fields: BatchFields = HEADER.unpack_from(view)
    attributes, count, producer_id = fields[5], fields[12], fields[9]
    if (
        fields[3] != MAGIC
        or fields[1] != size - LENGTH_OVERHEAD
        or count < 1
        or fields[6] != count - 1
    ):
        raise _refuse_shape(fields, size)
    if size > rules.max_message_bytes and is_client:
        raise Refusal(
            ErrorCode.MESSAGE_TOO_LARGE,
            f"the batch has {size} bytes, max.message.bytes allows {rules.max_message_bytes}",
        )
    if crc32c(view[CRC_START:]) != fields[4]:
        raise Refusal(ErrorCode.CORRUPT_MESSAGE, "the CRC-32C of the batch does not hold")
    if attributes & ~LOG_APPEND_TIME_BIT:
        _check_attributes(attributes, is_client=is_client)
    room = UNPACKED_BYTES_MAX if attributes & CODEC_MASK else size - HEADER_BYTES
    if count * RECORD_BYTES_MIN > room:
        raise Refusal(
            ErrorCode.INVALID_RECORD, f"{count} records cannot fit in a batch of {size} bytes"
        )
    if (
        is_client
        and producer_id != NO_PRODUCER_ID
        and (producer_id < 0 or fields[10] < 0 or fields[11] < 0)
    ):
        raise Refusal(
            ErrorCode.INVALID_RECORD,
            f"producer id {producer_id}, epoch {fields[10]}, sequence {fields[11]} do not fit",
        )
    if is_client and not rules.is_log_append_time:
        first, last = fields[7], fields[8]
        if not (
            0 <= first <= last
            and now_wall_ms - first <= rules.timestamp_before_max_ms
            and last - now_wall_ms <= rules.timestamp_after_max_ms
        ):
            _check_timestamps(first, last, rules, now_wall_ms)
    return fields


def assign(view: memoryview | bytearray, base_offset: int, leader_epoch: int) -> None:
    """Patch base offset and leader epoch in place, in a batch that fills `view`; both lie outside
    the CRC.
    """
    _LENGTH_AND_EPOCH.pack_into(view, 0, base_offset, len(view) - LENGTH_OVERHEAD, leader_epoch)


def set_log_append_time(view: memoryview | bytearray, timestamp_ms: int) -> None:
    """Mark the batch LogAppendTime with this wall time in place, and recompute its CRC."""
    (attributes,) = _ATTRIBUTES.unpack_from(view, 21)
    _ATTRIBUTES.pack_into(view, 21, attributes | LOG_APPEND_TIME_BIT)
    _MAX_TIMESTAMP.pack_into(view, 35, timestamp_ms)
    seal(view)


def seal(view: memoryview | bytearray) -> None:
    """Write the CRC-32C of a complete batch into its header."""
    with memoryview(view) as whole:
        _CRC.pack_into(view, 17, crc32c(whole[CRC_START:]))


def _refuse_short(size: int) -> Refusal:
    if size == 0:
        return Refusal(
            ErrorCode.INVALID_RECORD,
            "the partition's records are empty: expected exactly one batch",
        )
    return Refusal(
        ErrorCode.CORRUPT_MESSAGE, f"a batch has at least {HEADER_BYTES} bytes, found {size}"
    )


def _refuse_shape(fields: BatchFields, size: int) -> Refusal:
    """Which of the shape rules is broken, in the order that helps most."""
    length, magic, last_delta, count = fields[1], fields[3], fields[6], fields[12]
    if magic != MAGIC:
        return Refusal(
            ErrorCode.INVALID_RECORD,
            f"magic {magic} is not supported: send record batches of magic 2",
        )
    if length < HEADER_BYTES - LENGTH_OVERHEAD or length > size - LENGTH_OVERHEAD:
        return Refusal(
            ErrorCode.CORRUPT_MESSAGE,
            f"batch length {length} does not fit in the {size} bytes sent",
        )
    if length < size - LENGTH_OVERHEAD:
        return Refusal(
            ErrorCode.INVALID_RECORD,
            "a partition's records must be exactly one batch, more bytes follow it",
        )
    return Refusal(
        ErrorCode.INVALID_RECORD,
        f"record count {count} and last offset delta {last_delta} do not agree: "
        "at least one record, and the delta is the count less one",
    )


def _check_attributes(attributes: int, *, is_client: bool) -> None:
    """Raises Refusal for an unknown codec and, from a client, for what only brokers may set."""
    if attributes & CODEC_MASK > CODEC_MAX:
        raise Refusal(
            ErrorCode.UNSUPPORTED_COMPRESSION_TYPE,
            f"compression codec {attributes & CODEC_MASK} is unknown: "
            "0 none, 1 gzip, 2 snappy, 3 lz4, 4 zstd",
        )
    if not is_client:
        return
    if attributes & CONTROL_BIT:
        raise Refusal(ErrorCode.INVALID_RECORD, "clients may not write control batches")
    if attributes & DELETE_HORIZON_BIT:
        raise Refusal(ErrorCode.INVALID_RECORD, "clients may not set the delete horizon bit")
    if attributes & TRANSACTIONAL_BIT:
        raise Refusal(
            ErrorCode.INVALID_TXN_STATE,
            "the batch is transactional but no transaction is open on this partition",
        )


def _check_timestamps(
    base_timestamp: int, max_timestamp: int, rules: BatchRules, now_wall_ms: int
) -> None:
    """Raises Refusal(INVALID_TIMESTAMP) unless both are -1 or inside the topic's window."""
    lowest = min(base_timestamp, max_timestamp)
    if lowest < NO_TIMESTAMP:
        raise Refusal(ErrorCode.INVALID_TIMESTAMP, f"timestamp {lowest} is negative")
    if lowest != NO_TIMESTAMP and now_wall_ms - lowest > rules.timestamp_before_max_ms:
        raise Refusal(
            ErrorCode.INVALID_TIMESTAMP,
            f"timestamp {lowest} is more than {rules.timestamp_before_max_ms} ms in the past "
            "(message.timestamp.before.max.ms)",
        )
    highest = max(base_timestamp, max_timestamp)
    if highest - now_wall_ms > rules.timestamp_after_max_ms:
        raise Refusal(
            ErrorCode.INVALID_TIMESTAMP,
            f"timestamp {highest} is more than {rules.timestamp_after_max_ms} ms in the future "
            "(message.timestamp.after.max.ms)",
        )
