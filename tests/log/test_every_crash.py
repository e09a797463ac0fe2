"""A crash at every step of what a log does to its files, then at every step of the recovery."""

from __future__ import annotations

from dataclasses import replace

import pytest

from broker.log.cleaner import CleanLimits
from broker.log.config import LogConfig
from broker.log.partition_log import PartitionLog
from tests.log.crashing import Book, Change, Machine
from tests.log.world import NOW_MS, SMALL, InlineWorker

CONFIG = replace(SMALL, segment_bytes=500, index_interval_bytes=200)
COMPACTED = replace(CONFIG, cleanup_policy=frozenset({"compact"}), min_cleanable_dirty_ratio=0.1)
EXPIRING = replace(CONFIG, retention_bytes=700)


async def nothing(_book: Book, _log: PartitionLog) -> None:
    """The log as it was created."""


async def fill(book: Book, log: PartitionLog) -> None:
    """A few segments, synced now and then."""
    for number in range(14):
        book.append(log)
        if number % 4 == 1:
            await book.sync(log)
        if log.needs_roll:
            await log.roll(NOW_MS)


async def append(book: Book, log: PartitionLog) -> None:
    for count in (1, 2, 3, 2):
        book.append(log, count)
        await book.sync(log)
    book.append(log, 2)


async def roll(book: Book, log: PartitionLog) -> None:
    while not log.needs_roll:
        book.append(log)
    await log.roll(NOW_MS)
    book.append(log, 2)
    await book.sync(log)
    book.append(log)


async def checkpoint(book: Book, log: PartitionLog) -> None:
    book.append(log, 2)
    end = log.log_end_offset
    await log.checkpoint()
    book.end = end
    book.append(log)


async def begin_epochs(book: Book, log: PartitionLog) -> None:
    """KAFKA-16541: the epoch file is replaced with each checkpoint."""
    for epoch in (1, 5):
        book.epoch = epoch
        book.append(log, 2)
        await log.checkpoint()
        book.end = log.checkpoints.offset
    book.append(log)


async def delete_segments(book: Book, log: PartitionLog) -> None:
    book.start_max = log.log_end_offset
    await log.apply_retention(NOW_MS)
    assert log.log_start_offset > 0
    book.append(log)
    await book.sync(log)


async def delete_records(book: Book, log: PartitionLog) -> None:
    book.append(log)
    book.start_max = log.log_end_offset - 2
    book.start_min = await log.advance_log_start(log.log_end_offset - 2)
    await log.apply_retention(NOW_MS)
    assert log.segments[0].base_offset > 0


async def compact(book: Book, log: PartitionLog) -> None:
    await clean(book, log, CleanLimits())


async def compact_in_passes(book: Book, log: PartitionLog) -> None:
    """With memory for two keys at a time."""
    assert await clean(book, log, CleanLimits(dedupe_buffer_bytes=70)) > 1


async def clean(book: Book, log: PartitionLog, limits: CleanLimits) -> int:
    """How many passes it took."""
    book.start_max = log.active.base_offset  # where no older value is the newest of its key
    cleaned = await log.clean(InlineWorker(), NOW_MS, limits)
    assert cleaned.is_changed
    book.append(log)
    await book.sync(log)
    return cleaned.pass_count


@pytest.mark.parametrize(
    ("config", "prepare", "change"),
    [
        pytest.param(CONFIG, nothing, append, id="append"),
        pytest.param(CONFIG, fill, roll, id="roll"),
        pytest.param(CONFIG, fill, checkpoint, id="checkpoint"),
        pytest.param(EXPIRING, fill, delete_segments, id="deletion of segments"),
        pytest.param(CONFIG, fill, delete_records, id="deletion of records"),
        pytest.param(COMPACTED, fill, compact, id="compaction"),
    ],
)
def test_a_crash_after_any_step_and_after_any_step_of_its_recovery_loses_nothing_synced(
    config: LogConfig, prepare: Change, change: Change
) -> None:
    machine = Machine()
    machine.run(config, prepare, change)
    assert machine.moment_count > 5
    assert machine.recovery_count > 500
    assert machine.flip_count > 5


@pytest.mark.parametrize(
    ("config", "change"),
    [
        pytest.param(CONFIG, begin_epochs, id="leader epochs"),
        pytest.param(COMPACTED, compact_in_passes, id="compaction in passes"),
    ],
)
def test_a_crash_after_any_step_of_a_long_change_loses_nothing_synced(
    config: LogConfig, change: Change
) -> None:
    machine = Machine()
    machine.run(config, fill, change, recovery_share=9)
    assert machine.moment_count > 30
    assert machine.recovery_count > 300
