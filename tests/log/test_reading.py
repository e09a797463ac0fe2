"""Reads: whole batches within the asked bytes and below the end, one disk read where possible."""

from __future__ import annotations

from dataclasses import replace

import pytest

from broker.errors import ErrorCode
from broker.log.config import LogConfig
from broker.log.partition_log import PartitionLog
from broker.records.batch import read_header
from broker.records.iterate import iterate_batches
from tests.log.world import (
    FOREVER,
    NOW_MS,
    FaultyDisk,
    append,
    append_rolling,
    create,
    numbers,
    refusal_of,
    reopen,
    values,
)

BIG = LogConfig(segment_bytes=1 << 26, index_interval_bytes=4096)


async def filled(disk: FaultyDisk, count: int = 200, size: int = 500) -> PartitionLog:
    """A log of `count` batches of three records."""
    log = await create(disk, BIG)
    for number in range(count):
        append(log, f"{number}".ljust(size, "."), "b", "c")
    return log


def bases(records: memoryview) -> list[int]:
    return [read_header(batch).base_offset for batch in iterate_batches(records)]


async def test_a_read_begins_with_the_batch_that_holds_the_offset(disk: FaultyDisk) -> None:
    log = await filled(disk)
    for offset in (0, 1, 2, 3, 299, 300, 301, 598, 599):
        result = log.read(offset, 1, FOREVER, at_least_one=True)
        assert result is not None
        assert bases(result.records) == [offset - offset % 3]
        assert result.next_offset == offset - offset % 3 + 3
    await log.close()


async def test_the_byte_limit_is_kept_and_one_batch_is_given_all_the_same(disk: FaultyDisk) -> None:
    log = await filled(disk)
    one = len(next(iterate_batches(log.read(0, 1, FOREVER, at_least_one=True).records)))  # type: ignore[union-attr]
    for limit in (0, 1, 60, one - 1, one, one + 1, 2 * one, 7 * one - 1, 20_000, 1 << 22):
        for offset in (0, 31, 302, 450):
            bare = log.read(offset, limit, FOREVER, at_least_one=False)
            least = log.read(offset, limit, FOREVER, at_least_one=True)
            assert bare is not None
            assert least is not None
            assert len(bare.records) <= limit
            assert least.records == bare.records or (
                not bare.records and len(bases(least.records)) == 1
            )
            if limit >= 2 * one:
                assert len(bare.records) > limit // 3 or bare.next_offset == 600
    await log.close()


async def test_nothing_at_or_beyond_the_end_offset_is_given(disk: FaultyDisk) -> None:
    log = await filled(disk)
    for end in (0, 1, 2, 3, 4, 299, 300, 302, 303, 600, 10_000):
        result = log.read(0, 1 << 22, end, at_least_one=True)
        assert result is not None
        assert result.next_offset <= end
        assert result.next_offset == min(end, 600) // 3 * 3 or len(result.records) > 50_000
    await log.close()


async def test_offsets_outside_the_log_are_out_of_range(disk: FaultyDisk) -> None:
    log = await filled(disk, 2)
    assert refusal_of(log.read, -1, 1, FOREVER, at_least_one=True) == ErrorCode.OFFSET_OUT_OF_RANGE
    assert refusal_of(log.read, 7, 1, FOREVER, at_least_one=True) == ErrorCode.OFFSET_OUT_OF_RANGE
    at_end = log.read(6, 1, FOREVER, at_least_one=True)
    assert at_end is not None
    assert (len(at_end.records), at_end.next_offset) == (0, 6)
    await log.close()


async def test_catching_up_and_tailing_take_one_disk_read_each(disk: FaultyDisk) -> None:
    log = await filled(disk, 2000)
    offset = 0
    while offset < log.log_end_offset:
        before = disk.read_count
        result = log.read(offset, 100_000, FOREVER, at_least_one=True)
        assert result is not None
        offset = result.next_offset
        assert disk.read_count == before + 1
    for number in range(20):
        append(log, f"tail {number}")
        before = disk.read_count
        result = log.read(offset, 100_000, FOREVER, at_least_one=True)
        assert result is not None
        assert disk.read_count == before + 1
        assert bases(result.records) == [offset]
        offset = result.next_offset
    await log.close()


async def test_a_batch_bigger_than_asked_takes_two(disk: FaultyDisk) -> None:
    log = await create(disk, BIG)
    append(log, "x" * 500_000)
    result = log.read(0, 1000, FOREVER, at_least_one=True)
    assert result is not None
    assert len(result.records) == log.log_size()
    assert disk.read_count == 2
    await log.close()


async def test_a_cold_disk_is_never_waited_for(disk: FaultyDisk) -> None:
    log = await filled(disk)
    disk.is_cold = True
    assert log.read(0, 1000, FOREVER, at_least_one=True) is None
    cold = await log.read_cold(0, 1000, FOREVER, at_least_one=True)
    disk.is_cold = False
    assert log.read(0, 1000, FOREVER, at_least_one=True) == cold
    await log.close()


async def test_many_readers_share_a_bounded_memory_of_places(disk: FaultyDisk) -> None:
    log = await filled(disk)
    for offset in range(600):
        assert log.read(offset, 600, FOREVER, at_least_one=True) is not None
    assert len(log.positions) <= 64
    assert log.read(0, 1 << 22, FOREVER, at_least_one=True).next_offset == 600  # type: ignore[union-attr]
    await log.close()


@pytest.mark.parametrize("interval", [1, 10_000])
async def test_closed_segments_are_read_through_their_index(
    disk: FaultyDisk, interval: int
) -> None:
    config = replace(BIG, segment_bytes=2000, index_interval_bytes=interval)
    log = await create(disk, config)
    await append_rolling(log, 150)
    assert await values(log) == numbers(150)
    await log.close()
    log = await reopen(disk, config)
    assert await values(log) == numbers(150)
    await log.close()


async def test_much_written_since_the_last_checkpoint_makes_one_due(
    disk: FaultyDisk, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("broker.log.checkpoint.CHECKPOINT_BYTES", 1000)
    log = await create(disk, BIG)
    append(log, "x" * 500)
    await log.apply_retention(NOW_MS)
    assert log.checkpoints.offset == 0
    append(log, "x" * 500)
    await log.apply_retention(NOW_MS)
    assert log.checkpoints.offset == 2
    await log.apply_retention(NOW_MS)
    append(log, "y")
    await log.apply_retention(NOW_MS)
    assert log.checkpoints.offset == 2
    await log.close()
