"""Damage below what was synced: found, never served, and everything around it stays readable."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import replace
from pathlib import Path
from random import Random

import pytest

from broker.errors import ErrorCode, Refusal
from broker.log.config import LogConfig
from broker.log.damage import DamagedRange, decode_ranges, encode_ranges, merged
from broker.log.partition_log import PartitionLog
from broker.log.reading import ReadResult
from broker.log.survey import damaged_ranges
from broker.log.window import Boundary
from broker.records.batch import read_header
from broker.records.iterate import iterate_batches, iterate_records
from tests.log.world import (
    DIRECTORY,
    FOREVER,
    NOW_MS,
    SMALL,
    FaultyDisk,
    InlineWorker,
    append,
    append_keyed,
    append_rolling,
    create,
    numbers,
    reopen,
    values,
)

FIRST_LOG = f"{DIRECTORY}/{0:020d}.log"
WHOLE = LogConfig(index_interval_bytes=200)
COUNT = 8
LAST_OFFSET_DELTA = 23
"""Where a batch's header has it."""


async def consume(log: PartitionLog, max_bytes: int = 200) -> tuple[dict[int, str], list[int]]:
    """As a consumer that seeks on after each refusal: (values by offset, offsets refused)."""
    found: dict[int, str] = {}
    refused: list[int] = []
    offset = log.log_start_offset
    while offset < log.written_end_offset:
        read = await read_or_refusal(log, offset, max_bytes)
        if isinstance(read, Refusal):
            assert read.code == ErrorCode.CORRUPT_MESSAGE, read
            behind = next(r.end_offset for r in damaged_ranges(log) if r.end_offset > offset)
            assert read.message.endswith(f"seek to offset {behind} to go on")
            refused += range(offset, behind)
            offset = behind
            continue
        assert read.next_offset > offset
        for batch in iterate_batches(read.records):
            for record in iterate_records(batch):
                found[record.offset] = (record.value or b"").decode()
        offset = read.next_offset
    return found, refused


async def read_or_refusal(
    log: PartitionLog, offset: int, max_bytes: int = 200
) -> ReadResult | Refusal:
    try:
        read = log.read(offset, max_bytes, FOREVER, at_least_one=True)
        if read is None:
            read = await log.read_cold(offset, max_bytes, FOREVER, at_least_one=True)
    except Refusal as refusal:
        return refusal
    return read


def flip(path: Path, position: int, bit: int = 1) -> None:
    content = bytearray(path.read_bytes())
    content[position] ^= bit
    path.write_bytes(content)


