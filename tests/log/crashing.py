"""A crash after every step of a change, and after every step of the recovery from it.

A change is run once on the simulated disk, which is copied after each of its steps. Every copy then
loses power in every way that the disk knows (or the process is killed only), is recovered, and must
keep what the book says. The same is done to the recoveries themselves. And each copy is recovered
once more with a bit flipped in what was synced since the last snapshot.
"""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable, Iterator
from dataclasses import dataclass, field, replace
from random import Random
from typing import Final

from broker.log import names
from broker.log.config import LogConfig
from broker.log.index import SegmentIndex, Times
from broker.log.partition_log import PartitionLog
from broker.log.producers import BATCHES_KEPT
from broker.log.recovery import IndexVisitor
from broker.log.scan import scan
from broker.log.segment import Segment
from broker.log.snapshot import decode_snapshot
from broker.log.survey import damaged_ranges
from broker.log.synced_ends import NOTHING_SYNCED, SyncedEnd
from broker.records.iterate import Record
from broker.simulator.disk import DiskImage, SimulatedDisk
from broker.simulator.faults import Kept, PowerCut
from broker.simulator.inodes import Directory, Inode
from broker.simulator.loop import SimulatedLoop
from tests.log.world import DIRECTORY, FOREVER, NOW_MS, TOPIC_ID, append_keyed, read_from

CUTS: Final = (
    None,  # a kill: all that was written is there, and still not synced
    PowerCut(1.0, Kept.NOTHING),
    PowerCut(0.0, Kept.NOTHING),
    PowerCut(0.0, Kept.EVERYTHING),
    PowerCut(0.0, Kept.TORN),
    PowerCut(0.0, Kept.HOLED),
    PowerCut(),
)
SECOND_CUTS: Final = (
    (PowerCut(1.0, Kept.NOTHING), PowerCut(0.3, Kept.HOLED)),
    (PowerCut(1.0, Kept.NOTHING), PowerCut(0.0, Kept.NOTHING)),
)
"""After every other step the one, after those between the other."""
EXPECTED_DAMAGE: Final = re.compile("was not synced|with whole batches behind it")
PRODUCERS: Final = 2


@dataclass
class Book:
    """What was written and what was promised, as of one moment. `appended` has (value, producer,
    sequence) by offset.
    """

    config: LogConfig
    appended: dict[int, tuple[bytes, int, int]] = field(default_factory=dict)
    sequences: dict[int, int] = field(default_factory=dict)
    epochs: dict[int, int] = field(default_factory=dict)
    """Leader epochs by offset; `epoch` is the present one."""
    epoch: int = 0
    end: int = 0
    """Everything below was synced, or read after a recovery."""
    synced: SyncedEnd = NOTHING_SYNCED
    """As it is kept beside the log."""
    start_min: int = 0
    """The log start that was answered; one that was only asked for may come and go."""
    start_max: int = 0

    def copy(self) -> Book:
        return replace(
            self,
            appended=dict(self.appended),
            sequences=dict(self.sequences),
            epochs=dict(self.epochs),
        )

    def append(self, log: PartitionLog, count: int = 1) -> None:
        """One record a batch, by two idempotent producers in turn."""
        for _ in range(count):
            offset = log.log_end_offset
            producer = offset % PRODUCERS
            sequence = self.sequences.get(producer, 0)
            value = f"value-{offset}".ljust(20 + offset * 7 % 31, ".")
            self.appended[offset] = (value.encode(), producer, sequence)
            self.sequences[producer] = sequence + 1
            self.epochs[offset] = self.epoch
            append_keyed(
                log,
                (f"key-{offset % 5}", value),
                producer_id=producer,
                producer_epoch=0,
                base_sequence=sequence,
                leader_epoch=self.epoch,
            )

    async def sync(self, log: PartitionLog) -> None:
        self.end = max(self.end, await log.sync())
        self.synced = log.checkpoints.synced

    def forget_beyond(self, end: int) -> None:
        """What a crash took is not in the book any more; its offsets may be given out again."""
        self.appended = {k: v for k, v in self.appended.items() if k < end}
        self.epochs = {k: v for k, v in self.epochs.items() if k < end}
        self.sequences = {}
        for _, producer, sequence in self.appended.values():
            self.sequences[producer] = sequence + 1
        self.end = end

    def producer_batches(self, end: int) -> dict[int, list[tuple[int, int]]]:
        """Per producer the (sequence, offset) of its last batches below `end`."""
        found: dict[int, list[tuple[int, int]]] = {}
        for offset in sorted(self.appended):
            if offset < end:
                _, producer, sequence = self.appended[offset]
                found.setdefault(producer, []).append((sequence, offset))
        return {producer: batches[-BATCHES_KEPT:] for producer, batches in found.items()}


