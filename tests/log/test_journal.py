"""The journal: its bytes, what a start makes of it on a real directory, and after every crash."""

from __future__ import annotations

import shutil
from random import Random
from struct import pack
from typing import NamedTuple

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from broker.log.config import LogConfig
from broker.log.journal import (
    BLOCK_BYTES,
    FILE,
    FIRST_RECORD,
    NO_RUN,
    JournalEntry,
    JournalHead,
    blocks_of,
    encode_head,
    entries_of,
    find_record,
    read_head,
    record_size,
    write_record,
)
from broker.log.journal_replay import replay
from broker.log.partition_log import PartitionLog
from broker.log.synced_ends import SyncedEnd
from broker.ports import Disk, DiskFault
from broker.runtime.disk import SystemFile
from broker.simulator.disk import DiskImage, Kept, PowerCut, SimulatedDisk
from broker.simulator.loop import SimulatedLoop
from tests.log.world import (
    DIRECTORY,
    NOW_MS,
    SMALL,
    TOPIC_ID,
    FaultyDisk,
    InlineWorker,
    append,
    append_keyed,
    create,
    reopen,
    values,
)

RUN = bytes(range(100, 116))
OTHER_RUN = bytes(16 * [7])
WHOLE = LogConfig(index_interval_bytes=200)
FIRST_LOG = f"{DIRECTORY}/{0:020d}.log"
CUTS = (
    None,
    PowerCut(1.0, Kept.NOTHING),
    PowerCut(0.0, Kept.NOTHING),
    PowerCut(0.0, Kept.EVERYTHING),
    PowerCut(0.0, Kept.TORN),
    PowerCut(0.0, Kept.HOLED),
)
CONTENTS = st.binary(max_size=300)
ENTRIES = st.lists(
    st.builds(
        JournalEntry,
        st.binary(min_size=16, max_size=16),
        st.integers(0, 2**31 - 1),
        st.text("abcXYZ-_.09", min_size=1, max_size=249),
        st.integers(0, 2**63 - 1),
        st.integers(0, 2**63 - 1),
        CONTENTS,
    ),
    max_size=4,
)


class Round(NamedTuple):
    """What one round brought to the log: bytes [begin, end) of a segment."""

    begin: int
    end: int
    base: int = 0
    topic_id: bytes = TOPIC_ID


def record_of(entries: list[JournalEntry], sequence: int, run: bytes = RUN) -> bytes:
    buffer = memoryview(bytearray(blocks_of(record_size(entries))))
    assert write_record(buffer, run, sequence, entries) == record_size(entries)
    return bytes(buffer)


def journal_of(content: bytes, rounds: list[Round], run: bytes = RUN) -> bytes:
    """The file in which those rounds are, of a log whose segment has `content`."""
    made = encode_head(JournalHead(run, 0)) + bytes(BLOCK_BYTES)
    for number, (begin, end, base, topic_id) in enumerate(rounds):
        entry = JournalEntry(topic_id, 0, "orders", base, begin, content[begin:end])
        made += record_of([entry], number, run)
    return made + bytes(8 * BLOCK_BYTES)


# bytes


@settings(deadline=None)
@given(ENTRIES, st.integers(0, 2**64 - 1))
def test_a_record_says_what_was_written(entries: list[JournalEntry], sequence: int) -> None:
    content = memoryview(record_of(entries, sequence))
    found = find_record(content, 8192, RUN)
    assert found == (sequence, 8192, record_size(entries))
    read = [entry._replace(content=bytes(entry.content)) for entry in entries_of(content)]
    assert read == entries
    assert find_record(content, 8192, OTHER_RUN) is None, "of another process"


@settings(deadline=None)
@given(ENTRIES, st.data())
def test_a_record_that_is_not_whole_is_none(
    entries: list[JournalEntry], data: st.DataObject
) -> None:
    content = bytearray(record_of(entries, 5))
    size = record_size(entries)
    position = data.draw(st.integers(0, size - 1))
    content[position] ^= 1 << data.draw(st.integers(0, 7))
    assert find_record(memoryview(content), 0, RUN) is None, "one bit"
    whole = record_of(entries, 5)
    cut = data.draw(st.integers(0, size - 1))
    assert find_record(memoryview(whole[:cut]), 0, RUN) is None, "torn"


