"""Deletion by time and size: whole segments, by the broker's clock, never beyond the watermark."""

from __future__ import annotations

import asyncio
import contextlib
import os
import resource
from collections.abc import Iterator
from dataclasses import replace

import pytest

from broker.errors import ErrorCode, Refusal
from broker.log.config import LogConfig
from broker.log.retention import delete_segments
from broker.ports import DiskFault, DiskFull, NoDescriptor
from broker.runtime import freeing
from tests.log.world import (
    DIRECTORY,
    FOREVER,
    NOW_MS,
    SMALL,
    FaultyDisk,
    append,
    append_rolling,
    create,
    numbers,
    recreate,
    refusal_of,
    reopen,
    values,
)

HOUR_MS = 3_600_000
CONFIG = LogConfig(
    segment_bytes=400,
    index_interval_bytes=100,
    retention_ms=HOUR_MS,
    message_timestamp_after_max_ms=FOREVER,
)


async def test_old_segments_go_and_the_log_start_moves(disk: FaultyDisk) -> None:
    log = await create(disk, CONFIG)
    await append_rolling(log, 20)
    await append_rolling(log, 20, now_ms=NOW_MS + HOUR_MS)
    assert await log.apply_retention(NOW_MS + HOUR_MS - 1) == 0
    start = await log.apply_retention(NOW_MS + HOUR_MS)
    assert 10 < start <= 20
    assert await values(log) == numbers(start, 40)
    assert (
        refusal_of(log.read, start - 1, 100, FOREVER, at_least_one=True)
        == ErrorCode.OFFSET_OUT_OF_RANGE
    )
    assert not [name for name in disk.list_directory(DIRECTORY) if name.startswith(f"{0:020d}.")]
    log = await reopen(disk, CONFIG)
    assert log.log_start_offset == start
    assert await values(log) == numbers(start, 40)
    await log.close()


async def test_when_all_is_old_offsets_go_on_where_they_were(disk: FaultyDisk) -> None:
    log = await create(disk, CONFIG)
    await append_rolling(log, 20)
    assert await log.apply_retention(NOW_MS + 2 * HOUR_MS) == 20
    assert log.log_size() == 0
    for _ in range(2):
        assert (log.log_start_offset, log.log_end_offset) == (20, 20)
        result = log.read(20, 100, FOREVER, at_least_one=True)
        assert result is not None
        assert len(result.records) == 0
        log = await reopen(disk, CONFIG)
    assert append(log, "v20").base_offset == 20
    await log.close()


@pytest.mark.parametrize("timestamp", [NOW_MS + 10 * 365 * 86_400_000, 2**62, 0, 1])
async def test_client_timestamps_neither_stop_nor_hasten_retention(
    disk: FaultyDisk, timestamp: int
) -> None:
    """KAFKA-18929."""
    log = await create(disk, CONFIG)
    await append_rolling(log, 20, timestamp_ms=timestamp)
    assert await log.apply_retention(NOW_MS + HOUR_MS - 1) == 0
    assert await log.apply_retention(NOW_MS + HOUR_MS) == 20
    await log.close()


YEAR_MS = 365 * 24 * HOUR_MS
STRANGE_TIMES = (NOW_MS, NOW_MS - 10 * YEAR_MS, 0, NOW_MS + 10 * YEAR_MS, 2**62)


