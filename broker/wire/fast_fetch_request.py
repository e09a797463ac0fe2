"""Fetch requests without message objects: tuples, all partitions of a topic read in one go.

A request that holds what is rare (tagged fields, forgotten topics), or is malformed, is read by the
compiled decoder, which is the judge of both.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from typing import Final, NamedTuple

from broker.wire import api
from broker.wire.messages.fetch import FetchRequest
from broker.wire.primitives import read_uvarint
from broker.wire.schema import decoder

FetchWant = tuple[int, int, int, int, int]
"""(partition, current leader epoch, fetch offset, last fetched epoch, max bytes); an epoch that is
not told is -1."""
FetchTopicWants = tuple[str | bytes, Sequence[FetchWant]]
"""A topic is its name up to version 12, its 16-byte id from 13."""


class FetchParts(NamedTuple):
    """A fetch request. `replica_id` is that of a follower, -1 for consumers."""

    replica_id: int
    max_wait_ms: int
    min_bytes: int
    max_bytes: int
    isolation_level: int
    session_id: int
    session_epoch: int
    topics: Sequence[FetchTopicWants]
    forgotten: Sequence[tuple[str | bytes, Sequence[int]]] = ()


USUAL_PARTITIONS_MAX: Final = 10_000
"""Of all topics together; a request with more is the compiled decoder's, which refuses too many."""
_FLEXIBLE_FROM: Final = api.APIS[api.FETCH].flexible_from
_TOPIC_IDS_FROM: Final = 13
_REPLICA_STATE_FROM: Final = 15
_ID_BYTES: Final = 16
_ONE_BYTE_MAX: Final = 0x7F
"""Of an unsigned varint."""

_new: Final = tuple.__new__  # what a NamedTuple's constructor calls, without its Python frame
_FAILURES: Final = (struct.error, IndexError, UnicodeDecodeError)
_HEAD_12: Final = struct.Struct(">iiiibii")
_HEAD_15: Final = struct.Struct(">iiibii")
_PARTITION: Final = struct.Struct(">iiqi8xix")
"""The log start is a follower's; the last byte counts the tagged fields."""


def decode_fetch(view: memoryview, position: int, version: int) -> FetchParts:
    """The request body at `position`; bytes after it are ignored. Raises MalformedMessage."""
    if version >= _FLEXIBLE_FROM:
        try:
            usual = decode_usual(view, position, version)
        except _FAILURES:
            usual = None
        if usual is not None:
            return usual
    request, _ = decoder(FetchRequest, version)(view, position)
    return parts_of(request, uses_ids=version >= _TOPIC_IDS_FROM)


def parts_of(request: FetchRequest, *, uses_ids: bool) -> FetchParts:
    """The message as tuples."""
    return FetchParts(
        max(request.replica_id, request.replica_state.replica_id),
        request.max_wait_ms,
        request.min_bytes,
        request.max_bytes,
        request.isolation_level,
        request.session_id,
        request.session_epoch,
        [
            (
                topic.topic_id if uses_ids else topic.topic,
                [
                    (
                        item.partition,
                        item.current_leader_epoch,
                        item.fetch_offset,
                        item.last_fetched_epoch,
                        item.partition_max_bytes,
                    )
                    for item in topic.partitions
                ],
            )
            for topic in request.topics
        ],
        [
            (topic.topic_id if uses_ids else topic.topic, topic.partitions)
            for topic in request.forgotten_topics_data
        ],
    )


def decode_usual(view: memoryview, position: int, version: int) -> FetchParts | None:
    """None for what is left to the compiled decoder. Raises one of `_FAILURES` beyond the end."""
    limit = len(view)
    if version >= _REPLICA_STATE_FROM:
        head = (-1, *_HEAD_15.unpack_from(view, position))
        position += _HEAD_15.size
    else:
        head = _HEAD_12.unpack_from(view, position)
        position += _HEAD_12.size
    topic_count = view[position] - 1
    position += 1
    if not 0 <= topic_count < _ONE_BYTE_MAX:
        return None
    topics: list[FetchTopicWants] = []
    room = USUAL_PARTITIONS_MAX
    for _ in range(topic_count):
        name: str | bytes
        if version >= _TOPIC_IDS_FROM:
            name, position = bytes(view[position : position + _ID_BYTES]), position + _ID_BYTES
        else:
            size = view[position] - 1
            end = position + 1 + size
            if not 0 <= size < _ONE_BYTE_MAX or end > limit:
                return None
            name, position = str(view[position + 1 : end], "utf-8"), end
        count = view[position]
        position += 1
        if count > _ONE_BYTE_MAX:
            count, position = read_uvarint(view, position - 1)
        count -= 1
        end = position + count * _PARTITION.size
        if not 0 <= count <= room or end >= limit or view[end]:
            return None
        room -= count
        rows = view[position:end]
        if any(rows[_PARTITION.size - 1 :: _PARTITION.size]):
            return None
        topics.append((name, list(_PARTITION.iter_unpack(rows))))
        position = end + 1
    if view[position] != 1 or not _is_usual_rack(view, position + 1):  # forgotten topics
        return None
    return _new(FetchParts, (max(head[0], -1), *head[1:], topics, ()))


def _is_usual_rack(view: memoryview, position: int) -> bool:
    """Whether a rack's name and no tagged field end the request."""
    size = view[position] - 1
    end = position + 1 + size
    if size:
        if not 0 <= size < _ONE_BYTE_MAX:
            return False
        str(view[position + 1 : end], "utf-8")
    return not view[end]