def test_the_later_whole_head_counts() -> None:
    old, new = JournalHead(RUN, 6), JournalHead(OTHER_RUN, 7)
    both = encode_head(old) + encode_head(new)
    assert (old.position, new.position) == (0, BLOCK_BYTES)
    assert read_head(both) == new
    for position in range(36):
        torn = bytearray(both)
        torn[BLOCK_BYTES + position] ^= 0xFF
        assert read_head(bytes(torn)) == old, position
        torn[position] ^= 0xFF
        assert read_head(bytes(torn)) is None
    assert read_head(b"") is None
    assert read_head(both[:30]) is None


# a start


class Crashed:
    """A log of ten records, three of them below its snapshot, as a crash left it: without what was
    in the journal alone. `ends` are the bytes behind each record.
    """

    def __init__(self, disk: FaultyDisk, content: bytes, ends: list[int]) -> None:
        self.disk = disk
        self.content = content
        self.ends = ends

    def lose(self, size: int) -> None:
        """All but the first `size` bytes of the log's file."""
        (self.disk.root / FIRST_LOG).write_bytes(self.content[:size])

    def write(self, rounds: list[Round], run: bytes = RUN) -> None:
        (self.disk.root / FILE).write_bytes(journal_of(self.content, rounds, run))

    def rounds(self, first: int, last: int) -> list[Round]:
        """One for each record in [first, last)."""
        return [Round(self.ends[each], self.ends[each + 1]) for each in range(first, last)]

    @property
    def log(self) -> bytes:
        return (self.disk.root / FIRST_LOG).read_bytes()

    @property
    def head(self) -> JournalHead | None:
        return read_head((self.disk.root / FILE).read_bytes()[:FIRST_RECORD])


@pytest.fixture
async def crashed(disk: FaultyDisk) -> Crashed:
    log = await create(disk, WHOLE)
    ends = [0]
    for number in range(10):
        append(log, f"v{number}")
        ends.append(log.log_size())
        if number == 2:
            await log.checkpoint()
    await log.close(is_clean=False)
    return Crashed(disk, (disk.root / FIRST_LOG).read_bytes(), ends)


async def test_what_only_the_journal_has_is_in_the_log_again(crashed: Crashed) -> None:
    crashed.lose(crashed.ends[3] + 5)
    crashed.write(crashed.rounds(3, 9))
    found = await replay(crashed.disk)
    assert (found.record_count, found.failed, found.notes) == (6, {}, [])
    assert crashed.log == crashed.content[: crashed.ends[9]]
    assert crashed.head == JournalHead(NO_RUN, 1), "it is empty"
    log = await reopen(crashed.disk, WHOLE)
    assert await values(log) == [f"v{number}" for number in range(9)]
    assert log.damage == []
    await log.close()
    again = await replay(crashed.disk)
    assert (again.record_count, again.head) == (0, JournalHead(NO_RUN, 1))


async def test_records_count_in_the_order_in_which_they_were_written(crashed: Crashed) -> None:
    """The journal began anew: the newest record stands before older ones."""
    crashed.lose(crashed.ends[4])
    content = crashed.content
    entries = [
        JournalEntry(TOPIC_ID, 0, "orders", 0, begin, content[begin:end])
        for begin, end, _, _ in crashed.rounds(4, 7)
    ]
    made = encode_head(JournalHead(RUN, 0)) + bytes(BLOCK_BYTES)
    for sequence in (2, 0, 1):
        made += record_of([entries[sequence]], sequence)
    (crashed.disk.root / FILE).write_bytes(made)
    await replay(crashed.disk)
    assert crashed.log == content[: crashed.ends[7]]


async def test_a_torn_record_was_not_answered_and_is_not_there(crashed: Crashed) -> None:
    crashed.lose(crashed.ends[3])
    crashed.write(crashed.rounds(3, 6))
    path = crashed.disk.root / FILE
    content = bytearray(path.read_bytes())
    content[FIRST_RECORD + 2 * BLOCK_BYTES + 90] ^= 1
    path.write_bytes(content)
    found = await replay(crashed.disk)
    assert found.record_count == 2
    assert crashed.log == crashed.content[: crashed.ends[5]]


@pytest.mark.parametrize("run", [OTHER_RUN, NO_RUN])
async def test_another_run_means_nothing(crashed: Crashed, run: bytes) -> None:
    crashed.lose(crashed.ends[3])
    crashed.write(crashed.rounds(3, 9), OTHER_RUN if run == NO_RUN else RUN)
    path = crashed.disk.root / FILE
    path.write_bytes(encode_head(JournalHead(run, 0)) + path.read_bytes()[BLOCK_BYTES:])
    await replay(crashed.disk)
    assert crashed.log == crashed.content[: crashed.ends[3]]


