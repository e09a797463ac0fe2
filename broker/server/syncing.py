"""Sync rounds: one sync for everything that was written since the last one (group commit).

A partition with `durability=fsync` is added when it was written to; one round at a time takes all
that came while the round before it ran. A round that brings no more than `ROUND_BYTES_MAX` is
written to the journal while there is room; the files of its logs are synced later, beside the
rounds. Of others up to `DIRECT_FILES_MAX` files are synced side by side, more by one `syncfs` of
the data directory's file system. What a round has made durable is published when it is over. The
first fault of a file takes its partition offline, after `syncfs` every partition of the round, and
then there is no other `syncfs`: the next sync of the same file would say that all is well.

Not here: what has to be synced of a log (`PartitionLog.begin_sync`), whom that answers
(`Partition.on_synced`). No task, thread or wait of a request's own.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Sequence
from typing import Final, NamedTuple, TypeVar

import structlog

from broker.log.checkpoint import SyncMark
from broker.log.journal import JournalEntry, record_size
from broker.log.partition_log import PartitionLog
from broker.log.segment import Written
from broker.measures import Distribution, Value
from broker.metrics import Metrics
from broker.ports import Clock, Disk, DiskFault, DiskFile, NoDescriptor
from broker.server.journal import Journal
from broker.server.journal_rounds import RoundBytes
from broker.server.partition import Partition
from broker.server.turn import Turn

DIRECT_FILES_MAX: Final = 4
"""Files of a round that are synced one by one; measured: 100 files 15 ms, by syncfs 1.2 ms."""
SLOW_ROUND_MS: Final = 1.25
"""What a round gains when it waits for one more look at the sockets costs a faster one more."""
PARTITIONS_PER_STEP: Final = 128
"""Partitions whose marks are taken, or whose waiters are answered, in one step of the loop: less
than a millisecond. A fetch that waits for many is answered with what one step has published.
"""
DESCRIPTOR_ATTEMPTS_MAX: Final = 100
DESCRIPTOR_PAUSE_MS: Final = 100
DIRECT: Final = "direct"
JOURNAL: Final = "journal"
WHOLE: Final = "syncfs"
SETTLE: Final = "settle"

T = TypeVar("T")
_log = structlog.get_logger("hermes.syncing")


class Due(NamedTuple):
    """A partition's part in a round: `mark` is what will be durable, `size` its bytes."""

    partition: Partition
    log: PartitionLog
    mark: SyncMark
    size: int


