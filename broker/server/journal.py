"""The journal of one broker: its file's life.

Not here: which half takes a record (`journal_halves`), which rounds are for it (`journal_rounds`),
what a record looks like (`broker.log.journal`), what a start does with what it finds
(`broker.log.journal_replay`). Invariants: whatever was published because the journal has it stays
there until its log's file was synced; a journal with the records of a log that failed is kept for
the next start. Where the system has no file for it, or after the first fault, every round syncs
files, as if there were none.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Sequence
from contextlib import ExitStack
from math import inf
from typing import TYPE_CHECKING, Final

import structlog

from broker.log.journal import (
    FILE,
    NO_HEAD,
    NO_RUN,
    JournalEntry,
    blocks_of,
    encode_head,
    write_record,
)
from broker.log.journal_replay import replay
from broker.log.synced_ends import LogKey
from broker.metrics import Metrics
from broker.ports import Clock, Disk, DiskFault, DiskFull, IdSource, RingFile, Spawn
from broker.server.journal_halves import Halves

if TYPE_CHECKING:
    from broker.server.partition import Partition
    from broker.server.syncing import Due

ROUNDS_BEFORE: Final = 100
"""Rounds that would be for the journal, until it is begun: who never has them needs none."""
RETRY_MS: Final = 60_000
"""After there was no room for it."""

_log = structlog.get_logger("hermes.journal")


class Journal:
    """See the module. `replay` comes before any log is opened."""

    def __init__(
        self,
        disk: Disk,
        clock: Clock,
        ids: IdSource,
        metrics: Metrics,
        spawn: Spawn,
        spare_bytes: Callable[[], int],
    ) -> None:
        self._disk = disk
        self._clock = clock
        self._ids = ids
        self._metrics = metrics
        self._spawn = spawn
        self._spare_bytes = spare_bytes
        """How much the disk must have left beside the journal; raises DiskFault."""
        self._ring: RingFile | None = None
        self._halves: Halves[Partition] | None = None
        """Stays when the ring is given up: what is owed is to be synced."""
        self._head = NO_HEAD
        self._sequence = 0
        self._is_writing = False
        self.rounds_before = ROUNDS_BEFORE
        """Rounds that would be for it, until it is begun."""
        self._begins_from_ms = 0.0
        """Infinite: it is begun, or never will be."""
        self.is_left = asyncio.Event()
        """Set when a half was left: what is `settling` is to be synced."""
        self._failed: dict[LogKey, str] = {}

    async def replay(self) -> None:
        """Write to the logs' files what the last process left. Raises DiskFault when the journal
        cannot be read: records that were acknowledged may be in it alone.
        """
        found = await replay(self._disk)
        for note in found.notes:
            _log.error("the journal could not be used whole", note=note)
        if found.failed:
            _log.error("the journal is kept for the next start", partitions=len(found.failed))
            self._begins_from_ms = inf
        if found.record_count:
            _log.info("replayed the journal", records=found.record_count, bytes=found.byte_count)
        self._metrics.journal_replayed_records_total.add(found.record_count)
        self._failed = found.failed
        self._head = found.head

    def check(self, directory: str, key: LogKey) -> None:
        """Raises DiskFault when the log's records in the journal could not be written back: it must
        not be opened.
        """
        if key in self._failed:
            raise DiskFault(directory, self._failed[key])

    @property
    def is_open(self) -> bool:
        """Whether there is one to write to."""
        return self._ring is not None

    @property
    def takes_rounds(self) -> bool:
        """Whether rounds are for it: it is open, or will be when there were some."""
        return self._ring is not None or self._begins_from_ms < inf

    @property
    def settling(self) -> tuple[Partition, ...]:
        """Whose files are to be synced."""
        return () if self._halves is None else self._halves.settling

    def note_round_without(self) -> None:
        """A round would be for the journal, and there is none: begin it when there were many."""
        self.rounds_before -= 1
        if self.rounds_before <= 0 and self._clock.monotonic_ms() >= self._begins_from_ms:
            self._begins_from_ms = inf
            self._spawn(self._begin())

    async def _begin(self) -> None:
        """Make the file, and this process's run of it; without success there is no journal."""
        with ExitStack() as unless_begun:
            try:
                ring = await self._disk.open_ring(FILE, self._spare_bytes())
                unless_begun.callback(ring.close)
                await self._write_heads(ring, self._ids.uuid())
            except DiskFault as fault:
                if isinstance(fault, DiskFull):  # there may be room later
                    self._begins_from_ms = self._clock.monotonic_ms() + RETRY_MS
                _log.warning("no journal: every sync round syncs files", fault=str(fault))
                return
            halves: Halves[Partition] = Halves(ring.size, len(ring.buffer))
            unless_begun.pop_all()
        self._ring, self._halves = ring, halves

    def has_room(self, size: int) -> bool:
        """Whether a record of `size` bytes can be written now: not when the ring's buffer is
        shorter (a simulated one's may be), nor while more comes than the device syncs beside the
        rounds.
        """
        ring, halves = self._ring, self._halves
        assert ring is not None, "asked without a journal"
        assert halves is not None, "asked without a journal"
        if blocks_of(size) > len(ring.buffer):
            return False
        return halves.has_place(size) or halves.may_leave(self._clock.monotonic_ms())

    async def write(self, due: Sequence[Due], entries: Sequence[JournalEntry]) -> bool:
        """Whether they are durable now, in the journal, which `has_room`. After a fault there is no
        journal any more: the files of all that is `settling` are to be synced.
        """
        ring, halves = self._ring, self._halves
        assert ring is not None, "asked without a journal"
        assert halves is not None, "asked without a journal"
        self._sequence += 1
        size = write_record(ring.buffer, self._head.run, self._sequence, entries)
        now_ms = self._clock.monotonic_ms()
        if halves.is_to_be_left(size, now_ms):
            halves.leave(now_ms)
            self.is_left.set()
        logs = (each.partition for each in due if not each.partition.is_deleted)
        position = halves.place(size, logs)
        self._is_writing = True
        try:
            await ring.write(position, blocks_of(size))
        except DiskFault as fault:
            _log.error("the journal failed: syncing files goes on", fault=str(fault))
            halves.leave_both()
            self.give_up()
            return False
        finally:
            self._is_writing = False
            if self._ring is None:  # given up meanwhile
                ring.close()
        return True

    def forget(self, partition: Partition) -> None:
        """Its topic was deleted."""
        if self._halves is not None:
            self._halves.forget(partition)

    def leave_both(self) -> None:
        """At a stop: the files of all that is owed are to be synced."""
        if self._halves is not None:
            self._halves.leave_both()

    def note_settled(self, synced: Iterable[Partition]) -> None:
        """The files of `synced` have what was `settling`. A log that failed keeps the journal, as
        it is, for the next start.
        """
        halves = self._halves
        if halves is None or halves.note_settled(synced, self._clock.monotonic_ms()):
            return
        if self._ring is None:
            return
        _log.error("the journal is kept for the next start", partitions=len(halves.settling))
        self.give_up()

    def give_up(self) -> None:
        """Write nothing more to it, and leave it for the next start."""
        ring, self._ring = self._ring, None
        if ring is not None and not self._is_writing:
            ring.close()

    async def end(self) -> None:
        """At a clean stop: when all is settled, the next start need not look."""
        ring, halves = self._ring, self._halves
        if ring is not None and halves is not None and halves.is_all_settled:
            try:
                await self._write_heads(ring, NO_RUN)
            except DiskFault as fault:
                _log.error("the journal could not be ended", fault=str(fault))
        self.give_up()

    async def _write_heads(self, ring: RingFile, run: bytes) -> None:
        """Both of them: damage to one leaves the other."""
        for head in self._head.followed_by(run):
            content = encode_head(head)
            await ring.idle()
            ring.buffer[: len(content)] = content
            await ring.write(head.position, len(content))
            self._head = head