@pytest.mark.parametrize("is_killed", [False, True])
async def test_alternating_client_timestamps_roll_and_delete_nothing_before_time(
    disk: FaultyDisk, is_killed: bool
) -> None:
    """KAFKA-4099 (a segment per record) and KAFKA-18929 (never deleted), one after the other."""
    config = replace(CONFIG, segment_bytes=1 << 20, segment_ms=HOUR_MS, retention_ms=2 * HOUR_MS)
    log = await create(disk, config)
    for number in range(300):
        append(log, f"v{number}", timestamp_ms=STRANGE_TIMES[number % 5], now_ms=NOW_MS + number)
        assert not log.needs_roll, "an hour has not passed"
        if number in (0, 150) and is_killed:
            for segment in log.segments:
                segment.close_file()
            log = await reopen(disk, config, NOW_MS + number)
    assert await log.apply_retention(NOW_MS + HOUR_MS) == 0
    assert len(log.segments) == 1
    append(log, "later", timestamp_ms=0, now_ms=NOW_MS + HOUR_MS + 150)
    assert log.needs_roll, "now it has, whatever the timestamps say"
    await log.roll(NOW_MS + HOUR_MS + 150)
    append(log, "last", timestamp_ms=2**62, now_ms=NOW_MS + HOUR_MS + 151)
    assert not log.needs_roll
    last_ms = NOW_MS + HOUR_MS + 150
    assert await log.apply_retention(last_ms + 2 * HOUR_MS - 1) == 0
    assert await log.apply_retention(last_ms + 2 * HOUR_MS) == 301
    await log.close()


async def test_size_is_kept_below_the_limit_by_whole_segments(disk: FaultyDisk) -> None:
    config = LogConfig(segment_bytes=400, retention_bytes=1000, retention_ms=-1)
    log = await create(disk, config)
    await append_rolling(log, 100)
    start = await log.apply_retention(NOW_MS)
    assert 1000 <= log.log_size() < 1000 + log.segments[0].size
    assert await values(log) == numbers(start, 100)
    await log.close()


async def test_a_full_disk_that_takes_no_snapshot_still_loses_what_needs_none(
    disk: FaultyDisk,
) -> None:
    config = LogConfig(segment_bytes=400, retention_bytes=0, retention_ms=-1)
    log = await create(disk, config)
    await append_rolling(log, 40)
    known = log.checkpoints.offset
    assert known > 0
    disk.fail_replace = DiskFull
    while log.checkpoints.segment_base == log.active.base_offset:
        append(log, "x" * 400)
        with contextlib.suppress(DiskFull):
            await log.roll(NOW_MS)
    start = log.log_start_offset
    with contextlib.suppress(DiskFull):
        await log.apply_retention(NOW_MS)
    assert start < log.log_start_offset <= known
    disk.fail_replace = None
    await log.apply_retention(NOW_MS)
    assert len(log.segments) == 1
    await log.close()


async def test_what_is_written_while_the_last_segment_is_rolled_is_kept(disk: FaultyDisk) -> None:
    log = await create(disk, CONFIG)
    append(log, "v0")
    retention = asyncio.create_task(log.apply_retention(NOW_MS + 2 * HOUR_MS))
    await asyncio.sleep(0)  # the next segment's file is being made
    append(log, "v1", now_ms=NOW_MS + 2 * HOUR_MS)
    await retention
    assert "v1" in await values(log)
    await log.close()


async def test_nothing_beyond_the_high_watermark_is_deleted(disk: FaultyDisk) -> None:
    log = await create(disk, CONFIG)
    await append_rolling(log, 40)
    start = await log.apply_retention(NOW_MS + 2 * HOUR_MS, high_watermark=15)
    assert 0 < start <= 15
    await log.close()


async def test_a_compacted_log_is_not_deleted(disk: FaultyDisk) -> None:
    log = await create(
        disk, LogConfig(segment_bytes=400, retention_ms=1, cleanup_policy=frozenset({"compact"}))
    )
    await append_rolling(log, 20)
    assert await log.apply_retention(NOW_MS + HOUR_MS) == 0
    await log.close()


async def test_the_log_start_is_moved_durably_and_only_forward(disk: FaultyDisk) -> None:
    log = await create(disk, CONFIG)
    await append_rolling(log, 20)
    await log.advance_log_start(13)
    await log.advance_log_start(5)
    for _ in range(2):
        assert log.log_start_offset == 13
        assert await values(log) == numbers(13, 20)
        log = await reopen(disk, CONFIG)
    with pytest.raises(Refusal):
        await log.advance_log_start(21)
    assert await log.apply_retention(NOW_MS) == 13
    assert log.segments[0].base_offset > 0
    await log.advance_log_start(20)
    assert await values(log) == []
    await log.close()


