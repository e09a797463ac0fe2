"""When the cleaner runs, and what it does when things are not as they should be."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Any, TypeVar

import pytest

from broker.errors import ErrorCode
from broker.log import compaction
from broker.log.cleanable import dirty_ratio, is_due, is_roll_due
from broker.log.cleaner import CleanLimits
from broker.log.config import LogConfig
from broker.log.partition_log import PartitionLog
from broker.log.survey import damaged_ranges
from broker.model import INT32_MAX, INT64_MAX
from broker.ports import DiskFull, WorkerFault
from broker.records.build import NewRecord
from broker.records.iterate import Record, iterate_batches, iterate_records
from tests.log.compaction_model import ABORT, append_batch, append_marker, data_of
from tests.log.world import (
    FOREVER,
    NOW_MS,
    FaultyDisk,
    InlineWorker,
    append_keyed,
    create,
    read_from,
    refusal_of,
    reopen,
)

T = TypeVar("T")
CONFIG = LogConfig(
    segment_bytes=600,
    index_interval_bytes=100,
    cleanup_policy=frozenset({"compact"}),
    delete_retention_ms=1000,
)
WORKER = InlineWorker()
HOUR_MS = 3_600_000
TINY = CleanLimits(dedupe_buffer_bytes=70)


async def fill(log: PartitionLog, count: int, keys: int = 7, now_ms: int = NOW_MS) -> None:
    for _ in range(count):
        offset = log.log_end_offset
        append_keyed(log, (f"k{offset % keys}", f"v{offset}".ljust(40, ".")), now_ms=now_ms)
        if log.needs_roll:
            await log.roll(now_ms)


def newest(records: list[Record]) -> dict[bytes | None, bytes | None]:
    return {record.key: record.value for record in records}


class Counting:
    """Calls of the worker by name; from call number `lost_at` on it knows nothing of the run."""

    def __init__(self, lost_at: int | None = None) -> None:
        self.names: list[str] = []
        self.lost_at = lost_at

    async def call(self, function: Callable[..., T], *arguments: Any) -> T:
        if len(self.names) == self.lost_at:
            compaction._RUNS.clear()
        self.names.append(function.__name__)
        return function(*arguments)


# --- when


async def test_what_is_younger_than_the_minimum_lag_is_left(disk: FaultyDisk) -> None:
    log = await create(disk, replace(CONFIG, min_compaction_lag_ms=HOUR_MS))
    await fill(log, 20)
    old_end = log.active.base_offset
    await fill(log, 30, now_ms=NOW_MS + HOUR_MS)
    assert not is_due(log, NOW_MS + HOUR_MS - 1)
    assert not (await log.clean(WORKER, NOW_MS + HOUR_MS - 1)).is_changed
    before = await read_from(log, 0)
    assert is_due(log, NOW_MS + HOUR_MS)
    assert (await log.clean(WORKER, NOW_MS + HOUR_MS)).is_changed
    after = await read_from(log, 0)
    assert [each for each in after if each.offset >= old_end] == [
        each for each in before if each.offset >= old_end
    ]
    cleaned = [each.key for each in after if each.offset < old_end]
    assert len(set(cleaned)) == len(cleaned)
    await log.close()


@pytest.mark.parametrize("client_time", [0, NOW_MS, NOW_MS + 10**12])
async def test_lags_count_the_brokers_clock_and_not_the_clients(
    disk: FaultyDisk, client_time: int
) -> None:
    config = replace(
        CONFIG,
        min_compaction_lag_ms=HOUR_MS,
        max_compaction_lag_ms=2 * HOUR_MS,
        min_cleanable_dirty_ratio=1.0,
        message_timestamp_after_max_ms=1 << 60,
    )
    log = await create(disk, config)
    for number in range(40):
        record = NewRecord(b"k", f"{number}".encode(), (), client_time)
        append_batch(log, None, [record])
        if log.needs_roll:
            await log.roll(NOW_MS)
    await log.clean(WORKER, NOW_MS + HOUR_MS)
    assert log.cleaned_end_offset == log.active.base_offset
    append_batch(log, None, [NewRecord(b"k", b"last", (), client_time)])
    await log.roll(NOW_MS)
    assert not is_due(log, NOW_MS + HOUR_MS), "the ratio is far from 1"
    assert not is_due(log, NOW_MS + 2 * HOUR_MS - 1)
    assert is_due(log, NOW_MS + 2 * HOUR_MS)
    await log.close()


async def test_the_segment_written_to_is_closed_for_the_maximum_lag(disk: FaultyDisk) -> None:
    log = await create(disk, replace(CONFIG, max_compaction_lag_ms=HOUR_MS))
    append_keyed(log, ("a", "1"))
    assert not is_roll_due(log, NOW_MS + HOUR_MS - 1)
    assert is_roll_due(log, NOW_MS + HOUR_MS), "also when nothing is written any more"
    append_keyed(log, ("a", "2"), now_ms=NOW_MS + HOUR_MS)
    assert log.needs_roll
    await log.close()


async def test_a_deletion_goes_when_its_time_is_over_also_when_nothing_is_written(
    disk: FaultyDisk,
) -> None:
    log = await create(disk, CONFIG)
    append_keyed(log, ("a", "1"), ("b", "1"))
    append_keyed(log, ("a", None))
    await log.roll(NOW_MS)
    await log.clean(WORKER, NOW_MS)
    assert not is_due(log, NOW_MS + 999)
    assert is_due(log, NOW_MS + 1000)
    await log.clean(WORKER, NOW_MS + 1000)
    assert newest(await read_from(log, 0)) == {b"b": b"1"}
    assert not is_due(log, NOW_MS + 10**12), "nothing is left to wait for"
    await log.close()


async def test_nothing_beyond_the_high_watermark_is_cleaned(disk: FaultyDisk) -> None:
    log = await create(disk, CONFIG)
    await fill(log, 40)
    end = log.segments[2].base_offset
    high_watermark = end + 1
    before = await read_from(log, 0)
    await log.clean(WORKER, NOW_MS, CleanLimits(high_watermark=high_watermark))
    assert log.cleaned_end_offset == end
    after = await read_from(log, 0)
    assert after[-20:] == before[-20:]
    assert newest(after) == newest(before)
    await log.close()


async def test_the_dirty_ratio_is_the_share_no_run_has_seen(disk: FaultyDisk) -> None:
    log = await create(disk, CONFIG)
    assert dirty_ratio(log) == 0
    await fill(log, 40)
    assert dirty_ratio(log) == 1
    await log.clean(WORKER, NOW_MS)
    assert dirty_ratio(log) == 0
    clean_bytes = sum(segment.size for segment in log.segments[:-1])
    await fill(log, 8)
    await log.roll(NOW_MS)
    closed_bytes = sum(segment.size for segment in log.segments[:-1])
    assert dirty_ratio(log) == pytest.approx(1 - clean_bytes / closed_bytes)
    await log.close()


async def test_reading_and_writing_are_paced(disk: FaultyDisk) -> None:
    log = await create(disk, CONFIG)
    await fill(log, 60)
    paced = 0

    async def pace(size: int) -> None:
        nonlocal paced
        paced += size

    cleaned = await log.clean(WORKER, NOW_MS, CleanLimits(pace=pace))
    assert paced >= cleaned.read_bytes > log.log_size()
    assert 0 < cleaned.written_bytes < cleaned.read_bytes
    await log.close()


# --- memory, passes, progress


async def test_passes_are_as_many_as_the_memory_asks_for(disk: FaultyDisk) -> None:
    log = await create(disk, CONFIG)
    await fill(log, 60, keys=60)
    passes = (await log.clean(WORKER, NOW_MS, TINY)).pass_count
    assert 20 <= passes <= 30, "60 keys, two a pass"
    assert len(await read_from(log, 0)) == 60
    await log.close()


async def test_progress_of_each_pass_is_kept(disk: FaultyDisk) -> None:
    log = await create(disk, CONFIG)
    await fill(log, 60)
    everything = newest(await read_from(log, 0))
    whole = Counting()
    seen = 0
    for lost_at in range(2, 400, 7):
        before = log.cleaned_end_offset
        try:
            await log.clean(Counting(lost_at), NOW_MS, TINY)
        except WorkerFault:
            seen += 1
            assert log.cleaned_end_offset >= before
            assert newest(await read_from(log, 0)) == everything
            log = await reopen_after_kill(disk, log)
            assert log.cleaned_end_offset >= before, "what a pass has done is not done again"
            continue
        break
    assert seen > 5
    await log.clean(whole, NOW_MS, TINY)
    assert newest(await read_from(log, 0)) == everything
    await log.close()


async def reopen_after_kill(disk: FaultyDisk, log: PartitionLog) -> PartitionLog:
    for segment in log.segments:
        segment.close_file()
    again = await reopen(disk, CONFIG)
    assert again.damage == []
    return again


async def test_a_full_disk_during_a_clean_leaves_no_file_behind(disk: FaultyDisk) -> None:
    log = await create(disk, CONFIG)
    await fill(log, 60, keys=40)
    await log.clean(WORKER, NOW_MS, CleanLimits(high_watermark=0))  # its checkpoint is there
    before = await read_from(log, 0)
    names = disk.list_directory(log.directory)
    disk.fail_append = (20, DiskFull)
    with pytest.raises(DiskFull):
        await log.clean(WORKER, NOW_MS)
    left = [name for name in disk.list_directory(log.directory) if name not in names]
    assert [name for name in left if not name.endswith(".snapshot")] == [], "room is what is short"
    assert await read_from(log, 0) == before
    await log.close()


async def test_a_log_with_holes_is_done_in_one_pass(disk: FaultyDisk) -> None:
    """KAFKA-8764: a cleaner that wants every offset never gets on."""
    log = await create(disk, CONFIG)
    for _ in range(12):
        append_keyed(log, ("a", "1"), ("b", "1"))
        log.log_end_offset = log.written_end_offset = log.log_end_offset + 1_000_000
        await log.roll(NOW_MS)
    append_keyed(log, ("c", "1"))
    worker = Counting()
    assert (await log.clean(worker, NOW_MS)).pass_count == 1
    assert len(worker.names) < 60
    assert not is_due(log, NOW_MS)
    assert [record.key for record in await read_from(log, 0)] == [b"a", b"b", b"c"]
    await log.close()


async def test_merged_segments_keep_31_bits_of_offsets(disk: FaultyDisk) -> None:
    """KAFKA-6264: far offsets in one segment overflow its index."""
    log = await create(disk, CONFIG)
    for number in range(6):
        append_keyed(log, (f"k{number}", "1"))
        log.log_end_offset = log.written_end_offset = log.log_end_offset + INT32_MAX // 3
        await log.roll(NOW_MS)
    before = await read_from(log, 0)
    await log.clean(WORKER, NOW_MS)
    bases = [segment.base_offset for segment in log.segments]
    assert len(bases) < 7, "some were merged"
    assert all(end - base <= INT32_MAX for base, end in pairwise(bases))
    assert await read_from(log, 0) == before
    for record in before:
        assert (await read_from(log, record.offset))[0] == record
    await log.close()


async def test_small_segments_become_ones_of_the_wanted_size(disk: FaultyDisk) -> None:
    small = replace(CONFIG, segment_bytes=300)
    log = await create(disk, small)
    await fill(log, 100, keys=100)
    many = len(log.segments)
    log.configure(replace(CONFIG, segment_bytes=3000))
    await log.clean(WORKER, NOW_MS)
    assert len(log.segments) <= many // 6
    assert all(segment.size <= 3000 for segment in log.segments)
    assert len(await read_from(log, 0)) == 100
    await log.close()


async def test_a_cleaning_renames_over_no_segment(
    disk: FaultyDisk, monkeypatch: pytest.MonkeyPatch
) -> None:
    """All blocks of a file that is renamed over are freed at once, and every sync waits for it."""
    log = await create(disk, CONFIG)
    await fill(log, 60)
    old = log.segments[:]
    rename, removed = disk.rename, []

    def rename_to_what_is_not_there(source: str, target: str) -> None:
        assert not (target.endswith(".log") and disk.exists(target)), f"{source} over {target}"
        rename(source, target)

    async def note_removal(path: str) -> None:
        removed.append(path)
        await type(disk).unlink_in_steps(disk, path)

    monkeypatch.setattr(disk, "rename", rename_to_what_is_not_there)
    monkeypatch.setattr(disk, "unlink_in_steps", note_removal)
    await log.clean(WORKER, NOW_MS)
    gone = [segment.path() for segment in old if segment not in log.segments]
    assert len(gone) > 3
    assert [path for path in removed if ".log" in path] == [f"{path}.deleted" for path in gone]
    assert newest(await read_from(log, 0)).keys() == {b"k%d" % number for number in range(7)}
    await log.close()


async def test_merging_does_not_keep_old_records_from_being_deleted(disk: FaultyDisk) -> None:
    config = replace(
        CONFIG, cleanup_policy=frozenset({"compact", "delete"}), retention_ms=100 * HOUR_MS
    )
    log = await create(disk, config)
    for hour in range(101):
        append_keyed(log, (f"k{hour}", "v"), now_ms=NOW_MS + hour * HOUR_MS)
        await log.roll(NOW_MS)
    now_ms = NOW_MS + 100 * HOUR_MS
    await log.clean(WORKER, now_ms)
    assert len(log.segments) < 50
    start = await log.apply_retention(now_ms + 12 * HOUR_MS)
    assert 2 <= start <= 12, "at most a tenth of the retention later"
    await log.close()


# --- damage


async def test_what_a_cleaning_wrote_it_has_checked(disk: FaultyDisk) -> None:
    """Nobody checks it again while it stays in memory; what the cleaning read may be checked."""
    log = await create(disk, CONFIG)
    await fill(log, 60)
    assert (await log.clean(WORKER, NOW_MS)).is_changed
    assert log.segments[0].unchecked_below == 0
    await log.close()


def flip(
    disk: FaultyDisk, log: PartitionLog, segment_number: int, position: int | None = None
) -> bytes:
    """Break a byte of a closed segment, by default in its middle; the file's content then."""
    path = Path(disk.root) / log.segments[segment_number].path()
    content = bytearray(path.read_bytes())
    content[len(content) // 2 if position is None else position] ^= 0xFF
    path.write_bytes(content)
    return bytes(content)


@pytest.mark.parametrize("was_cleaned", [False, True])
async def test_a_damaged_segment_is_left_and_reported_and_the_rest_is_cleaned(
    disk: FaultyDisk, was_cleaned: bool
) -> None:
    log = await create(disk, CONFIG)
    append_keyed(log, ("gone", "1".ljust(300, ".")))
    await fill(log, 60, keys=6 if not was_cleaned else 60)
    if was_cleaned:
        await log.clean(WORKER, NOW_MS)
    append_keyed(log, ("gone", None))
    await fill(log, 60, keys=6)
    damaged = log.segments[1]
    content = flip(disk, log, 1)
    for run in range(3):
        worker = Counting()
        cleaned = await log.clean(worker, NOW_MS + run * 2000)
        assert damaged in log.segments, "neither replaced nor merged"
        assert (disk.root / damaged.path()).read_bytes() == content
        assert len(cleaned.damage) == 1
        assert damaged.path() in log.uncleanable_reason
        assert damaged.path() in log.damage[0]
        assert not is_due(log, NOW_MS + run * 2000), "it does not spin"
        last = await read_from(log, log.segments[2].base_offset)
        keys = [each.key for each in last if each.offset < log.active.base_offset]
        assert len(set(keys)) == len(keys), "what follows is cleaned"
        assert b"gone" in keys, "older values may be in what is damaged: the deletion stays"
    await log.close()


@pytest.mark.parametrize("was_cleaned", [False, True])
@pytest.mark.parametrize("byte", [0, 6, 7])
@pytest.mark.parametrize("batch", [0, 1, -1])
async def test_a_batch_with_another_offset_than_it_was_written_with_is_damage(
    disk: FaultyDisk, batch: int, byte: int, *, was_cleaned: bool
) -> None:
    """Found by seed 6058: the CRC does not cover it. The log went offline; and a key that is taken
    for a later one than it is would remove its newer values.
    """
    log = await create(disk, CONFIG)
    await fill(log, 60, keys=60)
    if was_cleaned:
        await log.clean(WORKER, NOW_MS)
    await fill(log, 60, keys=60)
    damaged = log.segments[1]
    content = (disk.root / damaged.path()).read_bytes()
    starts = [0]
    for each in iterate_batches(content):
        starts.append(starts[-1] + len(each))
    flip(disk, log, 1, starts[:-1][batch] + byte)
    for run in range(3):
        cleaned = await log.clean(WORKER, NOW_MS + run * 2000)
        assert [damaged.path() in each for each in cleaned.damage] == [True]
    (disk.root / damaged.path()).write_bytes(content)
    await log.close()
    log = await reopen(disk, CONFIG)
    await log.clean(WORKER, NOW_MS + 9000)
    found = newest(await read_from(log, 0, 1 << 20))
    assert found == {
        b"k%d" % number: (b"v%d" % (60 + number)).ljust(40, b".") for number in range(60)
    }
    await log.close()


@pytest.mark.parametrize("restarts", [False, True])
@pytest.mark.parametrize("number", [0, 1])
async def test_what_was_damaged_is_cleaned_after_its_repair_and_before_deletions_go(
    disk: FaultyDisk, number: int, *, restarts: bool
) -> None:
    """Found by seed 6011: a deletion went, the value that it deleted was in what had been left."""
    log = await create(disk, CONFIG)
    if number:
        await fill(log, 8, keys=60)
    append_keyed(log, ("gone", "1".ljust(300, ".")))
    await fill(log, 12, keys=60)
    append_keyed(log, ("gone", None))
    await fill(log, 30, keys=6)
    path = disk.root / log.segments[number].path()
    assert b"gone" in path.read_bytes()
    whole = path.read_bytes()
    flip(disk, log, number)
    for run in range(2):
        assert (await log.clean(WORKER, NOW_MS + run * 2000)).damage
        assert log.cleaned_end_offset == log.active.base_offset
    if restarts:
        await log.close()
    path.write_bytes(whole)
    if restarts:
        log = await reopen(disk, CONFIG)
        assert is_due(log, NOW_MS), "it looks at the damage again"
    for run in range(2, 5):
        assert not (await log.clean(WORKER, NOW_MS + run * 2000)).damage
    assert b"gone" not in [each.key for each in await read_from(log, 0, 1 << 20)]
    assert log.passed_over_offset == INT64_MAX
    await log.close()


async def test_an_abort_that_damage_may_hide_removes_nothing(disk: FaultyDisk) -> None:
    log = await create(disk, CONFIG)
    append_keyed(log, ("a", "old"))
    append_batch(
        log,
        None,
        [NewRecord(b"a", b"perhaps aborted")],
        producer_id=11,
        producer_epoch=0,
        base_sequence=0,
        attributes=0x10,
    )
    await log.roll(NOW_MS)
    append_marker(log, None, 11, ABORT)
    await log.roll(NOW_MS)
    append_keyed(log, ("b", "1"))
    flip(disk, log, 1)
    await log.clean(WORKER, NOW_MS)
    values = [record.value for record in await data_of_first(log)]
    assert values == [b"old", b"perhaps aborted"]
    await log.close()


async def data_of_first(log: PartitionLog) -> list[Record]:
    """The records of the first segment."""
    result = await log.read_cold(0, 1000, log.segments[1].base_offset, at_least_one=True)
    return [each for batch in iterate_batches(result.records) for each in iterate_records(batch)]


async def test_a_transaction_that_is_open_holds_the_cleaner_back(disk: FaultyDisk) -> None:
    log = await create(disk, CONFIG)
    await fill(log, 20)
    options: dict[str, Any] = {"producer_id": 11, "producer_epoch": 0, "attributes": 0x10}
    first = append_batch(log, None, [NewRecord(b"k0", b"open")], base_sequence=0, **options)
    await fill(log, 20)
    before = newest(await data_of(log))
    await log.clean(WORKER, NOW_MS)
    assert log.cleaned_end_offset == first
    append_marker(log, None, 11, ABORT)
    await fill(log, 20)
    await log.clean(WORKER, NOW_MS)
    assert log.cleaned_end_offset == log.active.base_offset
    after = await data_of(log)
    assert b"open" not in [record.value for record in after]
    assert set(newest(after)) == set(before)
    await log.close()


async def test_a_lost_end_of_a_segment_is_still_named_after_cleanings_and_restarts(
    disk: FaultyDisk,
) -> None:
    log = await create(disk, CONFIG)
    await fill(log, 4)
    end = log.log_end_offset
    await log.close()
    path = disk.root / log.active.path()
    path.write_bytes(path.read_bytes()[: log.log_size() * 3 // 4])  # where a batch begins
    log = await reopen(disk, CONFIG)
    (lost,) = damaged_ranges(log)
    assert (lost.offset, lost.end_offset) == (end - 1, end)
    for _ in range(2):
        await fill(log, 30)
        assert (await log.clean(WORKER, NOW_MS)).is_changed
        assert "lost" in log.uncleanable_reason
        assert damaged_ranges(log) == [lost]
        assert refusal_of(log.read, end - 1, 100, FOREVER, at_least_one=True) == (
            ErrorCode.CORRUPT_MESSAGE
        )
        await log.close()
        log = await reopen(disk, CONFIG)
    assert len(newest(await read_from(log, end))) == 7
    await log.close()
