"""Produce requests that are like one before: all but the correlation id and the batch repeats what
the general way (`handlers.produce`) has decoded and staged. The short way for them.

Contract: what a request's head says is known from the very same bytes, so nothing is decoded; the
batch goes through `Partition.stage` like any other. A request that is refused, or needs more than
staging, is left untouched for the general way, which does it all again from its beginning. Both
ways give the same answers, bytes and counts. Whenever a partition comes or goes all is forgotten.
"""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING, Final

from broker.errors import ErrorCode, Refusal
from broker.model import AppendResult
from broker.server.acks import ACKS_ALL, ACKS_LEADER
from broker.server.incoming import Incoming
from broker.server.slot import ResponseSlot
from broker.wire.api import APIS, PRODUCE
from broker.wire.fast_produce import (
    PRODUCED_FROM,
    ProducedAnswers,
    ProducedPartition,
    ProduceParts,
    encode_produce_head,
    encode_produce_response,
)
from broker.wire.frame import RequestHeader

if TYPE_CHECKING:
    from broker.server.connection import Connection
    from broker.server.partition import Partition

HEADS_MAX: Final = 4_096
"""Heads remembered by a broker; one more, and it begins anew."""
HEAD_BYTES_MAX: Final = 512
"""Of a head that is remembered: a client id and a topic's name are most of it."""
FRAME_BYTES_MIN: Final = 90
"""The shortest request with a batch is longer; shorter ones are not looked at."""
HEAD_REST_BYTES_MIN: Final = 22
"""Behind the client id of any request."""

_FLEXIBLE_FROM: Final = APIS[PRODUCE].flexible_from
_FRAME: Final = struct.Struct(">iiih")
"""Size, API key (0) and version in one, correlation id, size of the client id."""
_CORRELATION_END: Final = 12
_CLIENT_ID: Final = 14
_INT32: Final = struct.Struct(">i")
_NO_TAGS: Final = b"\0\0\0"
"""The tag sections of partition, topic and request."""
_NONE: Final = ErrorCode.NONE


class KnownHead:
    """What requests with one head ask for."""

    __slots__ = ("acks", "answers", "partition", "version")

    def __init__(self, partition: Partition, version: int, acks: int) -> None:
        self.partition = partition
        self.version = version
        self.acks = acks
        self.answers = ProducedAnswers(version, partition.topic, partition.index)


class ProduceHeads:
    """The heads that a broker has seen, by API version and bytes: all behind the correlation id,
    up to the size of the batch.
    """

    def __init__(self) -> None:
        self._by_version: dict[int, dict[bytes, KnownHead]] = {}
        self.count = 0

    def of_version(self, version: int) -> dict[bytes, KnownHead]:
        """To look up only."""
        return self._by_version.get(version, _NOTHING)

    def learn(
        self,
        header: RequestHeader,
        request: ProduceParts,
        frame: memoryview,
        partition: Partition | None,
    ) -> None:
        """`request`, read from `frame`, had one batch, which was staged in `partition`."""
        version, acks = header.api_version, request.acks
        if partition is None or version < PRODUCED_FROM or not ACKS_ALL <= acks <= ACKS_LEADER:
            return
        body = encode_produce_head(
            version, acks, request.timeout_ms, partition.topic, partition.index
        )
        end = header.body_position + len(body)
        begin = _CORRELATION_END - 4
        if end > HEAD_BYTES_MAX or frame[header.body_position : end] != body:
            return  # written in another way than usual
        if self.count >= HEADS_MAX:
            self.forget()
        known = self._by_version.setdefault(version, {})
        head = bytes(frame[begin:end])
        self.count += head not in known
        known[head] = KnownHead(partition, version, acks)

    def forget(self) -> None:
        """A partition came or went: names may mean others now."""
        self._by_version.clear()
        self.count = 0


_NOTHING: Final[dict[bytes, KnownHead]] = {}


