"""Writing what a crash left in the journal to the logs' files, before any log is opened.

Afterwards each file is as if every round had synced it, and the journal is empty. What a start
would not scan is left alone: it was synced by its file since, and may have been compacted. What
does not fit what a file has is kept beside it, and named: that is not to be. Of a log that cannot
be written the journal keeps the records, and nothing else, for the next start. Not here: repairing
a log (`recovery`), which comes next.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from typing import Final

from broker.log import names
from broker.log.directory import partition_directory
from broker.log.journal import (
    BLOCK_BYTES,
    FILE,
    FIRST_RECORD,
    NEW,
    NO_HEAD,
    NO_RUN,
    RECORD_BYTES_MAX,
    JournalEntry,
    JournalHead,
    JournalRecord,
    blocks_of,
    encode_head,
    entries_of,
    find_record,
    read_heads,
    write_record,
)
from broker.log.partition_file import read_identity
from broker.log.recovery import free_name, newest_snapshot
from broker.log.scan import intact_batch_at, scan
from broker.log.segment import Segment
from broker.log.synced_ends import LogKey
from broker.model import INT64_MAX
from broker.ports import Disk, DiskFault, DiskFile, DiskFull, NoDescriptor
from broker.records.batch import HEADER_BYTES, BatchHeader, read_header

STEP_BYTES: Final = 1 << 20
"""Read from the journal at a time."""
OPEN_FILES_MAX: Final = 64
"""Written before they are synced and closed."""


@dataclass(slots=True)
class Replayed:
    """`failed` says of a log why its records could not be written: it must not be opened, and the
    journal keeps them. `notes` are sentences for the operator.
    """

    record_count: int = 0
    byte_count: int = 0
    failed: dict[LogKey, str] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)
    head: JournalHead = NO_HEAD
    """What the journal says now, unless it is kept."""


async def replay(disk: Disk) -> Replayed:
    """Replay the journal of `disk` and empty it. Raises DiskFull, and DiskFault when the journal
    itself cannot be read or emptied: without it records may be missing.
    """
    found = Replayed()
    try:
        with _only_copy():
            await disk.unlink(f"{FILE}{NEW}")
            file = disk.open(FILE)
    except FileNotFoundError:
        return found
    try:
        with _only_copy():
            head, is_damaged, other_version = read_heads(await file.read_cold(0, FIRST_RECORD))
        if other_version:
            reason = f"has version {other_version}: run the version of HermesMQ that wrote it"
            raise DiskFault(FILE, reason)
        if is_damaged:
            found.notes.append(
                f"{FILE}: one of its heads is damaged, the other one counts"
                if head
                else f"{FILE}: each of its heads is damaged: what was synced in the last seconds "
                "before a crash may be missing"
            )
        if head is None:
            return found
        found.head = head
        if head.run != NO_RUN:
            await _replay(disk, file, found)
    finally:
        file.close()
    return found


@contextmanager
def _only_copy() -> Iterator[None]:
    """A fault of the journal's own file says what may be lost with it."""
    try:
        yield
    except DiskFull:
        raise
    except DiskFault as fault:
        reason = (
            f"{fault.reason}: what was synced in the last seconds before a crash may be in it "
            "alone: mend the disk, or move the file away to start without"
        )
        raise DiskFault(FILE, reason) from fault


async def _replay(disk: Disk, file: DiskFile, found: Replayed) -> None:
    with _only_copy():
        records = await _find_records(file, found.head.run)
    await _Replay(disk, file, found).run(records)
    with _only_copy():
        if found.failed:
            await disk.replace_file(FILE, await _kept(file, found, records))
            return
        for head in found.head.followed_by(NO_RUN):
            file.write_at(head.position, encode_head(head))
            await file.sync()
            found.head = head


async def _find_records(file: DiskFile, run: bytes) -> list[JournalRecord]:
    """The whole records of `run`, in the order in which they were written."""
    records: list[JournalRecord] = []
    for start in range(FIRST_RECORD, file.size(), STEP_BYTES):
        content = memoryview(await file.read_cold(start, STEP_BYTES + RECORD_BYTES_MAX))
        for place in range(0, min(len(content), STEP_BYTES), BLOCK_BYTES):
            record = find_record(content[place:], start + place, run)
            if record is not None:
                records.append(record)
    return sorted(records)