class SyncRounds:
    """The one who syncs for all partitions of a broker. `run` is its task."""

    def __init__(
        self, disk: Disk, clock: Clock, metrics: Metrics, turn: Turn, journal: Journal
    ) -> None:
        self._disk = disk
        self._journal = journal
        self._clock = clock
        self._metrics = metrics
        self._turn = turn
        self._dirty: dict[Partition, None] = {}
        self._brought = RoundBytes()
        self._is_due = asyncio.Event()
        self._added_ms = 0.0
        self._waits = False
        self._syncs_all = asyncio.Lock()
        """One `syncfs` at a time: of two that run, the system tells only one of an error."""
        self._counted: dict[str, tuple[Value, Value, Distribution]] = {}

    def add(self, partition: Partition, written: Written | None) -> None:
        """Sync it in the next round, which brings `written`; None: what it brings was not handed
        over, or not all. A partition may be added twice, an append not.
        """
        self._dirty[partition] = None
        if written is not None and self._journal.takes_rounds:
            self._brought.add(partition, written)
        self._added_ms = self._clock.monotonic_ms()
        self._is_due.set()

    async def run(self) -> None:
        """Rounds, until cancelled. A round that is cancelled publishes nothing more."""
        while True:
            await self._is_due.wait()
            if self._waits:  # the answers of the last round bring the requests of this one
                await asyncio.sleep(0)
            self._is_due.clear()
            dirty, self._dirty = self._dirty, {}
            brought, self._brought = self._brought, RoundBytes()
            try:
                await self._round(list(dirty), brought)
            except Exception as error:  # noqa: BLE001 - a bug must not leave every later round undone
                _log.error("a sync round broke an invariant", exc_info=error)
                for partition in dirty:
                    partition.take_offline(f"broken invariant: {error}")

    async def try_sync_all(self) -> None:
        """Once, beside the rounds, which sync files until then. An error that the file system owes
        since before this process is nobody's here: each log's tail was synced by its own file when
        it was opened.
        """
        try:
            await self._disk.try_sync_all()
        except DiskFault as fault:
            _log.warning("no syncfs until the restart: it told of an error", fault=str(fault))

    async def settle_forever(self) -> None:
        """Beside `run`, until cancelled: sync the files of each half that is left."""
        while True:
            await self._journal.is_left.wait()
            self._journal.is_left.clear()
            try:
                await self._settle()
            except Exception as error:  # noqa: BLE001 - it keeps what is not settled, and rounds go on by files
                _log.error("the journal is kept for the next start", exc_info=error)
                self._journal.give_up()

    async def settle_at_stop(self) -> None:
        """After `run` and `settle_forever`: the files have what the journal has, and it ends. Never
        raises: the next start finds it as it is.
        """
        try:
            self._journal.leave_both()
            await self._settle()
            await self._journal.end()
        except Exception as error:  # noqa: BLE001 - a bug must not keep logs from being closed
            _log.error("the journal was not ended", exc_info=error)

    async def _settle(self) -> None:
        """Sync the files of what is settling. What of it cannot be synced keeps the journal."""
        due = await self._begin(self._journal.settling)
        synced = await self._sync_files(due, SETTLE)
        self._journal.note_settled(each.partition for each in synced)

    async def _round(self, partitions: Sequence[Partition], brought: RoundBytes) -> None:
        due = await self._begin(partitions)
        if not due:
            return
        began_ms = self._clock.monotonic_ms()
        synced = await self._sync(due, brought)
        ended_ms = self._clock.monotonic_ms()
        self._waits = waits_for_more(ended_ms - began_ms, ended_ms - self._added_ms)
        await self._publish(synced)

    async def _begin(self, partitions: Sequence[Partition]) -> list[Due]:
        """What a sync that begins now will have made durable of those that are not offline."""
        due: list[Due] = []
        for step in _steps(partitions):
            if due:
                await asyncio.sleep(0)
            for partition in step:
                begun = partition.begin_sync()
                if begun is not None:
                    due.append(Due(partition, *begun))
        return due

    async def _sync(self, due: list[Due], brought: RoundBytes) -> list[Due]:
        """Those that are durable now; the others are offline."""
        journal = self._journal
        entries = brought.entries_of(due)
        if entries is None or not self._may_write(entries):
            return await self._sync_files(due)
        began_ms = self._clock.monotonic_ms()
        if await journal.write(due, entries):
            self._count(JOURNAL, len(due), self._clock.monotonic_ms() - began_ms)
            return [each for each in due if each.log.finish_sync(each.mark)]
        taken = {each.partition for each in due}
        owed = [partition for partition in journal.settling if partition not in taken]
        synced = await self._sync_files([*due, *await self._begin(owed)])
        journal.note_settled(each.partition for each in synced)
        return synced

    def _may_write(self, entries: Sequence[JournalEntry]) -> bool:
        """Whether there is a journal, and room in it. Without one the round counts for beginning
        it.
        """
        if not self._journal.is_open:
            self._journal.note_round_without()
            return False
        return self._journal.has_room(record_size(entries))

    async def _sync_files(self, due: Sequence[Due], counted_as: str = "") -> list[Due]:
        """As `_sync`, without the journal; counted by the way it took, or as `counted_as`."""
        if not due:
            return []
        file_count = sum(each.mark.file_count for each in due)
        began_ms = self._clock.monotonic_ms()
        synced = None
        if file_count > DIRECT_FILES_MAX:
            async with self._syncs_all:
                if self._disk.has_sync_all:
                    synced = await self._sync_whole(due)
        way = DIRECT if synced is None else WHOLE
        if synced is None:
            synced = await self._sync_directly(due)
        self._count(counted_as or way, file_count, self._clock.monotonic_ms() - began_ms)
        return synced

    def _count(self, way: str, file_count: int, elapsed_ms: float) -> None:
        """In the metrics; a way that was never gone has none."""
        counted = self._counted.get(way)
        if counted is None:
            metrics = self._metrics
            counted = self._counted[way] = (
                metrics.sync_rounds_total.labels(way=way),
                metrics.synced_files_total.labels(way=way),
                metrics.sync_round_duration_seconds.labels(way=way),
            )
        rounds, files, duration = counted
        rounds.value += 1
        files.value += file_count
        duration.observe(elapsed_ms / 1000)

    async def _sync_directly(self, due: Sequence[Due]) -> list[Due]:
        """Those whose files could be synced; the others are offline."""
        held: list[tuple[Due, DiskFile]] = []
        others: list[Due] = []
        for each in due:
            file = _hold_only_file(each)
            if file is None:
                others.append(each)
            else:
                held.append((each, file))
        if not others:
            return await self._sync_held(held)
        async with asyncio.TaskGroup() as group:
            together = group.create_task(self._sync_held(held))
            alone = [group.create_task(_sync_one(each)) for each in others]
        return [
            *together.result(),
            *(each for each, task in zip(others, alone, strict=True) if task.result()),
        ]

    async def _sync_held(self, held: Sequence[tuple[Due, DiskFile]]) -> list[Due]:
        """All of them in one step off the loop."""
        if not held:
            return []
        try:
            faults = await self._disk.sync_files([file for _, file in held])
        finally:
            for each, _ in held:
                each.mark.segments[0].release()
        synced = []
        for (each, _), fault in zip(held, faults, strict=True):
            try:
                each.log.checkpoints.settle_sync(each.log, each.mark, fault)
            except DiskFault as final:
                each.partition.take_offline(str(final))
            else:
                synced.append(each)
        return synced

    async def _sync_whole(self, due: Sequence[Due]) -> list[Due]:
        """All of them by one call; none after a fault."""
        try:
            await self._disk.sync_all()
        except DiskFault as fault:
            reason = (
                f"the file system could not be synced: what it holds of {len(due)} partitions is "
                f"not known: {fault.reason}"
            )
            for each in due:
                each.log.fail_sync(DiskFault(each.log.directory, reason))
                each.partition.take_offline(reason)
            return []
        return [each for each in due if each.log.finish_sync(each.mark)]

    async def _publish(self, synced: Sequence[Due]) -> None:
        for number, step in enumerate(_steps(synced)):
            if number:
                await asyncio.sleep(0)
            self._turn.open()
            for each in step:
                each.partition.on_synced(each.mark.end_offset, each.size)
            self._turn.settle()


