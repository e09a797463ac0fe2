"""Finding records by time: exact per record, also inside compressed batches and when batches are
out of order.

Not here: the special timestamps of ListOffsets, which the handler maps. Segment and index say where
a batch may lie (running maximum of timestamps), batch headers say which one, the batch itself which
record. A batch whose records cannot be unpacked within bounds, or whose header promises a timestamp
that none of its records has, answers with its first offset: too early is safe, too late would lose
records, and going on would open batch after batch of a client that lies.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import TYPE_CHECKING, Final, NamedTuple

from broker.errors import ErrorCode, Refusal
from broker.log.damage import Damaged, DamagedRange
from broker.log.driving import READ_ATTEMPTS_MAX, refused, survey_met, take
from broker.log.segment import Segment
from broker.log.survey import Extent, extent_of
from broker.log.turns import OthersFirst
from broker.model import INT64_MAX
from broker.ports import Buffer, DiskFault, Worker
from broker.records.batch import (
    CODEC_MASK,
    HEADER_BYTES,
    LOG_APPEND_TIME_BIT,
    MAGIC,
    BatchHeader,
    is_intact,
    read_header,
)
from broker.records.iterate import iterate_raw, open_to_search

if TYPE_CHECKING:
    from broker.log.index import Times
    from broker.log.partition_log import PartitionLog

SLICE_BYTES: Final = 32 * 1024
"""Headers are looked at in slices of this size: some 400 of the smallest batches, below 2 ms."""
OPEN_HERE_BYTES_MAX: Final = 32 * 1024
"""An uncompressed batch up to this size is opened on the loop, others by the worker."""


class TimestampedOffset(NamedTuple):
    """A record found by time: `timestamp` in ms, `leader_epoch` of its batch."""

    offset: int
    timestamp: int
    leader_epoch: int


async def first_at_or_after(
    log: PartitionLog,
    timestamp_ms: int,
    end_offset: int,
    worker: Worker | None,
    start_offset: int = 0,
) -> TimestampedOffset | None:
    """The first record of [start, end) whose timestamp is `timestamp_ms` or later."""
    return await _around_damage(
        log, lambda: _first(log, timestamp_ms, end_offset, worker, start_offset)
    )


async def _first(
    log: PartitionLog,
    timestamp_ms: int,
    end_offset: int,
    worker: Worker | None,
    start_offset: int,
) -> TimestampedOffset | None:
    log.check_online()
    bounds = (start_offset, min(end_offset, log.written_end_offset))
    offset, tries_left = 0, READ_ATTEMPTS_MAX
    while offset < bounds[1]:
        segment, segment_end = _holder(log, offset)
        if segment.base_offset >= bounds[1]:
            break
        try:
            if (await _times(log, segment)).max_timestamp >= timestamp_ms:
                found = await _first_in_segment(log, segment, timestamp_ms, bounds, worker)
                if found is not None:
                    return found
        except (DiskFault, FileNotFoundError, Refusal) as fault:
            if segment in log.segments:
                raise refused(log, fault) from fault
        if _holder(log, offset)[0] is segment:
            offset, tries_left = segment_end, READ_ATTEMPTS_MAX
        elif tries_left := tries_left - 1:
            continue  # what took its place may hold what is looked for
        else:
            raise _being_replaced(log)
    return None


def _holder(log: PartitionLog, offset: int) -> tuple[Segment, int]:
    """(the segment that `offset` lies in or, below the first, that; its end)."""
    segments = log.segments
    following = max(1, bisect_right(segments, offset, key=_base_offset))
    is_last = following == len(segments)
    return segments[following - 1], INT64_MAX if is_last else segments[following].base_offset


def _base_offset(segment: Segment) -> int:
    return segment.base_offset


def _being_replaced(log: PartitionLog) -> Refusal:
    return Refusal(
        ErrorCode.KAFKA_STORAGE_ERROR, f"segments of {log.directory} are being replaced: ask again"
    )


async def greatest(
    log: PartitionLog, end_offset: int, worker: Worker | None, start_offset: int = 0
) -> TimestampedOffset | None:
    """The first record of [start, end) with the greatest timestamp."""
    return await _around_damage(log, lambda: _greatest(log, end_offset, worker, start_offset))


async def _around_damage(
    log: PartitionLog, look: Callable[[], Awaitable[TimestampedOffset | None]]
) -> TimestampedOffset | None:
    """What `look` finds. Where it meets damage, that is looked at, and left out by the next try:
    nobody can read the records there.
    """
    for _ in range(READ_ATTEMPTS_MAX):
        try:
            return await look()
        except Damaged as met:
            await survey_met(log, met)
    return await look()


async def _greatest(
    log: PartitionLog, end_offset: int, worker: Worker | None, start_offset: int
) -> TimestampedOffset | None:
    for _ in range(READ_ATTEMPTS_MAX):
        log.check_online()
        bounds = (max(log.log_start_offset, start_offset), min(end_offset, log.written_end_offset))
        try:
            return await _greatest_within(log, bounds, worker)
        except _Gone:
            continue  # what took its place may hold it
    raise _being_replaced(log)


class _Gone(Exception):
    """A segment left the log while it was looked through."""


async def _greatest_within(
    log: PartitionLog, bounds: tuple[int, int], worker: Worker | None
) -> TimestampedOffset | None:
    """Raises _Gone."""
    best: TimestampedOffset | None = None
    for max_timestamp, segment in await _latest_first(log, bounds[1]):
        if best is not None and max_timestamp < best.timestamp:
            break
        try:
            found = await _greatest_in_segment(log, segment, bounds, worker)
        except (DiskFault, FileNotFoundError, Refusal) as fault:
            if segment in log.segments:
                raise refused(log, fault) from fault
        if segment not in log.segments:
            raise _Gone
        best = _later(best, found)
    return best


async def _latest_first(log: PartitionLog, end: int) -> list[tuple[int, Segment]]:
    """(greatest timestamp, segment) of those that begin below `end`, the latest first. Raises
    _Gone.
    """
    found: list[tuple[int, Segment]] = []
    for segment in list(log.segments):
        if segment.base_offset >= end:
            break
        try:
            found.append(((await _times(log, segment)).max_timestamp, segment))
        except (DiskFault, FileNotFoundError, Refusal) as fault:
            if segment in log.segments:
                raise refused(log, fault) from fault
            raise _Gone from fault
    return sorted(found, key=lambda entry: (-entry[0], entry[1].base_offset))


async def _times(log: PartitionLog, segment: Segment) -> Times:
    """A segment's times; of one whose index was not loaded yet, after others had the loop."""
    known = log.times_of(segment)
    if known is None:
        known = await log.load_index(segment)
        await OthersFirst()
    return known


