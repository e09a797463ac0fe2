"""Staging and flushing: offsets, visibility, undo, faults."""

from __future__ import annotations

import asyncio

import pytest

from broker.errors import ErrorCode, Refusal
from broker.log.config import LOG_APPEND_TIME, LogConfig
from broker.ports import DiskFault, DiskFull
from broker.records.batch import is_intact, is_log_append_time, read_header, seal
from broker.records.build import build_batch
from tests.log.world import (
    DIRECTORY,
    FOREVER,
    NOW_MS,
    TOPIC_ID,
    FaultyDisk,
    append,
    append_rolling,
    create,
    numbers,
    read_from,
    refusal_of,
    reopen,
    stage,
    values,
)


async def test_batches_get_the_next_offsets_and_come_back_as_they_were(disk: FaultyDisk) -> None:
    log = await create(disk)
    assert append(log, "a", "b")[:2] == (0, 1)
    assert append(log, "c", epoch=3)[:2] == (2, 2)
    assert [(r.offset, r.value) for r in await read_from(log, 0)] == [
        (0, b"a"),
        (1, b"b"),
        (2, b"c"),
    ]
    assert log.epoch_at(1) == 0
    assert log.epoch_at(2) == 3
    await log.close()


async def test_staged_batches_are_not_readable_before_the_flush(disk: FaultyDisk) -> None:
    log = await create(disk)
    append(log, "a")
    stage(log, "b")
    assert (log.written_end_offset, log.log_end_offset) == (1, 2)
    result = log.read(0, 10_000, FOREVER, at_least_one=True)
    assert result is not None
    assert result.next_offset == 1
    log.flush()
    assert log.written_end_offset == 2
    assert await values(log) == ["a", "b"]
    await log.close()


async def test_a_refused_batch_leaves_no_trace(disk: FaultyDisk) -> None:
    log = await create(disk)
    batch = build_batch([(b"k", b"v")], timestamp_ms=NOW_MS)
    batch[-1] ^= 1
    with pytest.raises(Refusal):
        log.stage(memoryview(batch), leader_epoch=0, now_wall_ms=NOW_MS)
    assert log.log_end_offset == 0
    assert log.latest_epoch == -1
    await log.close()


@pytest.mark.parametrize("written", [0, 1, 60, 150])
async def test_a_full_disk_undoes_everything_staged_and_heals(
    disk: FaultyDisk, written: int
) -> None:
    log = await create(disk)
    append(log, "a", producer_id=7, producer_epoch=0, base_sequence=0)
    size = log.log_size()
    stage(log, "lost", producer_id=7, producer_epoch=0, base_sequence=1, epoch=4)
    stage(log, "lost too", producer_id=8, producer_epoch=0, base_sequence=0, epoch=4)
    disk.fail_append = (written, DiskFull)
    with pytest.raises(DiskFull):
        log.flush()
    assert (log.written_end_offset, log.log_end_offset, log.log_size()) == (1, 1, size)
    assert log.latest_epoch == 0
    assert append(log, "b", producer_id=7, producer_epoch=0, base_sequence=1).base_offset == 1
    assert await values(log) == ["a", "b"]
    await log.close()
    log = await reopen(disk)
    assert await values(log) == ["a", "b"]
    assert log.damage == []
    await log.close()


async def test_a_failed_disk_takes_the_log_offline_for_good(disk: FaultyDisk) -> None:
    log = await create(disk)
    append(log, "a")
    stage(log, "lost")
    disk.fail_append = (10, DiskFault)
    with pytest.raises(DiskFault):
        log.flush()
    assert log.log_end_offset == 1
    assert refusal_of(stage, log, "b") == ErrorCode.KAFKA_STORAGE_ERROR
    assert refusal_of(log.read, 0, 1, FOREVER, at_least_one=True) == ErrorCode.KAFKA_STORAGE_ERROR
    assert "offline" in log.offline_reason
    before = disk.list_directory(DIRECTORY)
    await log.close()
    assert disk.list_directory(DIRECTORY) == before, "no checkpoint is written on an error path"
    log = await reopen(disk)
    assert await values(log) == ["a"]
    await log.close()


