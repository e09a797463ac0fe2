"""The boundary of what was appended at or before a time: equal to brute force, cheap to go on from,
and never stopped by damage.
"""

from __future__ import annotations

import asyncio
import tempfile
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from broker.log.config import CREATE_TIME, LOG_APPEND_TIME, LogConfig
from broker.log.partition_log import PartitionLog
from broker.log.window import SLICE_BYTES, Boundary
from broker.runtime.disk import SystemDisk
from tests.log.world import FOREVER, NOW_MS, FaultyDisk, append, create, reopen

CONFIG = LogConfig(
    segment_bytes=600, index_interval_bytes=150, message_timestamp_type=LOG_APPEND_TIME
)
BIG = LogConfig(index_interval_bytes=4096, message_timestamp_type=LOG_APPEND_TIME)

steps = st.tuples(st.integers(-15, 30), st.integers(1, 3))
"""How the clock moves before a batch, and how many records the batch has."""


async def fill(log: PartitionLog, moves: list[tuple[int, int]]) -> list[tuple[int, int]]:
    """(next offset, append time) of every batch."""
    now_ms, batches = NOW_MS, []
    for move_ms, count in moves:
        now_ms += move_ms
        result = append(log, *["v"] * count, now_ms=now_ms)
        batches.append((result.last_offset + 1, now_ms))
        if log.needs_roll:
            await log.roll(now_ms)
    return batches


def expected(batches: list[tuple[int, int]], until_ms: int, start: int, limit: int) -> int:
    """The end of the prefix, looked at batch by batch."""
    offset = start
    for next_offset, time_ms in batches:
        if next_offset <= offset:
            continue
        if time_ms > until_ms or next_offset > limit:
            break
        offset = next_offset
    return offset


async def settle(boundary: Boundary, log: PartitionLog, until_ms: int, limit: int = FOREVER) -> int:
    """The boundary's offset once it has gone as far as it can."""
    for _ in range(1_000):
        if boundary.advance(log, limit, until_ms):
            return boundary.offset
        if await boundary.advance_cold(log, limit, until_ms):
            return boundary.offset
    raise AssertionError("the boundary does not come to an end")


@given(
    moves=st.lists(steps, min_size=1, max_size=40),
    times=st.lists(st.integers(-20, 400), min_size=1, max_size=6),
    is_reopened=st.booleans(),
    is_killed=st.booleans(),
    first=st.integers(0, 10),
    late=st.lists(steps, max_size=5),
)
@settings(max_examples=60, deadline=None)
def test_the_boundary_equals_brute_force(
    moves: list[tuple[int, int]],
    times: list[int],
    is_reopened: bool,
    is_killed: bool,
    first: int,
    late: list[tuple[int, int]],
) -> None:
    """Also when the clock steps back, the log rolls or is recovered, and records come later."""

    async def check() -> None:
        with tempfile.TemporaryDirectory() as directory:
            disk = SystemDisk(Path(directory))
            log = await create(disk, CONFIG)
            batches = await fill(log, moves)
            if is_reopened:
                await log.close()
                if is_killed:
                    lose_indexes(Path(directory))
                log = await reopen(disk, CONFIG, now_ms=batches[-1][1])
            boundary = Boundary(min(first, log.log_end_offset))
            found = boundary.offset
            for place, time in enumerate(times):
                if place == 1:
                    start_ms, end = batches[-1][1] - NOW_MS, log.log_end_offset
                    added = await fill(log, [(start_ms + 5, 1), *late])
                    assert log.log_end_offset > end
                    batches += added
                found = expected(batches, NOW_MS + time, found, log.log_end_offset)
                assert await settle(boundary, log, NOW_MS + time) == found
            await log.close()
            disk.close()

    asyncio.run(check())


def lose_indexes(directory: Path) -> None:
    """As a crash may leave a log: the next start builds them again, without append times."""
    for path in directory.rglob("*idx"):
        path.unlink()
    for path in directory.rglob("*.snapshot"):
        path.unlink()


async def test_it_stops_at_the_limit(disk: FaultyDisk) -> None:
    log = await create(disk, CONFIG)
    await fill(log, [(1, 1)] * 9)
    boundary = Boundary(0)
    assert await settle(boundary, log, NOW_MS + 100, limit=4) == 4
    assert await settle(boundary, log, NOW_MS + 100, limit=7) == 7
    assert await settle(boundary, log, NOW_MS + 100) == 9
    await log.close()


async def test_what_is_passed_is_counted_in_bytes(disk: FaultyDisk) -> None:
    log = await create(disk, BIG)
    await fill(log, [(1, 2)] * 500)
    boundary = Boundary(0)
    await settle(boundary, log, NOW_MS + 100)
    half, boundary.passed_bytes = boundary.passed_bytes, 0
    await settle(boundary, log, NOW_MS + 1_000)
    assert half == log.log_size() // 5
    assert half + boundary.passed_bytes == log.log_size()
    await log.close()