Change = Callable[[Book, PartitionLog], Awaitable[None]]


@dataclass
class Moment:
    """The disk and the book after one step."""

    image: DiskImage
    book: Book


class Machine:
    """Runs changes and recoveries on copies of a disk."""

    def __init__(self, seed: int = 1) -> None:
        self.loop = SimulatedLoop(Random(seed))
        self.random = Random(seed + 1)
        self.recovery_count = 0
        self.moment_count = 0
        self.flip_count = 0
        self._seen: set[tuple[object, ...]] = set()

    def run(
        self, config: LogConfig, prepare: Change, change: Change, *, recovery_share: int = 1
    ) -> None:
        """Crash everywhere in `change`, which follows `prepare`, and in one of `recovery_share`
        recoveries.
        """
        try:
            self.loop.run_until_complete(self._run(config, prepare, change, recovery_share))
        finally:
            self.loop.end()
        assert not self.loop.unhandled

    async def _run(
        self, config: LogConfig, prepare: Change, change: Change, recovery_share: int
    ) -> None:
        image = DiskImage(self.random)
        image.faults.latency_s_max = 0.0
        book = Book(config)
        log = await PartitionLog.create(
            self._disk(image),
            DIRECTORY,
            topic_id=TOPIC_ID,
            partition=0,
            topic="t",
            config=config,
            now_wall_ms=NOW_MS,
        )
        await prepare(book, log)
        moments = [Moment(self._clone(image), book.copy())]
        image.on_change = lambda: moments.append(Moment(self._clone(image), book.copy()))
        await change(book, log)
        moments.append(Moment(self._clone(image), book.copy()))
        self.moment_count = len(moments)
        crash_count = 0
        for moment in moments:
            for crashed in self._crashes(moment, CUTS):
                crash_count += 1
                if crash_count % 2:
                    await self._recover_damaged(crashed)
                else:
                    await self._check_as_deleted(crashed.image, crashed.book)
                if crash_count % recovery_share == 0:
                    await self._recover_everywhere(crashed)
                else:
                    await check(await self._open(crashed.image, crashed.book), crashed.book)

    async def _recover_damaged(self, crashed: Moment) -> None:
        """With a bit flipped below the synced end, behind every snapshot: one record is refused."""
        image, book = self._clone(crashed.image), crashed.book.copy()
        directory = image.find(DIRECTORY)
        assert isinstance(directory, Directory)
        begin = _newest_snapshot_end(directory)
        if book.synced <= begin:
            return
        offset, base, position = book.synced
        inode = directory.entries[names.numbered(base, names.LOG)]
        assert isinstance(inode, Inode)
        hit = self.random.randrange(begin.position if begin.segment_base == base else 0, position)
        inode.content[hit] ^= 1 << self.random.randrange(8)
        inode.synced = inode.content[:]
        self.flip_count += 1
        log = await self._open(image, book)
        ranges = damaged_ranges(log)
        refused = {n for found in ranges for n in range(found.offset, found.end_offset)}
        assert len(refused) <= 1, ranges  # none when it hit the epoch, which no start checks
        assert log.log_end_offset >= offset
        expected = set(range(log.log_start_offset, book.end)) - refused
        if not book.config.is_compacted:
            offsets: set[int] = set()
            for first in (log.log_start_offset, *(found.end_offset for found in ranges)):
                offsets |= {each.offset for each in await read_up_to_damage(log, first)}
            assert expected <= offsets

    async def _recover_everywhere(self, crashed: Moment) -> None:
        """Recover; crash after each step of it, too, and recover from that."""
        image, book = crashed.image, crashed.book.copy()
        moments: list[Moment] = []
        image.on_change = lambda: moments.append(Moment(self._clone(image), crashed.book))
        log = await self._open(image, book)
        image.on_change = None
        await check(log, book)
        book.forget_beyond(log.log_end_offset)
        moments.append(Moment(self._clone(image), book.copy()))
        book.append(log)
        await book.sync(log)
        moments.append(Moment(self._clone(image), book))
        for number, moment in enumerate(moments):
            for again in self._crashes(moment, SECOND_CUTS[number % 2]):
                opened = await self._open(again.image, again.book)
                await check(opened, again.book)
                assert len(_kept_aside(opened)) >= len(_kept_aside(log))

    async def _check_as_deleted(self, image: DiskImage, book: Book) -> None:
        """The policy may be another one after the crash: what compaction left out is no damage."""
        if book.config.is_compacted:
            config = replace(book.config, cleanup_policy=frozenset({"delete"}))
            disk = self._disk(self._clone(image))
            log = await PartitionLog.open(disk, DIRECTORY, config, NOW_MS, book.synced)
            assert await read_from(log, log.log_start_offset)
            assert all(EXPECTED_DAMAGE.search(damage) for damage in log.damage), log.damage

    def _crashes(self, moment: Moment, cuts: tuple[PowerCut | None, ...]) -> Iterator[Moment]:
        """The moment after each kind of crash, as far as it was not met before."""
        for cut in cuts:
            image = self._clone(moment.image)
            if cut is not None:
                image.cut_power(cut)
            key = (*_state(image.root, ""), repr(moment.book), cut is None)
            if key not in self._seen:
                self._seen.add(key)
                yield Moment(image, moment.book)

    def _clone(self, image: DiskImage) -> DiskImage:
        clone = image.clone(self.random)
        clone.faults.latency_s_max = 0.0
        return clone

    def _disk(self, image: DiskImage) -> SimulatedDisk:
        return SimulatedDisk(self.loop, self.loop.harness, image)

    async def _open(self, image: DiskImage, book: Book) -> PartitionLog:
        self.recovery_count += 1
        return await PartitionLog.open(
            self._disk(image), DIRECTORY, book.config, NOW_MS, book.synced
        )


