"""Looking through what is stored and seldom read: is every batch still what was written?

`check` runs in the worker process, which reads the file itself; `scrub` directs it, segment by
segment, and looks at what it suspects through the log's own descriptor, so that a file that was
exchanged meanwhile is no damage. Not here: when, how fast, in which order (`server.scrubbing`).
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Final, NamedTuple

from broker.log.damage import DamagedRange
from broker.log.scan import walk
from broker.log.survey import extent_of, note, store, survey
from broker.ports import OutsideReader, Worker
from broker.records.batch import BatchHeader

if TYPE_CHECKING:
    from broker.log.partition_log import PartitionLog
    from broker.log.segment import Segment

SLICE_BYTES: Final = 1024 * 1024
"""Bytes per call of the worker (a bigger batch goes alone): others wait for it meanwhile."""


class Checked(NamedTuple):
    """How far the batches are intact; `reason` is what is wrong there, empty when nothing is."""

    position: int
    next_offset: int
    reason: str


def check(
    reader: OutsideReader,
    position: int,
    end: int,
    next_offset: int,
    is_gapless: bool,  # noqa: FBT001 - the worker's calls have no names
) -> Checked:
    """Check the batches from byte `position`, where the one at `next_offset` begins (or a later
    one), to `end` or for SLICE_BYTES.
    """
    try:
        content = memoryview(reader.read(position, min(SLICE_BYTES, end - position)))
        place = 0
        while True:
            walked, next_offset, needed, reason = walk(
                content[place:], next_offset, _ignore, position + place, is_gapless
            )
            place += walked
            if reason is not None:
                return Checked(position + place, next_offset, reason)
            if walked == 0:
                break
        if place == 0 and position < end:
            if needed > end - position:
                return Checked(position, next_offset, "the last batch is cut off")
            content = memoryview(reader.read(position, needed))
            place, next_offset, _, reason = walk(
                content, next_offset, _ignore, position, is_gapless
            )
            if place == 0:
                return Checked(position, next_offset, reason or "the file is shorter than it was")
    except OSError as error:
        return Checked(position, next_offset, f"it cannot be read: {error.strerror or error}")
    return Checked(position + place, next_offset, "")


async def scrub(
    log: PartitionLog,
    segment: Segment,
    worker: Worker,
    pace: Callable[[int], Awaitable[None]],
) -> None:
    """Check one segment, its unsynced tail excepted; damage is noted, damage that is no more is
    forgotten. `pace` is told the bytes after each step. Ends early when the segment leaves the log.
    Raises DiskFault, WorkerFault, FileNotFoundError (the log was closed).
    """
    reader = log.disk.reader(segment.path())
    is_gapless = log.reach().is_gapless
    position, offset = 0, segment.base_offset
    end = _end_of(log, segment)
    segment.doubt(end)  # for a moment the worker's reads bring it into memory
    is_whole = segment is not log.active and segment not in log.checkpoints.unsynced_closed
    while position < end and segment in log.segments:
        known = next((r for r in segment.damaged if r.end_position > position), None)
        if known is not None and known.position <= position:
            if await _is_whole_again(known, reader, worker, is_gapless=is_gapless):
                await _forget(log, segment, known)
            await pace(known.end_position - position)
            position, offset = known.end_position, known.end_offset
            continue
        stop = end if known is None else min(end, known.position)
        checked = await worker.call(check, reader, position, stop, offset, is_gapless)
        await pace(checked.position - position)
        position, offset = checked.position, checked.next_offset
        if not checked.reason or segment not in log.segments:
            continue
        found = await survey(log, segment, position, min(SLICE_BYTES, stop - position))
        if log.offline_reason:
            return
        if found is None:
            return  # the file was exchanged under the worker's eyes: another round sees the new one
        position, offset = max(found.end_position, position), max(found.end_offset, offset)
    if is_whole and segment in log.segments and is_gapless:
        lost = DamagedRange(
            position, position, offset, extent_of(log, segment).end_offset, "the file ends there"
        )
        if lost.offset < lost.end_offset:
            await note(log, segment, lost)


def _end_of(log: PartitionLog, segment: Segment) -> int:
    if segment is log.active:
        return log.checkpoints.synced_position(log)
    return 0 if segment in log.checkpoints.unsynced_closed else segment.size


async def _is_whole_again(
    known: DamagedRange, reader: OutsideReader, worker: Worker, *, is_gapless: bool
) -> bool:
    """Whether the range holds what it must: somebody restored the file, or the device erred."""
    position, offset = known.position, known.offset
    while position < known.end_position:
        end = known.end_position
        checked = await worker.call(check, reader, position, end, offset, is_gapless)
        if checked.reason:
            return False
        position, offset = checked.position, checked.next_offset
    if known.position == known.end_position or offset > known.end_offset:
        return False
    return offset == known.end_offset or not is_gapless


async def _forget(log: PartitionLog, segment: Segment, known: DamagedRange) -> None:
    segment.damaged = tuple(each for each in segment.damaged if each != known)
    await store(log)


def _ignore(_header: BatchHeader, _position: int) -> None:
    """Only where the walk ends matters."""
