"""Damage behind the newest snapshot after an unclean stop: below the end that is known to have been
synced nothing is cut, beyond it a torn write is.
"""

from __future__ import annotations

import shutil
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from random import Random

import pytest

from broker.log.config import LogConfig
from broker.log.partition_log import PartitionLog
from broker.log.survey import damaged_ranges
from broker.log.synced_ends import SyncedEnd, decode_ends, encode_end, encode_ends
from broker.runtime.disk import SystemDisk
from tests.log.test_damage import consume
from tests.log.world import DIRECTORY, NOW_MS, SMALL, FaultyDisk, append, append_rolling, create

WHOLE = LogConfig(index_interval_bytes=200)
FIRST_LOG = f"{DIRECTORY}/{0:020d}.log"
SYNCED = 6
WRITTEN = 9


async def known(log: PartitionLog) -> SyncedEnd:
    """Sync all of it: what is then written down beside the log."""
    await log.sync()
    end = log.checkpoints.unwritten_end
    assert end is not None
    return end


class Stopped:
    """A log of WRITTEN records that was killed, SYNCED of them known to be synced."""

    def __init__(self, directory: Path, synced: SyncedEnd, ends: list[int]) -> None:
        self.directory = directory
        self.synced = synced
        self.ends = ends
        self.content = (directory / FIRST_LOG).read_bytes()
        self._count = 0
        self._opened: PartitionLog | None = None

    async def open(self, content: bytes, synced: SyncedEnd) -> PartitionLog:
        """What a start makes of it with other bytes in its file; the one before is closed."""
        await self.close()
        self._count += 1
        copy = self.directory / f"copy-{self._count}"
        shutil.copytree(self.directory / "topics", copy / "topics")
        (copy / FIRST_LOG).write_bytes(content)
        disk = SystemDisk(copy)
        self._opened = log = await PartitionLog.open(disk, DIRECTORY, WHOLE, NOW_MS, synced)
        disk.close()
        return log

    async def close(self) -> None:
        if self._opened is not None:
            await self._opened.close(is_clean=False)