async def test_whoever_staged_hears_of_a_flush_that_failed_inside_a_roll(disk: FaultyDisk) -> None:
    log = await create(disk)
    append(log, "a")
    stage(log, "lost")
    disk.fail_append = (10, DiskFull)
    with pytest.raises(DiskFull):
        await log.roll(NOW_MS)
    stage(log, "lost too")
    with pytest.raises(DiskFull):
        log.flush()
    append(log, "b")
    assert await values(log) == ["a", "b"]
    await log.close()


async def test_whoever_staged_hears_of_it_although_two_others_flushed_early(
    disk: FaultyDisk,
) -> None:
    log = await create(disk)
    stage(log, "lost")
    disk.fail_append = (10, DiskFull)
    for _ in range(2):  # a roll and a checkpoint, before the turn is settled
        with pytest.raises(DiskFull):
            log.flush_early()
    with pytest.raises(DiskFull):
        log.flush()
    assert log.log_end_offset == log.written_end_offset == 0
    log.flush()  # told once
    await log.close(is_clean=False)


async def test_a_full_disk_that_cannot_be_cut_back_takes_the_log_offline(disk: FaultyDisk) -> None:
    log = await create(disk)
    stage(log, "lost")
    disk.fail_append = (70, DiskFull)
    disk.fail_truncate = True
    with pytest.raises(DiskFull):
        log.flush()
    assert refusal_of(stage, log, "b") == ErrorCode.KAFKA_STORAGE_ERROR
    disk.fail_truncate = False
    await log.close()
    log = await reopen(disk)
    assert await values(log) == []
    await log.close()


async def test_log_append_time_replaces_the_clients_timestamps(disk: FaultyDisk) -> None:
    log = await create(disk, LogConfig(message_timestamp_type=LOG_APPEND_TIME))
    assert append(log, "a", timestamp_ms=5).log_append_time_ms == NOW_MS
    result = log.read(0, 10_000, FOREVER, at_least_one=True)
    assert result is not None
    assert is_intact(result.records)
    assert is_log_append_time(read_header(result.records).attributes)
    assert [record.timestamp for record in await read_from(log, 0)] == [NOW_MS]
    await log.close()


async def test_a_client_may_not_claim_log_append_time(disk: FaultyDisk) -> None:
    log = await create(disk)
    assert refusal_of(stage, log, "a", attributes=8) == ErrorCode.INVALID_TIMESTAMP
    await log.close()


async def test_settings_change_live(disk: FaultyDisk) -> None:
    log = await create(disk, LogConfig(max_message_bytes=80))
    assert refusal_of(stage, log, "x" * 100) == ErrorCode.MESSAGE_TOO_LARGE
    log.configure(LogConfig())
    append(log, "x" * 100)
    await log.close()


async def test_a_directory_of_another_topic_id_is_not_taken_over(disk: FaultyDisk) -> None:
    await (await create(disk)).close()
    with pytest.raises(DiskFault, match="another orders: move it away"):
        await type(await reopen(disk)).create(
            disk,
            DIRECTORY,
            topic_id=bytes(reversed(TOPIC_ID)),
            partition=0,
            topic="orders",
            config=LogConfig(),
            now_wall_ms=NOW_MS,
        )


async def test_leader_epochs_answer_where_they_end(disk: FaultyDisk) -> None:
    log = await create(disk)
    append(log, "a", epoch=1)
    append(log, "b", epoch=4)
    append(log, "c", epoch=4)
    for _ in range(2):
        assert log.end_offset_for_epoch(0) == (-1, -1)
        assert log.end_offset_for_epoch(1) == (1, 1)
        assert log.end_offset_for_epoch(3) == (1, 1)
        assert log.end_offset_for_epoch(4) == (4, 3)
        assert log.end_offset_for_epoch(5) == (-1, -1)
        await log.close()
        log = await reopen(disk)
    await log.close()


