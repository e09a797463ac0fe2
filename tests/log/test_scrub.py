"""The scrub: everything that was synced is looked at, and damage is known before a consumer meets
it.
"""

from __future__ import annotations

from dataclasses import replace
from random import Random

import pytest

from broker.log.damage import DamagedRange
from broker.log.names import DAMAGE_FILE
from broker.log.partition_log import PartitionLog
from broker.log.scrub import SLICE_BYTES, check, scrub
from broker.log.survey import damaged_ranges, note
from broker.ports import WorkerFault
from broker.runtime.worker import ProcessWorker
from tests.log.test_damage import FIRST_LOG, WHOLE, consume, flip
from tests.log.world import (
    DIRECTORY,
    NOW_MS,
    SMALL,
    FaultyDisk,
    InlineWorker,
    append,
    append_keyed,
    append_rolling,
    create,
    numbers,
    recreate,
    reopen,
    values,
)

COMPACTED = replace(SMALL, cleanup_policy=frozenset({"compact"}), min_cleanable_dirty_ratio=0.01)


async def _no_pace(_size: int) -> None:
    """Never waits."""


async def scrub_all(log: PartitionLog) -> int:
    """Bytes checked."""
    sizes: list[int] = []

    async def count(size: int) -> None:
        sizes.append(size)

    for segment in list(log.segments):
        await scrub(log, segment, InlineWorker(), count)
    return sum(sizes)


async def test_an_intact_log_is_looked_through_and_nothing_is_found(disk: FaultyDisk) -> None:
    log = await create(disk)
    await append_rolling(log, 60)
    await log.checkpoint()
    assert await scrub_all(log) == log.log_size()
    append(log, "unsynced")
    assert await scrub_all(log) < log.log_size(), "the unsynced tail may be anything"
    assert damaged_ranges(log) == []
    assert log.damage == []
    await log.close()


async def test_a_segment_that_is_rolled_under_the_scrub_ends_where_it_was_synced(
    disk: FaultyDisk,
) -> None:
    log = await create(disk)
    append(log, "synced")
    await log.checkpoint()
    append(log, "not yet")

    async def roll(_size: int) -> None:
        await log.roll(NOW_MS)

    await scrub(log, log.segments[0], InlineWorker(), roll)
    assert len(log.segments) == 2
    log.checkpoints.unsynced_closed.append(log.segments[0])
    await scrub(log, log.segments[0], InlineWorker(), roll)
    assert damaged_ranges(log) == []
    assert await values(log) == ["synced", "not yet"]
    await log.close()


@pytest.mark.parametrize("seed", range(8))
async def test_it_finds_what_consumers_would_meet_and_no_more(disk: FaultyDisk, seed: int) -> None:
    random = Random(seed)
    log = await create(disk)
    await append_rolling(log, 60)
    await log.close()
    for path in random.sample(sorted((disk.root / DIRECTORY).glob("*.log")), 4):
        flip(path, random.randrange(path.stat().st_size), 1 << random.randrange(8))
    log = await reopen(disk)
    await scrub_all(log)
    known = damaged_ranges(log)
    found, refused = await consume(log)
    assert sorted([*found, *refused]) == list(range(60))
    behind = [offset for each in known for offset in range(each.offset, each.end_offset)]
    epochs = len(refused) - len(behind)  # the leader epoch is outside the CRC: readers check it
    assert set(behind) <= set(refused)
    assert epochs <= 1
    await log.close()


