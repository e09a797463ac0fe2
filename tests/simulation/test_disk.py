"""The simulated disk: what a kill keeps, and what a power cut takes."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterator
from random import Random

import pytest

from broker.ports import DiskFault, DiskFull
from broker.simulator.disk import DiskImage, SimulatedDisk
from broker.simulator.loop import SimulatedLoop


class Host:
    opened: list[Host] = []

    def __init__(self, seed: int) -> None:
        self.opened.append(self)
        self.loop = SimulatedLoop(Random(seed))
        self.image = DiskImage(Random(seed))
        self.image.faults.cold_read_probability = 0.0

    def run(self, work: Callable[[SimulatedDisk], Awaitable[None]]) -> None:
        """In a process of its own, which is killed when `work` ends (or kills itself)."""
        process = self.loop.add_process("p")
        disk = SimulatedDisk(self.loop, process, self.image)

        async def inside() -> None:
            await work(disk)

        async def main() -> None:
            task = self.loop.spawn(process, inside())
            while process.is_alive and not task.done():
                await asyncio.sleep(0.1)
            if process.is_alive:
                task.result()
            self.loop.kill(process)

        self.loop.run_until_complete(main())


@pytest.fixture(autouse=True)
def _ended_worlds() -> Iterator[None]:
    yield
    while Host.opened:
        Host.opened.pop().loop.end()


def test_kill_keeps_everything_that_was_written() -> None:
    host = Host(1)

    async def write(disk: SimulatedDisk) -> None:
        (await disk.create("a")).append([b"one", b"two"])

    host.run(write)

    async def read(disk: SimulatedDisk) -> None:
        assert disk.read_file("a") == b"onetwo"

    host.run(read)


@pytest.mark.parametrize("seed", range(20))
def test_kill_inside_an_append_leaves_a_prefix(seed: int) -> None:
    host = Host(seed)
    reached: list[int] = []

    async def write(disk: SimulatedDisk) -> None:
        file = await disk.create("a")
        host.image.faults.kill_at_append = 2
        file.append([b"first"])
        try:
            file.append([b"second"])
        finally:
            reached.append(1)
            file.append([b"from the grave"])

    host.run(write)
    assert b"firstsecond".startswith(host.image.content("a"))
    assert host.image.content("a").startswith(b"first")


@pytest.mark.parametrize("seed", range(20))
def test_power_cut_keeps_what_was_synced_and_any_part_of_the_rest(seed: int) -> None:
    host = Host(seed)

    async def write(disk: SimulatedDisk) -> None:
        file = await disk.create("a")
        await disk.sync_directory("")
        file.append([b"synced"])
        await file.sync()
        file.append([b"unsynced"])
        await disk.create("b")

    host.run(write)
    host.image.cut_power()
    content = host.image.content("a")
    assert content.startswith(b"synced")
    tail = content[6:].rstrip(b"\0")
    assert b"unsynced".startswith(tail)


def test_power_cut_outcomes_differ_between_seeds() -> None:
    lengths, names = set(), set()
    for seed in range(40):
        host = Host(seed)

        async def write(disk: SimulatedDisk) -> None:
            file = await disk.create("a")
            await disk.sync_directory("")
            file.append([b"x" * 50])
            await disk.create("b")

        host.run(write)
        host.image.cut_power()
        lengths.add(len(host.image.content("a")))
        names.add(host.image.find("b") is not None)
    assert len(lengths) > 10
    assert names == {True, False}


@pytest.mark.parametrize("seed", range(20))
def test_renamed_tree_is_at_one_of_its_places_after_a_power_cut(seed: int) -> None:
    host = Host(seed)

    async def write(disk: SimulatedDisk) -> None:
        await disk.make_directory("t/x")
        await disk.make_directory("trash")
        await disk.replace_file("t/x/f", b"1")
        for path in ("t", ""):
            await disk.sync_directory(path)
        disk.rename("t/x", "trash/x")
        await disk.make_directory("t/x")

    host.run(write)
    host.image.cut_power()
    places = [path for path in ("t/x/f", "trash/x/f") if host.image.find(path) is not None]
    assert len(places) == 1
    assert host.image.content(places[0]) == b"1"


@pytest.mark.parametrize("seed", range(20))
def test_replaced_file_is_old_or_new_after_a_power_cut(seed: int) -> None:
    host = Host(seed)

    async def write(disk: SimulatedDisk) -> None:
        await disk.replace_file("a", b"old")
        asyncio.get_running_loop().create_task(disk.replace_file("a", b"new"))
        await asyncio.sleep(host.image.random.random() * 0.02)

    host.run(write)
    host.image.cut_power()
    assert host.image.content("a") in {b"old", b"new"}


def test_full_disk_writes_a_prefix_and_recovers() -> None:
    host = Host(5)

    async def write(disk: SimulatedDisk) -> None:
        file = await disk.create("a")
        host.image.faults.is_full = True
        with pytest.raises(DiskFull):
            file.append([b"abcdef"])
        with pytest.raises(DiskFull):
            await disk.create("b")
        assert disk.free_bytes() == 0
        file.truncate(0)
        host.image.faults.is_full = False
        file.append([b"abc"])
        assert file.read(0, 10) == b"abc"

    host.run(write)


def test_device_errors_are_faults_and_cold_reads_happen() -> None:
    host = Host(6)

    async def write(disk: SimulatedDisk) -> None:
        file = await disk.create("a")
        file.append([b"abc"])
        host.image.faults.cold_read_probability = 1.0
        assert file.read(0, 3) is None
        assert await file.read_cold(0, 3) == b"abc"
        host.image.faults.error_probability = 1.0
        with pytest.raises(DiskFault):
            await file.sync()

    host.run(write)


def test_tree_is_listed_renamed_and_removed() -> None:
    host = Host(7)

    async def work(disk: SimulatedDisk) -> None:
        await disk.make_directory("t/x/p")
        await disk.replace_file("t/x/p/f", b"1")
        await disk.make_directory("trash")
        disk.rename("t/x", "trash/x")
        assert disk.list_directory("t") == []
        assert disk.list_directory("trash/x/p") == ["f"]
        assert disk.is_directory("trash/x")
        await disk.remove_tree("trash/x")
        assert not disk.exists("trash/x")
        with pytest.raises(FileNotFoundError):
            disk.open("t/x/p/f")

    host.run(work)


def test_what_a_failed_sync_gave_up_is_durable_once_it_was_written_anew() -> None:
    """Not before, whatever other syncs say meanwhile, of other bytes of the same file."""
    host = Host(1)

    async def fail(disk: SimulatedDisk) -> None:
        file = await disk.create("a")
        await disk.sync_directory("")
        file.append([b"synced"])
        await file.sync()
        file.append([b"given up"])
        host.image.faults.error_probability = 1.0
        with pytest.raises(DiskFault):
            await file.sync()
        host.image.faults.error_probability = 0.0
        file.write_at(0, b"SYNCED")
        await file.sync()
        lost = host.image.clone(Random(1))
        lost.cut_power()
        assert lost.content("a") == b"SYNCED" + bytes(8)
        await file.rewrite(6)
        file.append([b"dirty"])

    host.run(fail)
    host.image.cut_power()
    assert host.image.content("a").startswith(b"SYNCEDgiven up")
