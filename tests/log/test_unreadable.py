"""A sector that cannot be read: the records in it are damaged, all others are served, the log goes
on, and what can be read again is served again.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest

from broker.log import compaction, salvage
from broker.log.config import LogConfig
from broker.log.partition_log import PartitionLog
from broker.log.salvage import PAGE_BYTES
from broker.log.survey import damaged_ranges
from broker.ports import DiskFault
from tests.log.test_cleaner import CONFIG as COMPACTED
from tests.log.test_damage import FIRST_LOG, consume, flip
from tests.log.test_scrub import scrub_all
from tests.log.test_synced_end import known
from tests.log.world import (
    DIRECTORY,
    FOREVER,
    NOW_MS,
    FaultyDisk,
    InlineWorker,
    append,
    append_keyed,
    create,
    read_from,
    reopen,
)

CONFIG = LogConfig(segment_bytes=60_000, index_interval_bytes=4096)
COUNT = 150
LOST_PAGE = range(5 * PAGE_BYTES, 6 * PAGE_BYTES)


async def filled(disk: FaultyDisk) -> PartitionLog:
    """A log of several segments with COUNT batches of almost 1000 bytes, closed and opened."""
    log = await create(disk, CONFIG)
    for number in range(COUNT):
        append(log, f"{number}".ljust(900, "."), timestamp_ms=NOW_MS + number)
        if log.needs_roll:
            await log.roll(NOW_MS)
    await log.close()
    return await reopen(disk, CONFIG)


def lose_page(disk: FaultyDisk, log: PartitionLog, number: int) -> list[int]:
    """LOST_PAGE of a closed segment cannot be read from now on: the offsets that it holds."""
    segment, following = log.segments[number : number + 2]
    count = following.base_offset - segment.base_offset
    size = segment.size // count
    assert segment.size == size * count, "batches of one size"
    disk.unreadable = (segment.path(), LOST_PAGE)
    return [
        segment.base_offset + place
        for place in range(count)
        if place * size < LOST_PAGE.stop and LOST_PAGE.start < (place + 1) * size
    ]


def is_left_out(log: PartitionLog, lost: list[int]) -> bool:
    """Whether just these offsets are damaged, and the log is in use."""
    (found,) = damaged_ranges(log)
    assert found.reason == "it cannot be read: injected"
    return list(range(found.offset, found.end_offset)) == lost and not log.offline_reason


@pytest.mark.parametrize("max_bytes", [1, 10_000, 1 << 20])
async def test_a_page_costs_the_batches_that_it_is_in_until_it_can_be_read_again(
    disk: FaultyDisk, max_bytes: int
) -> None:
    log = await filled(disk)
    lost = lose_page(disk, log, 1)
    found, refused = await consume(log, max_bytes)
    assert refused == lost
    assert sorted([*found, *refused]) == list(range(COUNT))
    assert is_left_out(log, lost)
    append(log, "the log goes on")
    assert (await consume(log, max_bytes))[0][COUNT] == "the log goes on"
    await log.close()
    log = await reopen(disk, CONFIG)
    assert is_left_out(log, lost), "a restart knows of it"
    await scrub_all(log)
    assert is_left_out(log, lost), "nor can the scrub read it"
    disk.unreadable = ("none", range(0))
    await scrub_all(log)
    assert damaged_ranges(log) == []
    assert len((await consume(log, max_bytes))[0]) == COUNT + 1
    await log.close()


async def test_the_scrub_meets_it_first(disk: FaultyDisk) -> None:
    log = await filled(disk)
    lost = lose_page(disk, log, 1)
    await scrub_all(log)
    assert is_left_out(log, lost)
    assert (await consume(log))[1] == lost
    await log.close()


async def test_lookups_by_time_go_around_it(disk: FaultyDisk) -> None:
    log = await filled(disk)
    lost = lose_page(disk, log, 1)
    for offset in range(COUNT):
        found = await log.offset_for_timestamp(NOW_MS + offset, FOREVER)
        assert found is not None
        assert found.offset == (lost[-1] + 1 if offset in lost else offset)
    latest = await log.max_timestamp(lost[-1] + 1)
    assert latest is not None
    assert latest.offset == lost[0] - 1
    assert is_left_out(log, lost)
    await log.close()


async def test_retention_goes_around_it_although_it_has_to_read_for_the_age(
    disk: FaultyDisk,
) -> None:
    log = await filled(disk)
    lost = lose_page(disk, log, 0)
    for index in (disk.root / DIRECTORY).glob("*idx"):
        index.unlink()
    assert await log.apply_retention(NOW_MS) == 0
    assert is_left_out(log, lost)
    assert await log.apply_retention(NOW_MS + 2 * CONFIG.retention_ms) > lost[-1]
    assert damaged_ranges(log) == []
    await log.close()


@pytest.mark.parametrize(
    "since", [compaction.begin_run, compaction.begin_keys, compaction.begin_rewriting]
)
async def test_compaction_leaves_its_segment_as_it_is(
    disk: FaultyDisk, since: Callable[..., object]
) -> None:
    config = replace(COMPACTED, segment_bytes=60_000, index_interval_bytes=4096)
    log = await create(disk, config)
    for number in range(COUNT):
        append_keyed(log, (f"k{number % 6}", f"{number}".ljust(900, ".")))
        if log.needs_roll:
            await log.roll(NOW_MS)
    await log.close()
    log = await reopen(disk, config)
    kept, sizes = log.segments[1], [segment.size for segment in log.segments]
    lost: list[int] = []

    class Losing(InlineWorker):
        async def call(self, function, *arguments):  # type: ignore[no-untyped-def]
            if function is since and not lost:
                lost.extend(lose_page(disk, log, 1))
            return function(*arguments)

    for run in range(2):
        cleaned = await log.clean(Losing(), NOW_MS + run * 2000)
        assert [kept.path() in each for each in cleaned.damage] == [True]
        assert is_left_out(log, lost)
    assert kept in log.segments
    assert log.segments[0].size < sizes[0], "the others are cleaned"
    await log.close()


async def test_a_read_that_fails_the_second_time_ends_a_cleaning_and_nothing_else(
    disk: FaultyDisk,
) -> None:
    log = await create(disk, COMPACTED)
    for pairs in ([("a", "1"), ("b", "1")], [("c", "1"), ("c", "2")]):
        for pair in pairs:
            append_keyed(log, pair)
        await log.roll(NOW_MS)
    await log.close()
    log = await reopen(disk, COMPACTED)
    before = await read_from(log, 0)

    class Losing(InlineWorker):
        async def call(self, function, *arguments):  # type: ignore[no-untyped-def]
            if function is compaction.rewrite:
                disk.unreadable = (log.segments[0].path(), range(1))
            return function(*arguments)

    cleaned = await log.clean(Losing(), NOW_MS)
    assert len(cleaned.damage) == 1
    assert not log.offline_reason
    assert [name for name in disk.list_directory(DIRECTORY) if name.endswith(".cleaned")] == []
    cleaned = await log.clean(InlineWorker(), NOW_MS)
    assert log.segments[0].path() in cleaned.damage[0]
    assert is_left_out(log, [0, 1])
    disk.unreadable = ("none", range(0))
    await scrub_all(log)
    assert await read_from(log, 0) == [before[0], before[1], before[3]]
    await log.close()


@pytest.mark.parametrize("how", ["it cannot be read", "a bit flips"])
async def test_a_deletion_whose_keys_could_not_be_noted_never_ends_before_what_it_deletes(
    disk: FaultyDisk, how: str
) -> None:
    log = await create(disk, COMPACTED)
    for pair in (("a", "1"), ("a", None), ("b", "1")):
        append_keyed(log, pair)
        await log.roll(NOW_MS)
    deletion = log.segments[1].path()

    def spoil() -> None:
        if how == "a bit flips":
            flip(disk.root / deletion, 65)
        else:
            disk.unreadable = (deletion, range(1))

    class Losing(InlineWorker):
        """It is lost after it was checked, and given again before it would be rewritten."""

        async def call(self, function, *arguments):  # type: ignore[no-untyped-def]
            if function is compaction.begin_keys:
                spoil()
            elif function is compaction.begin_rewriting:
                disk.unreadable = ("none", range(0))
                if how == "a bit flips":
                    flip(disk.root / deletion, 65)
            return function(*arguments)

    cleaned = await log.clean(Losing(), NOW_MS)
    assert deletion in cleaned.damage[0]
    await scrub_all(log)
    for number in (1, 2, 3):
        now_ms = NOW_MS + number * 10 * COMPACTED.delete_retention_ms
        append_keyed(log, ("c", str(number)), now_ms=now_ms)
        await log.roll(now_ms)
        await log.clean(InlineWorker(), now_ms)
        values = await keyed_values(log)
        assert (b"a", b"1") not in values or (b"a", None) in values
    assert b"a" not in [key for key, _ in values], "both are gone in the end"
    await log.close()


async def keyed_values(log: PartitionLog) -> list[tuple[bytes | None, bytes | None]]:
    """The keys and values that a reader sees."""
    return [(record.key, record.value) for record in await read_from(log, 0)]


async def unreadable_but_its_end(disk: FaultyDisk) -> PartitionLog:
    """A log of 80 batches that cannot be read, 8 MB, and of one behind that can."""
    log = await create(disk)
    log.configure(LogConfig())
    for number in range(80):
        append(log, f"v{number}".ljust(100_000, "."))
    size = log.log_size()
    await log.close()
    log = await reopen(disk)
    append(log, "behind")
    disk.unreadable = (FIRST_LOG, range(size // PAGE_BYTES * PAGE_BYTES))
    return log


async def test_what_lies_behind_much_that_is_lost_is_served(disk: FaultyDisk) -> None:
    log = await unreadable_but_its_end(disk)
    found, refused = await consume(log)
    assert refused == list(range(80))
    assert found == {80: "behind"}
    await log.close()


async def test_a_device_that_fails_and_fails_is_not_asked_for_all_of_it(
    disk: FaultyDisk, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(salvage, "FAULTS_MAX", 20)
    log = await unreadable_but_its_end(disk)
    assert await consume(log) == ({}, list(range(81)))
    assert disk.fault_count < 40
    append(log, "new")
    assert (await consume(log))[0] == {81: "new"}
    await log.close()


async def test_below_what_was_synced_a_start_takes_it_for_damage(disk: FaultyDisk) -> None:
    log = await create(disk, CONFIG)
    for number in range(40):
        append(log, f"{number}".ljust(900, "."))
    synced = await known(log)
    await log.close(is_clean=False)
    disk.unreadable = (FIRST_LOG, LOST_PAGE)
    log = await PartitionLog.open(disk, DIRECTORY, CONFIG, NOW_MS, synced)
    found, refused = await consume(log)
    assert sorted([*found, *refused]) == list(range(40))
    assert 4 < len(refused) < 7
    assert is_left_out(log, refused)
    await log.close()


async def test_beyond_what_was_synced_a_start_cuts_nothing_for_it(disk: FaultyDisk) -> None:
    """It may be whole the next time."""
    log = await create(disk, CONFIG)
    for number in range(40):
        append(log, f"{number}".ljust(900, "."))
    await log.close(is_clean=False)
    content = (disk.root / FIRST_LOG).read_bytes()
    disk.unreadable = (FIRST_LOG, LOST_PAGE)
    with pytest.raises(DiskFault):
        await reopen(disk, CONFIG)
    assert (disk.root / FIRST_LOG).read_bytes() == content
    disk.unreadable = ("none", range(0))
    log = await reopen(disk, CONFIG)
    assert len((await consume(log))[0]) == 40
    await log.close()