async def test_a_flipped_bit_in_any_byte_costs_the_batch_that_it_is_in_and_no_other(
    disk: FaultyDisk,
) -> None:
    log = await create(disk, WHOLE)
    ends = [0]
    for number in range(COUNT):
        append(log, f"v{number}", epoch=number // 3)
        ends.append(log.log_size())
    await log.close()
    random = Random(1)
    path = disk.root / FIRST_LOG
    content = path.read_bytes()
    for position in range(ends[-1]):
        path.write_bytes(content)
        await disk.unlink(f"{DIRECTORY}/damaged-ranges")
        flip(path, position, 1 << random.randrange(8))
        log = await reopen(disk, WHOLE)
        found, refused = await consume(log)
        hit = next(number for number in range(COUNT) if position < ends[number + 1])
        assert refused == [hit], position
        assert found == {n: f"v{n}" for n in range(COUNT) if n != hit}, position
        assert [r[:4] for r in damaged_ranges(log)] == [(ends[hit], ends[hit + 1], hit, hit + 1)], (
            position
        )
        assert await consume(log) == (found, refused), "the same every time"
        await log.close()


@pytest.mark.parametrize("seed", range(12))
async def test_several_broken_places_of_a_log_of_many_segments_leave_the_rest_readable(
    disk: FaultyDisk, seed: int
) -> None:
    random = Random(seed)
    log = await create(disk)
    await append_rolling(log, 60)
    await log.close()
    for path in random.sample(sorted((disk.root / DIRECTORY).glob("*.log")), 3):
        size = path.stat().st_size
        for _ in range(random.randint(1, 2)):
            content = bytearray(path.read_bytes())
            begin = random.randrange(size)
            end = min(size, begin + random.choice((1, 30, 200)))
            content[begin:end] = random.choice((bytes(end - begin), random.randbytes(end - begin)))
            path.write_bytes(content)
    log = await reopen(disk)
    found, refused = await consume(log)
    assert sorted([*found, *refused]) == list(range(60))
    assert all(value == f"v{offset}" for offset, value in found.items())
    assert 1 <= len(refused) < 25
    assert append(log, "v60").base_offset == 60, "the log goes on"
    assert (await consume(log))[0] == {**found, 60: "v60"}
    damage = damaged_ranges(log)
    await log.close()
    log = await reopen(disk)
    assert damaged_ranges(log) == damage, "a restart knows of them"
    await log.close()
    await disk.unlink(f"{DIRECTORY}/damaged-ranges")
    log = await reopen(disk)
    assert await consume(log) == ({**found, 60: "v60"}, refused), "and finds them again"
    await log.close()


async def test_a_missing_segment_is_a_refusal_and_not_a_jump(disk: FaultyDisk) -> None:
    log = await create(disk)
    await append_rolling(log, 40)
    await log.close()
    gone, behind = log.segments[1].base_offset, log.segments[2].base_offset
    for suffix in ("log", "idx", "timeidx"):
        (disk.root / f"{DIRECTORY}/{gone:020d}.{suffix}").unlink()
    log = await reopen(disk)
    found, refused = await consume(log)
    assert refused == list(range(gone, behind))
    assert list(found) == [n for n in range(40) if not gone <= n < behind]
    await log.close()


async def test_what_the_device_gives_back_is_checked_also_without_a_restart(
    disk: FaultyDisk,
) -> None:
    log = await create(disk, WHOLE)
    for number in range(COUNT):
        append(log, f"v{number}")
    flip(disk.root / FIRST_LOG, log.log_size() // 2)
    disk.is_cold = True
    found, refused = await consume(log)
    assert len(refused) == 1
    disk.is_cold = False
    assert await consume(log) == (found, refused), "nor is it served from the cache afterwards"
    append(log, "v8")
    assert (await consume(log))[0][COUNT] == "v8"
    await log.close()


async def by_time(log: PartitionLog) -> None:
    assert await log.offset_for_timestamp(NOW_MS, FOREVER) == (0, NOW_MS, 0)


async def for_the_delivery_window(log: PartitionLog) -> None:
    assert await Boundary(0).advance_cold(log, FOREVER, NOW_MS)


@pytest.mark.parametrize("look", [by_time, for_the_delivery_window])
async def test_what_others_than_fetches_had_the_device_give_back_is_checked(
    disk: FaultyDisk, look: Callable[[PartitionLog], Awaitable[None]]
) -> None:
    log = await create(disk, WHOLE)
    for number in range(COUNT):
        append(log, f"v{number}")
    size = log.log_size()
    flip(disk.root / FIRST_LOG, size // 2)
    await look(log)
    found, refused = await consume(log)
    assert len(refused) == 1
    assert sorted([*found, *refused]) == list(range(COUNT))
    append(log, "v8")
    assert log.active.unchecked_below == size, "what is appended now is not in doubt"
    await log.close()


async def test_no_batch_of_a_compacted_log_is_passed_over_by_the_first_read_of_the_device(
    disk: FaultyDisk,
) -> None:
    """Its header decides whether it is what is looked for, and nobody would miss its offset."""
    log = await create(disk, replace(WHOLE, cleanup_policy=frozenset({"compact"})))
    for number in range(COUNT):
        append_keyed(log, (f"k{number % 6}", f"v{number}"))
    await log.roll(NOW_MS)
    assert (await log.clean(InlineWorker(), NOW_MS)).is_changed
    path = disk.root / log.segments[0].path()
    first, second = list(iterate_batches(path.read_bytes()))[:2]
    flip(path, len(first) + LAST_OFFSET_DELTA, 0x80)
    disk.is_cold = True
    refused = await read_or_refusal(log, read_header(second).base_offset)
    assert isinstance(refused, Refusal)
    assert refused.code == ErrorCode.CORRUPT_MESSAGE
    await log.close()


async def test_own_appends_are_read_without_a_check(disk: FaultyDisk) -> None:
    """What was checked when it arrived is in the page cache: the tail costs nothing."""
    log = await create(disk)
    await append_rolling(log, 30)
    assert {segment.unchecked_below for segment in log.segments} == {0}
    assert await values(log) == numbers(30)
    assert {segment.unchecked_below for segment in log.segments} == {0}
    await log.close()
    log = await reopen(disk)
    assert all(segment.unchecked_below >= segment.size for segment in log.segments)
    await log.close()


async def test_what_a_start_has_scanned_is_read_without_a_check_also_where_it_cut(
    disk: FaultyDisk,
) -> None:
    log = await create(disk, WHOLE)
    for number in range(COUNT):
        append(log, f"v{number}")
    await log.close(is_clean=False)
    with (disk.root / FIRST_LOG).open("ab") as file:
        file.write(b"torn" * 50)
    log = await reopen(disk, WHOLE)
    assert log.active.unchecked_below == 0
    assert await values(log) == numbers(COUNT)
    await log.close()


async def test_a_damaged_index_over_a_damaged_log_finds_what_lies_behind(disk: FaultyDisk) -> None:
    log = await create(disk)
    await append_rolling(log, 40)
    await log.close()
    path = disk.root / FIRST_LOG
    content = bytearray(path.read_bytes())
    content[100:180] = bytes(80)
    path.write_bytes(content)
    for index in (disk.root / DIRECTORY).glob("*idx"):
        index.unlink()
    log = await reopen(disk)
    found, refused = await consume(log)
    assert sorted([*found, *refused]) == list(range(40))
    assert 1 <= len(refused) <= 3
    found_by_time = await log.offset_for_timestamp(0, FOREVER)
    assert found_by_time is not None
    await log.close()


@pytest.mark.parametrize("seed", range(6))
async def test_offsets_by_time_leave_out_what_cannot_be_read(disk: FaultyDisk, seed: int) -> None:
    random = Random(seed)
    log = await create(disk)
    times = [NOW_MS + random.randrange(10_000) for _ in range(40)]
    for offset, timestamp_ms in enumerate(times):
        append(log, f"v{offset}", timestamp_ms=timestamp_ms)
        if log.needs_roll:
            await log.roll(NOW_MS)
    await log.close()
    paths = sorted((disk.root / DIRECTORY).glob("*.log"))
    for path in random.sample(paths, 2):
        flip(path, random.randrange(path.stat().st_size), 1 << random.randrange(8))
    asked = [NOW_MS, *random.sample(times, 12), NOW_MS + 10_000]
    log = await reopen(disk)
    answers = [await log.offset_for_timestamp(each, FOREVER) for each in asked]
    latest = await log.max_timestamp(FOREVER)
    _, refused = await consume(log)
    whole = [offset for offset in range(40) if offset not in refused]
    for _ in range(2):  # first as they were met, then as they are known
        for timestamp_ms, answer in zip(asked, answers, strict=True):
            first = next((offset for offset in whole if times[offset] >= timestamp_ms), None)
            assert (None if answer is None else answer.offset) in (first, *refused), timestamp_ms
        answers = [await log.offset_for_timestamp(each, FOREVER) for each in asked]
    assert latest is not None
    assert latest.timestamp >= max(times[offset] for offset in whole)
    await log.close()


async def test_without_snapshots_a_damaged_closed_segment_keeps_what_is_behind_the_damage(
    disk: FaultyDisk,
) -> None:
    log = await create(disk)
    await append_rolling(log, 40)
    await log.close()
    for snapshot in (disk.root / DIRECTORY).glob("*.snapshot"):
        snapshot.unlink()
    flip(disk.root / FIRST_LOG, 90)
    log = await reopen(disk)
    found, refused = await consume(log)
    assert refused == [1]
    assert list(found) == [n for n in range(40) if n != 1]
    await log.close()


async def test_ranges_are_forgotten_with_their_records(disk: FaultyDisk) -> None:
    log = await create(disk, replace(SMALL, retention_bytes=1_500))
    await append_rolling(log, 40)
    await log.close()
    flip(disk.root / FIRST_LOG, 90)
    log = await reopen(disk)
    await consume(log)
    assert len(damaged_ranges(log)) == 1
    await log.advance_log_start(2)
    assert damaged_ranges(log) == []
    await log.close()


def test_ranges_come_back_whole_or_not_at_all() -> None:
    rows = [
        (0, DamagedRange(1, 2, 3, 4, "a  reason\nof two lines")),
        (9, DamagedRange(0, 5, 9, 11, "x")),
    ]
    content = encode_ranges(rows)
    assert decode_ranges(content) == [
        (0, rows[0][1]._replace(reason="a reason of two lines")),
        rows[1],
    ]
    for position in range(len(content)):
        spoilt = bytearray(content)
        spoilt[position] ^= 1
        assert decode_ranges(bytes(spoilt)) in ([], decode_ranges(content)), position
        assert decode_ranges(content[:position]) == []


def test_ranges_that_touch_are_one() -> None:
    first, second = DamagedRange(0, 10, 0, 1, "a"), DamagedRange(10, 20, 1, 2, "b")
    assert merged(merged((), second), first) == (DamagedRange(0, 20, 0, 2, "a"),)
    apart = DamagedRange(30, 40, 3, 4, "c")
    assert merged((first,), apart) == (first, apart)
