"""Bugs that other brokers had in their recovery, each with its reference."""

from __future__ import annotations

from dataclasses import replace
from random import Random

import pytest

from broker.log.config import LogConfig
from broker.log.partition_log import PartitionLog
from broker.model import INT32_MAX
from broker.records.batch import read_header, seal
from broker.records.build import build_batch
from broker.simulator.disk import DiskImage, SimulatedDisk
from broker.simulator.faults import Kept, PowerCut
from broker.simulator.loop import SimulatedLoop
from tests.log.world import (
    DIRECTORY,
    FOREVER,
    NOW_MS,
    SMALL,
    TOPIC_ID,
    FaultyDisk,
    append,
    append_rolling,
    create,
    numbers,
    read_from,
    reopen,
    values,
)

GAP = 38_000_000
"""Offsets of one batch: 57 of them are more than 31 bits hold, 114 more than 32."""


@pytest.mark.parametrize("segment_bytes", [400, 1 << 20])
def test_what_was_read_after_a_recovery_survives_the_power_cut_after_it(segment_bytes: int) -> None:
    """KAFKA-10101: the recovered part was served before it was synced."""
    loop = SimulatedLoop(Random(1))
    image = DiskImage(Random(2))
    config = replace(SMALL, segment_bytes=segment_bytes)

    async def main() -> None:
        disk = SimulatedDisk(loop, loop.harness, image)
        log = await PartitionLog.create(
            disk,
            DIRECTORY,
            topic_id=TOPIC_ID,
            partition=0,
            topic="t",
            config=config,
            now_wall_ms=NOW_MS,
        )
        await append_rolling(log, 20)
        append(log, "v20", "v21")
        # a kill: everything is in the page cache, the last segment nowhere else
        log = await PartitionLog.open(disk, DIRECTORY, config, NOW_MS)
        served = await values(log)
        assert served == numbers(22)
        for lost_names in (1.0, 0.0):
            image.cut_power(PowerCut(lost_names, Kept.NOTHING))
            log = await PartitionLog.open(disk, DIRECTORY, config, NOW_MS)
            assert await values(log) == served

    try:
        loop.run_until_complete(main())
    finally:
        loop.end()


@pytest.mark.parametrize("suffix", ["timeidx", "idx"])
@pytest.mark.parametrize("is_clean", [True, False])
async def test_zeros_in_an_index_file_make_retention_delete_nothing_that_is_fresh(
    disk: FaultyDisk, suffix: str, *, is_clean: bool
) -> None:
    """KAFKA-10207: a preallocated time index, padded with zeros, was read as timestamp 0."""
    config = replace(SMALL, retention_ms=60_000)
    log = await create(disk, config)
    await append_rolling(log, 30)
    if is_clean:
        await log.close()
    for path in (disk.root / DIRECTORY).glob(f"*.{suffix}"):
        content = path.read_bytes()
        for size in range(0, len(content) + 64, 8):
            path.write_bytes(content[:size] + bytes(max(0, len(content) + 64 - size)))
            log = await reopen(disk, config, now_ms=NOW_MS + 1_000)
            assert await log.apply_retention(NOW_MS + 2_000) == 0, (path.name, size)
    assert await values(log) == numbers(30)
    assert await log.apply_retention(NOW_MS + 120_000) > 0, "what is old goes all the same"
    await log.close()


def wide_batch(value: str) -> memoryview:
    """One record, in a batch whose header spans GAP offsets, as a compacted one does."""
    batch = build_batch([(b"k", value.encode())], timestamp_ms=NOW_MS, compression="gzip")
    batch[57:61] = GAP.to_bytes(4, "big")
    batch[23:27] = (GAP - 1).to_bytes(4, "big")
    seal(batch)
    return memoryview(batch)


@pytest.mark.parametrize("is_clean", [True, False])
async def test_gaps_beyond_31_bits_roll_and_every_offset_is_found(
    disk: FaultyDisk, *, is_clean: bool
) -> None:
    """KAFKA-6264, KAFKA-4451: relative offsets overflowed in sparse segments."""
    config = LogConfig(index_interval_bytes=1)
    log = await create(disk, config)
    starts = []
    for number in range(200):
        result = log.stage(wide_batch(f"v{number}"), leader_epoch=0, now_wall_ms=NOW_MS + number)
        log.flush()
        starts.append(result.base_offset)
        if log.needs_roll:
            await log.roll(NOW_MS)
    end = log.log_end_offset
    assert end > 3 * INT32_MAX
    assert len(log.segments) >= 4
    for segment, following in zip(log.segments, log.segments[1:], strict=False):
        assert following.base_offset - segment.base_offset <= INT32_MAX + GAP
    if is_clean:
        await log.close()
    for path in sorted((disk.root / DIRECTORY).glob("*idx"))[::2]:
        path.unlink()
    log = await reopen(disk, config)
    assert log.log_end_offset == end
    for start in reversed(starts):
        read = await log.read_cold(start + GAP // 2, 1, FOREVER, at_least_one=True)
        assert read_header(read.records).base_offset == start
        assert read.next_offset == start + GAP
    found = await log.max_timestamp(FOREVER)
    assert found is not None
    assert append(log, "after").base_offset == end
    assert [record.value for record in await read_from(log, end)] == [b"after"]
    assert log.damage == []
    await log.close()