def waits_for_more(elapsed_ms: float, idle_ms: float) -> bool:
    """Whether the next round begins only when what its predecessor's answers bring at once was
    read, too. The last one took `elapsed_ms`; nothing was written in the last `idle_ms` of it, or
    for longer.

    With clients that wait for answers, those of one round are else the requests of the next but
    one: each round takes half of them. That is good while the broker works on one half and the
    device on the other, and wasted time when it is the device alone.
    """
    return elapsed_ms >= SLOW_ROUND_MS and idle_ms >= elapsed_ms / 2


def _hold_only_file(due: Due) -> DiskFile | None:
    """The one file that is to be synced, kept open; None when there is more to do, or when it
    cannot be opened.
    """
    if not due.log.checkpoints.needs_one_file(due.mark):
        return None
    try:
        return due.mark.segments[0].hold()
    except (DiskFault, FileNotFoundError):
        return None


async def _sync_one(due: Due) -> bool:
    """Whether it could be synced. Without a descriptor, which the name of a new segment needs, it
    is tried again for a while: nothing was asked of the device.
    """
    for attempt in range(1, DESCRIPTOR_ATTEMPTS_MAX + 1):
        try:
            await due.log.sync_to(due.mark)
        except DiskFault as fault:
            if isinstance(fault, NoDescriptor) and attempt < DESCRIPTOR_ATTEMPTS_MAX:
                due.log.open_segments.make_room()
                await asyncio.sleep(DESCRIPTOR_PAUSE_MS / 1000)
                continue
            due.partition.take_offline(str(fault))
            return False
        break
    return True


def _steps(items: Sequence[T]) -> Iterator[Sequence[T]]:
    for first in range(0, len(items), PARTITIONS_PER_STEP):
        yield items[first : first + PARTITIONS_PER_STEP]