async def test_what_a_snapshot_covers_is_left_alone(crashed: Crashed) -> None:
    """It was synced by its file; a cleaning may have made something else of it since."""
    other = bytes(crashed.ends[3])
    path = crashed.disk.root / FIRST_LOG
    path.write_bytes(other + crashed.content[crashed.ends[3] : crashed.ends[5]])
    crashed.write([Round(0, crashed.ends[7])])
    await replay(crashed.disk)
    assert crashed.log == other + crashed.content[crashed.ends[3] : crashed.ends[7]]


async def test_a_snapshot_that_cannot_be_read_still_covers_closed_segments(
    disk: FaultyDisk,
) -> None:
    log = await create(disk, SMALL)
    for number in range(40):
        append(log, f"value {number}".ljust(60, "."))
        if log.needs_roll:
            await log.roll(NOW_MS)
    assert len(log.segments) > 2
    await log.close()
    content = (disk.root / FIRST_LOG).read_bytes()
    other = bytes(len(content) - 7)
    (disk.root / FIRST_LOG).write_bytes(other)
    for snapshot in (disk.root / DIRECTORY).glob("*.snapshot"):
        snapshot.write_bytes(b"damaged")
    (disk.root / FILE).write_bytes(journal_of(content, [Round(0, len(content))]))
    await replay(disk)
    assert (disk.root / FIRST_LOG).read_bytes() == other


async def test_another_whole_batch_stays_and_is_named(crashed: Crashed) -> None:
    crashed.lose(crashed.ends[4])
    log = await reopen(crashed.disk, WHOLE)
    append(log, "new")
    await log.close(is_clean=False)
    other = crashed.log
    for snapshot in (crashed.disk.root / DIRECTORY).glob("*.snapshot"):
        snapshot.unlink()
    crashed.write(crashed.rounds(3, 7))
    found = await replay(crashed.disk)
    assert crashed.log == other
    (note,) = found.notes
    assert f"has another batch at {crashed.ends[4]}" in note
    assert (await replay(crashed.disk)).notes == [], "the journal is empty"


async def test_of_what_is_gone_nothing_comes_back(crashed: Crashed) -> None:
    rounds = [
        Round(0, 50, topic_id=bytes(16 * [9])),
        Round(0, 50, base=77),
    ]
    crashed.lose(crashed.ends[3])
    crashed.write(rounds)
    found = await replay(crashed.disk)
    assert (found.failed, found.notes, found.record_count) == ({}, [], 2)
    assert crashed.log == crashed.content[: crashed.ends[3]]
    assert len(list((crashed.disk.root / DIRECTORY).glob("*.log"))) == 1
    shutil.rmtree(crashed.disk.root / DIRECTORY)
    crashed.write(crashed.rounds(3, 7))
    assert (await replay(crashed.disk)).failed == {}
    assert not (crashed.disk.root / DIRECTORY).exists()


async def test_a_file_that_ends_before_its_record_is_named_and_kept(crashed: Crashed) -> None:
    crashed.lose(crashed.ends[3])
    crashed.write(crashed.rounds(5, 7))
    found = await replay(crashed.disk)
    assert crashed.log == crashed.content[: crashed.ends[3]]
    (note,) = found.notes
    assert f"ends before byte {crashed.ends[5]}" in note


