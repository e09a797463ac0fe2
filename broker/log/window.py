"""Up to where a log's batches were all appended at or before a time: both ends of a delivery
window.

Not here: clocks, settings, who waits (`server.delivery`). `Boundary` remembers where it stands, so
that going on costs what lies between; it never goes back. Indexes let it jump (all before an entry
was appended at or before the entry's time), batch headers decide. A batch's time is its header's
under LogAppendTime; of an older one, the record's own, kept between what the index knows. Bytes
that cannot be read, or are no batch, count as one batch up to the next entry, with that entry's
time: damage is reported to who reads it, and hides nothing that lies behind it.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Generator
from typing import TYPE_CHECKING, Final, NamedTuple

from broker.log.age import bounds_of
from broker.log.driving import refused
from broker.log.reach import Want
from broker.log.reading import segment_at
from broker.ports import DiskFault
from broker.records.batch import (
    HEADER,
    HEADER_BYTES,
    LENGTH_OVERHEAD,
    LOG_APPEND_TIME_BIT,
    MAGIC,
    BatchFields,
    is_intact,
)

if TYPE_CHECKING:
    from broker.log.index import SegmentIndex, Times
    from broker.log.partition_log import PartitionLog
    from broker.log.segment import Segment

SLICE_BYTES: Final = 16 * 1024
"""Headers are looked at in slices of this size: some 250 of the smallest batches."""
READS_PER_STEP_MAX: Final = 4
"""Slices, or indexes loaded, in one step; others get the loop in between."""


class Boundary:
    """Every batch below `offset` that the log still holds was appended at or before some time asked
    for; `next_time` is when the one at `offset` was, None when that is not known (yet).

    `passed_bytes` grows by the bytes of what is passed: take it and set it to 0.
    """

    __slots__ = ("_position", "_segment", "next_time", "offset", "passed_bytes")

    def __init__(self, offset: int) -> None:
        self.offset = offset
        self.next_time: int | None = None
        self.passed_bytes = 0
        self._segment: Segment | None = None
        self._position = 0

    def is_settled(self, limit_offset: int, until_ms: int) -> bool:
        """Whether nothing is left to look at: `advance` would change nothing."""
        if self.offset >= limit_offset:
            return True
        return self.next_time is not None and self.next_time > until_ms

    def advance(self, log: PartitionLog, limit_offset: int, until_ms: int) -> bool:
        """Go on as far as batches were appended at or before `until_ms`, at most to `limit_offset`,
        which is a batch's end; False when more is left than can be done at once and without
        waiting: use `advance_cold`.
        """
        self.raise_to(log.log_start_offset)
        if self.is_settled(limit_offset, until_ms):
            return True
        return _drive_warm(log, _plan(self, log, limit_offset, until_ms))

    async def advance_cold(self, log: PartitionLog, limit_offset: int, until_ms: int) -> bool:
        """As `advance`, but waits where it must; False when it is to be called again, after others
        had the loop. Nothing may advance the boundary beside it.

        Raises Refusal(KAFKA_STORAGE_ERROR) when an index can neither be read nor built.
        """
        self.raise_to(log.log_start_offset)
        if self.is_settled(limit_offset, until_ms):
            return True
        return await _drive_cold(log, _plan(self, log, limit_offset, until_ms))

    def raise_to(self, offset: int) -> None:
        """What lies below `offset` is passed, whatever its time."""
        if offset > self.offset:
            self.offset = offset
            self.next_time = None

    def stand(self, offset: int, segment: Segment | None, position: int, size: int) -> None:
        """The boundary is at `offset`, the batches from there on lie at `position` or later; `size`
        bytes were passed.
        """
        self.raise_to(offset)
        self._segment, self._position = segment, position
        self.passed_bytes += size

    def position_in(self, segment: Segment) -> int | None:
        """Where it stands, if it stands in `segment`."""
        return self._position if self._segment is segment else None


class _Place(NamedTuple):
    """A segment as it is now: where it ends, and how old it is."""

    segment: Segment
    segment_index: SegmentIndex
    times: Times
    end_offset: int
    size: int
    is_active: bool


class _Block(NamedTuple):
    """Bytes that end where a batch ends; all of them were appended at or before `time_ms`."""

    end_offset: int
    end_position: int
    time_ms: int


def _plan(
    boundary: Boundary, log: PartitionLog, limit_offset: int, until_ms: int
) -> Generator[Want, bytes, None]:
    """One slice after another; the log may change whenever bytes are waited for."""
    limit = min(limit_offset, log.written_end_offset)
    while not boundary.is_settled(limit, until_ms):
        segment, end_offset, size = segment_at(log.reach(), boundary.offset)
        is_active = segment is log.active
        times = log.times_of(segment)
        if times is None:
            yield Want(segment, 0, 0)
            continue
        if not is_active and times.last_append_time <= until_ms and end_offset <= limit:
            boundary.stand(end_offset, None, 0, size - (boundary.position_in(segment) or 0))
            continue
        if segment.index is None:
            yield Want(segment, 0, 0)
            continue
        place = _Place(segment, segment.index, times, end_offset, size, is_active)
        if not (yield from _walk(boundary, log, place, limit, until_ms)):
            return


def _walk(
    boundary: Boundary, log: PartitionLog, place: _Place, limit: int, until_ms: int
) -> Generator[Want, bytes, bool]:
    """Look at one slice of headers; False when nothing more can be passed for now."""
    position = _jump(boundary, place, limit, until_ms)
    if position >= place.size:
        if place.is_active or place.end_offset > limit:
            return False  # nothing is left of it, or a flush failed meanwhile
        boundary.stand(place.end_offset, None, 0, 0)
        return True
    chunk = yield from _read(place.segment, position, min(SLICE_BYTES, place.size - position))
    if chunk is None or len(chunk) < HEADER_BYTES:
        return place.segment not in log.segments or _pass_block(
            boundary, place, position, limit, until_ms
        )
    block = _block_at(place, position)
    offset, passed, at = boundary.offset, 0, 0
    stop: BatchFields | None = None
    while len(chunk) - at >= HEADER_BYTES:
        if position + at >= block.end_position:
            block = _block_at(place, position + at)
        fields: BatchFields = HEADER.unpack_from(chunk, at)
        length, last_offset = fields[1] + LENGTH_OVERHEAD, fields[0] + fields[6]
        if (
            fields[3] != MAGIC
            or length < HEADER_BYTES
            or position + at + length > block.end_position
            or last_offset >= block.end_offset
        ):
            boundary.stand(offset, place.segment, position + at, passed)
            return _pass_block(boundary, place, position + at, limit, until_ms)
        if last_offset >= offset:
            if last_offset >= limit or _time_of(place, fields) > until_ms:
                stop = fields
                break
            offset, passed = last_offset + 1, passed + length
        at += length
    boundary.stand(offset, place.segment, position + at, passed)
    if stop is None:
        return True
    return (yield from _stop(boundary, place, stop, position + at, limit, until_ms))


def _stop(
    boundary: Boundary,
    place: _Place,
    fields: BatchFields,
    position: int,
    limit: int,
    until_ms: int,
) -> Generator[Want, bytes, bool]:
    """The batch at `position` is too young, or not below `limit`: False, unless its header lies."""
    if fields[0] >= limit:
        boundary.stand(limit, place.segment, position, 0)
        return False
    if fields[0] + fields[6] >= limit:
        return False
    time = _time_of(place, fields)
    if time > place.times.last_append_time:  # later than anything was appended here
        size = min(fields[1] + LENGTH_OVERHEAD, place.size - position)
        batch = yield from _read(place.segment, position, size)
        if batch is None or not is_intact(batch):
            return _pass_block(boundary, place, position, limit, until_ms)
    boundary.next_time = time
    return False


def _jump(boundary: Boundary, place: _Place, limit: int, until_ms: int) -> int:
    """The position to look at next: the last index entry that is old enough, or where the boundary
    stands.
    """
    index = place.segment_index
    known = boundary.position_in(place.segment)
    position = index.floor_offset(boundary.offset)[1] if known is None else known
    entry = bisect_right(index.append_times, until_ms) - 1
    size = 0
    if entry >= 0:
        offset = index.base_offset + index.relative_offsets[entry]
        if index.positions[entry] > position and boundary.offset < offset <= limit:
            size = index.positions[entry] - position
            position += size
            boundary.raise_to(offset)
    boundary.stand(boundary.offset, place.segment, position, size)
    return position


def _pass_block(
    boundary: Boundary, place: _Place, position: int, limit: int, until_ms: int
) -> bool:
    """Treat what lies between `position` and the next index entry as one batch; whether it could be
    passed.
    """
    block = _block_at(place, position)
    if block.end_offset > limit:
        return False
    if block.time_ms > until_ms:
        boundary.next_time = block.time_ms
        return False
    boundary.stand(
        block.end_offset, place.segment, block.end_position, block.end_position - position
    )
    return True


def _block_at(place: _Place, position: int) -> _Block:
    """From `position` to the next index entry, or to the segment's end."""
    index = place.segment_index
    entry = bisect_right(index.positions, position)
    if entry < len(index) and index.positions[entry] < place.size:
        offset = index.base_offset + index.relative_offsets[entry]
        return _Block(offset, index.positions[entry], index.append_times[entry])
    return _Block(place.end_offset, place.size, place.times.last_append_time)


