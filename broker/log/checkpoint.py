"""Making a log durable, and writing down how far: sync, snapshot, leader-epoch file.

Not here: when to do it. Order matters: the log is synced first, then index, epochs and snapshot are
written, so that a snapshot never says more than the disk holds. After a fault nothing is written
any more (KAFKA-13773).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

from broker.log import names
from broker.log.epochs import encode_epochs
from broker.log.recovery import Recovered
from broker.log.segment import Segment
from broker.log.snapshot import Snapshot, encode_snapshot
from broker.log.survey import store
from broker.log.synced_ends import SyncedEnd
from broker.ports import DiskFault, DiskFull, NoDescriptor

if TYPE_CHECKING:
    from broker.log.partition_log import PartitionLog

SNAPSHOTS_KEPT: Final = 2
CHECKPOINT_BYTES: Final = 64 * 1024 * 1024
"""Written since the last checkpoint, this much makes another one due: a start after a kill scans
little more.
"""


class SyncMark(NamedTuple):
    """What a sync that begins now will have made durable: all below `end_offset`, in `segments`
    (those rolled over since the last sync, then the active one, of which `position` bytes), and
    their names.
    """

    end_offset: int
    segments: tuple[Segment, ...]
    names_changed: int
    position: int

    @property
    def file_count(self) -> int:
        """Files to be synced."""
        return len(self.segments)


class Checkpoints:
    """What is durable of one log. `offset` and `log_start_offset` are what a restart finds without
    scanning.
    """

    __slots__ = (
        "_epochs_written",
        "_key",
        "_names_synced",
        "_position",
        "_snapshot_offsets",
        "is_under_way",
        "names_changed",
        "needs_mark",
        "synced",
        "unsynced_closed",
    )

    def __init__(self, found: Recovered) -> None:
        snapshot = found.snapshot
        self._key = (-1, -1, -1, -1) if snapshot is None else _key_of(snapshot)
        self._position = 0 if snapshot is None else snapshot.position
        self._epochs_written: list[tuple[int, int]] | None = None
        self.is_under_way = False
        """Another one does nothing meanwhile."""
        self._snapshot_offsets = found.snapshot_offsets
        self.synced = found.synced
        """How far the log is known to be synced."""
        self.names_changed = 1
        """Grows with every change; a process that was killed may have left one unsynced."""
        self._names_synced = 0
        self.unsynced_closed = found.unsynced_closed
        self.needs_mark = False
        """A sync failed, and the next start would not be told."""

    @property
    def offset(self) -> int:
        """A restart scans from here."""
        return self._key[0]

    @property
    def log_start_offset(self) -> int:
        """The log start that a restart finds."""
        return self._key[1]

    @property
    def unwritten_end(self) -> SyncedEnd | None:
        """What is synced, when the newest snapshot says less."""
        return self.synced if self.synced.offset > self._key[0] else None

    @property
    def knows_of_gaps(self) -> bool:
        """Whether a restart is told that offsets may be missing."""
        return self._key[3] > 0

    def is_due(self, log: PartitionLog) -> bool:
        """True when a start after a kill would scan much."""
        is_current = log.active.base_offset == self.segment_base
        scanned = log.active.size - (self._position if is_current else 0)
        return scanned >= CHECKPOINT_BYTES

    @property
    def segment_base(self) -> int:
        """The segment in which a restart begins to scan."""
        return self._key[2]

    def synced_position(self, log: PartitionLog) -> int:
        """Bytes of the active segment that the last checkpoint found synced."""
        return self._position if log.active.base_offset == self.segment_base else 0

    def begin_sync(self, log: PartitionLog) -> SyncMark:
        """What is written now. Readers will soon read up to there: they need not look for it."""
        active, size = log.active, log.active.size
        if log.log_end_offset == log.written_end_offset:
            log.positions.remember_end(log.written_end_offset, active, size)
        else:  # the segment's size counts what is staged
            size = log.reach().written_size
        closed = [segment for segment in self.unsynced_closed if segment in log.segments]
        return SyncMark(log.written_end_offset, (*closed, active), self.names_changed, size)

    async def sync(self, log: PartitionLog, mark: SyncMark) -> None:
        """As `PartitionLog.sync_to`."""
        fault: DiskFault | None = None
        try:
            for segment in mark.segments:
                if segment is log.active or segment in log.segments:  # else it was deleted
                    await segment.sync()
            if mark.names_changed > self._names_synced:
                await log.disk.sync_directory(log.directory)
        except DiskFault as error:
            fault = error
        except FileNotFoundError as error:
            missing = DiskFault(log.directory, "a segment's file is missing")
            log.go_offline(missing)
            raise missing from error
        self.settle_sync(log, mark, fault)

    def needs_one_file(self, mark: SyncMark) -> bool:
        """Whether a sync of the active segment's file is all that `mark` needs."""
        return len(mark.segments) == 1 and mark.names_changed <= self._names_synced

    def settle_sync(self, log: PartitionLog, mark: SyncMark, fault: DiskFault | None) -> None:
        """What `mark` names was synced, or `fault` was met. Raises DiskFault, as
        `PartitionLog.sync_to`.
        """
        if isinstance(fault, NoDescriptor):
            raise fault  # nothing was asked of the device
        if isinstance(fault, DiskFull):  # as final as any fault: the pages count as written now
            fault = DiskFault(fault.path, f"at a sync: {fault.reason}")
        if fault is not None:
            log.fail_sync(fault)
            raise fault
        if log.offline_reason:  # another sync failed meanwhile: that this one did not means nothing
            raise DiskFault(log.directory, log.offline_reason)
        self.finish_sync(mark)

    def note_placed(self) -> None:
        """This process made the directory, durable with all that is in it."""
        self._names_synced = self.names_changed

    def finish_sync(self, mark: SyncMark) -> None:
        """What `mark` names is durable, its directory's names too."""
        synced = mark.segments[:-1]
        if synced:
            self.unsynced_closed = [each for each in self.unsynced_closed if each not in synced]
        self._names_synced = max(self._names_synced, mark.names_changed)
        if mark.end_offset > self.synced.offset:
            self.synced = SyncedEnd(mark.end_offset, mark.segments[-1].base_offset, mark.position)

    def mark_failed_sync(self, log: PartitionLog) -> bool:
        """Tell the next start that a sync failed; False when there is no room for that now."""
        try:
            log.disk.mark(f"{log.directory}/{names.SYNC_FAILED}")
        except DiskFault:
            self.needs_mark = True
        else:
            self.needs_mark = False
        return not self.needs_mark

    async def take(self, log: PartitionLog) -> None:
        """As `PartitionLog.checkpoint`. All of it is captured before the first wait."""
        log.check_online()
        log.flush_early()
        active = log.active
        times = log.active_times()
        if active.size:
            times = times._replace(first_append_time=log.rolls_from_ms)
        snapshot = Snapshot(
            log.written_end_offset,
            active.base_offset,
            active.size,
            log.log_start_offset,
            times,
            _cleaned_end_offset(log),
            log.producers.entries,
        )
        if self.is_under_way or _key_of(snapshot) == self._key:
            return
        content = encode_snapshot(snapshot)
        index_files = active.encode_index_files()
        epochs = list(log.epochs.entries)
        self.is_under_way = True
        try:
            await self.sync(log, self.begin_sync(log))
            await active.write_index(index_files)
            if epochs != self._epochs_written:
                log.check_online()
                await log.disk.replace_file(
                    f"{log.directory}/{names.EPOCHS_FILE}", encode_epochs(epochs)
                )
                self._epochs_written = epochs
            log.check_online()  # a closed log's directory may be another topic's by now
            await log.disk.replace_file(_path(log, snapshot.offset), content)
            self._key = _key_of(snapshot)
            self._position = snapshot.position
            await self._keep(log, snapshot.offset)
        finally:
            self.is_under_way = False

    async def drop_others(self, log: PartitionLog) -> None:
        """All snapshots but the one that a restart begins with. Raises DiskFault."""
        known = self._snapshot_offsets
        while others := [each for each in known if each != self.offset]:
            known.remove(others[0])
            await log.disk.unlink(_path(log, others[0]))

    async def _keep(self, log: PartitionLog, offset: int) -> None:
        known = self._snapshot_offsets
        if offset not in known:
            known.append(offset)
        while len(known) > SNAPSHOTS_KEPT:
            await log.disk.unlink(_path(log, known.pop(0)))


async def settle_opening(log: PartitionLog, found: Recovered, *, is_changed: bool) -> None:
    """Write down what the recovery found. Raises DiskFault; without space the next start finds it
    again.
    """
    if found.has_new_ranges:
        await store(log)
    if found.has_failed_sync:
        await log.disk.unlink(f"{log.directory}/{names.SYNC_FAILED}")
    if is_changed or found.snapshot is None:
        try:
            await log.checkpoint()
        except DiskFull:
            log.damage.append(
                f"{log.directory}: no space for a checkpoint: the next start scans more"
            )


def _path(log: PartitionLog, offset: int) -> str:
    return f"{log.directory}/{names.numbered(offset, names.SNAPSHOT)}"


def _cleaned_end_offset(log: PartitionLog) -> int:
    """From where the next start's first cleaning looks for keys; 0 only when nothing was cleaned
    yet.
    """
    return min(log.cleaned_end_offset, max(log.passed_over_offset, 1))


def _key_of(snapshot: Snapshot) -> tuple[int, int, int, int]:
    """What must have changed for another snapshot to be worth writing."""
    return (
        snapshot.offset,
        snapshot.log_start_offset,
        snapshot.segment_base,
        snapshot.cleaned_end_offset,
    )
