"""A reader that goes on where one ended gets what a search would find, at once or not at all."""

from __future__ import annotations

from random import Random

import pytest

from broker.log import driving
from broker.log.config import LogConfig
from broker.log.partition_log import PartitionLog
from broker.records.batch import read_header
from broker.records.iterate import iterate_batches
from tests.log.world import FOREVER, NOW_MS, FaultyDisk, append, create, reopen, stage

CONFIG = LogConfig(segment_bytes=6_000, index_interval_bytes=300)


class Written:
    """Every batch of a log as it was read back at once by a search: the oracle."""

    def __init__(self, log: PartitionLog) -> None:
        self.batches: list[tuple[int, int, bytes]] = []
        for segment in log.segments:
            size = log.reach().written_size if segment is log.active else segment.size
            content = segment.file().read(0, size)
            assert content is not None
            for batch in iterate_batches(memoryview(content)):
                header = read_header(batch)
                self.batches.append((header.base_offset, header.last_offset, bytes(batch)))

    def between(self, offset: int, end: int) -> bytes:
        return b"".join(
            batch for first, last, batch in self.batches if last >= offset and last < end
        )


async def step(log: PartitionLog, random: Random, known: set[int]) -> None:
    """Something that may happen to a log between two reads."""
    match random.randrange(8):
        case 0:
            known.add(log.begin_sync().end_offset)
        case 1:
            if log.needs_roll or random.random() < 0.2:
                await log.roll(NOW_MS)
        case 2:
            known.add(await log.sync())
        case 3 if random.random() < 0.3:
            await log.advance_log_start(random.randint(log.log_start_offset, log.log_end_offset))
        case _:
            for _ in range(random.randint(1, 3)):
                append(log, *["x" * random.randrange(90)] * random.randint(1, 4))
            known.add(log.written_end_offset)


@pytest.mark.parametrize("seed", range(25))
async def test_what_it_gives_is_all_that_lies_between_and_what_it_does_not_give_is_searched(
    disk: FaultyDisk, seed: int
) -> None:
    random = Random(seed)
    log = await create(disk, CONFIG)
    known = {0}
    given = reader = 0
    for _ in range(120):
        await step(log, random, known)
        reader = max(reader, log.log_start_offset)
        other = random.choice((*known, random.randint(0, log.log_end_offset)))
        offset = random.choice((reader, reader, other))
        end = random.choice((FOREVER, log.written_end_offset, random.choice(tuple(known))))
        limit = random.choice((0, 500, 1 << 20, 1 << 20))
        found = driving.read_on(log, offset, limit, end)
        if found is not None:
            given += 1
            end = min(end, log.written_end_offset)
            assert log.log_start_offset <= offset < end
            assert bytes(found.records) == Written(log).between(offset, end)
            assert found.next_offset == end
            assert len(found.records) <= limit
            reader = end
        elif log.log_start_offset <= offset <= log.log_end_offset:
            searched = log.read(offset, limit, end, at_least_one=False)
            if searched is not None and searched.next_offset > offset:
                reader = searched.next_offset
    assert given > 3, "the reads that this is about have happened"
    await log.close()


async def test_a_reader_at_the_end_takes_one_read_and_no_search(disk: FaultyDisk) -> None:
    log = await create(disk, CONFIG)
    append(log, "a")
    assert log.read(0, 1 << 20, FOREVER, at_least_one=True) is not None
    for offset in range(1, 20):
        append(log, "b")
        reads = disk.read_count
        found = driving.read_on(log, offset, 1 << 20, FOREVER)
        assert found is not None
        assert found.next_offset == offset + 1
        assert disk.read_count == reads + 1
    await log.close()


async def test_up_to_where_a_sync_began_is_known_while_more_is_written(disk: FaultyDisk) -> None:
    log = await create(disk, CONFIG)
    append(log, "a")
    assert log.read(0, 1 << 20, FOREVER, at_least_one=True) is not None
    append(log, "b")
    mark = log.begin_sync()
    append(log, "c")
    found = driving.read_on(log, 1, 1 << 20, mark.end_offset)
    assert found is not None
    assert found.next_offset == mark.end_offset == 2
    assert bytes(found.records) == Written(log).between(1, 2)
    assert driving.read_on(log, 2, 1 << 20, 2) is None
    await log.close()


async def test_what_is_staged_is_not_read(disk: FaultyDisk) -> None:
    log = await create(disk, CONFIG)
    append(log, "a")
    assert log.read(0, 1 << 20, FOREVER, at_least_one=True) is not None
    append(log, "b")
    stage(log, "c")
    log.begin_sync()
    assert driving.read_on(log, 1, 1 << 20, FOREVER) is None
    assert log.read(1, 1 << 20, FOREVER, at_least_one=True).next_offset == 2  # type: ignore[union-attr]
    log.flush()
    assert log.read(1, 1 << 20, FOREVER, at_least_one=True).next_offset == 3  # type: ignore[union-attr]
    await log.close()


async def test_bytes_that_were_there_before_the_process_are_checked_by_the_search(
    disk: FaultyDisk,
) -> None:
    log = await create(disk, CONFIG)
    for _ in range(3):
        append(log, "a")
    await log.close()
    log = await reopen(disk, CONFIG)
    log.active.unchecked_below = log.active.size
    assert log.read(0, 1 << 20, 1, at_least_one=True) is not None
    assert driving.read_on(log, 1, 1 << 20, FOREVER) is None
    await log.close()


@pytest.mark.parametrize("position", [0, 16])
async def test_a_batch_that_is_not_the_one_looked_for_is_left_to_the_search(
    disk: FaultyDisk, position: int
) -> None:
    log = await create(disk, CONFIG)
    append(log, "a")
    assert log.read(0, 1 << 20, FOREVER, at_least_one=True) is not None
    start = log.active.size
    append(log, "b")
    log.active.file().write_at(start + position, b"\7")
    assert driving.read_on(log, 1, 1 << 20, FOREVER) is None
    await log.close()


async def test_a_closed_log_refuses_readers_that_go_on(disk: FaultyDisk) -> None:
    log = await create(disk, CONFIG)
    append(log, "a")
    assert log.read(0, 1 << 20, FOREVER, at_least_one=True) is not None
    append(log, "b")
    await log.close()
    assert driving.read_on(log, 1, 1 << 20, FOREVER) is None
