"""Produce without message objects: the same bytes as the compiled codecs, for the path of every
record.

A request is read into tuples whose records are slices of the receive buffer. An answer for one
partition is one precompiled Struct. What is rare (error messages, node endpoints) goes through
`frame.encode_response`.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from typing import Final, NamedTuple

from broker.wire import api
from broker.wire.frame import SIZE_BYTES
from broker.wire.primitives import (
    STRING_BYTES_MAX,
    MalformedMessage,
    malformed_count,
    malformed_length,
    malformed_null,
    malformed_string,
    read_uvarint,
    skip_tags,
    too_many_elements,
    write_count,
    write_name,
)

ProducePartition = tuple[int, memoryview | None]
"""(partition, records); null records are the caller's to refuse."""
ProduceTopic = tuple[str, list[ProducePartition]]


class ProduceParts(NamedTuple):
    """A produce request. `acks` is as sent."""

    transactional_id: str | None
    acks: int
    timeout_ms: int
    topics: list[ProduceTopic]


class ProducedPartition(NamedTuple):
    """An answer for one partition; offsets and time are -1 when there is an error."""

    partition: int
    error_code: int
    base_offset: int
    log_append_time_ms: int
    log_start_offset: int


PRODUCE_ENTRIES_MAX: Final = 10_000
"""Topics plus partitions of one request: handled in one step of the loop, tens of microseconds
each."""
_FLEXIBLE_FROM: Final = api.APIS[api.PRODUCE].flexible_from
_LOG_START_FROM: Final = 5
_RECORD_ERRORS_FROM: Final = 8
_TOPIC_BYTES_MAX: Final = 249
PRODUCED_FROM: Final = 7
"""From this version on answers name the log start, and batches may be packed with zstd."""

_new: Final = tuple.__new__  # what a NamedTuple's constructor calls, without its Python frame
_FAILURES: Final = (struct.error, IndexError, UnicodeDecodeError)
_INT16: Final = struct.Struct(">h")
_INT32: Final = struct.Struct(">i")
_ACKS: Final = struct.Struct(">hii")
_ACKS_FLEXIBLE: Final = struct.Struct(">hiB")
_PARTITION: Final = struct.Struct(">ii")
_PARTITION_FLEXIBLE: Final = struct.Struct(">iB")
_HEAD: Final = struct.Struct(">hhii")
_HEAD_FLEXIBLE: Final = struct.Struct(">BhiB")
_ONE_FLEXIBLE: Final = struct.Struct(">Bi")


def decode_produce(view: memoryview, position: int, version: int) -> ProduceParts:
    """The request body at `position`; bytes after it are ignored. Raises MalformedMessage.

    Records are slices of `view`: they live as long as its buffer keeps its content.
    """
    try:
        if version >= _FLEXIBLE_FROM:
            return _decode_flexible(view, position)
        return _decode(view, position)
    except _FAILURES as error:
        msg = f"ProduceRequest version {version}: {error}"
        raise MalformedMessage(msg) from None


def _decode(view: memoryview, position: int) -> ProduceParts:
    limit = len(view)
    transactional_id = None
    if view[position] == view[position + 1] == 0xFF:  # length -1
        position += 2
    else:
        transactional_id, position = _string(view, position, limit)
    acks, timeout_ms, topic_count = _ACKS.unpack_from(view, position)
    position += 10
    if not 0 <= topic_count * 6 <= limit - position:
        raise malformed_count(topic_count, position, limit)
    room = PRODUCE_ENTRIES_MAX - topic_count
    topics: list[ProduceTopic] = []
    for _ in range(topic_count):
        topic, position = _string(view, position, limit)
        (count,) = _INT32.unpack_from(view, position)
        position += 4
        if not 0 <= count * 8 <= limit - position:
            raise malformed_count(count, position, limit)
        room -= count
        if room < 0:
            raise too_many_elements(PRODUCE_ENTRIES_MAX)
        partitions: list[ProducePartition] = []
        for _ in range(count):
            partition, size = _PARTITION.unpack_from(view, position)
            position += 8
            if size < 0:
                if size != -1:
                    raise malformed_null("records", size)
                partitions.append((partition, None))
                continue
            end = position + size
            if end > limit:
                raise malformed_length(size, position, limit)
            partitions.append((partition, view[position:end]))
            position = end
        topics.append((topic, partitions))
    return _new(ProduceParts, (transactional_id, acks, timeout_ms, topics))


