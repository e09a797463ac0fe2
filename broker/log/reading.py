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

from broker.log import checking
from broker.log.damage import Damaged, view_around
from broker.log.index import SegmentIndex
from broker.log.reach import Reach, Want
from broker.log.segment import Segment
from broker.records.batch import HEADER, HEADER_BYTES, LENGTH_OVERHEAD, MAGIC

POSITIONS_CACHED_MAX: Final = 64
"""Readers of one partition whose place is remembered."""
ENDS_CACHED_MAX: Final = 4
"""The last sync that ended, one that runs, and those that began without news in between."""
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


class PositionCache:
    """offset → (segment, position): `places` of offsets at which a read ended, `ends` of those at
    which the last syncs began, up to where readers read next.
    """

    __slots__ = ("ends", "places")

    def __init__(self) -> None:
        self.places: dict[int, tuple[Segment, int]] = {}
        self.ends: dict[int, tuple[Segment, int]] = {}

    def __len__(self) -> int:
        return len(self.places)

    def find(self, offset: int) -> tuple[Segment, int] | None:
        """Where the batch at `offset` begins, when known."""
        return self.places.get(offset)

    def remember(self, offset: int, segment: Segment, position: int) -> None:
        """The oldest memory goes when there are too many."""
        if offset not in self.places and len(self.places) >= POSITIONS_CACHED_MAX:
            del self.places[next(iter(self.places))]
        self.places[offset] = (segment, position)

    def remember_end(self, offset: int, segment: Segment, position: int) -> None:
        """As `remember`, where a sync begins: apart, so that many of them leave readers' places."""
        ends = self.ends
        if offset not in ends and len(ends) >= ENDS_CACHED_MAX:
            del ends[next(iter(ends))]
        ends[offset] = (segment, position)

    def clear(self) -> None:
        """After segments were replaced or cut."""
        self.places.clear()
        self.ends.clear()


def plan_read(
    reach: Reach,
    cache: PositionCache,
    offset: int,
    max_bytes: int,
    end_offset: int,
    *,
    at_least_one: bool,
) -> Generator[Want, bytes, ReadResult]:
    """The result of reading at `offset`, which the log has. Raises Refusal(CORRUPT_MESSAGE) where
    damage is known, Damaged where it is met.
    """
    end = min(end_offset, reach.written_end_offset)
    while offset < end:
        segment, segment_end, size = segment_at(reach, offset)
        floor = 0
        if segment.damaged:
            floor, size, segment_end = view_around(segment.damaged, offset, size, segment_end)
        start = yield from _locate(reach, cache, segment, (floor, size), offset, max_bytes)
        if start is None:  # the rest of this segment was compacted away
            if reach.is_gapless and segment.unchecked_below:
                raise Damaged(segment, size, f"it ends before offset {segment_end}")
            if segment_end >= end:
                break
            offset = segment_end
            continue
        position, chunk = start
        if position < segment.unchecked_below:
            return (
                yield from _cut_checked(
                    reach,
                    cache,
                    segment,
                    start,
                    (size, offset, max_bytes),
                    (segment_end, end),
                    at_least_one,
                )
            )
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
    reach: Reach,
    cache: PositionCache,
    segment: Segment,
    bounds: tuple[int, int],
    offset: int,
    max_bytes: int,
) -> Generator[Want, bytes, tuple[int, memoryview] | None]:
    """(position of the first batch that ends beyond `offset`, bytes from there on), looking in
    [bounds); None when there is none.
    """
    found = cache.find(offset)
    floor, size = bounds
    is_known = True
    if found is not None and found[0] is segment:
        base, position = offset, found[1]
    elif offset == segment.base_offset:
        base, position = offset, 0
    else:
        index = yield from _index_of(segment)
        base, position = index.floor_offset(offset)
        is_known = False
    is_exact = reach.is_gapless
    if position < floor:
        base, position, is_known, is_exact = segment.base_offset, floor, False, False
    is_checked = position < segment.unchecked_below
    if is_checked and not is_known:
        start = checking.Place(position, base, is_exact)
        exact = yield from checking.find(reach, segment, start, size, offset)
        if exact is None:
            return None
        position = exact
    budget = max(max_bytes, HEADER_BYTES) + (0 if is_checked or found is not None else WALK_BYTES)
    while position < size:
        chunk = memoryview((yield Want(segment, position, min(budget, size - position))))
        if not is_checked and position < segment.unchecked_below:  # it came from the device
            return (yield from _locate(reach, cache, segment, bounds, offset, max_bytes))
        place = 0
        while len(chunk) - place >= HEADER_BYTES:
            _, last_offset, length = batch_at(segment, chunk, place, position)
            if last_offset >= offset:
                return position + place, chunk[place:]
            if is_checked:
                raise Damaged(segment, position, f"last offset {last_offset} below {offset}")
            place += length
        if place == 0:
            raise Damaged(segment, position, "the file is shorter than it was")
        position += place
    return None


def _cut_checked(
    reach: Reach,
    cache: PositionCache,
    segment: Segment,
    start: tuple[int, memoryview],
    asked: tuple[int, int, int],
    ends: tuple[int, int],
    at_least_one: bool,  # noqa: FBT001
) -> Generator[Want, bytes, ReadResult]:
    """As `_cut`, of bytes that have to be checked first. `asked`: readable bytes, offset, bytes."""
    size, offset, max_bytes = asked
    segment_end, end = ends
    chunk, stop, next_offset = yield from checking.cut(
        reach,
        segment,
        start,
        size,
        offset,
        max_bytes,
        min(end, segment_end),
        at_least_one=at_least_one,
    )
    if stop == 0:
        return ReadResult(_EMPTY, offset)
    if start[0] + stop == size and end >= segment_end and not reach.is_gapless:
        next_offset = segment_end
    cache.remember(next_offset, segment, start[0] + stop)
    return ReadResult(chunk[:stop], next_offset)


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
                    raise Damaged(segment, position, "the file is shorter than it was")
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
        raise Damaged(
            segment, position + place, f"no batch begins here (magic {fields[3]}, length {length})"
        )
    return fields[0], fields[0] + fields[6], length


def _index_of(segment: Segment) -> Generator[Want, bytes, SegmentIndex]:
    while segment.index is None:  # between loading it and going on, others may have closed it again
        yield Want(segment, 0, 0)
    return segment.index
