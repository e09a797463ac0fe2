"""Readers of a topic that is deleted under them: they are refused, and nobody is told of damage."""

from __future__ import annotations

import os
from contextlib import suppress

import pytest

from broker.errors import Refusal
from broker.log.partition_log import PartitionLog
from broker.log.scrub import scrub
from tests.log.world import (
    FOREVER,
    NOW_MS,
    SMALL,
    FaultyDisk,
    InlineWorker,
    append_rolling,
    create,
    reopen,
)


async def of_one_read_at_a_time(
    disk: FaultyDisk, monkeypatch: pytest.MonkeyPatch, number: int, *, is_cut: bool
) -> PartitionLog:
    """A log whose topic is deleted while cold read `number` waits for the device; `is_cut`: so far
    that its files are cut down.
    """
    log = await create(disk)
    await append_rolling(log, 60)
    await log.close()
    log = await reopen(disk)
    disk.is_cold = True
    let_syncs_pass, count = disk.let_syncs_pass, 0

    async def delete_first() -> None:
        nonlocal count
        count += 1
        if count == number:
            await log.close(is_clean=False)
            disk.rename(log.directory, "gone")
            for path in (disk.root / "gone").glob("*.log") if is_cut else ():
                os.truncate(path, path.stat().st_size // 2)
        await let_syncs_pass()

    monkeypatch.setattr(disk, "let_syncs_pass", delete_first)
    return log


@pytest.mark.parametrize("is_cut", [False, True])
@pytest.mark.parametrize(
    ("reader", "number"),
    [(reader, number) for reader in ("fetch", "time", "greatest", "scrub") for number in (1, 2)]
    + [("greatest", 3), ("scrub", 3)],
)
async def test_a_topic_that_is_deleted_under_a_reader_is_no_damage(
    disk: FaultyDisk, monkeypatch: pytest.MonkeyPatch, reader: str, number: int, *, is_cut: bool
) -> None:
    log = await of_one_read_at_a_time(disk, monkeypatch, number, is_cut=is_cut)
    with suppress(FileNotFoundError, Refusal):
        if reader == "fetch":
            await log.read_cold(2, 900, FOREVER, at_least_one=True)
        elif reader == "time":
            await log.offset_for_timestamp(NOW_MS, FOREVER)
        elif reader == "greatest":
            await log.max_timestamp(FOREVER)
        else:
            path = log.segments[0].path()
            (disk.root / path).write_bytes(bytes(SMALL.segment_bytes))  # a reason to look
            await scrub(log, log.segments[0], InlineWorker(), no_pause)
    assert log.offline_reason, "there was a read with that number"
    assert not log.damage


async def no_pause(_size: int) -> None:
    """As fast as it goes."""