async def _kept(file: DiskFile, found: Replayed, records: list[JournalRecord]) -> bytes:
    """A journal of the records of logs that failed: others go on, and must not meet theirs
    again.
    """
    made = bytearray(file.size())
    run = found.head.run
    for head in found.head.followed_by(run):
        made[head.position : head.position + BLOCK_BYTES] = encode_head(head)
    place = FIRST_RECORD
    for sequence, position, size in records:
        content = memoryview(await file.read_cold(position, size))
        entries = [
            entry
            for entry in entries_of(content)
            if (entry.topic_id, entry.partition) in found.failed
        ]
        if entries:
            place += blocks_of(write_record(memoryview(made)[place:], run, sequence, entries))
    return bytes(made)


class _Target:
    """One log's directory: what of it is to be written anew."""

    def __init__(self, disk: Disk, directory: str, entries: list[str]) -> None:
        self.directory = directory
        listing = names.sort_out(entries)
        snapshot = newest_snapshot(disk, directory, listing.snapshots)
        known = (-1, 0) if snapshot is None else (snapshot.segment_base, snapshot.position)
        bases = [
            base
            for base in listing.segments
            if listing.snapshots and base <= listing.snapshots[-1]  # even if it cannot be read
        ]
        self.floor = max(known, (max(bases, default=-1), 0))
        """(segment base, position): what is below was synced by its file."""
        self.floor_offset = -1
        """Of the batch at `floor`; -1 when no snapshot that can be read says so."""
        if snapshot is not None and self.floor == known:
            self.floor_offset = snapshot.offset
        self.open: dict[int, Segment] = {}
        self.is_refused = False


