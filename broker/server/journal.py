"""The journal of one broker: which rounds of syncs go there, and which half of it takes them.

Rounds write to one half; when it has enough, and the other half's logs are synced, the other half
goes on and this one's logs are synced beside the rounds (`SyncRounds.settle_halves`). Not here:
what a record looks like (`broker.log.journal`), what a start does with what it finds
(`broker.log.journal_replay`), the rounds (`syncing`). Invariants: whatever was published because
the journal has it stays in the journal until its log's file was synced; a journal with the records
of a log that failed is kept for the next start. Where the system has no file for it, or after the
first fault, every round syncs files, as if there were none.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Final

import structlog

from broker.log.journal import (
    BLOCK_BYTES,
    FILE,
    FIRST_RECORD,
    NO_HEAD,
    NO_RUN,
    RECORD_BYTES_MAX,
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

ROUND_BYTES_MAX: Final = 48 * 1024
"""Of records that go to the journal in one round. They are written twice: more is not worth it."""
HALF_BYTES: Final = 512 * 1024
"""Of records in one half, when the other one is to go on: its files are synced in little time."""
HALF_MS_MIN: Final = 20
"""One half takes rounds for so long at least, and no more than that: 26 MB/s are written twice at
most, whatever comes.
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
        self._sequence = 0
        self._is_writing = False
        self._next = self._end = 0
        self._half_bytes = 0
        """Of records in the half that is written to."""
        self._leaves_from_ms = 0.0
        """The half that is written to may be left then."""
        self._small_rounds = 0
        self._may_begin = True
        self._begins_at_ms = 0.0
        self.rounds_before = ROUNDS_BEFORE
        self._owed: dict[Partition, None] = {}
        """Whose files may lack what the half that is written to has."""
        self.settling: dict[Partition, None] = {}
        """Whose files may lack what the other half has."""
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
        self._next, self._end = FIRST_RECORD, _middle_of(ring)
        assert self._end - self._next >= RECORD_BYTES_MAX, "a half has room for a record"

    def entries_of(self, due: Sequence[Due]) -> list[JournalEntry] | None:
        """What a round writes to the journal; None when it is not for the journal, or there is no
        room.
        """
        size = _record_size_of(due)
        if size is None:
            return None
        if self._ring is None:
            self._note_small_round()
            return None
        if not self._make_room(blocks_of(size)):
            return None
        entries = [_entry_of(each) for each in due]
        found = [entry for entry in entries if entry is not None]
        return found if len(found) == len(due) else None

    def _make_room(self, size: int) -> bool:
        """Whether there is room for a record, in the other half if this one has enough. There is
        none while much comes, or the device is slow: then the round syncs its files.
        """
        has_enough = self._half_bytes >= HALF_BYTES or self._next + size > self._end
        if not has_enough:
            return True
        if self.settling or self._clock.monotonic_ms() < self._leaves_from_ms:
            return False
        self._go_on_in_other_half()
        return True

    def _go_on_in_other_half(self) -> None:
        assert self._ring is not None, "asked without a journal"
        middle = _middle_of(self._ring)
        is_second = self._end > middle
        self._next, self._end = (FIRST_RECORD, middle) if is_second else (middle, self._ring.size)
        self._half_bytes = 0
        self._leaves_from_ms = self._clock.monotonic_ms() + HALF_MS_MIN
        self.settling, self._owed = self._owed, {}
        self.is_left.set()

    async def write(self, due: Sequence[Due], entries: Sequence[JournalEntry]) -> bool:
        """Whether they are durable now, in the journal. After a fault there is no journal any more:
        the files of all that is owed are to be synced.
        """
        ring, head = self._ring, self._head
        assert ring is not None, "asked without a journal"
        self._sequence += 1
        size = write_record(ring.buffer, head.run, self._sequence, entries)
        self._half_bytes += size
        size = blocks_of(size)
        position, self._next = self._next, self._next + size
        for each in due:
            self._owed[each.partition] = None
        self._is_writing = True
        try:
            await ring.write(position, size)
        except DiskFault as fault:
            _log.error("the journal failed: syncing files goes on", fault=str(fault))
            self.leave()
            self.give_up()
            return False
        finally:
            self._is_writing = False
            if self._ring is None:  # given up meanwhile
                ring.close()
        return True

    def forget(self, partition: Partition) -> None:
        """Its topic was deleted."""
        self._owed.pop(partition, None)
        self.settling.pop(partition, None)

    def leave(self) -> None:
        """Both halves are to be settled: nothing more is written."""
        self.settling |= self._owed
        self._owed = {}

    def settled(self, synced: Iterable[Partition]) -> None:
        """The files of `synced` have what was `settling`. A log that failed keeps the journal, for
        the next start, as it is.
        """
        for partition in synced:
            self.settling.pop(partition, None)
        if self.settling and self._ring is not None:
            _log.error("the journal is kept for the next start", partitions=len(self.settling))
            self.give_up()

    def give_up(self) -> None:
        """Write nothing more to it, and leave it for the next start."""
        ring, self._ring = self._ring, None
        if ring is not None and not self._is_writing:
            ring.close()

    async def end(self) -> None:
        """At a clean stop, when all is settled: the next start need not look."""
        ring = self._ring
        if ring is not None and not self._owed and not self.settling:
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


def _record_size_of(due: Sequence[Due]) -> int | None:
    """Bytes of the record of a round; None when it is not for the journal."""
    if len(due) > LOGS_MAX:
        return None
    size = names_size = 0
    for partition, log, mark, _ in due:
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
        names_size += len(partition.topic)
    return record_size(len(due), names_size, size)


def _middle_of(ring: RingFile) -> int:
    """Where the second half begins, of the records' room."""
    return FIRST_RECORD + (ring.size - FIRST_RECORD) // (2 * BLOCK_BYTES) * BLOCK_BYTES


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
