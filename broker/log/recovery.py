"""Opening a partition's directory after a stop of any kind.

Not here: appending, reading. After a clean stop nothing is scanned: the newest whole snapshot names
the end. Otherwise the log is scanned from that snapshot (which was taken after a sync) to the first
byte that is not a batch. Below the end that is known to have been synced (`synced_ends`) this is
damage: it is named, and all behind it stays. Beyond it is a torn tail, which is cut off; what was
valid there is kept aside as `*.damaged`. What the device does not give is damage below that end;
beyond it nothing is cut for it: the log is not opened. The tail is synced before it is read, and
after a failed sync it is written anew: the system counts it as written although the device has not
got it. Without any snapshot everything is scanned, and segments behind a damaged one are kept: they
had been rolled over.
"""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass, field
from typing import Final

from broker.log import names
from broker.log.damage import DamagedRange, merged
from broker.log.epoch_watch import EpochWatch
from broker.log.epochs import LeaderEpochs, decode_epochs
from broker.log.index import SegmentIndex, Times
from broker.log.producers import ProducerBatch, ProducerStates, last_sequence_of
from broker.log.salvage import Salvage
from broker.log.scan import ScanEnd, has_batch_behind, scan
from broker.log.segment import Segment, read_indexes
from broker.log.snapshot import Snapshot, decode_snapshot
from broker.log.survey import Extent, describe, forget_ranges, load_ranges, measure, scan_across
from broker.log.synced_ends import NOTHING_SYNCED, SyncedEnd
from broker.model import INT64_MAX, NO_TIMESTAMP
from broker.ports import Disk, DiskFault, NoDescriptor
from broker.records.batch import LOG_APPEND_TIME_BIT, BatchHeader

UNCHECKED: Final = INT64_MAX
"""`Segment.unchecked_below` of a file that was there before this process."""
COPY_BYTES: Final = 1024 * 1024
"""Bytes kept aside per step."""


@dataclass(slots=True)
class Recovered:
    """What was found. `segments` ascend; the last one's index is loaded. `needs_segment`: appends
    begin a new one.
    """

    segments: list[Segment]
    next_offset: int
    log_start_offset: int
    snapshot: Snapshot | None
    producers: ProducerStates
    epochs: LeaderEpochs
    synced: SyncedEnd = NOTHING_SYNCED
    """The end that is known to have been synced before the stop."""
    damage: list[str] = field(default_factory=list)
    scanned_bytes: int = 0
    has_failed_sync: bool = False
    has_new_ranges: bool = False
    """Segments' `damaged` has more than the file says."""
    needs_segment: bool = False
    snapshot_offsets: list[int] = field(default_factory=list)
    unsynced_closed: list[Segment] = field(default_factory=list)

    @property
    def rolls_from_ms(self) -> int | None:
        """From when the age of the active segment counts; None when that is not known, and what its
        records say is their clients' word.
        """
        snapshot = self.snapshot
        if snapshot is None or snapshot.segment_base != self.segments[-1].base_offset:
            return None
        return snapshot.times.first_append_time if snapshot.position > 0 else None


async def recover(
    disk: Disk,
    directory: str,
    *,
    index_interval_bytes: int,
    producer_expiration_ms: int,
    now_wall_ms: int,
    synced: SyncedEnd = NOTHING_SYNCED,
) -> Recovered:
    """The state of the log in `directory`; `synced` is what is known beside it. Raises DiskFault
    when the disk fails; damage is repaired and named.
    """
    entries = disk.list_directory(directory)
    listing = names.sort_out(entries)
    await _finish_what_was_under_way(disk, directory, listing)
    snapshot = newest_snapshot(disk, directory, listing.snapshots)
    segments = [Segment(disk, directory, base) for base in listing.segments]
    for segment in segments:
        segment.unchecked_below = UNCHECKED
    if names.DAMAGE_FILE in entries:
        load_ranges(disk, directory, segments)
    producers = ProducerStates(producer_expiration_ms)
    if snapshot is not None:
        producers.entries = dict(snapshot.producers)
    recovered = Recovered(segments, 0, 0, snapshot, producers, _read_epochs(disk, directory))
    recovered.synced = synced if snapshot is None else max(synced, snapshot.synced_end)
    recovered.snapshot_offsets = listing.snapshots
    recovered.has_failed_sync = names.SYNC_FAILED in entries
    try:
        await _Recovery(recovered, directory, index_interval_bytes, now_wall_ms).run()
    except DiskFault:
        with suppress(DiskFault):
            disk.mark(f"{directory}/{names.SYNC_FAILED}")  # it may have been a sync that failed
        raise
    producers.expire(now_wall_ms)
    return recovered


