"""Offsets by time: equal to brute force, whatever the order of timestamps and the codec."""

from __future__ import annotations

import asyncio
import tempfile
from pathlib import Path

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from broker.log.config import LOG_APPEND_TIME, LogConfig
from broker.records.build import NewRecord, build_batch
from broker.runtime.disk import SystemDisk
from tests.log.world import (
    FOREVER,
    NOW_MS,
    FaultyDisk,
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
