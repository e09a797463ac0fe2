"""Where the batches that a reader asks for lie: one plan, driven warm (never waits) or cold (off
the loop).

Not here: the driving (`partition_log`). `plan_read` yields what it wants read and is sent the
bytes. Positions come from a small cache of where the last reads ended (tailing and catching up are
one read each), else from the index and a short walk over batch headers. Only whole batches below
the end offset are returned.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Generator
from typing import Final, NamedTuple

from broker.errors import ErrorCode, Refusal
from broker.log.index import SegmentIndex
from broker.log.segment import Segment
from broker.records.batch import HEADER, HEADER_BYTES, LENGTH_OVERHEAD, MAGIC

POSITIONS_CACHED_MAX: Final = 64
"""Readers of one partition whose place is remembered."""
WALK_BYTES: Final = 16 * 1024
"""Read beyond what was asked when the first batch has yet to be found."""
_EMPTY: Final = memoryview(b"")


class ReadResult(NamedTuple):
    """Whole batches in order, the first of which contains the asked offset (or the next that is
    left after it).

    `next_offset` is where to read on; it is the asked offset when `records` is empty.
    """

    records: memoryview
    next_offset: int


class Want(NamedTuple):
    """Bytes to read; `size` 0 asks for the segment's index."""

    segment: Segment
    position: int
    size: int


class Reach(NamedTuple):
    """What of the log may be read. `segments` ascend; `end_offset` and `end_position` bound the
    last one.
    """

    segments: list[Segment]
    written_end_offset: int
    written_size: int


class PositionCache:
    """offset → (segment, position) for offsets at which a read ended."""

    __slots__ = ("_places",)

    def __init__(self) -> None:
        self._places: dict[int, tuple[Segment, int]] = {}

    def __len__(self) -> int:
        return len(self._places)

    def find(self, offset: int) -> tuple[Segment, int] | None:
        """Where the batch at `offset` begins, when known."""
        return self._places.get(offset)

    def remember(self, offset: int, segment: Segment, position: int) -> None:
        """The oldest memory goes when there are too many."""
        if offset not in self._places and len(self._places) >= POSITIONS_CACHED_MAX:
            del self._places[next(iter(self._places))]
        self._places[offset] = (segment, position)

    def clear(self) -> None:
        """After segments were replaced or cut."""
        self._places.clear()


def plan_read(
    reach: Reach,
    cache: PositionCache,
    offset: int,
    max_bytes: int,
    end_offset: int,
    *,
    at_least_one: bool,
) -> Generator[Want, bytes, ReadResult]:
    """The result of reading at `offset`, which the log has. Raises Refusal(KAFKA_STORAGE_ERROR) for
    damage.
    """
    end = min(end_offset, reach.written_end_offset)
    while offset < end:
        segment, segment_end, size = segment_at(reach, offset)
        start = yield from _locate(cache, segment, size, offset, segment_end, max_bytes)
        if start is None:  # the rest of this segment was compacted away
            if segment_end >= end:
                break
            offset = segment_end
            continue
        position, chunk = start
        return (
            yield from _cut(
                segment,
                position,
                size,
                chunk,
                offset,
                max_bytes,
                (segment_end, end),
                cache,
                at_least_one,
            )
        )
    return ReadResult(_EMPTY, offset)


def segment_at(reach: Reach, offset: int) -> tuple[Segment, int, int]:
    """(segment holding `offset`, its end offset, its readable bytes)."""
    segments = reach.segments
    active = segments[-1]
    if offset >= active.base_offset:
        return active, reach.written_end_offset, reach.written_size
    place = bisect_right(segments, offset, key=_base_offset)
    return (
        segments[max(place - 1, 0)],
        segments[max(place, 1)].base_offset,
        segments[max(place - 1, 0)].size,
    )


def _base_offset(segment: Segment) -> int:
    return segment.base_offset