class _Replay:
    """One replay. The files that were written are synced at its end."""

    def __init__(self, disk: Disk, file: DiskFile, found: Replayed) -> None:
        self._disk = disk
        self._file = file
        self._found = found
        self._targets: dict[LogKey, _Target | None] = {}
        self._open_count = 0

    async def run(self, records: list[JournalRecord]) -> None:
        step: list[JournalRecord] = []
        for record in records:
            if step and not 0 <= record.position - step[0].position < STEP_BYTES:
                await self._take(step)
                step = []
            step.append(record)
        if step:
            await self._take(step)
        await self._settle()
        self._found.record_count = len(records)

    async def _take(self, records: list[JournalRecord]) -> None:
        """Records within one step of the journal, in the order of their writing, none before the
        first in place. The last one written need not stand last: behind newer records stands what
        an earlier use of the half left.
        """
        start = records[0].position
        end = max(record.position + record.size for record in records)
        with _only_copy():
            content = memoryview(await self._file.read_cold(start, end - start))
        joined: dict[tuple[LogKey, int], tuple[JournalEntry, bytearray]] = {}
        for _, position, size in records:
            for entry in entries_of(content[position - start :][:size]):
                place = (entry.topic_id, entry.partition), entry.segment_base
                before = joined.get(place)
                if before is not None:
                    first, so_far = before
                    if entry.position == first.position + len(so_far):
                        so_far += entry.content
                        continue
                    await self._write(first._replace(content=so_far))
                joined[place] = entry, bytearray(entry.content)
        for first, so_far in joined.values():
            await self._write(first._replace(content=so_far))

    async def _write(self, entry: JournalEntry) -> None:
        """What a start would scan of it. Without a descriptor those that are held are given back
        first. Raises DiskFull: with room, or descriptors, the next start does it.
        """
        key = entry.topic_id, entry.partition
        if self._open_count >= OPEN_FILES_MAX:
            await self._settle()
        try:
            try:
                await self._write_to(key, entry)
            except NoDescriptor:
                await self._settle()
                await self._write_to(key, entry)
        except DiskFull:
            raise
        except DiskFault as fault:
            self._fail(key, partition_directory(entry.topic, entry.partition), fault)

    async def _settle(self) -> None:
        """Sync what was written, and close it. What an earlier sync failed with is told to this
        one: then all that a start would scan is written anew, as `recovery` does.
        """
        self._open_count = 0
        for key, target in self._targets.items():
            if target is None or not target.open:
                continue
            for base, segment in target.open.items():
                try:
                    await self._sync(target, base, segment)
                except DiskFull:
                    raise
                except DiskFault as fault:
                    self._fail(key, target.directory, fault)
                finally:
                    segment.close_file()
            target.open.clear()

    async def _sync(self, target: _Target, base: int, segment: Segment) -> None:
        try:
            await segment.sync()
        except DiskFault:
            self._disk.mark(f"{target.directory}/{names.SYNC_FAILED}")  # it is told only once
            segment.close_file()
            await segment.rewrite(target.floor[1] if base == target.floor[0] else 0)

    async def _write_to(self, key: LogKey, entry: JournalEntry) -> None:
        if key not in self._targets:
            self._targets[key] = self._find_target(entry)
        target = self._targets[key]
        if target is None or key in self._found.failed:
            return
        base, position, content = entry.segment_base, entry.position, memoryview(entry.content)
        known_base, known_position = target.floor
        if base < known_base:
            return
        reason = None
        if base == known_base and position < known_position:
            known = known_position - position
            if known < len(content) and _batches_until(content, known) != known:
                reason = f"{target.directory} has other batches than before its snapshot"
            else:
                content, position = content[known:], known_position
        if not content:
            return
        is_next = (base, position) == target.floor and target.floor_offset >= 0
        if is_next and _offset_of(content) != target.floor_offset:
            reason = f"{target.directory} goes on with another offset"
        reason = reason or await self._obstacle(target, base, position, content)
        if reason is not None:
            target.is_refused = True
            aside = f"{names.numbered(base, '')}.{position}{names.DAMAGED}"
            path = free_name(self._disk, f"{target.directory}/{aside}")
            await self._disk.replace_file(path, bytes(content))
            self._found.notes.append(
                f"{FILE}: {reason}: {len(content)} bytes were not taken from the journal, they are "
                f"kept in {path}"
            )
            return
        target.open[base].file().write_at(position, content)
        self._found.byte_count += len(content)

    def _find_target(self, entry: JournalEntry) -> _Target | None:
        """None when the partition is gone, or is another one of that name by now. Raises
        DiskFault.
        """
        directory = partition_directory(entry.topic, entry.partition)
        entries = self._disk.list_directory(directory)
        if not any(name.endswith(names.LOG) for name in entries):
            return None
        if read_identity(self._disk, directory).topic_id != entry.topic_id:
            return None
        return _Target(self._disk, directory, entries)

    async def _obstacle(
        self, target: _Target, base: int, position: int, content: memoryview
    ) -> str | None:
        """Why `content` cannot stand there, in a file that is open now; None: it can. Bytes that
        are there already are written, too: after a failed sync they may be in memory only.
        """
        if target.is_refused:
            return f"{target.directory} does not fit what came before"
        segment = target.open.get(base)
        if segment is None:
            segment = Segment(self._disk, target.directory, base)
            try:
                segment.file()
            except FileNotFoundError:
                return f"{segment.path()} is missing"
            target.open[base] = segment
            self._open_count += 1
            segment.size = segment.file().size()
            if target.floor_offset < 0 and not await _ends_at(segment, position, content):
                return f"{segment.path()} has other batches, and no snapshot says since when"
        segment.size = segment.file().size()
        if position > segment.size:
            return f"{segment.path()} ends before byte {position}"
        there = await segment.file().read_cold(position, len(content))
        if there != content:
            place = position + _first_other_batch(memoryview(there), content)
            if await intact_batch_at(segment, place, 0, INT64_MAX) is not None:
                return f"{segment.path()} has another batch at {place}"
        return None

    def _fail(self, key: LogKey, directory: str, fault: DiskFault) -> None:
        with suppress(DiskFault):
            self._disk.mark(f"{directory}/{names.SYNC_FAILED}")  # it may have been a sync
        reason = f"its records in the journal could not be written back: {fault}"
        self._found.failed[key] = reason


async def _ends_at(segment: Segment, position: int, content: memoryview) -> bool:
    """Whether whole batches lead up to `position`, and those of `content` follow them."""

    def visit(_header: BatchHeader, _position: int) -> None:
        """Only the end counts."""

    if position > segment.size:
        return False
    end = await scan(segment, 0, segment.base_offset, visit, end=position)
    is_whole = end.reason is None and end.position == position
    return is_whole and end.next_offset == _offset_of(content)


def _offset_of(content: memoryview) -> int:
    """The offset of the batch with which `content` begins, -1 when none does."""
    return read_header(content).base_offset if len(content) >= HEADER_BYTES else -1


def _batches_until(content: memoryview, end: int) -> int:
    """Where the first batch of `content` that ends at or behind `end` ends."""
    place = 0
    while place < end and place + HEADER_BYTES <= len(content):
        place += max(HEADER_BYTES, read_header(content, place).size)
    return place


def _first_other_batch(there: memoryview, content: memoryview) -> int:
    """Where the first batch of `content` begins that `there` does not have."""
    place = 0
    while place + HEADER_BYTES <= len(content):
        size = read_header(content, place).size
        if size < HEADER_BYTES or there[place : place + size] != content[place : place + size]:
            break
        place += size
    return place