class _Recovery:
    """One run over a partition's segments."""

    def __init__(self, found: Recovered, directory: str, interval: int, now_wall_ms: int) -> None:
        self.found = found
        self.directory = directory
        self.interval = interval
        self.now_wall_ms = now_wall_ms
        self.is_trusted = False

    async def run(self) -> None:
        found = self.found
        place, position, next_offset, is_trusted = self._begin()
        self.is_trusted = is_trusted
        while place < len(found.segments):
            segment = found.segments[place]
            lost = segment.base_offset - next_offset
            if not position and lost:
                is_unsynced = is_trusted and segment.base_offset > found.synced.segment_base
                if lost < 0 or is_unsynced:
                    await self._set_aside(place, next_offset)
                    break
                if is_trusted:
                    self._note_lost(found.segments[place - 1], next_offset, segment.base_offset)
            next_offset = max(next_offset, segment.base_offset)
            next_offset = await self._recover_segment(segment, position, next_offset, place)
            position = 0
            place += 1
        active = found.segments[-1] if found.segments else None
        if active is not None and active.index is None and not active.load_index():
            extent = Extent(active.size, next_offset, is_gapless=False)
            for broken in await rebuild_index(active, self.interval, self.now_wall_ms, extent):
                self._note(active, broken)
        self._settle(next_offset)

    def _begin(self) -> tuple[int, int, int, bool]:
        """(segment number, position, offset) to scan from, and whether the snapshot says so."""
        found, snapshot = self.found, self.found.snapshot
        first = found.segments[0].base_offset if found.segments else 0
        if snapshot is None:
            return 0, 0, first, False
        for place, segment in enumerate(found.segments):
            if segment.base_offset == snapshot.segment_base and segment.size >= snapshot.position:
                return place, snapshot.position, snapshot.offset, True
        found.damage.append(
            f"{self.directory}: segment {snapshot.segment_base} is missing or shorter than the "
            f"{snapshot.position} bytes that were synced: all segments were checked, "
            "what they still hold is served"
        )
        return 0, 0, first, False

    async def _recover_segment(
        self, segment: Segment, position: int, next_offset: int, place: int
    ) -> int:
        """The next offset, after scanning from `position` and cutting off what is bad."""
        found = self.found
        is_last = place == len(found.segments) - 1
        if segment.size > position:
            await self._settle_writes(segment, position)
        elif is_last and segment.size and found.has_failed_sync:
            # nothing was appended: what failed was its last page, once more, after a cut
            await self._settle_writes(segment, segment.size - 1)
        if position:
            await self._load_below(segment, position)
        else:
            segment.index = SegmentIndex(segment.base_offset)
            segment.times = Times()
        visitor = IndexVisitor(
            segment, self.interval, self.now_wall_ms, found.producers, found.epochs
        )
        end = ScanEnd(position, next_offset, None)
        extent, salvage = self._synced_part(place), Salvage(segment)
        while end.position < extent.size:
            end = await scan(
                salvage, *end[:2], visitor.visit, end=extent.size, is_gapless=self.is_trusted
            )
            if end.reason is None:
                break
            broken = await measure(salvage, end.position, end.next_offset, end.reason, extent)
            self._note(segment, broken)
            end = ScanEnd(broken.end_position, broken.end_offset, None)
        end = await scan(segment, *end[:2], visitor.visit, is_gapless=self.is_trusted)
        assert visitor.watch is not None, "it was given epochs"
        for broken in visitor.watch.broken:
            self._note(segment, broken)
        found.scanned_bytes += end.position - position
        if end.reason is not None:
            await self._cut(segment, end.position, end.next_offset, end.reason)
        segment.unchecked_below = position
        if not is_last:
            if end.position > position or end.reason is not None:
                await segment.write_index(segment.encode_index_files())
            found.unsynced_closed.append(segment)
            segment.index = None
            segment.close_file()
        return end.next_offset

    async def _settle_writes(self, segment: Segment, position: int) -> None:
        """What will be read is on the device. A sync that failed before the stop left pages that
        only look written; of one that nobody heard of the system tells whoever syncs next.
        """
        found = self.found
        if not found.has_failed_sync:
            try:
                await segment.sync()
            except NoDescriptor:
                raise
            except DiskFault:
                segment.disk.mark(f"{self.directory}/{names.SYNC_FAILED}")  # it is told only once
                found.has_failed_sync = True
                segment.close_file()  # this one's syncs would go on to fail
            else:
                return
        await segment.rewrite(position)

    def _synced_part(self, place: int) -> Extent:
        """What of a segment was synced: what is broken there was not torn."""
        found = self.found
        segment, behind = found.segments[place], found.segments[place + 1 :]
        offset, base, position = found.synced
        if behind and (not self.is_trusted or segment.base_offset < base):
            return Extent(segment.size, behind[0].base_offset, is_gapless=False)
        if segment.base_offset < base:
            position = segment.size
        elif segment.base_offset > base:
            offset, position = segment.base_offset, 0
        known = segment.damaged[-1] if segment.damaged else None  # somebody met it before the stop
        if known is not None and known.end_position > position:
            offset, position = known.end_offset, known.end_position
        return Extent(min(position, segment.size), offset, is_gapless=False)

    async def _load_below(self, segment: Segment, position: int) -> None:
        """The index and times of the trusted part of the snapshot's segment, from its files or by
        walking it.
        """
        snapshot = self.found.snapshot
        assert snapshot is not None, "only a snapshot names a position"
        loaded = read_indexes(segment)
        if loaded is not None and position <= loaded[2] <= segment.size:
            segment.index = loaded[0]
            segment.index.truncate_to_position(position)
            segment.times = snapshot.times
            first = loaded[1].first_append_time
            if first != NO_TIMESTAMP:  # the snapshot's is from when the segment's age counts
                segment.times = segment.times._replace(first_append_time=first)
            return
        segment.index = SegmentIndex(segment.base_offset)
        segment.times = Times()
        visitor = IndexVisitor(segment, self.interval, snapshot.times.last_append_time)
        extent = Extent(position, snapshot.offset, is_gapless=False)
        ranges = await scan_across(segment, visitor.visit, extent)
        segment.times = snapshot.times
        await segment.write_index(segment.encode_index_files())
        for broken in ranges:
            self._note(segment, broken)

    def _note(self, segment: Segment, broken: DamagedRange) -> None:
        if broken not in segment.damaged:
            segment.damaged = merged(segment.damaged, broken)
            self.found.has_new_ranges = True
        self.found.damage.append(describe(segment, broken))

    def _note_lost(self, segment: Segment, offset: int, end_offset: int) -> None:
        """What was synced behind the end of a segment's file is gone."""
        reason = "the file is shorter than what was synced"
        self._note(segment, DamagedRange(segment.size, segment.size, offset, end_offset, reason))

    async def _cut(self, segment: Segment, position: int, next_offset: int, reason: str) -> None:
        """Cut the segment at `position`; when whole batches follow, keep the cut bytes aside and
        name the damage.
        """
        if await has_batch_behind(segment, position):
            name = f"{names.numbered(segment.base_offset, '')}.{position}{names.DAMAGED}"
            await _copy_aside(segment, position, f"{self.directory}/{name}")
            await segment.disk.sync_directory(self.directory)  # before the bytes go from the log
            self.found.damage.append(
                f"{segment.path()}: {reason} at byte {position}, offset {next_offset}, "
                "with whole batches behind it: "
                f"cut there, the {segment.size - position} bytes cut off are kept in {name}"
            )
        segment.file().truncate(position)
        segment.size = position
        await segment.file().sync()

    async def _set_aside(self, place: int, next_offset: int) -> None:
        """Segments from `place` on do not follow what is left before them, which had not been
        synced: they leave the log, but their files stay under another name.
        """
        found = self.found
        for segment in found.segments[place:]:
            found.has_new_ranges |= bool(segment.damaged)  # another may get its name
            segment.close_file()
            for suffix in (names.INDEX, names.TIME_INDEX):
                await segment.disk.unlink(segment.path(suffix))
            if not segment.size:
                await segment.disk.unlink(segment.path())
                continue
            aside = free_name(segment.disk, f"{segment.path()}{names.DAMAGED}")
            segment.disk.rename(segment.path(), aside)
            found.damage.append(
                f"{segment.path()}: the log before it ends at offset {next_offset} only, the rest "
                f"was not synced before the stop: kept as {aside}"
            )
        del found.segments[place:]

    def _settle(self, next_offset: int) -> None:
        """The log never ends below what is known to have existed: offsets are not given out
        twice.
        """
        found = self.found
        snapshot, synced_offset = found.snapshot, found.synced.offset
        disk_start = found.segments[0].base_offset if found.segments else 0
        found.needs_segment = not found.segments or next_offset < synced_offset
        if next_offset < synced_offset and found.segments:
            self._note_lost(found.segments[-1], next_offset, synced_offset)
        found.next_offset = next_offset = max(next_offset, synced_offset)
        found.log_start_offset = disk_start
        if snapshot is not None:
            found.log_start_offset = min(max(snapshot.log_start_offset, disk_start), next_offset)
        found.epochs.truncate_to_offset(next_offset)