def _decode_flexible(view: memoryview, position: int) -> ProduceParts:
    limit = len(view)
    transactional_id = None
    if view[position]:
        transactional_id, position = _compact_string(view, position, limit)
    else:
        position += 1
    acks, timeout_ms, topic_count = _ACKS_FLEXIBLE.unpack_from(view, position)
    position += 7
    if topic_count > 0x7F:
        topic_count, position = read_uvarint(view, position - 1)
    topic_count -= 1
    if not 0 <= topic_count * 3 <= limit - position:
        raise malformed_count(topic_count, position, limit)
    room = PRODUCE_ENTRIES_MAX - topic_count
    topics: list[ProduceTopic] = []
    for _ in range(topic_count):
        topic, position = _compact_string(view, position, limit)
        partitions, position = _partitions_flexible(view, position, limit, room)
        room -= len(partitions)
        topics.append((topic, partitions))
        position = position + 1 if view[position] == 0 else skip_tags(view, position, limit)
    if view[position]:
        skip_tags(view, position, limit)
    return _new(ProduceParts, (transactional_id, acks, timeout_ms, topics))


def _partitions_flexible(
    view: memoryview, position: int, limit: int, room: int
) -> tuple[list[ProducePartition], int]:
    count = view[position]
    position += 1
    if count > 0x7F:
        count, position = read_uvarint(view, position - 1)
    count -= 1
    if not 0 <= count * 6 <= limit - position:
        raise malformed_count(count, position, limit)
    if count > room:
        raise too_many_elements(PRODUCE_ENTRIES_MAX)
    partitions: list[ProducePartition] = []
    for _ in range(count):
        partition, size = _PARTITION_FLEXIBLE.unpack_from(view, position)
        position += 5
        if size > 0x7F:
            size, position = read_uvarint(view, position - 1)
        if size:
            end = position + size - 1
            if end >= limit:  # a tag section follows
                raise malformed_length(size - 1, position, limit)
            partitions.append((partition, view[position:end]))
            position = end
        else:
            partitions.append((partition, None))
        position = position + 1 if view[position] == 0 else skip_tags(view, position, limit)
    return partitions, position


def _string(view: memoryview, position: int, limit: int) -> tuple[str, int]:
    (length,) = _INT16.unpack_from(view, position)
    position += 2
    if length < 0:
        raise malformed_null("topic or transactional id", length)
    end = position + length
    if end > limit:
        raise malformed_length(length, position, limit)
    return str(view[position:end], "utf-8"), end


def _compact_string(view: memoryview, position: int, limit: int) -> tuple[str, int]:
    length = view[position]
    position += 1
    if length > 0x7F:
        length, position = read_uvarint(view, position - 1)
        if length > STRING_BYTES_MAX + 1:
            raise malformed_string("topic or transactional id", length - 1)
    if length == 0:
        raise malformed_null("topic or transactional id", -1)
    end = position + length - 1
    if end > limit:
        raise malformed_length(length - 1, position, limit)
    return str(view[position:end], "utf-8"), end


def encode_produce_response(
    version: int,
    correlation_id: int,
    topic: str,
    answer: ProducedPartition,
    throttle_time_ms: int = 0,
) -> bytes:
    """The whole frame of an answer for a single partition."""
    name = topic.encode()
    size = len(name)
    if size > _TOPIC_BYTES_MAX:  # no such topic can exist; keeps the table of layouts small
        return encode_produce_responses(
            version, correlation_id, [(topic, [answer])], throttle_time_ms
        )
    shape = (version if version < _FLEXIBLE_FROM else _FLEXIBLE_FROM, size)
    layout = _SINGLE.get(shape)
    if layout is None:
        layout = _SINGLE[shape] = _single_layout(version, size)
    partition, error_code, base_offset, append_time_ms, log_start_offset = answer
    if version >= _FLEXIBLE_FROM:
        length = (size + 1,) if size < 0x7F else ((size + 1) & 0x7F | 0x80, 1)
        return layout.pack(
            layout.size - 4, correlation_id, 0, 2, *length, name,
            2, partition, error_code, base_offset, append_time_ms, log_start_offset,
            1, 0, 0, 0, throttle_time_ms, 0,
        )  # fmt: skip
    head = (
        layout.size - 4,
        correlation_id,
        1,
        size,
        name,
        1,
        partition,
        error_code,
        base_offset,
        append_time_ms,
    )
    if version >= _RECORD_ERRORS_FROM:
        return layout.pack(*head, log_start_offset, 0, -1, throttle_time_ms)
    if version >= _LOG_START_FROM:
        return layout.pack(*head, log_start_offset, throttle_time_ms)
    return layout.pack(*head, throttle_time_ms)


