"""Fetch answers without message objects: the same bytes as the compiled codec, as a list of
buffers.

The records are handed on, never copied. What is rare (node endpoints, aborted transactions) goes
through `frame.encode_response`.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Sequence
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

_NO_REPLICA: Final = -1
_INT32: Final = struct.Struct(">i")
_TWO_BYTES: Final = struct.Struct(">BB").pack
_TWO_BYTES_FROM: Final = 1 << 7
_THREE_BYTES_FROM: Final = 1 << 14
"""Sizes from which a varint takes so many bytes."""


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
    out = _frame_head(version, correlation_id, throttle_time_ms, error_code, session_id)
    write_count(out, len(topics), is_flexible=is_flexible)
    parts: list[Buffer] = [out]
    for topic, partitions in topics:
        _write_topic(out, topic, version)
        write_count(out, len(partitions), is_flexible=is_flexible)
        if is_flexible:
            out = _write_flexible(parts, partitions, is_read_committed=is_read_committed)
            out.append(0)
        else:
            out = _write_partitions(parts, partitions, version, is_read_committed=is_read_committed)
    if is_flexible:
        out.append(0)
    if not out:
        parts.pop()
    _INT32.pack_into(parts[0], 0, sum(map(len, parts)) - _INT32.size)
    return parts


def _write_flexible(
    parts: list[Buffer], partitions: Sequence[FetchedPartition], *, is_read_committed: bool
) -> bytearray:
    """Append to the last of `parts`, which is returned, and new ones."""
    out = parts[-1]
    assert isinstance(out, bytearray), "heads are written, records are as they are"
    aborted = 1 if is_read_committed else 0  # a count of 0, or null
    for index, error_code, high_watermark, stable, log_start, records, tagged in partitions:
        out += _FLEXIBLE(index, error_code, high_watermark, stable, log_start, aborted, _NO_REPLICA)
        size = 1
        for batch in records:
            size += len(batch)
        if _TWO_BYTES_FROM <= size < _THREE_BYTES_FROM:  # most batches
            out += _TWO_BYTES(size & 0x7F | 0x80, size >> 7)
        else:
            write_uvarint(out, size)
        if size > 1:
            out = bytearray(tagged)
            parts += (*records, out)
        else:
            out += tagged
    return out


def _write_partitions(
    parts: list[Buffer],
    partitions: Sequence[FetchedPartition],
    version: int,
    *,
    is_read_committed: bool,
) -> bytearray:
    """As `_write_flexible`, for versions without tagged fields."""
    out = parts[-1]
    assert isinstance(out, bytearray), "heads are written, records are as they are"
    pack, field_count, *tails = _partition_layout(version)
    tail = tails[is_read_committed]
    for answer in partitions:
        records = answer.records
        size = sum(map(len, records))
        out += pack(*answer[:field_count], *tail, size)
        if size:
            out = bytearray()
            parts += (*records, out)
    return out


def _frame_head(
    version: int, correlation_id: int, throttle_time_ms: int, error_code: int, session_id: int
) -> bytearray:
    """What stands before the topics; the frame's size is filled in at the end."""
    out = bytearray(struct.pack(">ii", 0, correlation_id))
    if version >= _FLEXIBLE_FROM:
        out.append(0)
    out += _INT32.pack(throttle_time_ms)
    if version >= _SESSIONS_FROM:
        out += struct.pack(">hi", error_code, session_id)
    return out


def _write_topic(out: bytearray, topic: str | bytes, version: int) -> None:
    if isinstance(topic, bytes):
        assert version >= _TOPIC_IDS_FROM, "up to version 12 topics are named"
        assert len(topic) == 16, "a topic id has 16 bytes"
        out += topic
    else:
        assert version < _TOPIC_IDS_FROM, "from version 13 topics are named by id"
        write_name(out, topic.encode(), is_flexible=version >= _FLEXIBLE_FROM)


class _PartitionLayout(NamedTuple):
    """Index, error, watermark, stable offset, [log start], aborted, [preferred replica], size."""

    pack: Callable[..., bytes]
    answer_fields: int
    tail: tuple[int, ...]
    tail_read_committed: tuple[int, ...]


def _partition_layout(version: int) -> _PartitionLayout:
    if version >= _PREFERRED_REPLICA_FROM:
        return _LAYOUT_11
    return _LAYOUT_5 if version >= _LOG_START_FROM else _LAYOUT_4


_LAYOUT_4: Final = _PartitionLayout(struct.Struct(">ihqqii").pack, 4, (-1,), (0,))
_LAYOUT_5: Final = _PartitionLayout(struct.Struct(">ihqqqii").pack, 5, (-1,), (0,))
_LAYOUT_11: Final = _PartitionLayout(
    struct.Struct(">ihqqqiii").pack, 5, (-1, _NO_REPLICA), (0, _NO_REPLICA)
)
_FLEXIBLE: Final = struct.Struct(">ihqqqBi").pack
