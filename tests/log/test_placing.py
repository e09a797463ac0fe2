"""New logs of a topic, placed all at once: a crash after any step leaves whole ones or none."""

from __future__ import annotations

import resource
from collections.abc import Callable
from pathlib import Path
from random import Random
from typing import TypeVar

import pytest

from broker.log.partition_file import PartitionIdentity
from broker.log.partition_log import PartitionLog
from broker.log.placing import new_log, place_logs, remove_unfinished
from broker.ports import ASIDE, Disk, DiskFault, NewDirectory
from broker.simulator.disk import DiskImage, SimulatedDisk
from broker.simulator.faults import Kept, PowerCut
from broker.simulator.loop import SimulatedLoop
from tests.log.world import NOW_MS, SMALL, TOPIC_ID, FaultyDisk, append, read_from

PARENT = "topics/orders"
T = TypeVar("T")
COUNT = 3
CUTS = (
    None,
    PowerCut(1.0, Kept.NOTHING),
    PowerCut(0.0, Kept.NOTHING),
    PowerCut(0.0, Kept.TORN),
    PowerCut(0.0, Kept.HOLED),
    PowerCut(),
)


def logs(count: int = COUNT) -> list[NewDirectory]:
    return [
        new_log(f"partition-{index:02d}", PartitionIdentity(TOPIC_ID, index, "orders"))
        for index in range(count)
    ]


async def open_all(disk: Disk) -> list[int]:
    """The numbers of the logs that are there; each is whole, empty and takes records."""
    found = []
    for name in disk.list_directory(PARENT):
        log = await PartitionLog.open(disk, f"{PARENT}/{name}", SMALL, NOW_MS)
        assert log.damage == []
        assert (log.log_start_offset, log.log_end_offset, log.topic_id) == (0, 0, TOPIC_ID)
        append(log, "first")
        await log.sync()
        assert len(await read_from(log, 0)) == 1
        found.append(log.partition)
        await log.close()
    return found


async def crashed_after_any_step(loop: SimulatedLoop, random: Random) -> int:
    """How many states a crash left, of which the next start made the rest."""
    image = DiskImage(random)
    image.faults.latency_s_max = 0.0
    moments: list[DiskImage] = []
    image.on_change = lambda: moments.append(image.clone(random))
    await place_logs(disk_of(loop, image), PARENT, logs())
    seen: set[int] = set()
    for moment in moments:
        for cut in CUTS:
            left = moment.clone(random)
            left.faults.latency_s_max = 0.0
            if cut is not None:
                left.cut_power(cut)
            disk = disk_of(loop, left)
            await remove_unfinished(disk, PARENT)
            present = disk.list_directory(PARENT)
            seen.add(len(present))
            await place_logs(disk, PARENT, [new for new in logs() if new.name not in present])
            assert await open_all(disk) == list(range(COUNT))
    assert seen == set(range(COUNT + 1)), "some crash came after each of the renames"
    durable = image.clone(random)
    durable.cut_power(PowerCut(1.0, Kept.NOTHING))
    assert await open_all(disk_of(loop, durable)) == list(range(COUNT)), "it was answered"
    return len(moments) * len(CUTS)


def disk_of(loop: SimulatedLoop, image: DiskImage) -> SimulatedDisk:
    return SimulatedDisk(loop, loop.harness, image)


def test_a_crash_after_any_step_leaves_whole_logs_or_none() -> None:
    loop = SimulatedLoop(Random(1))
    try:
        count = loop.run_until_complete(crashed_after_any_step(loop, Random(2)))
    finally:
        loop.end()
    assert not loop.unhandled
    assert count > 100


async def crashed_after_any_step_of_a_failure(loop: SimulatedLoop, random: Random) -> int:
    """How many whole directories a crash left of a placing that fails at its last name."""
    image = DiskImage(random)
    image.faults.latency_s_max = 0.0
    moments: list[DiskImage] = []
    disk = disk_of(loop, image)
    await disk.make_directory(f"{PARENT}/partition-{COUNT - 1:02d}/taken")
    image.on_change = lambda: moments.append(image.clone(random))
    with pytest.raises(DiskFault, match="not empty"):
        await place_logs(disk, PARENT, logs())
    whole_count = 0
    for moment in moments:
        for cut in CUTS:
            left = moment.clone(random)
            if cut is not None:
                left.cut_power(cut)
            found = disk_of(loop, left)
            for name, files in logs()[:-1]:
                if found.exists(f"{PARENT}/{name}"):
                    names = found.list_directory(f"{PARENT}/{name}")
                    assert names == sorted(file for file, _ in files)
                    for file, content in files:
                        assert found.read_file(f"{PARENT}/{name}/{file}") == content
                    whole_count += 1
    return whole_count


def test_a_crash_after_any_step_of_one_that_fails_leaves_whole_logs_or_none() -> None:
    loop = SimulatedLoop(Random(1))
    try:
        count = loop.run_until_complete(crashed_after_any_step_of_a_failure(loop, Random(2)))
    finally:
        loop.end()
    assert not loop.unhandled
    assert count > 0, "some crash came while there were names to be taken back"


@pytest.mark.parametrize("count", [1, 2, 250])
async def test_logs_are_there_with_nothing_beside_them(disk: FaultyDisk, count: int) -> None:
    await place_logs(disk, PARENT, logs(count))
    assert disk.list_directory(PARENT) == sorted(name for name, _ in logs(count))
    assert await open_all(disk) != []


@pytest.mark.parametrize("count", [2, 250])
async def test_what_cannot_be_placed_leaves_nothing_aside(disk: FaultyDisk, count: int) -> None:
    await disk.make_directory(f"{PARENT}/partition-01/taken")
    with pytest.raises(DiskFault, match="not empty"):
        await place_logs(disk, PARENT, logs(count))
    assert not [name for name in disk.list_directory(PARENT) if name.endswith(ASIDE)]
    assert disk.is_directory(f"{PARENT}/partition-01/taken")


class ExhaustedDisk(FaultyDisk):
    """Out of descriptors from a writer thread's first fault on: nothing can be removed."""

    async def run_write(self, path: str, function: Callable[..., T], *arguments: object) -> T:
        try:
            return await super().run_write(path, function, *arguments)
        except DiskFault:
            _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
            resource.setrlimit(resource.RLIMIT_NOFILE, (0, hard))
            raise


@pytest.mark.parametrize("count", [2, 250])
async def test_what_failed_and_cannot_be_removed_has_not_its_name(
    tmp_path: Path, count: int
) -> None:
    disk = ExhaustedDisk(tmp_path)
    await disk.make_directory(f"{PARENT}/partition-01/taken")
    limits = resource.getrlimit(resource.RLIMIT_NOFILE)
    try:
        with pytest.raises(DiskFault, match="not empty"):
            await place_logs(disk, PARENT, logs(count))
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, limits)
    left = disk.list_directory(PARENT)
    assert [name for name in left if not name.endswith(ASIDE)] == ["partition-01"]
    await remove_unfinished(disk, PARENT)
    assert disk.list_directory(PARENT) == ["partition-01"]
    disk.close()