async def test_what_the_scrub_has_the_device_give_back_is_checked_by_who_reads_it_meanwhile(
    disk: FaultyDisk,
) -> None:
    log = await create(disk, WHOLE)
    for number in range(8):
        append(log, f"v{number}")
    await log.checkpoint()
    size = log.log_size()

    class Meanwhile(InlineWorker):
        async def call(self, function, *arguments):  # type: ignore[no-untyped-def]
            flip(disk.root / FIRST_LOG, size // 2)
            assert len((await consume(log))[1]) == 1
            raise WorkerFault

    with pytest.raises(WorkerFault):
        await scrub(log, log.active, Meanwhile(), _no_pace)
    append(log, "v8")
    assert log.active.unchecked_below == size, "what is appended now is not in doubt"
    await log.close()


async def test_what_was_restored_is_served_again(disk: FaultyDisk) -> None:
    log = await create(disk, WHOLE)
    for number in range(8):
        append(log, f"v{number}")
    position = log.log_size() // 2
    await log.close()
    flip(disk.root / FIRST_LOG, position)
    log = await reopen(disk, WHOLE)
    await scrub_all(log)
    (found,) = damaged_ranges(log)
    assert f"seeks to offset {found.end_offset}" in log.damage[0]
    await scrub_all(log)
    assert damaged_ranges(log) == [found]
    await log.close()
    flip(disk.root / FIRST_LOG, position)
    log = await reopen(disk, WHOLE)
    assert damaged_ranges(log) == [found], "known from before"
    await scrub_all(log)
    assert damaged_ranges(log) == []
    assert await values(log) == numbers(8)
    await log.close()
    log = await reopen(disk, WHOLE)
    assert damaged_ranges(log) == []
    await log.close()


async def test_a_segment_that_is_compacted_under_the_scrub_is_no_damage(disk: FaultyDisk) -> None:
    log = await create(disk, COMPACTED)
    for number in range(40):
        append_keyed(log, (f"key-{number % 7}", f"value {number} ".ljust(90, ".")))
        if log.needs_roll:
            await log.roll(NOW_MS)
    await log.checkpoint()
    is_cleaned = False

    class CleaningWorker(InlineWorker):
        async def call(self, function, *arguments):  # type: ignore[no-untyped-def]
            nonlocal is_cleaned
            if not is_cleaned:
                is_cleaned = True
                assert (await log.clean(InlineWorker(), NOW_MS)).is_changed
            return await super().call(function, *arguments)

    worker = CleaningWorker()
    for segment in list(log.segments):
        await scrub(log, segment, worker, _no_pace)
    assert is_cleaned
    assert damaged_ranges(log) == []
    assert log.damage == []
    await log.clean(InlineWorker(), NOW_MS)
    await scrub_all(log)
    assert damaged_ranges(log) == []
    await log.close()


async def test_big_batches_and_many_slices_go_through_the_worker_process(disk: FaultyDisk) -> None:
    config = replace(WHOLE, max_message_bytes=8 << 20)
    log = await create(disk, config)
    for size in (100, SLICE_BYTES + 5, 3 * SLICE_BYTES, 400_000, 400_000, 400_000):
        append(log, "x" * size)
    await log.close()
    flip(disk.root / FIRST_LOG, 2 * SLICE_BYTES)
    log = await reopen(disk, config)
    worker = ProcessWorker()
    sizes: list[int] = []

    async def count(size: int) -> None:
        sizes.append(size)

    try:
        await scrub(log, log.segments[0], worker, count)
    finally:
        worker.close()
    (found,) = damaged_ranges(log)
    assert (found.offset, found.end_offset) == (2, 3)
    assert len(sizes) >= 4
    await log.close()


async def test_a_file_that_cannot_be_read_is_a_reason(disk: FaultyDisk) -> None:
    checked = check(disk.reader("topics/none.log"), 0, 100, 0, True)
    assert "cannot be read" in checked.reason


async def test_damage_of_a_deleted_topic_is_not_written_down_for_the_one_that_has_its_name(
    disk: FaultyDisk,
) -> None:
    log = await create(disk)
    append(log, "old")
    found = DamagedRange(0, 10, 0, 1, "found when its topic was gone already")
    other = await recreate(disk, log, SMALL)
    append(other, "new")
    await note(log, log.segments[0], found)
    assert not disk.exists(f"{DIRECTORY}/{DAMAGE_FILE}")
    await other.close()
    other = await reopen(disk)
    assert await values(other) == ["new"]
    await other.close()