class IndexVisitor:
    """Enters scanned batches in the segment's index and, when given, producers and epochs.

    When they were appended is lost. Entries and the first time, which tell ages, get the records'
    own times, kept between what is known and `append_time`; the last time, by which segments
    expire, is `append_time`, so that nothing expires early.
    """

    def __init__(
        self,
        segment: Segment,
        interval: int,
        append_time: int,
        producers: ProducerStates | None = None,
        epochs: LeaderEpochs | None = None,
    ) -> None:
        self.segment = segment
        self.interval = interval
        self.append_time = append_time
        self.producers = producers
        self.watch = None if epochs is None else EpochWatch(epochs)
        self.likely_time = 0 if segment.times is None else max(0, segment.times.last_append_time)

    def visit(self, header: BatchHeader, position: int) -> None:
        segment = self.segment
        assert segment.index is not None, "the index is being built"
        assert segment.times is not None, "the index is being built"
        first, last, latest = segment.times
        append_time = max(self.append_time, last)
        if header.attributes & LOG_APPEND_TIME_BIT:  # written by this broker's clock
            append_time = max(append_time, header.max_timestamp)
        self.likely_time = min(max(self.likely_time, header.max_timestamp), append_time)
        if position - segment.index.last_position() >= self.interval:
            segment.index.add(header.base_offset, position, self.likely_time, latest)
        segment.times = Times(
            self.likely_time if first < 0 else first, append_time, max(latest, header.max_timestamp)
        )
        if self.watch is not None:
            self.watch.visit(header, position)
        if self.producers is not None and header.producer_id >= 0 and header.base_sequence >= 0:
            batch = ProducerBatch(
                header.base_sequence,
                last_sequence_of(header.base_sequence, header.last_offset_delta),
                header.base_offset,
                header.last_offset,
                header.max_timestamp if header.attributes & LOG_APPEND_TIME_BIT else -1,
            )
            self.producers.replay(header.producer_id, header.producer_epoch, append_time, batch)


