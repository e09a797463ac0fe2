"""A batch with fewer records: same offsets, sequences, timestamps and codec.

Not here: which records go.
"""

from __future__ import annotations

from broker.model import INT64_MAX, NO_TIMESTAMP
from broker.records.batch import (
    CODEC_MASK,
    DELETE_HORIZON_BIT,
    LOG_APPEND_TIME_BIT,
    BatchHeader,
)
from broker.records.build import append_record, frame_batch
from broker.records.iterate import RawRecord


def rebuilt(
    header: BatchHeader, payload: bytes, kept: list[RawRecord], horizon_ms: int | None
) -> bytearray:
    """The batch with the records `kept` of `payload` (one at least). `horizon_ms` becomes its base
    timestamp, which bit 6 of the attributes then says (KIP-534).
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
    latest = (
        header.max_timestamp
        if header.attributes & LOG_APPEND_TIME_BIT
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


def emptied(header: BatchHeader) -> bytearray:
    """The batch without a record and uncompressed, which says no more than its offsets, producer
    and last sequence. Without a time, so that none is looked for in it.
    """
    return frame_batch(
        b"",
        record_count=0,
        last_offset_delta=header.last_offset_delta,
        base_timestamp=NO_TIMESTAMP,
        max_timestamp=NO_TIMESTAMP,
        codec=0,
        producer=(header.producer_id, header.producer_epoch, header.base_sequence),
        base_offset=header.base_offset,
        leader_epoch=header.partition_leader_epoch,
        attributes=header.attributes & ~(CODEC_MASK | DELETE_HORIZON_BIT),
    )