async def test_a_start_that_another_call_still_stores_is_waited_for(disk: FaultyDisk) -> None:
    log = await create(disk, CONFIG)
    await append_rolling(log, 20)
    first = asyncio.ensure_future(log.advance_log_start(13))
    await asyncio.sleep(0)
    assert (log.log_start_offset, log.checkpoints.log_start_offset) == (13, 0), "on its way"
    await log.advance_log_start(13)
    assert log.checkpoints.log_start_offset == 13
    await first
    await log.close()


async def test_a_start_that_another_call_still_stores_is_not_told(disk: FaultyDisk) -> None:
    log = await create(disk, CONFIG)
    await append_rolling(log, 20)
    assert await log.advance_log_start(5) == 5
    further = asyncio.ensure_future(log.advance_log_start(13))
    await asyncio.sleep(0)
    assert (log.log_start_offset, log.checkpoints.log_start_offset) == (13, 5), "on its way"
    assert await log.advance_log_start(3) == 5, "a kill now would bring 5 back"
    assert await further == 13
    await log.close()


async def test_a_slow_snapshot_of_others_delays_a_new_start_and_is_no_fault(
    disk: FaultyDisk,
) -> None:
    log = await create(disk, CONFIG)
    await append_rolling(log, 20)
    disk.replace_gate = asyncio.Event()
    slow = asyncio.ensure_future(log.checkpoint())
    await asyncio.sleep(0)
    moving = asyncio.ensure_future(log.advance_log_start(13))
    for _ in range(400):  # while other writes go on
        await log.sync()
    assert not moving.done()
    disk.replace_gate.set()
    assert await moving == 13
    await slow
    await log.close()


async def test_a_read_in_flight_survives_the_deletion_of_its_segment(disk: FaultyDisk) -> None:
    log = await create(disk, CONFIG)
    await append_rolling(log, 40)
    segment = log.segments[0]
    reading = segment.read_cold(0, 100)
    waiting = reading.send(None)
    await log.apply_retention(NOW_MS + 2 * HOUR_MS)
    while not waiting.done():  # type: ignore[union-attr]
        await log.disk.sync_directory(DIRECTORY)
    with pytest.raises(StopIteration) as done:
        reading.send(None)
    assert len(done.value.value) == 100
    assert not segment.is_open
    await log.close()


