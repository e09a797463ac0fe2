"""Offsets by time while others exchange or close the segments that are looked through."""

from __future__ import annotations

from dataclasses import replace

import pytest

from broker.log.partition_log import PartitionLog
from tests.log.test_cleaner import CONFIG, WORKER
from tests.log.world import FOREVER, NOW_MS, FaultyDisk, append_keyed, create

TALL = replace(CONFIG, segment_bytes=2000, message_timestamp_after_max_ms=FOREVER)


async def filled(disk: FaultyDisk) -> PartitionLog:
    """A log of small closed segments, one key a record, a millisecond between them."""
    log = await create(disk, replace(TALL, segment_bytes=300))
    for number in range(40):
        append_keyed(log, (f"k{number}", "v".ljust(40, ".")), now_ms=NOW_MS + number)
        if log.needs_roll:
            await log.roll(NOW_MS)
    log.configure(TALL)
    assert len(log.segments) > 8
    return log


def clean_at_the_first_read(
    disk: FaultyDisk, log: PartitionLog, monkeypatch: pytest.MonkeyPatch
) -> list[bool]:
    """Let a whole cleaning pass while the first cold read waits for the device."""
    began: list[bool] = []
    let_syncs_pass = disk.let_syncs_pass

    async def clean_first() -> None:
        if not began:
            began.append(True)
            assert (await log.clean(WORKER, NOW_MS + 100)).is_changed
        await let_syncs_pass()

    monkeypatch.setattr(disk, "let_syncs_pass", clean_first)
    return began


@pytest.mark.parametrize("number", [0, 3, 9, 20])
async def test_a_time_is_found_in_a_segment_that_is_replaced_meanwhile(
    disk: FaultyDisk, monkeypatch: pytest.MonkeyPatch, number: int
) -> None:
    log = await filled(disk)
    began = clean_at_the_first_read(disk, log, monkeypatch)
    found = await log.offset_for_timestamp(NOW_MS + number, FOREVER)
    assert began
    assert found is not None
    assert found.offset == number, "too late an offset would lose records"
    assert not log.damage
    await log.close()


@pytest.mark.parametrize("end", [1, 4, 10, 21])
async def test_the_greatest_time_is_found_in_a_segment_that_is_replaced_meanwhile(
    disk: FaultyDisk, monkeypatch: pytest.MonkeyPatch, end: int
) -> None:
    log = await filled(disk)
    began = clean_at_the_first_read(disk, log, monkeypatch)
    found = await log.max_timestamp(end)
    assert began
    assert found is not None
    assert found.offset == end - 1
    assert not log.damage
    await log.close()


async def test_readers_of_other_segments_may_close_the_one_that_is_looked_through(
    disk: FaultyDisk, monkeypatch: pytest.MonkeyPatch
) -> None:
    log = await filled(disk)
    let_syncs_pass = disk.let_syncs_pass

    async def read_others() -> None:
        for segment in log.segments[:3]:
            log.open_segments.touch(segment)
        await let_syncs_pass()

    monkeypatch.setattr(disk, "let_syncs_pass", read_others)
    for number in range(log.active.base_offset):
        found = await log.max_timestamp(number + 1)
        assert found is not None
        assert found.offset == number
        found = await log.offset_for_timestamp(NOW_MS + number, FOREVER)
        assert found is not None
        assert found.offset == number
    await log.close()