async def rebuild_index(
    segment: Segment, interval: int, append_time: int, extent: Extent
) -> tuple[DamagedRange, ...]:
    """Build a closed segment's index from its log and write both files; the damaged ranges, which
    the index leaves out.
    """
    draft = Segment(segment.disk, segment.directory, segment.base_offset, extent.size)
    draft.index, draft.times = SegmentIndex(segment.base_offset), Times()
    visitor = IndexVisitor(draft, interval, append_time)
    ranges = await scan_across(segment, visitor.visit, extent)
    segment.index, segment.times = draft.index, draft.times  # nobody sees a part of them
    await segment.write_index(segment.encode_index_files())
    return ranges


def free_name(disk: Disk, path: str) -> str:
    """`path`, or the first of `path.1`, `path.2` … that does not exist."""
    number = 0
    candidate = path
    while disk.exists(candidate):
        number += 1
        candidate = f"{path}.{number}"
    return candidate


async def _finish_what_was_under_way(disk: Disk, directory: str, listing: names.Listing) -> None:
    """Complete a swap, remove what was to be removed, move an aside segment out of the way."""
    for swap in listing.swaps:
        await forget_ranges(disk, directory, swap.base_offset, swap.end_offset)
        for base in [
            base for base in listing.segments if swap.base_offset <= base < swap.end_offset
        ]:
            listing.segments.remove(base)
            for suffix in (names.INDEX, names.TIME_INDEX):
                await disk.unlink(f"{directory}/{names.numbered(base, suffix)}")
            if base != swap.base_offset:
                await disk.unlink(f"{directory}/{names.numbered(base, names.LOG)}")
        disk.rename(
            f"{directory}/{swap.name}", f"{directory}/{names.numbered(swap.base_offset, names.LOG)}"
        )
        listing.segments.append(swap.base_offset)
        listing.segments.sort()
        await disk.sync_directory(directory)
    for name in listing.leftovers:
        await disk.unlink(f"{directory}/{name}")
    await clear_next(disk, directory)


