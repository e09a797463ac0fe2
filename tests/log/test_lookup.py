"""Offsets by time: equal to brute force, whatever the order of timestamps and the codec."""

from __future__ import annotations

import asyncio
import tempfile
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from broker.log.config import CREATE_TIME, LOG_APPEND_TIME, LogConfig
from broker.records.build import NewRecord, build_batch
from broker.runtime.disk import SystemDisk
from tests.log.world import (
    FOREVER,
    NOW_MS,
    FaultyDisk,
    FaultyFile,
    InlineWorker,
    append,
    create,
    read_from,
    reopen,
)

CONFIG = LogConfig(
    segment_bytes=400, index_interval_bytes=90, message_timestamp_after_max_ms=FOREVER
)
CODECS = ("none", "gzip", "snappy", "lz4", "zstd")

timestamps = st.integers(0, 40)
some_batches = st.lists(
    st.tuples(st.lists(timestamps, min_size=1, max_size=5), st.sampled_from(CODECS)),
    min_size=1,
    max_size=25,
)


@example(
    batches=[([0], "none"), ([0, 1], "none")], targets=[0], is_reopened=False, end=2
)  # `end` lies inside a batch that promises more than what may be read has
@given(
    batches=some_batches,
    targets=st.lists(timestamps, min_size=1, max_size=8),
    is_reopened=st.booleans(),
    end=st.integers(0, 60),
)
@settings(max_examples=30, deadline=None)
def test_lookups_equal_brute_force(
    batches: list[tuple[list[int], str]], targets: list[int], is_reopened: bool, end: int
) -> None:
    """KAFKA-16342, KAFKA-16310: times out of order inside batches, compressed or not."""

    async def check() -> None:
        with tempfile.TemporaryDirectory() as directory:
            disk = SystemDisk(Path(directory))
            log = await create(disk, CONFIG)
            for times, codec in batches:
                records = [NewRecord(b"k", b"v", (), time) for time in times]
                batch = build_batch(records, timestamp_ms=0, compression=codec)
                log.stage(memoryview(batch), leader_epoch=3, now_wall_ms=NOW_MS)
                log.flush()
                if log.needs_roll:
                    await log.roll(NOW_MS)
            if is_reopened:
                await log.close()
                log = await reopen(disk, CONFIG)
            records = [r for r in await read_from(log, 0) if r.offset < end]
            for target in targets:
                wanted = next(
                    ((r.offset, r.timestamp, 3) for r in records if r.timestamp >= target), None
                )
                for worker in (None, InlineWorker()):
                    assert await log.offset_for_timestamp(target, end, worker) == wanted
            latest = max((r.timestamp for r in records), default=None)
            wanted = next(
                ((r.offset, r.timestamp, 3) for r in records if r.timestamp == latest), None
            )
            assert await log.max_timestamp(end) == wanted
            await log.close()
            disk.close()

    asyncio.run(check())


async def test_records_below_the_log_start_are_not_found(disk: FaultyDisk) -> None:
    log = await create(disk, CONFIG)
    append(log, "a", "b", "c", timestamp_ms=5)
    append(log, "d", timestamp_ms=6)
    await log.advance_log_start(2)
    found = await log.offset_for_timestamp(0, FOREVER)
    assert found is not None
    assert found.offset == 2
    await log.close()


async def test_log_append_time_counts_for_every_record(disk: FaultyDisk) -> None:
    log = await create(disk, LogConfig(message_timestamp_type=LOG_APPEND_TIME))
    append(log, "a", "b", now_ms=NOW_MS, timestamp_ms=1)
    append(log, "c", now_ms=NOW_MS + 5, timestamp_ms=2)
    assert await log.offset_for_timestamp(NOW_MS, FOREVER) == (0, NOW_MS, 0)
    assert await log.offset_for_timestamp(NOW_MS + 1, FOREVER) == (2, NOW_MS + 5, 0)
    assert await log.offset_for_timestamp(NOW_MS + 6, FOREVER) is None
    assert await log.max_timestamp(FOREVER) == (2, NOW_MS + 5, 0)
    await log.close()


async def test_an_empty_log_has_no_times(disk: FaultyDisk) -> None:
    log = await create(disk, CONFIG)
    assert await log.offset_for_timestamp(0, FOREVER) is None
    assert await log.max_timestamp(FOREVER) is None
    await log.close()


@pytest.mark.parametrize("codec", [1, 2, 3, 4])
async def test_a_batch_that_cannot_be_opened_answers_with_its_first_offset(
    disk: FaultyDisk, codec: int
) -> None:
    log = await create(disk, CONFIG)
    append(log, "a", timestamp_ms=1)
    append(log, "junk", "more", timestamp_ms=9, attributes=codec)  # says compressed, is not
    found = await log.offset_for_timestamp(5, FOREVER)
    assert found is not None
    assert found[:2] == (1, 9)
    await log.close()


