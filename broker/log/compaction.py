"""What compaction does to the batches of one slice: module-level functions for the worker process,
bytes in, bytes out.

Not here: files. A batch that cannot be opened, and control batches, are kept as they are.
Tombstones stay for `delete.retention.ms` after the run that first saw them: their batch gets a
delete horizon (KIP-534) in its base timestamp, so client timestamps do not matter (KAFKA-4529).
"""

from __future__ import annotations

from array import array
from hashlib import blake2b
from typing import Final, NamedTuple

from broker.errors import Refusal
from broker.model import INT64_MAX
from broker.records.batch import (
    CODEC_MASK,
    CONTROL_BIT,
    DELETE_HORIZON_BIT,
    LOG_APPEND_TIME_BIT,
    BatchHeader,
    read_header,
)
from broker.records.build import append_record, frame_batch
from broker.records.iterate import (
    RawRecord,
    iterate_batches,
    iterate_raw,
    open_to_search,
)

DIGEST_BYTES: Final = 16


class Newest(NamedTuple):
    """Per key of a slice its digest and its last offset there (int64 array), side by side: plain
    bytes, so that a million keys cross to the loop at once. `record_count` counts all records that
    could be opened. `has_others`: a batch that could not be opened, or a record without a key,
    which stay.
    """

    digests: bytes
    offsets: bytes
    record_count: int
    has_tombstones: bool
    has_others: bool


def find_newest(content: bytes) -> Newest:
    """The keys of a slice of whole batches."""
    newest: dict[bytes, int] = {}
    count = 0
    has_tombstones = has_others = False
    for batch in iterate_batches(content):
        opened = _open(batch)
        if opened is None:
            has_others = True
            continue
        header, _, records = opened
        for raw in records:
            count += 1
            has_tombstones |= raw.is_tombstone
            if raw.key is None:
                has_others = True
            else:
                newest[raw.key] = header.base_offset + raw.offset_delta
    digests = b"".join([blake2b(key, digest_size=DIGEST_BYTES).digest() for key in newest])
    offsets = array("q", newest.values()).tobytes()
    return Newest(digests, offsets, count, has_tombstones, has_others)


def rewrite(content: bytes, survivors: bytes, now_wall_ms: int, delete_retention_ms: int) -> bytes:
    """The slice with only the records at the offsets in `survivors` (int64 array), and those
    without a key.
    """
    kept_offsets = set(array("q", survivors))
    parts: list[bytes | bytearray | memoryview] = []
    for batch in iterate_batches(content):
        opened = _open(batch)
        if opened is None:
            parts.append(batch)
            continue
        header, payload, records = opened
        is_past_horizon = (
            header.attributes & DELETE_HORIZON_BIT and now_wall_ms >= header.base_timestamp
        )
        kept = [
            raw
            for raw in records
            if (raw.key is None or header.base_offset + raw.offset_delta in kept_offsets)
            and not (raw.is_tombstone and is_past_horizon)
        ]
        needs_horizon = not header.attributes & DELETE_HORIZON_BIT and any(
            raw.is_tombstone for raw in kept
        )
        if len(kept) == len(records) and not needs_horizon:
            parts.append(batch)
        elif kept:
            parts.append(
                _rebuild(
                    header,
                    payload,
                    kept,
                    now_wall_ms + delete_retention_ms if needs_horizon else None,
                )
            )
    return b"".join(parts)


def _open(batch: memoryview) -> tuple[BatchHeader, bytes, list[RawRecord]] | None:
    """(header, unpacked records, their coordinates); None for what must be kept unopened."""
    if read_header(batch).attributes & CONTROL_BIT:
        return None
    try:
        header, payload = open_to_search(batch)
        return header, payload, list(iterate_raw(payload, header))
    except Refusal:
        return None


def _rebuild(
    header: BatchHeader, payload: bytes, kept: list[RawRecord], horizon_ms: int | None
) -> bytearray:
    """The batch with fewer records: same offsets, sequences and codec. `horizon_ms` becomes its
    base timestamp.
    """
    base_timestamp = header.base_timestamp if horizon_ms is None else horizon_ms
    shift = header.base_timestamp - base_timestamp
    records = bytearray()
    for raw in kept:
        append_record(
            records,
            max(raw.timestamp_delta + shift, -INT64_MAX - 1),  # times before any clock
            raw.offset_delta,
            payload[raw.body_position : raw.end],
        )
    is_fixed = header.attributes & LOG_APPEND_TIME_BIT
    latest = (
        header.max_timestamp
        if is_fixed
        else header.base_timestamp + max(raw.timestamp_delta for raw in kept)
    )
    return frame_batch(
        records,
        record_count=len(kept),
        last_offset_delta=header.last_offset_delta,
        base_timestamp=base_timestamp,
        max_timestamp=latest,
        codec=header.attributes & CODEC_MASK,
        producer=(header.producer_id, header.producer_epoch, header.base_sequence),
        base_offset=header.base_offset,
        leader_epoch=header.partition_leader_epoch,
        attributes=(header.attributes & ~CODEC_MASK)
        | (0 if horizon_ms is None else DELETE_HORIZON_BIT),
    )