async def check(log: PartitionLog, book: Book) -> None:
    """Everything that must hold after any recovery."""
    assert all(EXPECTED_DAMAGE.search(damage) for damage in log.damage), log.damage
    assert 0 <= log.log_start_offset <= log.written_end_offset == log.log_end_offset
    assert log.log_end_offset >= book.end, "what was synced is there, and its offsets are taken"
    assert book.start_min <= log.log_start_offset <= book.start_max
    found = {record.offset: record.value for record in await read_from(log, log.log_start_offset)}
    expected = {
        offset: value
        for offset, (value, _, _) in book.appended.items()
        if log.log_start_offset <= offset < log.log_end_offset
    }
    if book.config.is_compacted:
        newest = {offset % 5: offset for offset in sorted(expected)}
        assert set(newest.values()) <= found.keys(), "the newest value of each key is there"
        assert found.items() <= expected.items(), "nothing that was not written"
    else:
        assert found == expected, "every record, and no other"
    history = [(book.epochs[offset], log.epoch_at(offset)) for offset in found]
    assert all(written == known for written, known in history), log.epochs.entries
    batches = book.producer_batches(log.log_end_offset)
    known = {
        producer: [(batch.first_sequence, batch.base_offset) for batch in entry[2]]
        for producer, entry in log.producers.entries.items()
    }
    assert known == batches, "the producers' last batches"
    for segment in log.segments:
        await _check_index(log, segment)
    entries = log.disk.list_directory(DIRECTORY)
    listing = names.sort_out(entries)
    assert (listing.leftovers, listing.swaps) == ([], [])
    indexes = [name for name in entries if name.endswith((names.INDEX, names.TIME_INDEX))]
    assert {int(name.partition(".")[0]) for name in indexes} <= set(listing.segments)
    assert listing.segments == [segment.base_offset for segment in log.segments]


async def _check_index(log: PartitionLog, segment: Segment) -> None:
    """As it would be built from the log."""
    await log.load_index(segment)
    index = segment.index
    assert index is not None
    draft = Segment(segment.disk, segment.directory, segment.base_offset, segment.size)
    draft.index, draft.times = SegmentIndex(segment.base_offset), Times()
    visitor = IndexVisitor(draft, log.index_interval_bytes, NOW_MS)
    end = await scan(segment, 0, segment.base_offset, visitor.visit)
    assert end.reason is None
    assert draft.index.positions == index.positions
    assert draft.index.relative_offsets == index.relative_offsets
    assert draft.index.max_timestamps == index.max_timestamps


def _newest_snapshot_end(directory: Directory) -> SyncedEnd:
    end = NOTHING_SYNCED
    for offset in names.sort_out(sorted(directory.entries)).snapshots:
        node = directory.entries[names.numbered(offset, names.SNAPSHOT)]
        snapshot = decode_snapshot(bytes(node.content)) if isinstance(node, Inode) else None
        end = end if snapshot is None else max(end, snapshot.synced_end)
    return end


async def read_up_to_damage(log: PartitionLog, offset: int) -> list[Record]:
    """Every record from `offset` on, up to the first that is refused."""
    ends = [found.offset for found in damaged_ranges(log) if found.offset >= offset]
    return await read_from(log, offset, end_offset=min(ends, default=FOREVER))


def _kept_aside(log: PartitionLog) -> list[str]:
    return [name for name in log.disk.list_directory(DIRECTORY) if name.endswith(names.DAMAGED)]


def _state(directory: Directory, path: str) -> Iterator[tuple[object, ...]]:
    for name, node in sorted(directory.entries.items()):
        if isinstance(node, Inode):
            yield (path, name, bytes(node.content), bytes(node.synced))
        else:
            yield (path, name)
            yield from _state(node, f"{path}/{name}")
