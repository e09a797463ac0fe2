"""The journal of one broker: which rounds of syncs go there, and when it begins anew.

Not here: what a record looks like (`broker.log.journal`), what a start does with what it finds
(`broker.log.journal_replay`), the rounds (`syncing`). Invariants: whatever was published because
the journal has it stays in the journal until its log's file was synced; a journal with the records
of a log that failed is kept for the next start. Where the system has no file for it, or after the
first fault, every round syncs files, as if there were none.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Final

import structlog

from broker.log.journal import (
    FILE,
    FIRST_RECORD,
    NO_HEAD,
    NO_RUN,
    JournalEntry,
    blocks_of,
    encode_head,
    record_size,
    write_record,
)
from broker.log.journal_replay import replay
from broker.log.synced_ends import LogKey
from broker.metrics import Metrics
from broker.ports import Clock, Disk, DiskFault, DiskFull, IdSource, RingFile, Spawn

if TYPE_CHECKING:
    from broker.server.partition import Partition
    from broker.server.syncing import Due

ROUND_BYTES_MAX: Final = 8 * 1024
"""Of records that go to the journal in one round. They are written twice: more is not worth it."""
OWED_BYTES_MAX: Final = 1024 * 1024
"""Written to the journal since the files were synced. The round that syncs them takes a few
milliseconds; with 16 times as much it took 25 to 60, and was the P99 of 10,000 records a second.
"""
LOGS_MAX: Final = 32
"""In one record: with the longest names it fits the buffer of a ring."""
ROUNDS_BEFORE: Final = 100
"""Small rounds until the journal is begun: who never has them needs none."""
RETRY_MS: Final = 60_000
"""After there was no room for it."""

_log = structlog.get_logger("hermes.journal")


class Journal:
    """See the module. `replay` comes before any log is opened."""

    def __init__(
        self, disk: Disk, clock: Clock, ids: IdSource, metrics: Metrics, spawn: Spawn
    ) -> None:
        self._disk = disk
        self._clock = clock
        self._ids = ids
        self._metrics = metrics
        self._spawn = spawn
        self._ring: RingFile | None = None
        self._head = NO_HEAD
        self._next = FIRST_RECORD
        self._sequence = 0
        self._owed_bytes = 0
        self._small_rounds = 0
        self._may_begin = True
        self._begins_at_ms = 0.0
        self.rounds_before = ROUNDS_BEFORE
        self.owed: dict[Partition, None] = {}
        """Whose files may lack what the journal has."""
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
        if found.record_count:
            _log.info("replayed the journal", records=found.record_count, bytes=found.byte_count)
        self._metrics.journal_replayed_records_total.add(found.record_count)
        self._failed = found.failed
        self._may_begin = not found.failed
        self._head = found.head

    def check(self, directory: str, key: LogKey) -> None:
        """Raises DiskFault when the log's records in the journal could not be written back: it must
        not be opened.
        """
        if key in self._failed:
            raise DiskFault(directory, self._failed[key])

    def _note_small_round(self) -> None:
        """A round was small enough for the journal: begin it when there were many."""
        self._small_rounds += 1
        if (
            self._small_rounds >= self.rounds_before
            and self._may_begin
            and self._clock.monotonic_ms() >= self._begins_at_ms
        ):
            self._may_begin = False
            self._spawn(self._begin())

    async def _begin(self) -> None:
        """Make the file, and this process's run of it; without success there is no journal."""
        ring: RingFile | None = None
        try:
            ring = await self._disk.open_ring(FILE)
            await self._write_heads(ring, self._ids.uuid())
        except BaseException as error:
            if ring is not None:
                ring.close()
            if not isinstance(error, DiskFault):
                raise
            if isinstance(error, DiskFull):  # there may be room later
                self._begins_at_ms = self._clock.monotonic_ms() + RETRY_MS
                self._may_begin = True
            _log.warning("no journal: small synced writes take longer", fault=str(error))
            return
        self._ring = ring

    def entries_of(self, due: Sequence[Due]) -> list[JournalEntry] | None:
        """What a round writes to the journal; None when it is not for the journal."""
        if len(due) > LOGS_MAX:
            return None
        size = 0
        for _, log, mark, _ in due:
            synced = log.checkpoints.synced
            length = mark.position - synced.position
            size += length
            if (
                length < 0
                or size > ROUND_BYTES_MAX
                or synced.segment_base != mark.segments[-1].base_offset
                or not log.checkpoints.needs_one_file(mark)
            ):
                return None
        if self._ring is None:
            self._note_small_round()
            return None
        entries = [_entry_of(each) for each in due]
        found = [entry for entry in entries if entry is not None]
        return found if len(found) == len(due) else None

    def may_take(self, entries: Sequence[JournalEntry]) -> bool:
        """False when enough is owed, or the journal is at its end: the files of all that is owed
        are to be synced, then `restart`.
        """
        ring, size = self._ring, record_size(entries)
        assert ring is not None, "asked without a journal"
        is_inside = self._next + blocks_of(size) <= ring.size
        return is_inside and self._owed_bytes + size <= OWED_BYTES_MAX

    async def write(self, due: Sequence[Due], entries: Sequence[JournalEntry]) -> bool:
        """Whether they are durable now, in the journal. After a fault there is no journal any more:
        the files of all that is owed are to be synced.
        """
        ring, head = self._ring, self._head
        assert ring is not None, "asked without a journal"
        self._sequence += 1
        size = write_record(ring.buffer, head.run, self._sequence, entries)
        self._owed_bytes += size
        size = blocks_of(size)
        position, self._next = self._next, self._next + size
        for each in due:
            self.owed[each.partition] = None
        try:
            await ring.write(position, size)
        except DiskFault as fault:
            _log.error("the journal failed: syncing files goes on", fault=str(fault))
            self.give_up()
            return False
        return True

    def forget(self, partition: Partition) -> None:
        """Its topic was deleted."""
        self.owed.pop(partition, None)

    def restart(self, synced: Iterable[Partition]) -> None:
        """The files of `synced` have what the journal has; it begins anew when that is true of all
        that is owed. A log that failed keeps it, for the next start, as it is.
        """
        for partition in synced:
            self.owed.pop(partition, None)
        if not self.owed:
            self._next = FIRST_RECORD
            self._owed_bytes = 0
        elif self._ring is not None:
            _log.error("the journal is kept for the next start", partitions=len(self.owed))
            self.give_up()

    def give_up(self) -> None:
        """Write nothing more to it, and leave it for the next start."""
        if self._ring is not None:
            self._ring.close()
            self._ring = None

    async def end(self) -> None:
        """At a clean stop, when nothing is owed any more: the next start need not look."""
        ring = self._ring
        if ring is not None and not self.owed:
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


def _entry_of(due: Due) -> JournalEntry | None:
    """What is not synced of a log; None when it cannot be read at once."""
    partition, log, mark, _ = due
    _, base, position = log.checkpoints.synced
    length = mark.position - position
    try:
        content = mark.segments[-1].file().read(position, length)
    except (DiskFault, FileNotFoundError):
        return None
    if content is None or len(content) != length:
        return None
    topic_id = bytes(partition.topic_id)
    return JournalEntry(topic_id, partition.index, partition.topic, base, position, content)