async def test_going_on_reads_little_of_a_long_log(disk: FaultyDisk) -> None:
    """Ten thousand batches wait; to pass one more costs one slice, and to ask in vain nothing."""
    log = await create(disk, BIG)
    await fill(log, [(1, 1)] * 10_000)
    boundary = Boundary(0)
    disk.read_count = 0
    assert await settle(boundary, log, NOW_MS + 9_000) == 9_000
    reads = disk.read_count
    assert reads <= log.index_interval_bytes // SLICE_BYTES + 1  # the index led there
    assert await settle(boundary, log, NOW_MS + 9_000) == 9_000
    assert disk.read_count == reads
    for time in range(9_001, 9_101):
        assert await settle(boundary, log, NOW_MS + time) == time
    assert disk.read_count == reads + 100
    await log.close()


async def test_one_step_looks_at_a_bounded_part(disk: FaultyDisk) -> None:
    """An index that leads nowhere leaves a walk over headers, and others get the loop meanwhile."""
    log = await create(disk, LogConfig(index_interval_bytes=1 << 30))
    log.configure(LogConfig(index_interval_bytes=1 << 30, message_timestamp_type=LOG_APPEND_TIME))
    await fill(log, [(0, 1)] * 5_000)
    assert log.log_size() > 10 * SLICE_BYTES
    boundary = Boundary(0)
    assert not boundary.advance(log, FOREVER, NOW_MS)
    assert 0 < boundary.offset < 2_000
    assert await settle(boundary, log, NOW_MS) == 5_000
    await log.close()


async def test_cold_headers_are_awaited(disk: FaultyDisk) -> None:
    log = await create(disk, BIG)
    await fill(log, [(1, 1)] * 10)
    disk.is_cold = True
    boundary = Boundary(0)
    assert not boundary.advance(log, FOREVER, NOW_MS + 4)
    assert boundary.offset == 0
    assert await boundary.advance_cold(log, FOREVER, NOW_MS + 4)
    assert boundary.offset == 4
    assert boundary.next_time == NOW_MS + 5
    await log.close()


async def test_batches_from_before_log_append_time_count_as_old_as_the_index_says(
    disk: FaultyDisk,
) -> None:
    """Whatever their producers claimed."""
    log = await create(disk, LogConfig(message_timestamp_type=CREATE_TIME))
    append(log, "old", now_ms=NOW_MS, timestamp_ms=NOW_MS + 3_000_000)
    append(log, "old", now_ms=NOW_MS + 5, timestamp_ms=1)
    log.configure(BIG)
    append(log, "new", now_ms=NOW_MS + 10)
    assert await settle(Boundary(0), log, NOW_MS - 1) == 0
    assert await settle(Boundary(0), log, NOW_MS + 9) == 0
    assert await settle(Boundary(0), log, NOW_MS + 10) == 3
    await log.close()


@pytest.mark.parametrize("position", [0, 8, 11, 16, 23, 26, 35, 40])
async def test_damage_stops_nothing_behind_it(disk: FaultyDisk, position: int) -> None:
    """A flipped bit in a header (offset, length, magic, count, time) may not hide what follows."""
    log = await create(
        disk,
        LogConfig(
            CONFIG.segment_bytes * 100,
            index_interval_bytes=150,
            message_timestamp_type=LOG_APPEND_TIME,
        ),
    )
    await fill(log, [(1, 1)] * 50)
    index = log.active.index
    assert index is not None
    place = index.positions[3]
    with Path(disk.root, log.active.path()).open("r+b") as file:
        file.seek(place + position)
        byte = file.read(1)[0]
        file.seek(place + position)
        file.write(bytes([byte ^ 0x40]))
    boundary = Boundary(0)
    assert await settle(boundary, log, NOW_MS + 5) == 5
    first_bad = index.base_offset + index.relative_offsets[3]
    end_bad = index.base_offset + index.relative_offsets[4]
    offset = await settle(boundary, log, NOW_MS + first_bad + 1)
    assert first_bad <= offset <= end_bad
    assert await settle(boundary, log, NOW_MS + 40) == 40
    assert await settle(boundary, log, NOW_MS + 1_000) == 50
    await log.close()


async def test_records_that_are_gone_are_passed(disk: FaultyDisk) -> None:
    log = await create(disk, CONFIG)
    await fill(log, [(1, 1)] * 40)
    boundary = Boundary(0)
    assert await settle(boundary, log, NOW_MS + 2) == 2
    await log.advance_log_start(30)
    await log.apply_retention(NOW_MS + 50)
    assert log.segments[0].base_offset > 2
    assert await settle(boundary, log, NOW_MS + 2) == 30
    assert await settle(boundary, log, NOW_MS + 35) == 35
    await log.close()