async def test_a_large_segment_is_not_cut_down_under_somebody_who_reads_it(
    disk: FaultyDisk, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(freeing, "STEP_BYTES", 50)
    monkeypatch.setattr(freeing, "WHOLE_BYTES_MAX", 50)
    log = await create(disk, CONFIG)
    await append_rolling(log, 40)
    segment, unread = log.segments[:2]
    held = segment.hold()
    with (disk.root / unread.path()).open("rb") as file:
        await log.apply_retention(NOW_MS + 2 * HOUR_MS)
        assert 0 < len(file.read()) <= 50 < unread.size, "nobody reads it: it was cut down"
    assert len(held.read(0, segment.size) or b"") == segment.size > 100
    segment.release()
    assert not segment.is_open
    await log.close()


async def test_nothing_of_a_topic_is_deleted_for_one_that_had_its_name(disk: FaultyDisk) -> None:
    log = await create(disk)
    await append_rolling(log, 30)
    again = await recreate(disk, log, SMALL)
    append(again, "new")
    with pytest.raises(Refusal):
        await delete_segments(log, log.segments[:1])
    assert disk.exists(again.active.path())
    await again.close()


async def test_no_snapshot_of_a_topic_is_written_for_one_that_had_its_name(
    disk: FaultyDisk,
) -> None:
    log = await create(disk)
    await append_rolling(log, 3)
    disk.replace_gate = gate = asyncio.Event()
    taking = asyncio.create_task(log.checkpoint())
    while not disk.held_count:
        await asyncio.sleep(0.01)
    disk.replace_gate = None
    again = await recreate(disk, log, SMALL)
    for number in range(8):
        append(again, f"new{number}")
    gate.set()
    with pytest.raises(Refusal):
        await taking
    await again.close(is_clean=False)
    again = await reopen(disk)
    assert again.damage == []
    assert await values(again) == [f"new{number}" for number in range(8)]
    await again.close()


async def test_a_sync_that_began_before_a_deletion_misses_no_file(disk: FaultyDisk) -> None:
    log = await create(disk, replace(SMALL, retention_bytes=1))
    await append_rolling(log, 60)
    log.checkpoints.unsynced_closed = log.segments[:-1]
    mark = log.begin_sync()
    assert mark.file_count > 2
    await log.apply_retention(NOW_MS)
    assert len(log.segments) == 1
    await log.sync_to(mark)
    assert log.offline_reason == ""
    assert log.synced_end_offset == log.written_end_offset
    await log.close()


async def test_files_that_no_descriptor_was_left_for_go_with_the_next_retention(
    disk: FaultyDisk,
) -> None:
    def refuse() -> None:
        raise NoDescriptor(DIRECTORY, "injected")

    config = replace(SMALL, retention_bytes=1_500)
    log = await create(disk, config)
    await append_rolling(log, 40)
    await log.checkpoint()
    disk.at_names = refuse
    with pytest.raises(NoDescriptor):
        await log.apply_retention(NOW_MS)
    disk.at_names = None
    assert [name for name in disk.list_directory(DIRECTORY) if name.endswith(".deleted")]
    await log.apply_retention(NOW_MS)
    assert not [name for name in disk.list_directory(DIRECTORY) if name.endswith(".deleted")]
    await log.close()


@pytest.mark.parametrize("suffix", [".log", ".idx", ".timeidx"])
async def test_a_deletion_that_a_full_disk_stops_half_way_leaves_nothing_behind(
    disk: FaultyDisk, suffix: str
) -> None:
    log = await create(disk, replace(SMALL, retention_bytes=1_500))
    await append_rolling(log, 40)
    await log.checkpoint()
    disk.full_for = f"{suffix}.deleted"
    with contextlib.suppress(DiskFull):
        await log.apply_retention(NOW_MS)
    assert all(disk.exists(segment.path()) for segment in log.segments), "what it has it can read"
    disk.full_for = None
    start = await log.apply_retention(NOW_MS)
    bases = {f"{segment.base_offset:020d}" for segment in log.segments}
    files = disk.list_directory(DIRECTORY)
    assert {name.split(".")[0] for name in files if ".log" in name or "idx" in name} == bases
    assert await values(log) == numbers(start, 40)
    await log.close()


@pytest.mark.parametrize("name", [".idx", ".timeidx"])
async def test_an_index_that_has_no_room_leaves_no_part_of_it(disk: FaultyDisk, name: str) -> None:
    log = await create(disk)
    append(log, "v" * 1_000)
    disk.full_for = name
    with pytest.raises(DiskFull):
        await log.roll(NOW_MS)
    assert not [found for found in disk.list_directory(DIRECTORY) if found.endswith(".tmp")]
    await log.close(is_clean=False)


async def test_a_failed_sync_is_marked_also_when_no_descriptor_is_left(disk: FaultyDisk) -> None:
    log = await create(disk)
    with no_descriptors():
        with pytest.raises(OSError, match="Too many open files"):
            (disk.root / "other").open("wb")
        log.fail_sync(DiskFault(DIRECTORY, "injected"))
    assert "sync-failed" in disk.list_directory(DIRECTORY)
    await log.close()


@contextlib.contextmanager
def no_descriptors() -> Iterator[None]:
    """The process may open no more files."""
    limits = resource.getrlimit(resource.RLIMIT_NOFILE)
    spare = os.open("/", os.O_RDONLY)
    os.close(spare)
    resource.setrlimit(resource.RLIMIT_NOFILE, (spare, limits[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, limits)