def _later(
    best: TimestampedOffset | None, found: TimestampedOffset | None
) -> TimestampedOffset | None:
    """The one with the greater timestamp; of equals, the one with the lower offset."""
    if best is None or found is None:
        return best or found
    return max(best, found, key=lambda each: (each.timestamp, -each.offset))


async def _greatest_in_segment(
    log: PartitionLog, segment: Segment, bounds: tuple[int, int], worker: Worker | None
) -> TimestampedOffset | None:
    """By its batches' headers: one whole batch is opened, and those that `bounds` cut if their
    headers promise more.
    """
    await log.load_index(segment)
    assert segment.index is not None, "the index is loaded"
    index, (low, end) = segment.index, bounds
    position = index.floor_offset(low)[1]
    latest: tuple[BatchHeader, int] | None = None
    if low <= segment.base_offset and not segment.damaged:
        # all before the last entry may be read, and is summed up there
        position = index.floor_offset(end)[1]
        latest = await _first_promise(log, segment, index.max_timestamp_before(position), end)
    cut: list[tuple[BatchHeader, int]] = []
    async for header, place in _batches(log, segment, position, end):
        if header.last_offset < low or not header.record_count:
            continue
        if header.base_offset < low or header.last_offset >= end:
            cut.append((header, place))
        elif latest is None or header.max_timestamp > latest[0].max_timestamp:
            latest = header, place
    best: TimestampedOffset | None = None
    whole = [] if latest is None else [latest]
    for candidate in sorted([*cut, *whole], key=lambda found: found[0].base_offset):
        if best is None or candidate[0].max_timestamp > best.timestamp:
            best = _later(best, await _ask(segment, *candidate, None, bounds, worker))
    return best


async def _first_promise(
    log: PartitionLog, segment: Segment, timestamp_ms: int, end: int
) -> tuple[BatchHeader, int] | None:
    """(header, position) of the first batch of the segment that promises `timestamp_ms`."""
    assert segment.index is not None, "the index is loaded"
    start = segment.index.floor_timestamp(timestamp_ms)[1]
    async for header, position in _batches(log, segment, start, end):
        if header.max_timestamp >= timestamp_ms and header.record_count:
            return header, position
    return None


async def _first_in_segment(
    log: PartitionLog,
    segment: Segment,
    timestamp_ms: int,
    bounds: tuple[int, int],
    worker: Worker | None,
) -> TimestampedOffset | None:
    await log.load_index(segment)
    assert segment.index is not None, "the index is loaded"
    start_offset, end = bounds
    start = max(
        segment.index.floor_timestamp(timestamp_ms)[1],
        segment.index.floor_offset(max(start_offset, log.log_start_offset))[1],
    )
    async for header, position in _batches(log, segment, start, end):
        first = max(log.log_start_offset, start_offset)
        if (
            header.max_timestamp >= timestamp_ms
            and header.last_offset >= first
            and header.record_count
        ):
            found = await _ask(segment, header, position, timestamp_ms, (first, end), worker)
            if found is not None:
                return found
    return None


