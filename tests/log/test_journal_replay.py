"""What a start makes of a journal, on a real directory and after every crash."""

from __future__ import annotations

import errno
import os
import resource
import shutil
from itertools import permutations
from random import Random
from struct import pack

import pytest

from broker.log.config import LogConfig
from broker.log.journal import (
    BLOCK_BYTES,
    FILE,
    FIRST_RECORD,
    NO_HEAD,
    NO_RUN,
    JournalEntry,
    JournalHead,
    encode_head,
)
from broker.log.journal_replay import OPEN_FILES_MAX, replay
from broker.log.names import SYNC_FAILED
from broker.log.partition_log import PartitionLog
from broker.log.synced_ends import SyncedEnd
from broker.ports import Disk, DiskFault, DiskFull, NoDescriptor
from broker.records.crc import crc32c
from broker.runtime import disk as system_disk
from broker.runtime.disk import SystemFile
from broker.simulator.disk import DiskImage, SimulatedDisk
from broker.simulator.loop import SimulatedLoop
from tests.log.journal_world import (
    CUTS,
    FIRST_LOG,
    OTHER_RUN,
    RUN,
    WHOLE,
    Crashed,
    Round,
    journal_of,
    record_of,
)
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
    assert crashed.head == JournalHead(NO_RUN, 2), "it is empty"
    log = await reopen(crashed.disk, WHOLE)
    assert await values(log) == [f"v{number}" for number in range(9)]
    assert log.damage == []
    await log.close()
    again = await replay(crashed.disk)
    assert (again.record_count, again.head) == (0, JournalHead(NO_RUN, 2))


@pytest.mark.parametrize("places", list(permutations(range(3))))
async def test_records_count_in_the_order_in_which_they_were_written(
    crashed: Crashed, places: tuple[int, ...]
) -> None:
    """A half that begins anew leaves, behind its new records, what is left of a longer use."""
    crashed.lose(crashed.ends[4])
    content = crashed.content
    entries = [
        JournalEntry(TOPIC_ID, 0, "orders", 0, begin, content[begin:end])
        for begin, end, _, _ in crashed.rounds(4, 7)
    ]
    made = encode_head(JournalHead(RUN, 0)) + bytes(BLOCK_BYTES)
    for sequence in places:
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


async def test_the_newest_snapshot_damaged_does_not_refuse_what_came_behind_it(
    disk: FaultyDisk,
) -> None:
    """Its roll had begun an empty segment; the snapshot before it can be read."""
    log = await create(disk, SMALL)
    number = 0
    while not log.needs_roll:
        append(log, f"v{number}".ljust(60, "."))
        number += 1
    await log.checkpoint()
    await log.roll(NOW_MS)
    base = log.active.base_offset
    append(log, "first")
    append(log, "second")
    path = disk.root / DIRECTORY / f"{base:020d}.log"
    await log.close(is_clean=False)
    content = path.read_bytes()
    path.write_bytes(b"")
    first, newest = sorted((disk.root / DIRECTORY).glob("*.snapshot"))[-2:]
    assert first.stat().st_size
    newest.write_bytes(b"damaged")
    (disk.root / FILE).write_bytes(journal_of(content, [Round(0, len(content), base)]))
    found = await replay(disk)
    assert (found.failed, found.notes) == ({}, [])
    assert path.read_bytes() == content


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
    crashed.lose(crashed.ends[3])
    crashed.write([Round(0, 50, topic_id=bytes(16 * [9]))])
    found = await replay(crashed.disk)
    assert (found.failed, found.notes, found.record_count) == ({}, [], 1)
    assert crashed.log == crashed.content[: crashed.ends[3]]
    assert len(list((crashed.disk.root / DIRECTORY).glob("*.log"))) == 1
    shutil.rmtree(crashed.disk.root / DIRECTORY)
    crashed.write(crashed.rounds(3, 7))
    assert (await replay(crashed.disk)).failed == {}
    assert not (crashed.disk.root / DIRECTORY).exists()


