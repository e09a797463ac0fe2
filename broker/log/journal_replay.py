"""Writing what a crash left in the journal to the logs' files, before any log is opened.

Afterwards each file is as if every round had synced it, and the journal is empty. What a start
would not scan is left alone: it was synced by its file since, and may have been compacted. A whole
batch that stands where the journal has another one is left alone, too, and named: that is not to
be. Not here: repairing a log (`recovery`), which comes next.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final

from broker.log import names
from broker.log.directory import partition_directory
from broker.log.journal import (
    BLOCK_BYTES,
    FILE,
    FIRST_RECORD,
    NO_RUN,
    JournalEntry,
    JournalHead,
    JournalRecord,
    encode_head,
    entries_of,
    find_record,
    read_head,
)
from broker.log.partition_file import read_identity
from broker.log.recovery import newest_snapshot
from broker.log.scan import intact_batch_at
from broker.log.segment import Segment
from broker.log.synced_ends import LogKey
from broker.model import INT64_MAX
from broker.ports import Disk, DiskFault, DiskFile
from broker.records.batch import HEADER_BYTES, read_header

STEP_BYTES: Final = 1 << 20
"""Read from the journal at a time."""
RECORD_BYTES_MAX: Final = 64 * 1024
"""No record is longer."""
OPEN_FILES_MAX: Final = 64
"""Written before they are synced and closed."""


@dataclass(slots=True)
class Replayed:
    """`failed` says of a log why its records could not be written: it must not be opened, and the
    journal is as it was. `notes` are sentences for the operator.
    """

    record_count: int = 0
    byte_count: int = 0
    failed: dict[LogKey, str] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)
    head: JournalHead | None = None
    """What the journal says now; None when there is no journal, or none that can be used."""


async def replay(disk: Disk) -> Replayed:
    """Replay the journal of `disk` and empty it. Raises DiskFault when it cannot be read or
    emptied: without it records may be missing.
    """
    found = Replayed()
    try:
        file = disk.open(FILE)
    except FileNotFoundError:
        return found
    try:
        await _replay(disk, file, found)
    except DiskFault as fault:
        reason = (
            f"{fault.reason}: what was synced in the last seconds before a crash may be in it "
            "alone: mend the disk, or move the file away to start without"
        )
        raise DiskFault(FILE, reason) from fault
    finally:
        file.close()
    return found


async def _replay(disk: Disk, file: DiskFile, found: Replayed) -> None:
    heads = await file.read_cold(0, FIRST_RECORD)
    head = read_head(heads)
    if not any(heads):
        return  # it was made, and never used
    if head is None:
        found.notes.append(
            f"{FILE}: both of its heads are damaged, nothing of it is used: what was synced in "
            "the last seconds before a crash may be missing"
        )
    elif head.run == NO_RUN:
        found.head = head
    else:
        records = await _find_records(file, head.run)
        await _Replay(disk, file, found).run(records)
        if not found.failed:
            found.head = JournalHead(NO_RUN, head.turn + 1)
            file.write_at(found.head.position, encode_head(found.head))
            await file.sync()


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


class _Target:
    """One log's directory: what of it is to be written anew."""

    def __init__(self, disk: Disk, directory: str) -> None:
        self.directory = directory
        listing = names.sort_out(disk.list_directory(directory))
        snapshot = newest_snapshot(disk, directory, listing.snapshots)
        known = (-1, 0) if snapshot is None else (snapshot.segment_base, snapshot.position)
        bases = [
            base
            for base in listing.segments
            if listing.snapshots and base <= listing.snapshots[-1]  # even if it cannot be read
        ]
        self.floor = max(known, (max(bases, default=-1), 0))
        """(segment base, position): what is below was synced by its file."""
        self.open: dict[int, Segment] = {}
        self.is_refused = False


