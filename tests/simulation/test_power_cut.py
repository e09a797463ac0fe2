"""A partition's log after the host lost power: no garbage, no hole, and all that was synced."""

from __future__ import annotations

import asyncio
from random import Random

import pytest

from broker.log.config import LogConfig
from broker.log.partition_log import PartitionLog
from broker.ports import DiskFault
from broker.records.build import build_batch
from broker.records.iterate import iterate_batches, iterate_records
from broker.simulator.disk import DiskImage, SimulatedDisk
from broker.simulator.loop import ProcessKilled, SimulatedLoop

DIRECTORY = "topics/t/partition-00"
ROUNDS = 6
NOW_MS = 1_750_000_000_000


class Machine:
    """A host that loses power again and again, with one log on it."""

    def __init__(self, seed: int) -> None:
        self.random = Random(seed)
        self.loop = SimulatedLoop(Random(seed))
        self.image = DiskImage(Random(seed))
        self.config = LogConfig(segment_bytes=2_048, index_interval_bytes=256)
        self.written: list[bytes] = []
        self.synced_count = 0
        self.is_created = False

    async def run(self) -> None:
        for _ in range(ROUNDS):
            process = self.loop.add_process("p")
            disk = SimulatedDisk(self.loop, process, self.image)
            task = self.loop.spawn(process, self._live(disk))
            deadline_s = self.loop.time() + self.random.random()
            while process.is_alive and not task.done() and self.loop.time() < deadline_s:
                await asyncio.sleep(0.01)
            if process.is_alive and task.done():
                task.result()
            self.loop.kill(process)
            self.image.cut_power()

    async def _live(self, disk: SimulatedDisk) -> None:
        log = await self._open(disk)
        found = await self._read(log)
        assert found == self.written[: len(found)], "the log is what was written, in order"
        assert len(found) >= self.synced_count, "what was synced is there"
        self.written = found
        if self.random.random() < 0.5:
            self.image.faults.kill_at_append = self.random.randint(1, 60)
        while True:
            await self._append(log)

    async def _open(self, disk: SimulatedDisk) -> PartitionLog:
        if self.is_created:
            return await PartitionLog.open(disk, DIRECTORY, self.config, NOW_MS)
        log = await PartitionLog.create(
            disk,
            DIRECTORY,
            topic_id=bytes(range(16)),
            partition=0,
            topic="t",
            config=self.config,
            now_wall_ms=NOW_MS,
        )
        self.is_created = True
        return log

    async def _append(self, log: PartitionLog) -> None:
        for _ in range(self.random.randint(1, 4)):
            value = b"%06d" % len(self.written) + bytes(self.random.randint(0, 200))
            batch = build_batch([(None, value)], timestamp_ms=NOW_MS)
            log.stage(memoryview(batch), leader_epoch=0, now_wall_ms=NOW_MS)
            self.written.append(value)
            log.flush()
        if log.needs_roll:
            await log.roll(NOW_MS)
        if self.random.random() < 0.2:
            count = len(self.written)
            await log.sync()
            self.synced_count = count
        await asyncio.sleep(0.001)

    async def _read(self, log: PartitionLog) -> list[bytes]:
        values: list[bytes] = []
        offset = log.log_start_offset
        while offset < log.log_end_offset:
            read = await log.read_cold(offset, 1 << 20, log.log_end_offset, at_least_one=True)
            for batch in iterate_batches(read.records):
                for record in iterate_records(batch):
                    assert record.offset == offset, "no hole"
                    values.append(record.value or b"")
                    offset += 1
        return values


@pytest.mark.parametrize("seed", range(30))
def test_log_after_power_cuts_is_a_prefix_with_everything_synced(seed: int) -> None:
    machine = Machine(seed)
    try:
        machine.loop.run_until_complete(machine.run())
    finally:
        machine.loop.end()
    assert machine.written or machine.synced_count == 0


def test_full_disk_undoes_the_append_and_the_log_goes_on() -> None:
    machine = Machine(1)

    async def fill(disk: SimulatedDisk) -> None:
        log = await machine._open(disk)
        await machine._append(log)
        count = len(machine.written)
        machine.image.faults.is_full = True
        batch = build_batch([(None, b"refused")], timestamp_ms=NOW_MS)
        log.stage(memoryview(batch), leader_epoch=0, now_wall_ms=NOW_MS)
        with pytest.raises(DiskFault):
            log.flush()
        machine.image.faults.is_full = False
        await machine._append(log)
        assert await machine._read(log) == machine.written
        assert len(machine.written) > count

    process = machine.loop.add_process("p")
    disk = SimulatedDisk(machine.loop, process, machine.image)
    try:
        machine.loop.run_until_complete(machine.loop.spawn(process, fill(disk)))
    except ProcessKilled:
        pytest.fail("nobody kills here")
    finally:
        machine.loop.end()