async def test_what_does_not_fit_is_named_and_kept_beside_the_log(crashed: Crashed) -> None:
    rounds = [*crashed.rounds(5, 7), Round(crashed.ends[7], crashed.ends[8], base=77)]
    crashed.lose(crashed.ends[3])
    crashed.write(rounds)
    found = await replay(crashed.disk)
    assert crashed.log == crashed.content[: crashed.ends[3]]
    short, missing = found.notes
    assert f"ends before byte {crashed.ends[5]}" in short
    assert "does not fit" in missing
    kept = {
        path.name: path.read_bytes() for path in (crashed.disk.root / DIRECTORY).glob("*.damaged")
    }
    assert kept == {
        f"{0:020d}.{crashed.ends[5]}.damaged": crashed.content[crashed.ends[5] : crashed.ends[7]],
        f"{77:020d}.{crashed.ends[7]}.damaged": crashed.content[crashed.ends[7] : crashed.ends[8]],
    }
    assert await crashed.recover() == ["v0", "v1", "v2"]


def fails(*_arguments: object) -> None:
    raise DiskFault(FIRST_LOG, "injected")


def is_full(*_arguments: object) -> None:
    raise DiskFull(FIRST_LOG, "injected")


async def test_a_log_that_cannot_be_written_keeps_the_journal(
    crashed: Crashed, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The next start tries again; until then the log must not be opened."""
    crashed.lose(crashed.ends[3])
    crashed.write(crashed.rounds(3, 9))
    with monkeypatch.context() as patch:
        patch.setattr(SystemFile, "write_at", fails)
        found = await replay(crashed.disk)
    assert list(found.failed) == [(TOPIC_ID, 0)]
    assert crashed.head is not None
    assert crashed.head.run == RUN
    assert (await replay(crashed.disk)).failed == {}
    assert crashed.log == crashed.content[: crashed.ends[9]]


async def test_a_journal_is_kept_for_the_logs_that_failed_alone(
    crashed: Crashed, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The others go on, and never meet their old records again."""
    disk = crashed.disk
    other = DIRECTORY.replace("partition-00", "partition-01")
    shutil.copytree(disk.root / DIRECTORY, disk.root / other)
    identity = disk.root / other / "partition.json"
    identity.write_text(identity.read_text().replace('"partition": 0', '"partition": 1'))
    crashed.lose(crashed.ends[3])
    (disk.root / other / f"{0:020d}.log").write_bytes(crashed.content[: crashed.ends[3]])
    begin, end = crashed.ends[3], crashed.ends[9]
    content = crashed.content[begin:end]
    made = encode_head(JournalHead(RUN, 0)) + bytes(BLOCK_BYTES)
    made += record_of([JournalEntry(TOPIC_ID, n, "orders", 0, begin, content) for n in (0, 1)], 0)
    (disk.root / FILE).write_bytes(made + bytes(2 * BLOCK_BYTES))
    real = SystemFile.write_at

    def fail_one(file: SystemFile, position: int, chunk: bytes) -> None:
        if file.path.startswith(other):
            fails()
        real(file, position, chunk)

    with monkeypatch.context() as patch:
        patch.setattr(SystemFile, "write_at", fail_one)
        found = await replay(disk)
    assert list(found.failed) == [(TOPIC_ID, 1)]
    assert (disk.root / FILE).stat().st_size == len(made) + 2 * BLOCK_BYTES
    crashed.lose(crashed.ends[3])  # whatever becomes of it now is its own
    found = await replay(disk)
    assert (found.record_count, found.failed) == (1, {})
    assert crashed.log == crashed.content[: crashed.ends[3]]
    assert (disk.root / other / f"{0:020d}.log").read_bytes() == crashed.content[:end]


@pytest.mark.parametrize("how", ["damaged", "missing", "unlisted"])
async def test_whose_log_it_is_must_be_known_before_the_journal_is_emptied(
    crashed: Crashed, monkeypatch: pytest.MonkeyPatch, how: str
) -> None:
    crashed.lose(crashed.ends[3])
    crashed.write(crashed.rounds(3, 9))
    identity = crashed.disk.root / DIRECTORY / "partition.json"
    content = identity.read_text()
    with monkeypatch.context() as patch:
        if how == "unlisted":
            patch.setattr(FaultyDisk, "list_directory", fails)
        elif how == "damaged":
            identity.write_text("{")
        else:
            identity.unlink()
        assert list((await replay(crashed.disk)).failed) == [(TOPIC_ID, 0)]
    identity.write_text(content)
    assert (await replay(crashed.disk)).failed == {}
    assert await crashed.recover() == [f"v{number}" for number in range(9)]


async def test_without_room_the_start_is_refused_and_the_next_one_finds_all(
    crashed: Crashed, monkeypatch: pytest.MonkeyPatch
) -> None:
    crashed.lose(crashed.ends[3])
    crashed.write(crashed.rounds(3, 9))
    with monkeypatch.context() as patch:
        patch.setattr(SystemFile, "write_at", is_full)
        with pytest.raises(DiskFull):
            await replay(crashed.disk)
    assert (await replay(crashed.disk)).failed == {}
    assert await crashed.recover() == [f"v{number}" for number in range(9)]


async def test_what_an_earlier_sync_failed_with_is_written_anew_and_told_to_the_recovery(
    crashed: Crashed, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nobody heard of it before the stop; the system tells it once, to this sync."""
    crashed.lose(crashed.ends[5])
    crashed.write(crashed.rounds(5, 9))
    real, errors = os.fdatasync, [OSError(errno.EIO, "Input/output error")]

    def fdatasync(descriptor: int) -> None:
        if errors and os.readlink(f"/proc/self/fd/{descriptor}").endswith(".log"):
            raise errors.pop()
        real(descriptor)

    rewritten: list[int] = []
    rewrite = SystemFile.rewrite

    async def count(file: SystemFile, position: int) -> None:
        rewritten.append(position)
        await rewrite(file, position)

    with monkeypatch.context() as patch:
        patch.setattr(os, "fdatasync", fdatasync)
        patch.setattr(SystemFile, "rewrite", count)
        found = await replay(crashed.disk)
    assert not errors
    assert found.failed == {}
    assert rewritten == [crashed.ends[3]], "all that a start scans"
    assert (crashed.disk.root / DIRECTORY / SYNC_FAILED).exists()
    assert await crashed.recover() == [f"v{number}" for number in range(9)]
    assert not (crashed.disk.root / DIRECTORY / SYNC_FAILED).exists()


async def test_a_head_with_one_flipped_bit_leaves_the_other_and_is_told(crashed: Crashed) -> None:
    crashed.lose(crashed.ends[3])
    crashed.write(crashed.rounds(3, 9))
    path = crashed.disk.root / FILE
    heads = b"".join(encode_head(head) for head in JournalHead(NO_RUN, 1).followed_by(RUN))
    for place in (20, BLOCK_BYTES + 20):
        crashed.lose(crashed.ends[3])
        flipped = bytearray(heads + path.read_bytes()[FIRST_RECORD:])
        flipped[place] ^= 1
        path.write_bytes(flipped)
        found = await replay(crashed.disk)
        assert found.record_count == 6
        assert found.notes == ["journal: one of its heads is damaged, the other one counts"]
        assert crashed.log == crashed.content[: crashed.ends[9]]


async def test_a_journal_of_another_version_is_refused(crashed: Crashed) -> None:
    crashed.write(crashed.rounds(3, 9))
    path = crashed.disk.root / FILE
    content = bytearray(path.read_bytes())
    content[4:6] = b"\0\2"
    content[32:36] = pack(">I", crc32c(content[:32]))
    path.write_bytes(content)
    with pytest.raises(DiskFault, match="version 2: run the version"):
        await replay(crashed.disk)
    assert path.read_bytes() == content


async def test_a_journal_that_cannot_be_read_says_what_may_be_lost(
    crashed: Crashed, monkeypatch: pytest.MonkeyPatch
) -> None:
    crashed.write(crashed.rounds(3, 9))
    with monkeypatch.context() as patch:
        patch.setattr(SystemFile, "read_cold", fails)
        with pytest.raises(DiskFault, match=r"injected: .* move the file away to start without"):
            await replay(crashed.disk)


@pytest.mark.parametrize("limit", [OPEN_FILES_MAX // 2, 2 * OPEN_FILES_MAX])
async def test_many_logs_need_few_descriptors(
    disk: FaultyDisk, monkeypatch: pytest.MonkeyPatch, limit: int
) -> None:
    """Those that are short are found out; those that would be are not used up."""
    count = 3 * OPEN_FILES_MAX
    log = await create(disk, WHOLE)
    append(log, "v0")
    await log.checkpoint()
    begin = log.log_size()
    append(log, "v1")
    await log.close(is_clean=False)
    content = (disk.root / FIRST_LOG).read_bytes()
    (disk.root / FIRST_LOG).write_bytes(content[:begin])
    made = encode_head(JournalHead(RUN, 0)) + bytes(BLOCK_BYTES)
    for number in range(count):
        directory = DIRECTORY.replace("-00", f"-{number:02d}")
        if number:
            shutil.copytree(disk.root / DIRECTORY, disk.root / directory)
        entry = JournalEntry(TOPIC_ID, number, "orders", 0, begin, content[begin:])
        made += record_of([entry], number)
    (disk.root / FILE).write_bytes(made)
    refused: list[str] = []

    class Noted(NoDescriptor):
        def __init__(self, path: str, reason: str) -> None:
            super().__init__(path, reason)
            refused.append(path)

    monkeypatch.setattr(system_disk, "NoDescriptor", Noted)
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    lowest = os.open(os.devnull, os.O_RDONLY)
    os.close(lowest)
    resource.setrlimit(resource.RLIMIT_NOFILE, (lowest + limit, hard))
    try:
        found = await replay(disk)
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    assert (found.failed, found.notes, found.record_count) == ({}, [], count)
    assert bool(refused) == (limit < OPEN_FILES_MAX)
    for path in (disk.root / "topics" / "orders").glob("*/*.log"):
        assert path.read_bytes() == content, path


async def test_without_any_snapshot_only_what_follows_is_taken(crashed: Crashed) -> None:
    for snapshot in (crashed.disk.root / DIRECTORY).glob("*.snapshot"):
        snapshot.unlink()
    crashed.lose(crashed.ends[5])
    crashed.write(crashed.rounds(5, 9))
    assert (await replay(crashed.disk)).notes == []
    assert crashed.log == crashed.content[: crashed.ends[9]]
    crashed.write(crashed.rounds(2, 9))
    cleaned = crashed.content[crashed.ends[1] : crashed.ends[5]]
    (crashed.disk.root / FIRST_LOG).write_bytes(cleaned)
    found = await replay(crashed.disk)
    assert "has other batches" in found.notes[0]
    assert crashed.log == cleaned


async def test_a_log_that_goes_on_with_other_offsets_takes_nothing(crashed: Crashed) -> None:
    """Its snapshot says where it went on, in another way than its old records."""
    crashed.lose(crashed.ends[3])
    log = await reopen(crashed.disk, WHOLE)
    append(log, "a longer value than the one that was there")
    await log.close()
    new = crashed.log
    crashed.write(crashed.rounds(3, 9))
    found = await replay(crashed.disk)
    assert crashed.log == new
    assert "has other batches than before" in found.notes[0]
    (aside,) = (crashed.disk.root / DIRECTORY).glob("*.damaged")
    assert aside.read_bytes() == crashed.content[crashed.ends[3] : crashed.ends[9]], "all of it"
    content = crashed.content[crashed.ends[5] : crashed.ends[6]]
    entry = JournalEntry(TOPIC_ID, 0, "orders", 0, len(new), content)
    heads = encode_head(JournalHead(RUN, 0)) + bytes(BLOCK_BYTES)
    (crashed.disk.root / FILE).write_bytes(heads + record_of([entry], 1))
    found = await replay(crashed.disk)
    assert "goes on with another offset" in found.notes[0]
    assert crashed.log == new


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
    assert (found.record_count, found.notes, found.head) == (0, [], NO_HEAD)


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