class _Replay:
    """One replay. The files that were written are synced at its end."""

    def __init__(self, disk: Disk, file: DiskFile, found: Replayed) -> None:
        self._disk = disk
        self._file = file
        self._found = found
        self._targets: dict[tuple[bytes, int], _Target | None] = {}
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
        """Records that stand within one step of the journal."""
        start, last = records[0].position, records[-1]
        content = memoryview(await self._file.read_cold(start, last.position + last.size - start))
        joined: dict[tuple[LogKey, int], JournalEntry] = {}
        for _, position, size in records:
            for entry in entries_of(content[position - start :][:size]):
                place = (entry.topic_id, entry.partition), entry.segment_base
                before = joined.get(place)
                if before is not None:
                    if entry.position == before.position + len(before.content):
                        joined[place] = before._replace(
                            content=bytes(before.content) + bytes(entry.content)
                        )
                        continue
                    await self._write(before)
                joined[place] = entry
        for entry in joined.values():
            await self._write(entry)
        if self._open_count > OPEN_FILES_MAX:
            await self._settle()

    async def _settle(self) -> None:
        """Sync what was written, and close it."""
        self._open_count = 0
        for key, target in self._targets.items():
            if target is None:
                continue
            for segment in target.open.values():
                try:
                    await segment.sync()
                except DiskFault as fault:
                    self._fail(key, fault)
                finally:
                    segment.close_file()
            target.open.clear()

    async def _write(self, entry: JournalEntry) -> None:
        """What a start would scan of it."""
        key = entry.topic_id, entry.partition
        if key not in self._targets:
            self._targets[key] = self._find_target(entry)
        target = self._targets[key]
        if target is None or target.is_refused or key in self._found.failed:
            return
        base, position, content = entry.segment_base, entry.position, memoryview(entry.content)
        known_base, known_position = target.floor
        if base < known_base:
            return
        if base == known_base and position < known_position:
            content = content[known_position - position :]
            position = known_position
        if not content:
            return
        try:
            await self._write_to(target, base, position, content)
        except FileNotFoundError:
            return  # the segment was deleted
        except DiskFault as fault:
            self._fail(key, fault)

    def _find_target(self, entry: JournalEntry) -> _Target | None:
        """None when the partition is gone, or is another one of that name by now."""
        directory = partition_directory(entry.topic, entry.partition)
        if not self._disk.exists(f"{directory}/{names.PARTITION_FILE}"):
            return None
        try:
            if read_identity(self._disk, directory).topic_id != entry.topic_id:
                return None
        except DiskFault:
            return None  # whoever opens it says so
        return _Target(self._disk, directory)

    async def _write_to(
        self, target: _Target, base: int, position: int, content: memoryview
    ) -> None:
        """Bytes that are there already are written, too: after a failed sync they may be in memory
        only.
        """
        segment = target.open.get(base)
        if segment is None:
            segment = Segment(self._disk, target.directory, base)
            segment.file()
            target.open[base] = segment
            self._open_count += 1
        file = segment.file()
        if position > file.size():
            self._refuse(target, f"{segment.path()} ends before byte {position}")
            return
        there = await file.read_cold(position, len(content))
        if there != content:
            place = _first_other_batch(memoryview(there), content)
            segment.size = file.size()
            if await intact_batch_at(segment, position + place, 0, INT64_MAX) is not None:
                self._refuse(target, f"{segment.path()} has another batch at {position + place}")
                return
        file.write_at(position, content)
        self._found.byte_count += len(content)

    def _refuse(self, target: _Target, reason: str) -> None:
        target.is_refused = True
        self._found.notes.append(f"{FILE}: {reason}: what follows was not taken from the journal")

    def _fail(self, key: LogKey, fault: DiskFault) -> None:
        reason = f"its records in the journal could not be written back: {fault}"
        self._found.failed[key] = reason


def _first_other_batch(there: memoryview, content: memoryview) -> int:
    """Where the first batch of `content` begins that `there` does not have."""
    place = 0
    while place + HEADER_BYTES <= len(content):
        size = read_header(content, place).size
        if there[place : place + size] != content[place : place + size]:
            break
        place += size
    return place