class RepeatedSlot(ResponseSlot):
    """A place in the order of answers that knows how to make its answer."""

    __slots__ = ("_correlation_id", "_known", "result")

    def __init__(self, connection: Connection, known: KnownHead, correlation_id: int) -> None:
        self._connection = connection
        self.api_metrics = connection.broker.produce_metrics
        self.received_ms = connection.now_ms
        self.chunks = None
        self.on_dropped = None
        self.held_bytes = self.request_bytes = 0
        self._known = known
        self._correlation_id = correlation_id
        self.result: AppendResult | None = None

    def on_done(self, error: ErrorCode) -> None:
        """The batch has what its acks ask for, or met `error`."""
        known, result = self._known, self.result
        if error is not _NONE:
            self.api_metrics.count_error(error)
            topic, index = known.partition.topic, known.partition.index
            answer = ProducedPartition(index, error, -1, -1, -1)
            frame = encode_produce_response(known.version, self._correlation_id, topic, answer)
        else:
            assert result is not None, "a batch is acknowledged after it was staged"
            frame = known.answers.encode(self._correlation_id, result[0], result[2], result[3])
        self.complete((frame,))


def stage_repeated(connection: Connection, incoming: Incoming) -> None:
    """Stage the requests with known heads that come next, up to one that is none of them, refused,
    or incomplete.
    """
    broker = connection.broker
    if broker.space.is_low:
        return
    view, position, end = incoming.view, incoming.position, incoming.end
    size_max = broker.settings.socket_request_max_bytes
    heads_of = broker.partitions.produce_heads.of_version
    now_wall_ms = connection.now_wall_ms
    slots: list[RepeatedSlot] = []
    try:
        while end - position > FRAME_BYTES_MIN:
            size, version, correlation_id, client_bytes = _FRAME.unpack_from(view, position)
            frame_end = position + 4 + size
            if frame_end > end or not FRAME_BYTES_MIN <= size <= size_max:
                return
            known_heads = heads_of(version)  # or the API is another one: then it is unknown, too
            client_end = position + _CLIENT_ID + (client_bytes if client_bytes > 0 else 0)
            if not known_heads or client_end + HEAD_REST_BYTES_MIN > frame_end:
                return
            is_flexible = version >= _FLEXIBLE_FROM
            head_end = client_end + _head_rest(view, client_end, is_flexible=is_flexible)
            known = known_heads.get(view[position + _CORRELATION_END : head_end].tobytes())
            if known is None:
                return
            records = _records(view, head_end, frame_end, is_flexible=is_flexible)
            partition, acks = known.partition, known.acks
            if (
                records is None
                or partition.intake is not None
                or (acks == ACKS_ALL and not partition.has_enough_replicas)
            ):
                return
            slot = RepeatedSlot(connection, known, correlation_id)
            try:
                slot.result = partition.stage(
                    records, slot.on_done, acks=acks, now_wall_ms=now_wall_ms
                )
            except Refusal:
                return
            slots.append(slot)
            position = frame_end
    finally:
        if slots:
            incoming.position = position
            connection.add_staged(slots)


def _head_rest(view: memoryview, client_end: int, *, is_flexible: bool) -> int:
    """Bytes of the head behind the client id, if it is written as usual: its tags, transactional
    id, acks 2, timeout 4, topic count, topic, partition count, partition 4.
    """
    if is_flexible:
        return 14 + view[client_end + 9]
    return 22 + (view[client_end + 12] << 8) + view[client_end + 13]


def _records(
    view: memoryview, position: int, frame_end: int, *, is_flexible: bool
) -> memoryview | None:
    """The batch whose size is at `position`, when nothing but empty tag sections follows it."""
    if is_flexible:
        if position + 3 > frame_end:
            return None
        size = view[position]
        position += 1
        if size > 0x7F:
            size = size & 0x7F | view[position] << 7
            position += 1
            if size > 0x3FFF:
                size = size & 0x3FFF | view[position] << 14
                position += 1
        end = position + size - 1
        if size > 0x1F_FFFF or end + 3 != frame_end or view[end:frame_end].tobytes() != _NO_TAGS:
            return None
        return view[position:end]
    if position + 4 > frame_end:
        return None
    (size,) = _INT32.unpack_from(view, position)
    position += 4
    return view[position:frame_end] if size == frame_end - position else None