def _time_of(place: _Place, fields: BatchFields) -> int:
    """When the batch was appended, in wall milliseconds."""
    if fields[5] & LOG_APPEND_TIME_BIT:
        return fields[8]
    bounds = bounds_of(place.segment_index, place.times, fields[0])
    return min(max(fields[8], bounds.earliest_ms), bounds.latest_ms)


def _read(segment: Segment, position: int, size: int) -> Generator[Want, bytes, bytes | None]:
    """None when the disk does not give it."""
    try:
        return (yield Want(segment, position, size))
    except (DiskFault, FileNotFoundError):
        return None


def _drive_warm(log: PartitionLog, plan: Generator[Want, bytes, None]) -> bool:
    """True when the plan came to its end without waiting."""
    try:
        want = next(plan)
        for _ in range(READS_PER_STEP_MAX):
            if not want.size or (want.segment is not log.active and not want.segment.is_open):
                break
            content = want.segment.file().read(want.position, want.size)
            if content is None:
                break
            want = plan.send(content)
    except StopIteration:
        return True
    except (DiskFault, FileNotFoundError):
        pass  # the other way tells damage from what was deleted meanwhile
    plan.close()
    return False


async def _drive_cold(log: PartitionLog, plan: Generator[Want, bytes, None]) -> bool:
    """True when the plan came to its end."""
    try:
        want = next(plan)
        for _ in range(READS_PER_STEP_MAX):
            if want.segment is not log.active:
                log.open_segments.touch(want.segment)
            try:
                if want.size:
                    content = await want.segment.read_cold(want.position, want.size)
                else:
                    content = b""
                    await log.load_index(want.segment)
            except (DiskFault, FileNotFoundError) as fault:
                if not want.size and want.segment in log.segments:
                    raise refused(log, fault) from fault
                want = plan.throw(fault) if want.size else plan.send(b"")
            else:
                want = plan.send(content)
    except StopIteration:
        return True
    plan.close()
    return False