@pytest.fixture
async def stopped(disk: FaultyDisk) -> AsyncIterator[Stopped]:
    log = await create(disk, WHOLE)
    ends = [0]
    for number in range(SYNCED):
        append(log, f"v{number}", epoch=number // 3)
        ends.append(log.log_size())
    synced = await known(log)
    for number in range(SYNCED, WRITTEN):
        append(log, f"v{number}", epoch=number // 3)
        ends.append(log.log_size())
    made = Stopped(disk.root, synced, ends)
    yield made
    await made.close()
    await log.close(is_clean=False)


def flips(content: bytes, ends: list[int], first: int, end: int) -> Iterator[tuple[int, bytes]]:
    """(number of a batch, `content` with a bit of it flipped) for every third byte of the batches
    [first, end), but of their leader epochs, which a start has nothing to compare with.
    """
    random = Random(1)
    for position in range(ends[first], ends[end], 3):
        hit = next(number for number in range(end) if position < ends[number + 1])
        if 12 <= position - ends[hit] < 16:
            continue
        spoilt = bytearray(content)
        spoilt[position] ^= 1 << random.randrange(8)
        yield hit, bytes(spoilt)


async def test_a_flipped_bit_below_the_synced_end_costs_the_batch_that_it_is_in_and_no_other(
    stopped: Stopped,
) -> None:
    assert stopped.synced == (SYNCED, 0, stopped.ends[SYNCED])
    for hit, content in flips(stopped.content, stopped.ends, 0, SYNCED):
        log = await stopped.open(content, stopped.synced)
        found, refused = await consume(log)
        assert refused == [hit]
        assert found == {n: f"v{n}" for n in range(WRITTEN) if n != hit}
        assert "are refused, all others are served" in log.damage[0]
        assert append(log, "new", epoch=3).base_offset == WRITTEN
        assert (await consume(log))[0][WRITTEN] == "new"


async def test_a_flipped_bit_beyond_the_synced_end_cuts_what_was_never_acknowledged(
    stopped: Stopped,
) -> None:
    for hit, content in flips(stopped.content, stopped.ends, SYNCED + 1, SYNCED + 2):
        log = await stopped.open(content, stopped.synced)
        assert log.log_end_offset == hit
        assert await consume(log) == ({n: f"v{n}" for n in range(hit)}, [])
        assert damaged_ranges(log) == []


@pytest.mark.parametrize("hit", [0, 1, 5])
async def test_a_flipped_bit_of_a_leader_epoch_costs_no_other_batch(
    stopped: Stopped, hit: int
) -> None:
    for bit in range(32):
        content = bytearray(stopped.content)
        content[stopped.ends[hit] + 12 + bit // 8] ^= 1 << bit % 8
        log = await stopped.open(bytes(content), stopped.synced)
        assert log.latest_epoch == 2
        found, refused = await consume(log)
        assert (found, refused) == ({n: f"v{n}" for n in range(WRITTEN) if n != hit}, [hit])


async def test_a_tail_that_was_synced_and_is_gone_is_named_and_its_offsets_are_not_given_out_again(
    stopped: Stopped,
) -> None:
    for size in range(0, stopped.ends[SYNCED], 5):
        log = await stopped.open(stopped.content[:size], stopped.synced)
        left = next(n for n in range(SYNCED) if size < stopped.ends[n + 1])
        assert log.log_end_offset == SYNCED, size
        found, refused = await consume(log)
        assert found == {n: f"v{n}" for n in range(left)}, size
        assert refused == list(range(left, SYNCED)), size
        assert append(log, "new", epoch=3).base_offset == SYNCED


async def test_a_restart_knows_what_the_first_one_found(stopped: Stopped, disk: FaultyDisk) -> None:
    content = bytearray(stopped.content)
    content[stopped.ends[2] + 70] ^= 1
    (disk.root / FIRST_LOG).write_bytes(content)
    log = await PartitionLog.open(disk, DIRECTORY, WHOLE, NOW_MS, stopped.synced)
    first = await consume(log)
    assert first[1] == [2]
    for _ in range(2):  # never closed, and the synced end beside it lost
        log = await PartitionLog.open(disk, DIRECTORY, WHOLE, NOW_MS)
        assert await consume(log) == first


async def test_damage_that_a_reader_met_behind_the_snapshot_is_not_cut_by_the_next_start(
    stopped: Stopped, disk: FaultyDisk
) -> None:
    log = await PartitionLog.open(disk, DIRECTORY, WHOLE, NOW_MS)
    appended = [append(log, f"v{n}", epoch=3).base_offset for n in range(WRITTEN, WRITTEN + 4)]
    with (disk.root / FIRST_LOG).open("r+b") as file:
        file.seek(stopped.ends[WRITTEN] + 70)
        file.write(b"\xff")
    disk.is_cold = True
    first = await consume(log)
    assert first[1] == appended[:1]
    log = await PartitionLog.open(disk, DIRECTORY, WHOLE, NOW_MS)
    assert await consume(log) == first


@pytest.mark.parametrize("seed", range(8))
async def test_segments_behind_the_snapshot_stay_when_they_were_synced(
    disk: FaultyDisk, seed: int
) -> None:
    """A roll whose checkpoint was lost leaves whole segments behind the newest snapshot."""
    random = Random(seed)
    log = await create(disk, SMALL)
    snapshot = next((disk.root / DIRECTORY).glob("*.snapshot"))
    first = snapshot.read_bytes()
    await append_rolling(log, 40)
    append(log, "v40")
    synced = await known(log)
    append(log, "v41")
    for path in (disk.root / DIRECTORY).glob("*.snapshot"):
        path.unlink()
    snapshot.write_bytes(first)
    hit = random.choice(log.segments[:-1])
    path = disk.root / hit.path()
    content = bytearray(path.read_bytes())
    if seed % 2:
        content[random.randrange(100, 150)] ^= 16
    else:
        del content[-random.randrange(1, 150) :]
    path.write_bytes(content)
    log = await PartitionLog.open(disk, DIRECTORY, SMALL, NOW_MS, synced)
    found, refused = await consume(log)
    assert refused
    assert sorted([*found, *refused]) == list(range(42))
    assert len(refused) <= 3
    assert append(log, "v42").base_offset == 42


def test_the_file_comes_back_whole_or_not_at_all() -> None:
    ends = {(bytes([n]) * 16, n): SyncedEnd(n + 2, n, n * 100) for n in range(5)}
    content = encode_ends(encode_end(key, end) for key, end in ends.items())
    assert decode_ends(content) == ends
    for position in range(len(content)):
        spoilt = bytearray(content)
        spoilt[position] ^= 1
        assert decode_ends(bytes(spoilt)) == {}
        assert decode_ends(content[:position]) == {}