class ProducedAnswers:
    """The answers to batches that one partition took, in one version of PRODUCED_FROM or above: all
    alike but for a few numbers.
    """

    __slots__ = ("_layout", "_middle", "_size", "_tail")

    def __init__(self, version: int, topic: str, partition: int) -> None:
        assert version >= PRODUCED_FROM, "older answers have another layout"
        frame = encode_produce_response(version, 0, topic, ProducedPartition(partition, 0, 0, 0, 0))
        tail_bytes = 4 if version < _RECORD_ERRORS_FROM else 10 if version < _FLEXIBLE_FROM else 9
        middle_end = len(frame) - tail_bytes - 24
        self._size = len(frame) - SIZE_BYTES
        self._middle = frame[8:middle_end]
        self._tail = frame[len(frame) - tail_bytes :]
        self._layout = struct.Struct(f">ii{len(self._middle)}sqqq{tail_bytes}s")

    def encode(
        self,
        correlation_id: int,
        base_offset: int,
        log_append_time_ms: int,
        log_start_offset: int,
    ) -> bytes:
        """As `encode_produce_response` without an error: the whole frame."""
        return self._layout.pack(
            self._size,
            correlation_id,
            self._middle,
            base_offset,
            log_append_time_ms,
            log_start_offset,
            self._tail,
        )


def encode_produce_head(
    version: int, acks: int, timeout_ms: int, topic: str, partition: int
) -> bytes:
    """The body of a request with one batch and no transaction, up to the size of the batch."""
    name = topic.encode()
    out = bytearray()
    if version >= _FLEXIBLE_FROM:
        out += _HEAD_FLEXIBLE.pack(0, acks, timeout_ms, 2)
        write_name(out, name, is_flexible=True)
        return bytes(out + _ONE_FLEXIBLE.pack(2, partition))
    out += _HEAD.pack(-1, acks, timeout_ms, 1)
    write_name(out, name, is_flexible=False)
    return bytes(out + _PARTITION.pack(1, partition))


_SINGLE: Final[dict[tuple[int, int], struct.Struct]] = {}


def _single_layout(version: int, size: int) -> struct.Struct:
    """frame size, correlation id, [tags], topic count, name, partition count, index, error,
    offsets, …, throttle time.
    """
    if version >= _FLEXIBLE_FROM:
        return struct.Struct(f">iiBB{'B' if size < 0x7F else 'BB'}{size}sBihqqqBBBBiB")
    if version >= _RECORD_ERRORS_FROM:
        return struct.Struct(f">iiih{size}siihqqqihi")
    return struct.Struct(f">iiih{size}siihqq{'q' if version >= _LOG_START_FROM else ''}i")


def encode_produce_responses(
    version: int,
    correlation_id: int,
    topics: Sequence[tuple[str, Sequence[ProducedPartition]]],
    throttle_time_ms: int = 0,
) -> bytes:
    """The whole frame of an answer for any number of topics and partitions."""
    is_flexible = version >= _FLEXIBLE_FROM
    out = bytearray(struct.pack(">ii", 0, correlation_id))
    if is_flexible:
        out.append(0)
    write_count(out, len(topics), is_flexible=is_flexible)
    if is_flexible:
        layout, tail = struct.Struct(">ihqqq3s"), (b"\1\0\0",)
    elif version >= _RECORD_ERRORS_FROM:
        layout, tail = struct.Struct(">ihqqq6s"), (b"\0\0\0\0\xff\xff",)
    else:
        layout, tail = struct.Struct(">ihqqq0s"), (b"",)
    for topic, partitions in topics:
        write_name(out, topic.encode(), is_flexible=is_flexible)
        write_count(out, len(partitions), is_flexible=is_flexible)
        for answer in partitions:
            out += layout.pack(*answer, *tail)
            if version < _LOG_START_FROM:
                del out[-8:]
        if is_flexible:
            out.append(0)
    out += _INT32.pack(throttle_time_ms)
    if is_flexible:
        out.append(0)
    _INT32.pack_into(out, 0, len(out) - 4)
    return bytes(out)
