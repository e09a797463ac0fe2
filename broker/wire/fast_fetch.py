"""Fetch answers without message objects: the same bytes as the compiled codec, as a list of
buffers.

The records are handed on, never copied. What is rare (node endpoints, aborted transactions) goes
through `frame.encode_response`.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from typing import Final, NamedTuple

from broker.ports import Buffer
from broker.wire import api
from broker.wire.messages.fetch import EpochEndOffset, LeaderIdAndEpoch
from broker.wire.primitives import write_count, write_name, write_tags, write_uvarint


class FetchedPartition(NamedTuple):
    """An answer for one partition. `records` are whole batches, in order; `tagged` comes from
    `fetch_partition_tags`.
    """

    partition: int
    error_code: int
    high_watermark: int
    last_stable_offset: int
    log_start_offset: int
    records: Sequence[Buffer]
    tagged: bytes = b"\0"


_FLEXIBLE_FROM: Final = api.APIS[api.FETCH].flexible_from
_LOG_START_FROM: Final = 5
_SESSIONS_FROM: Final = 7
_PREFERRED_REPLICA_FROM: Final = 11
_TOPIC_IDS_FROM: Final = 13

_INT32: Final = struct.Struct(">i")


def fetch_partition_tags(
    *, diverging_epoch: EpochEndOffset | None = None, current_leader: LeaderIdAndEpoch | None = None
) -> bytes:
    """The tag section of one partition of a fetch answer, for `FetchedPartition.tagged`."""
    fields: list[tuple[int, bytearray]] = []
    if diverging_epoch is not None:
        value = struct.pack(">iqB", diverging_epoch.epoch, diverging_epoch.end_offset, 0)
        fields.append((0, bytearray(value)))
    if current_leader is not None:
        value = struct.pack(">iiB", current_leader.leader_id, current_leader.leader_epoch, 0)
        fields.append((1, bytearray(value)))
    out = bytearray()
    write_tags(out, fields)
    return bytes(out)


def encode_fetch_response_parts(
    version: int,
    correlation_id: int,
    topics: Sequence[tuple[str | bytes, Sequence[FetchedPartition]]],
    *,
    throttle_time_ms: int = 0,
    error_code: int = 0,
    session_id: int = 0,
    is_read_committed: bool = False,
) -> list[Buffer]:
    """A whole frame as buffers to be sent one after the other; records are among them as they were
    given.

    A topic is its name up to version 12, its 16-byte id from 13. The list of aborted transactions
    is null, or empty under read_committed: there are no transactions yet.
    """
    is_flexible = version >= _FLEXIBLE_FROM
    out = bytearray(struct.pack(">ii", 0, correlation_id))
    if is_flexible:
        out.append(0)
    out += _INT32.pack(throttle_time_ms)
    if version >= _SESSIONS_FROM:
        out += struct.pack(">hi", error_code, session_id)
    write_count(out, len(topics), is_flexible=is_flexible)
    parts: list[Buffer] = []
    frame_head, size = out, 0
    write = _write_partition_flexible if is_flexible else _write_partition
    for topic, partitions in topics:
        if version >= _TOPIC_IDS_FROM:
            assert len(topic) == 16, "from version 13 topics are named by id"
            out += topic  # type: ignore[arg-type]
        else:
            write_name(out, topic.encode(), is_flexible=is_flexible)  # type: ignore[union-attr]
        write_count(out, len(partitions), is_flexible=is_flexible)
        for answer in partitions:
            records = answer.records
            length = sum(map(len, records))
            write(out, version, answer, length, is_read_committed=is_read_committed)
            if length:
                parts.append(out)
                parts.extend(records)
                size += len(out) + length
                out = bytearray()
            if is_flexible:
                out += answer.tagged
        if is_flexible:
            out.append(0)
    if is_flexible:
        out.append(0)
    if out:
        parts.append(out)
        size += len(out)
    _INT32.pack_into(frame_head, 0, size - 4)
    return parts


_FETCHED_FLEXIBLE: Final = struct.Struct(">ihqqqBiB")
_FETCHED_FLEXIBLE_LONG: Final = struct.Struct(">ihqqqBi")
_FETCHED: Final = {
    4: struct.Struct(">ihqqii"),
    _LOG_START_FROM: struct.Struct(">ihqqqii"),
    _PREFERRED_REPLICA_FROM: struct.Struct(">ihqqqiii"),
}


def _write_partition_flexible(
    out: bytearray, _version: int, answer: FetchedPartition, length: int, *, is_read_committed: bool
) -> None:
    """index, error, watermark, stable offset, log start, aborted transactions, preferred replica,
    records length.
    """
    aborted = 1 if is_read_committed else 0
    if length < 0x7F:
        out += _FETCHED_FLEXIBLE.pack(*answer[:5], aborted, -1, length + 1)
    else:
        out += _FETCHED_FLEXIBLE_LONG.pack(*answer[:5], aborted, -1)
        write_uvarint(out, length + 1)


def _write_partition(
    out: bytearray, version: int, answer: FetchedPartition, length: int, *, is_read_committed: bool
) -> None:
    aborted = 0 if is_read_committed else -1
    if version >= _PREFERRED_REPLICA_FROM:
        out += _FETCHED[_PREFERRED_REPLICA_FROM].pack(*answer[:5], aborted, -1, length)
    elif version >= _LOG_START_FROM:
        out += _FETCHED[_LOG_START_FROM].pack(*answer[:5], aborted, length)
    else:
        out += _FETCHED[4].pack(*answer[:4], aborted, length)
