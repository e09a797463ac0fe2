"""Building record batches: for internal topics, the client, the cleaner and tests.

Not here: validation, partitioning. The result is a whole batch with its CRC, ready to be sent or
staged.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final, NamedTuple

from broker.model import NO_PRODUCER_EPOCH, NO_PRODUCER_ID, NO_SEQUENCE
from broker.records.batch import HEADER, HEADER_BYTES, LENGTH_OVERHEAD, MAGIC, seal
from broker.records.compression import CODEC_IDS, compress

_NUMBERS_KEPT: Final = 4_096
"""Varints from 0 on that are looked up: lengths and offset deltas of usual records."""


class NewRecord(NamedTuple):
    """A record to write. `timestamp_ms` None takes the batch's; `offset_delta` None takes its place
    in the batch.
    """

    key: bytes | None
    value: bytes | None
    headers: Sequence[tuple[str, bytes | None]] = ()
    timestamp_ms: int | None = None
    offset_delta: int | None = None


def build_batch(
    records: Iterable[NewRecord | tuple[bytes | None, bytes | None]],
    *,
    timestamp_ms: int,
    compression: str = "none",
    producer_id: int = NO_PRODUCER_ID,
    producer_epoch: int = NO_PRODUCER_EPOCH,
    base_sequence: int = NO_SEQUENCE,
    base_offset: int = 0,
    leader_epoch: int = -1,
    attributes: int = 0,
) -> bytearray:
    """One batch holding `records` ((key, value) pairs will do), in order.

    `timestamp_ms` is for records without their own; the first record's is the base timestamp.
    `compression` is one of CODECS; `attributes` are further bits (transactional, control). At least
    one record.
    """
    entries = [
        record if isinstance(record, NewRecord) else NewRecord(*record) for record in records
    ]
    assert entries, "a batch holds at least one record"
    timestamps = [
        timestamp_ms if entry.timestamp_ms is None else entry.timestamp_ms for entry in entries
    ]
    base_timestamp = timestamps[0]
    payload = bytearray()
    offset_delta = -1
    for entry, timestamp in zip(entries, timestamps, strict=True):
        offset_delta = offset_delta + 1 if entry.offset_delta is None else entry.offset_delta
        append_record(
            payload,
            timestamp - base_timestamp,
            offset_delta,
            encode_body(entry.key, entry.value, entry.headers),
        )
    return frame_batch(
        payload,
        record_count=len(entries),
        last_offset_delta=offset_delta,
        base_timestamp=base_timestamp,
        max_timestamp=max(timestamps),
        codec=CODEC_IDS[compression],
        producer=(producer_id, producer_epoch, base_sequence),
        base_offset=base_offset,
        leader_epoch=leader_epoch,
        attributes=attributes,
    )


def frame_batch(
    payload: bytes | bytearray,
    *,
    record_count: int,
    last_offset_delta: int,
    base_timestamp: int,
    max_timestamp: int,
    codec: int,
    producer: tuple[int, int, int],
    base_offset: int,
    leader_epoch: int,
    attributes: int,
) -> bytearray:
    """A batch around encoded records: compressed with `codec`, headed, sealed. `producer` is (id,
    epoch, sequence).
    """
    packed = compress(codec, payload) if codec else payload
    batch = bytearray(HEADER_BYTES)
    batch += packed
    HEADER.pack_into(
        batch,
        0,
        base_offset,
        len(batch) - LENGTH_OVERHEAD,
        leader_epoch,
        MAGIC,
        0,
        attributes | codec,
        last_offset_delta,
        base_timestamp,
        max_timestamp,
        *producer,
        record_count,
    )
    seal(batch)
    return batch


def append_record(
    payload: bytearray,
    timestamp_delta: int,
    offset_delta: int,
    body: bytes | bytearray | memoryview,
) -> None:
    """Append one record whose `body` (key, value, headers) is encoded already."""
    prefix = b"\x00" + encode_varint(timestamp_delta) + encode_varint(offset_delta)
    payload += encode_varint(len(prefix) + len(body))
    payload += prefix
    payload += body


def encode_records(bodies: Sequence[bytes]) -> bytes:
    """Records of one timestamp whose bodies (key, value, headers) are encoded already."""
    parts: list[bytes] = []
    for delta, body in enumerate(bodies):
        start = _RECORD_STARTS[delta] if delta < _NUMBERS_KEPT else _record_start(delta)
        parts += (encode_varint(len(start) + len(body)), start, body)
    return b"".join(parts)


def encode_body(
    key: bytes | None, value: bytes | None, headers: Sequence[tuple[str, bytes | None]]
) -> bytes:
    """Key, value and headers as a record holds them."""
    parts = [b"\x01" if key is None else encode_varint(len(key)) + key]
    parts.append(b"\x01" if value is None else encode_varint(len(value)) + value)
    parts.append(encode_varint(len(headers)))
    for name, content in headers:
        encoded = name.encode()
        parts.append(encode_varint(len(encoded)))
        parts.append(encoded)
        parts.append(b"\x01" if content is None else encode_varint(len(content)) + content)
    return b"".join(parts)


def encode_varint(number: int) -> bytes:
    """A signed 64-bit integer as zigzag varint, 1 to 10 bytes."""
    if 0 <= number < _NUMBERS_KEPT:
        return VARINTS[number]
    return _encode_varint(number)


def _record_start(offset_delta: int) -> bytes:
    """No attributes, no timestamp delta, the offset delta."""
    return b"\x00\x00" + encode_varint(offset_delta)


def _encode_varint(number: int) -> bytes:
    zigzag = (number << 1) ^ (number >> 63)
    encoded = bytearray()
    while zigzag > 127:
        encoded.append((zigzag & 0x7F) | 0x80)
        zigzag >>= 7
    encoded.append(zigzag)
    return bytes(encoded)


VARINTS: Final = tuple(_encode_varint(number) for number in range(_NUMBERS_KEPT))
"""`encode_varint` of the numbers from 0 on that lengths mostly are."""
_RECORD_STARTS: Final = tuple(_record_start(delta) for delta in range(_NUMBERS_KEPT))