async def test_a_log_that_cannot_be_written_keeps_the_journal(
    crashed: Crashed, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The next start tries again; until then the log must not be opened."""
    crashed.lose(crashed.ends[3])
    crashed.write(crashed.rounds(3, 9))

    def fail(_file: SystemFile, _position: int, _chunk: bytes) -> None:
        raise DiskFault(FIRST_LOG, "injected")

    with monkeypatch.context() as patch:
        patch.setattr(SystemFile, "write_at", fail)
        found = await replay(crashed.disk)
    assert list(found.failed) == [(TOPIC_ID, 0)]
    assert found.head is None
    assert crashed.head == JournalHead(RUN, 0)
    assert (await replay(crashed.disk)).failed == {}
    assert crashed.log == crashed.content[: crashed.ends[9]]


async def test_both_heads_damaged_is_told(crashed: Crashed) -> None:
    crashed.lose(crashed.ends[3])
    crashed.write(crashed.rounds(3, 9))
    path = crashed.disk.root / FILE
    path.write_bytes(b"x" * FIRST_RECORD + path.read_bytes()[FIRST_RECORD:])
    found = await replay(crashed.disk)
    assert len(found.notes) == 1
    assert "may be missing" in found.notes[0]
    synced = SyncedEnd(9, 0, crashed.ends[9])
    log = await PartitionLog.open(crashed.disk, DIRECTORY, WHOLE, NOW_MS, synced)
    assert any("shorter than what was synced" in each for each in log.damage), "not silently"
    await log.close()


@pytest.mark.parametrize("content", [b"", bytes(FIRST_RECORD), bytes(1 << 20), bytes(100)])
async def test_a_journal_that_was_never_used_says_nothing(disk: FaultyDisk, content: bytes) -> None:
    (disk.root / FILE).write_bytes(content)
    found = await replay(disk)
    assert (found.record_count, found.notes, found.head) == (0, [], None)


async def test_a_record_that_lies_about_its_size_is_none(disk: FaultyDisk) -> None:
    content = bytearray(record_of([JournalEntry(TOPIC_ID, 0, "t", 0, 0, b"x")], 1))
    for size in (0, 39, 2**32 - 1):
        content[32:36] = pack(">I", size)
        assert find_record(memoryview(content), 0, RUN) is None


# every crash


async def crashed_at_every_step(loop: SimulatedLoop, random: Random) -> int:
    """How many states of the replay were left by a crash, of which the next made the rest."""

    def disk_of(image: DiskImage) -> Disk:
        return SimulatedDisk(loop, loop.harness, image)

    image = DiskImage(random)
    image.faults.latency_s_max = 0.0
    disk = disk_of(image)
    await disk.make_directory("topics/orders")
    await disk.sync_directory("")
    log = await create(disk, WHOLE)  # type: ignore[arg-type]
    ends = [0]
    for number in range(8):
        append(log, f"v{number}")
        ends.append(log.log_size())
        if number == 1:
            await log.checkpoint()
    await log.sync()
    content = image.content(FIRST_LOG)
    journal = journal_of(content, [Round(ends[2], ends[5]), Round(ends[5], ends[8])])
    await disk.replace_file(FILE, journal)
    log_file = disk.open(FIRST_LOG)
    log_file.truncate(ends[3] + 9)
    await log_file.sync()
    count = 0
    moments = [image.clone(random)]
    image.on_change = lambda: moments.append(image.clone(random))
    await replay(disk)
    image.on_change = None
    for moment in moments:
        for cut in CUTS:
            left = moment.clone(random)
            left.faults.latency_s_max = 0.0
            if cut is not None:
                left.cut_power(cut)
            found = disk_of(left)
            assert (await replay(found)).failed == {}
            for second in CUTS:
                again = left.clone(random)
                again.faults.latency_s_max = 0.0
                if second is not None:
                    again.cut_power(second)
                opened = await PartitionLog.open(disk_of(again), DIRECTORY, WHOLE, NOW_MS)
                assert await values(opened) == [f"v{number}" for number in range(8)]
                assert opened.damage == []
                await opened.close()
                count += 1
    return count


def test_a_crash_after_any_step_of_a_replay_loses_nothing() -> None:
    loop = SimulatedLoop(Random(1))
    try:
        count = loop.run_until_complete(crashed_at_every_step(loop, Random(2)))
    finally:
        loop.end()
    assert not loop.unhandled
    assert count > 100


async def test_a_compacted_segment_keeps_what_the_cleaning_made_of_it(disk: FaultyDisk) -> None:
    """Its old bytes are in the journal still, and a crash comes."""
    log = await create(disk, LogConfig(segment_bytes=600, cleanup_policy=frozenset({"compact"})))
    rounds: list[Round] = []
    for number in range(30):
        position = log.active.size
        append_keyed(log, (f"k{number % 3}", f"value {number}"))
        if log.active.base_offset == 0:
            rounds.append(Round(position, log.active.size))
        if log.needs_roll:
            before = (disk.root / FIRST_LOG).read_bytes()
            await log.roll(NOW_MS)
    original = before[: rounds[-1].end]
    await log.clean(InlineWorker(), NOW_MS)
    cleaned = (disk.root / FIRST_LOG).read_bytes()
    assert len(cleaned) < len(original)
    kept = await values(log)
    await log.close(is_clean=False)
    (disk.root / FILE).write_bytes(journal_of(original, rounds))
    found = await replay(disk)
    assert found.record_count == len(rounds)
    assert (disk.root / FIRST_LOG).read_bytes() == cleaned
    log = await reopen(disk, LogConfig(segment_bytes=600))
    assert await values(log) == kept
    await log.close()