async def _batches(
    log: PartitionLog, segment: Segment, position: int, end: int
) -> AsyncIterator[tuple[BatchHeader, int]]:
    """(header, position) of each batch from `position` on, where the index has one, that begins
    below offset `end`; known damage is left out. Raises Damaged for any other.
    """
    if segment not in log.segments:
        return
    await log.load_index(segment)  # others may have closed it while something was read
    if segment not in log.segments:
        return
    assert segment.index is not None, "the index is loaded"
    extent = extent_of(log, segment)
    offset = segment.index.floor_position(position)[0]
    while position < extent.size:
        known = _damage_at(segment, position)
        if known is not None:
            position, offset = known.end_position, known.end_offset
            continue
        ahead = [found.position for found in segment.damaged if found.position > position]
        size = min(extent.size, *ahead, position + SLICE_BYTES) - position
        content = await take(segment, position, size)
        place = 0
        while len(content) - place >= HEADER_BYTES:
            header = read_header(content, place)
            if header.magic != MAGIC or header.size < HEADER_BYTES:
                raise Damaged(segment, position + place, "no batch begins here")
            if place and header.size > len(content) - place:
                break
            _check_offsets(segment, position + place, header, offset, extent)
            await _check(segment, content, place, position, header.size)
            if header.base_offset >= end:
                return
            yield header, position + place
            place += header.size
            offset = header.next_offset
        if place == 0:
            return  # cut off by a flush that failed meanwhile
        position += place


def _check_offsets(
    segment: Segment, position: int, header: BatchHeader, offset: int, extent: Extent
) -> None:
    """Raises Damaged unless the batch may stand where `offset` or a later one is expected: no CRC
    covers that.
    """
    is_right = header.base_offset == offset if extent.is_gapless else header.base_offset >= offset
    if not is_right or header.next_offset > extent.end_offset:
        raise Damaged(segment, position, f"offset {header.base_offset} instead of {offset}")


async def _check(
    segment: Segment, content: bytes, place: int, position: int, batch_size: int
) -> None:
    """Raises Damaged unless the batch at `place` of `content`, which begins at byte `position`, is
    intact.
    """
    batch: Buffer = memoryview(content)[place : place + batch_size]
    if len(batch) < batch_size <= segment.size - position - place:
        batch = await take(segment, position + place, batch_size)
    if not is_intact(batch):
        raise Damaged(segment, position + place, "no intact batch begins here")


def _damage_at(segment: Segment, position: int) -> DamagedRange | None:
    for found in segment.damaged:
        if found.position <= position < found.end_position:
            return found
    return None


async def _ask(
    segment: Segment,
    header: BatchHeader,
    position: int,
    timestamp_ms: int | None,
    bounds: tuple[int, int],
    worker: Worker | None,
) -> TimestampedOffset | None:
    batch = await take(segment, position, header.size)
    if not is_intact(batch):
        raise Damaged(segment, position, "no intact batch begins here")
    if worker is None or (
        header.size <= OPEN_HERE_BYTES_MAX and not header.attributes & CODEC_MASK
    ):
        found = find_in_batch(batch, timestamp_ms, *bounds)
    else:
        found = await worker.call(find_in_batch, batch, timestamp_ms, *bounds)
    return None if found is None else TimestampedOffset(*found, header.partition_leader_epoch)


def find_in_batch(
    batch: bytes, timestamp_ms: int | None, start_offset: int, end_offset: int
) -> tuple[int, int] | None:
    """(offset, timestamp) of the first record in [start, end) at or after `timestamp_ms`; for None,
    of the first with the greatest timestamp. None when there is none. Never raises: what cannot be
    opened, or does not hold what its header promises, answers with its first offset.
    """
    best: tuple[int, int] | None = None
    least = -INT64_MAX - 1 if timestamp_ms is None else timestamp_ms - 1
    try:
        header, payload = open_to_search(batch)
        fixed = header.max_timestamp if header.attributes & LOG_APPEND_TIME_BIT else None
        for raw in iterate_raw(payload, header):
            offset = header.base_offset + raw.offset_delta
            timestamp = header.base_timestamp + raw.timestamp_delta if fixed is None else fixed
            if timestamp > least and start_offset <= offset < end_offset:
                best = (offset, timestamp)
                if timestamp_ms is not None:
                    return best
                least = timestamp
    except Refusal:
        header = read_header(batch)
        return max(header.base_offset, start_offset), header.max_timestamp
    is_whole = start_offset <= header.base_offset and header.last_offset < end_offset
    if timestamp_ms is not None and best is None and is_whole:
        return header.base_offset, header.max_timestamp
    return best