class CountedDisk(FaultyDisk):
    """Counts reads off the loop."""

    cold_read_count = 0

    def open(self, path: str) -> CountedFile:
        file = super().open(path)
        file.__class__ = CountedFile
        return file  # type: ignore[return-value]


class CountedFile(FaultyFile):
    async def read_cold(self, position: int, size: int) -> bytes:
        self._disk.cold_read_count += 1  # type: ignore[attr-defined]
        return await super().read_cold(position, size)


@given(
    batches=st.lists(
        st.tuples(
            st.lists(st.tuples(st.sampled_from("abcd"), timestamps), min_size=1, max_size=5),
            st.sampled_from(CODECS),
            st.booleans(),
        ),
        min_size=3,
        max_size=25,
    ),
    start=st.integers(0, 30),
    window=st.integers(0, 40),
    length=st.integers(0, 60),
    is_compacted=st.booleans(),
)
@settings(max_examples=40, deadline=None)
def test_lookups_equal_brute_force_in_windows_after_compaction_with_both_kinds_of_time(
    batches: list[tuple[list[tuple[str, int]], str, bool]],
    start: int,
    window: int,
    length: int,
    is_compacted: bool,
) -> None:
    async def check() -> None:
        with tempfile.TemporaryDirectory() as directory:
            disk = SystemDisk(Path(directory))
            config = replace(CONFIG, cleanup_policy=frozenset({"compact"}), segment_bytes=300)
            log = await create(disk, config)
            for number, (records, codec, is_stamped) in enumerate(batches):
                kind = LOG_APPEND_TIME if is_stamped else CREATE_TIME
                log.configure(replace(config, message_timestamp_type=kind))
                new = [NewRecord(key.encode(), b"v" * 30, (), time) for key, time in records]
                batch = build_batch(new, timestamp_ms=0, compression=codec)
                log.stage(memoryview(batch), leader_epoch=3, now_wall_ms=number * 2)
                log.flush()
                if log.needs_roll:
                    await log.roll(NOW_MS)
            if is_compacted:
                await log.clean(InlineWorker(), NOW_MS)
            await log.advance_log_start(min(start, log.log_end_offset))
            end = window + length
            found = [
                (record.offset, record.timestamp, 3)
                for record in await read_from(log, log.log_start_offset)
                if window <= record.offset < end
            ]
            for target in range(-1, 52):
                wanted = next((each for each in found if each[1] >= target), None)
                assert await log.offset_for_timestamp(target, end, None, window) == wanted
            latest = max((timestamp for _, timestamp, _ in found), default=None)
            wanted = next((each for each in found if each[1] == latest), None)
            assert await log.max_timestamp(end, None, window) == wanted
            await log.close()
            disk.close()

    asyncio.run(check())


@pytest.mark.parametrize("is_rising", [True, False])
async def test_the_index_narrows_a_lookup_to_a_few_reads(tmp_path: Path, is_rising: bool) -> None:
    disk = CountedDisk(tmp_path)
    config = replace(CONFIG, segment_bytes=20_000, index_interval_bytes=1000)
    log = await create(disk, config)
    count = 4000
    for number in range(count):
        time = number if is_rising else number * 7919 % count
        append(log, f"v{number}", timestamp_ms=time)
        if log.needs_roll:
            await log.roll(NOW_MS)
    assert len(log.segments) > 10
    for end in (FOREVER, count - 3):
        for target in (0, 1, count // 2, count - 5):
            disk.cold_read_count = 0
            assert await log.offset_for_timestamp(target, end) is not None
            assert disk.cold_read_count <= 3, "a slice of headers and a batch"
        disk.cold_read_count = 0
        found = await log.max_timestamp(end)
        assert found is not None
        assert found.timestamp >= count - 4
        assert disk.cold_read_count <= 6, "the last slice, the promised batch, the batch"
    await log.close()
    disk.close()


async def test_others_have_the_loop_while_many_segments_are_looked_through(
    disk: FaultyDisk,
) -> None:
    log = await create(disk, CONFIG)
    for number in range(300):
        append(log, f"v{number}", timestamp_ms=number)
        await log.roll(NOW_MS)
    await log.close()
    log = await reopen(disk, CONFIG)
    turns = 0

    async def count_turns() -> None:
        nonlocal turns
        while True:
            turns += 1
            await asyncio.sleep(0)

    counting = asyncio.ensure_future(count_turns())
    assert await log.offset_for_timestamp(1_000_000, FOREVER) is None
    assert turns >= 300, "one index, then others"
    counting.cancel()
    began = turns
    assert await log.offset_for_timestamp(1_000_000, FOREVER) is None
    assert turns == began, "what is known of them once is known"
    await log.close()
