"""Looking how far damage reaches: the way from what a reader or the scrub met to a `DamagedRange`.

Not here: serving (`reading`), the nouns (`damage`). A range begins behind the last intact batch and
ends where the next one begins: where the broken batch's own length leads, else at the first place
that holds an intact batch whose offsets fit between its neighbours'. What the device does not give
is no intact batch (`salvage`). What was found is written down, so that a restart knows it.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable
from contextlib import suppress
from typing import TYPE_CHECKING, NamedTuple

from broker.log import names
from broker.log.damage import DamagedRange, decode_ranges, encode_ranges, merged
from broker.log.epochs import NO_EPOCH
from broker.log.salvage import Salvage
from broker.log.scan import ScanEnd, find_batch, intact_batch_at, scan
from broker.log.segment import Segment
from broker.ports import Disk, DiskFault, DiskFull
from broker.records.batch import HEADER_BYTES, MAGIC, BatchHeader, read_header

if TYPE_CHECKING:
    from broker.log.partition_log import PartitionLog


class Extent(NamedTuple):
    """What of a segment is looked at: its readable bytes, the offset it ends at, and whether no
    offset is missing in it.
    """

    size: int
    end_offset: int
    is_gapless: bool


async def survey(
    log: PartitionLog, segment: Segment, position: int, size: int = 0
) -> DamagedRange | None:
    """The first damaged range around the `size` bytes from `position` on of a segment of the log,
    noted and written down; None when they are intact after all. Raises DiskFault.
    """
    await log.load_index(segment)
    if segment not in log.segments:
        return None
    assert segment.index is not None, "the index is loaded"
    extent = extent_of(log, segment)
    offset, start = segment.index.floor_position(position)
    for known in segment.damaged:
        if known.end_position > start and known.position <= position:
            offset, start = known.end_offset, known.end_position
    least = max(start + 1, position + max(size, 1))
    following = bisect_left(segment.index.positions, least)
    limit = min([extent.size, *segment.index.positions[following : following + 1]])
    epochs, salvage = _EpochCheck(log), Salvage(segment)
    end = await scan(salvage, start, offset, epochs.visit, end=limit, is_gapless=extent.is_gapless)
    if epochs.mismatch is not None:
        end = epochs.mismatch
    elif end.reason is None and end.position == extent.size and extent.is_gapless:
        lost = f"{segment.path()} ends before offset {extent.end_offset}"
        end = end._replace(reason=lost if end.next_offset < extent.end_offset else None)
    if end.reason is None:
        return None
    found = await measure(salvage, end.position, end.next_offset, end.reason, extent)
    await note(log, segment, found)
    return found


def extent_of(log: PartitionLog, segment: Segment) -> Extent:
    """What of a segment of the log is written."""
    reach = log.reach()
    if segment is log.active:
        return Extent(reach.written_size, reach.written_end_offset, reach.is_gapless)
    end_offset = log.segments[log.segments.index(segment) + 1].base_offset
    return Extent(segment.size, end_offset, reach.is_gapless)


def damaged_ranges(log: PartitionLog) -> list[DamagedRange]:
    """What is known to be unreadable at or above the log start."""
    start = log.log_start_offset
    return [
        found for segment in log.segments for found in segment.damaged if found.end_offset > start
    ]


class _EpochCheck:
    """Compares batches' leader epochs, which no checksum covers, with the log's history."""

    def __init__(self, log: PartitionLog) -> None:
        self.log = log
        self.mismatch: ScanEnd | None = None

    def visit(self, header: BatchHeader, position: int) -> None:
        known, found = self.log.epoch_at(header.base_offset), header.partition_leader_epoch
        if self.mismatch is None and known not in (found, NO_EPOCH):
            reason = f"leader epoch {found} where {known} was written"
            self.mismatch = ScanEnd(position, header.base_offset, reason)


async def measure(
    salvage: Salvage, position: int, offset: int, reason: str, extent: Extent
) -> DamagedRange:
    """The range that begins at `position`, where the batch at `offset` is not intact."""
    end_position, end_offset = await _next_intact(salvage, position, offset, extent)
    lost = salvage.lost_within(position, end_position)
    return DamagedRange(
        position, end_position, offset, end_offset, reason if lost is None else lost.reason
    )


async def note(log: PartitionLog, segment: Segment, found: DamagedRange) -> None:
    """Remember `found`; it is written down at once, or later when the disk is full. Not of a log
    that was closed: its files may be going.
    """
    if segment not in log.segments or log.offline_reason:
        return
    segment.damaged = merged(segment.damaged, found)
    log.note_damage(describe(segment, found))
    await store(log)


def describe(segment: Segment, found: DamagedRange) -> str:
    """A sentence for the operator."""
    where = (
        f"{segment.path()} is damaged from byte {found.position} to {found.end_position} "
        f"({found.reason})"
    )
    if found.offset == found.end_offset:
        return f"{where}: no record was there, all are served"
    return (
        f"{where}: offsets {found.offset} to {found.end_offset - 1} are refused, all others are "
        f"served; to go on, a consumer seeks to offset {found.end_offset}"
    )


async def store(log: PartitionLog) -> None:
    """Write the known ranges down; without any the file goes. Not of a log that was closed: its
    directory may be another topic's. Raises DiskFault.
    """
    if log.offline_reason:
        return
    path = f"{log.directory}/{names.DAMAGE_FILE}"
    rows = [(each.base_offset, found) for each in log.segments for found in each.damaged]
    try:
        if rows:
            await log.disk.replace_file(path, encode_ranges(rows))
        else:
            await log.disk.unlink(path)
    except DiskFull:
        return  # found again by a reader, the scrub, or written with the next one


def load_ranges(disk: Disk, directory: str, segments: list[Segment]) -> None:
    """Give segments the ranges that the file knows of; those of files that are gone or shorter are
    forgotten.
    """
    try:
        rows = decode_ranges(disk.read_file(f"{directory}/{names.DAMAGE_FILE}"))
    except (FileNotFoundError, DiskFault):
        return
    by_base = {segment.base_offset: segment for segment in segments}
    for base, found in rows:
        segment = by_base.get(base)
        if segment is not None and found.end_position <= segment.size:
            segment.damaged = merged(segment.damaged, found)


async def forget_ranges(disk: Disk, directory: str, base_offset: int, end_offset: int) -> None:
    """Of segments in [base, end), which another replaces: what is there now is no part of them.
    Raises DiskFault.
    """
    path = f"{directory}/{names.DAMAGE_FILE}"
    try:
        rows = decode_ranges(disk.read_file(path))
    except FileNotFoundError:
        return
    left = [row for row in rows if not base_offset <= row[0] < end_offset]
    if not left:
        await disk.unlink(path)
    elif left != rows:
        with suppress(DiskFull):
            await disk.replace_file(path, encode_ranges(left))


async def scan_across(
    segment: Segment, visit: Callable[[BatchHeader, int], None], extent: Extent
) -> tuple[DamagedRange, ...]:
    """Walk a whole segment, over what is damaged: the ranges that were passed."""
    ranges: tuple[DamagedRange, ...] = ()
    position, offset, salvage = 0, segment.base_offset, Salvage(segment)
    while position < extent.size:
        end = await scan(
            salvage, position, offset, visit, end=extent.size, is_gapless=extent.is_gapless
        )
        if end.reason is None:
            break
        found = await measure(salvage, end.position, end.next_offset, end.reason, extent)
        ranges = merged(ranges, found)
        position, offset = found.end_position, found.end_offset
    return ranges


async def _next_intact(
    salvage: Salvage, position: int, offset: int, extent: Extent
) -> tuple[int, int]:
    """(position, offset) of the first intact batch behind the broken one at `position`, or the
    segment's end.
    """
    if position + HEADER_BYTES <= extent.size:
        header = read_header(await salvage.read_cold(position, HEADER_BYTES))
        behind = position + header.size
        if header.magic == MAGIC and header.size >= HEADER_BYTES and behind <= extent.size:
            if behind == extent.size:
                return behind, extent.end_offset
            following = await intact_batch_at(salvage, behind, offset, extent.end_offset)
            if following is not None:
                return behind, following.base_offset
    at = position + 1
    found = await find_batch(salvage, at, extent.size, offset, extent.end_offset)
    return found or (extent.size, extent.end_offset)