def _locate(
    cache: PositionCache, segment: Segment, size: int, offset: int, segment_end: int, max_bytes: int
) -> Generator[Want, bytes, tuple[int, memoryview] | None]:
    """(position of the first batch that ends beyond `offset`, bytes from there on); None when there
    is none.
    """
    found = cache.find(offset)
    if found is not None and found[0] is segment:
        position = found[1]
    elif offset == segment.base_offset:
        position = 0
    else:
        index = yield from _index_of(segment)
        position = index.floor_offset(offset)[1]
    budget = max(max_bytes, HEADER_BYTES) + (0 if found is not None else WALK_BYTES)
    while position < size:
        chunk = memoryview((yield Want(segment, position, min(budget, size - position))))
        place = 0
        while len(chunk) - place >= HEADER_BYTES:
            _, last_offset, length = batch_at(segment, chunk, place, position)
            if last_offset >= offset:
                return position + place, chunk[place:]
            place += length
        if place == 0:
            raise damaged(segment, position, "the file is shorter than it was")
        position += place
    return None


def _cut(
    segment: Segment,
    position: int,
    size: int,
    chunk: memoryview,
    offset: int,
    max_bytes: int,
    ends: tuple[int, int],
    cache: PositionCache,
    at_least_one: bool,  # noqa: FBT001
) -> Generator[Want, bytes, ReadResult]:
    """Whole batches of `chunk`, which begins at `position`: up to `max_bytes` and below the end
    offset.
    """
    segment_end, end = ends
    limit = min(max_bytes, len(chunk))
    if end >= segment_end and limit >= size - position:
        stop, next_offset = size - position, segment_end
    else:
        stop, next_offset = _last_whole(segment, chunk, position, limit, min(end, segment_end))
    if stop == 0 and at_least_one:
        _, last_offset, length = batch_at(segment, chunk, 0, position)
        if last_offset < end:
            if length > len(chunk):
                chunk = memoryview((yield Want(segment, position, length)))
                if len(chunk) < length:
                    raise damaged(segment, position, "the file is shorter than it was")
            stop, next_offset = length, last_offset + 1
    if stop == 0:
        return ReadResult(_EMPTY, offset)
    cache.remember(next_offset, segment, position + stop)
    return ReadResult(chunk[:stop], next_offset)


def _last_whole(
    segment: Segment, chunk: memoryview, position: int, limit: int, end: int
) -> tuple[int, int]:
    """(bytes, next offset) of the whole batches within `limit` bytes of `chunk` and below `end`;
    (0, 0) for none.

    Near the middle of a big read the index already knows a boundary that will do; else headers are
    walked.
    """
    place = next_offset = 0
    if segment.index is not None:
        jump_offset, jump_position = min(
            segment.index.floor_position(position + limit), segment.index.floor_offset(end)
        )
        if jump_position > position:
            place, next_offset = jump_position - position, jump_offset
            if place >= limit // 2:
                return place, next_offset
    while limit - place >= HEADER_BYTES:
        _, last_offset, length = batch_at(segment, chunk, place, position)
        if place + length > limit or last_offset >= end:
            break
        place += length
        next_offset = last_offset + 1
    return place, next_offset


def batch_at(
    segment: Segment, chunk: memoryview, place: int, position: int
) -> tuple[int, int, int]:
    """(base offset, last offset inclusive, bytes) of the batch at `place`. Raises Refusal when none
    is there.
    """
    fields = HEADER.unpack_from(chunk, place)
    length = fields[1] + LENGTH_OVERHEAD
    if fields[3] != MAGIC or length < HEADER_BYTES:
        raise damaged(
            segment, position + place, f"no batch begins here (magic {fields[3]}, length {length})"
        )
    return fields[0], fields[0] + fields[6], length


def damaged(segment: Segment, position: int, reason: str) -> Refusal:
    """The refusal for stored bytes that cannot be what was written."""
    return Refusal(
        ErrorCode.KAFKA_STORAGE_ERROR, f"{segment.path()} is damaged at byte {position}: {reason}"
    )


def _index_of(segment: Segment) -> Generator[Want, bytes, SegmentIndex]:
    while segment.index is None:  # between loading it and going on, others may have closed it again
        yield Want(segment, 0, 0)
    return segment.index