async def clear_next(disk: Disk, directory: str) -> None:
    """Free the name of the segment to be created: an empty file goes, one with bytes is kept under
    another name.
    """
    path = f"{directory}/{names.NEXT_LOG}"
    if not disk.exists(path):
        return
    if disk.file_size(path):
        disk.rename(path, free_name(disk, f"{path}{names.DAMAGED}"))
    else:
        await disk.unlink(path)


def newest_snapshot(disk: Disk, directory: str, offsets: list[int]) -> Snapshot | None:
    """The last whole one of those at `offsets`, which ascend."""
    for offset in reversed(offsets):
        try:
            snapshot = decode_snapshot(
                disk.read_file(f"{directory}/{names.numbered(offset, names.SNAPSHOT)}")
            )
        except (FileNotFoundError, DiskFault):
            continue
        if snapshot is not None:
            return snapshot
    return None


def _read_epochs(disk: Disk, directory: str) -> LeaderEpochs:
    try:
        return LeaderEpochs(decode_epochs(disk.read_file(f"{directory}/{names.EPOCHS_FILE}")))
    except (FileNotFoundError, DiskFault):
        return LeaderEpochs()


async def _copy_aside(segment: Segment, position: int, path: str) -> None:
    """The bytes from `position` on, in a file of their own, synced."""
    await segment.disk.unlink(path)
    file = await segment.disk.create(path)
    try:
        for start in range(position, segment.size, COPY_BYTES):
            file.append([await segment.read_cold(start, min(COPY_BYTES, segment.size - start))])
        await file.sync()
    finally:
        file.close()