async def test_a_roll_lets_appends_go_on(disk: FaultyDisk) -> None:
    log = await create(disk)
    await append_rolling(log, 60)
    assert len(log.segments) > 3
    rolling = asyncio.create_task(log.roll(NOW_MS))
    await asyncio.sleep(0)
    append(log, "v60")
    stage(log, "v61")
    await rolling
    append(log, "v62")
    assert log.active.base_offset == 62
    assert await values(log) == numbers(63)
    await log.close()


async def test_a_full_disk_during_the_roll_keeps_the_old_segment(disk: FaultyDisk) -> None:
    log = await create(disk)
    append(log, "a" * 1000)
    assert log.needs_roll
    disk.fail_create = DiskFull
    with pytest.raises(DiskFull):
        await log.roll(NOW_MS)
    assert not log.needs_roll, "the next attempt waits a moment"
    append(log, "b")
    disk.fail_create = None
    append(log, "c", now_ms=NOW_MS + 2000)
    assert log.needs_roll
    await log.roll(NOW_MS + 2000)
    assert len(log.segments) == 2
    assert await values(log) == ["a" * 1000, "b", "c"]
    await log.close()


@pytest.mark.parametrize("name", ["next.log", "00000000000000000001.log"])
@pytest.mark.parametrize("content", [b"", b"what somebody left"])
async def test_a_file_in_the_next_segments_place_does_not_stop_the_roll(
    disk: FaultyDisk, name: str, content: bytes
) -> None:
    """KAFKA-6388."""
    log = await create(disk)
    append(log, "a")
    await disk.replace_file(f"{DIRECTORY}/{name}", content)
    await log.roll(NOW_MS)
    append(log, "b")
    assert await values(log) == ["a", "b"]
    await log.close()
    log = await reopen(disk)
    assert await values(log) == ["a", "b"]
    kept = [name for name in disk.list_directory(DIRECTORY) if name.endswith(".damaged")]
    assert not content or disk.read_file(f"{DIRECTORY}/{kept[0]}") == content
    await log.close()


async def test_client_timestamps_do_not_roll_segments(disk: FaultyDisk) -> None:
    log = await create(disk, LogConfig(segment_ms=60_000))
    for number in range(300):
        timestamp = (NOW_MS, NOW_MS - 10 * 365 * 86_400_000, 0)[number % 3]
        append(log, "x", now_ms=NOW_MS + number * 100, timestamp_ms=timestamp)
        if log.needs_roll:
            await log.roll(NOW_MS + number * 100)
    assert len(log.segments) == 1
    append(log, "x", now_ms=NOW_MS + 60_000)
    assert log.needs_roll
    await log.close()


async def test_offsets_far_apart_force_a_roll_and_stay_findable(disk: FaultyDisk) -> None:
    log = await create(disk, LogConfig(index_interval_bytes=1))
    starts = []
    for _ in range(130):
        batch = build_batch([(b"k", b"v")], timestamp_ms=NOW_MS, compression="gzip")
        batch[57:61] = (38_000_000).to_bytes(4, "big")
        batch[23:27] = (38_000_000 - 1).to_bytes(4, "big")
        seal(batch)
        starts.append(log.stage(memoryview(batch), leader_epoch=0, now_wall_ms=NOW_MS).base_offset)
        log.flush()
    assert starts[-1] > 2**32
    assert log.needs_roll
    for start in starts:
        result = await log.read_cold(start + 5, 1, FOREVER, at_least_one=True)
        assert read_header(result.records).base_offset == start
    await log.roll(NOW_MS)
    append(log, "after")
    await log.close()
    log = await reopen(disk)
    assert [r.value for r in await read_from(log, starts[-1] + 38_000_000)] == [b"after"]
    await log.close()
