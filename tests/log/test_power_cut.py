"""Power cuts at any moment, on the simulated disk: a log is a prefix of what was written."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from dataclasses import replace
from random import Random

import pytest

from broker.log.cleanable import is_due
from broker.log.partition_log import PartitionLog
from broker.simulator.disk import DiskImage, SimulatedDisk
from broker.simulator.loop import SimulatedLoop
from tests.log.world import (
    DIRECTORY,
    NOW_MS,
    SMALL,
    TOPIC_ID,
    InlineWorker,
    append_keyed,
    read_from,
)

CONFIG = replace(SMALL, segment_bytes=400, retention_bytes=2500, delete_retention_ms=1 << 40)
COMPACTED = replace(CONFIG, cleanup_policy=frozenset({"compact"}), min_cleanable_dirty_ratio=0.1)
LIVES = 12


class Host:
    """A machine with one partition: what was appended, and what was promised to last."""

    def __init__(self, seed: int) -> None:
        self.random = Random(seed)
        self.loop = SimulatedLoop(Random(seed + 1))
        self.image = DiskImage(Random(seed + 2))
        self.config = COMPACTED if seed % 2 else CONFIG
        self.appended: dict[int, bytes] = {}
        self.synced_end = 0
        self.start = 0
        self.number = 0

    async def run(self) -> None:
        """Several lives, each ended by a power cut (or, now and then, a kill)."""
        for _ in range(LIVES):
            process = self.loop.add_process("broker")
            disk = SimulatedDisk(self.loop, process, self.image)
            life = asyncio.create_task(self.live(disk))
            await asyncio.sleep(self.random.random() ** 2)
            process.is_alive = False
            if self.random.random() < 0.8:
                self.image.cut_power()
            life.cancel()
            with suppress(asyncio.CancelledError):
                await life

    async def live(self, disk: SimulatedDisk) -> None:
        log = await PartitionLog.create(
            disk,
            DIRECTORY,
            topic_id=TOPIC_ID,
            partition=0,
            topic="t",
            config=self.config,
            now_wall_ms=NOW_MS,
        )
        await self.check(log)
        while True:
            act = self.random.choice((self.append,) * 6 + (self.sync, self.checkpoint, self.upkeep))
            await act(log)
            await asyncio.sleep(0.001)

    async def check(self, log: PartitionLog) -> None:
        assert all("was not synced" in damage for damage in log.damage)
        assert log.log_end_offset >= self.synced_end
        assert log.log_start_offset >= 0
        found = await read_from(log, log.log_start_offset)
        for record in found:
            assert self.appended[record.offset] == record.value
        offsets = [record.offset for record in found]
        if self.config is CONFIG:
            assert offsets == list(range(log.log_start_offset, log.log_end_offset))
        else:
            newest = {offset % 5: offset for offset in range(log.log_end_offset)}
            assert set(newest.values()) <= set(offsets)
            assert offsets == sorted(set(offsets))
        self.synced_end = log.log_end_offset  # what was read once stays, also through another cut
        self.appended = {k: v for k, v in self.appended.items() if k < log.log_end_offset}
        await asyncio.sleep(0)

    async def append(self, log: PartitionLog) -> None:
        for _ in range(self.random.randint(1, 5)):
            offset = log.log_end_offset
            value = f"{self.number}".ljust(self.random.randint(1, 60), ".")
            self.number += 1
            self.appended[offset] = value.encode()
            append_keyed(log, (f"key-{offset % 5}", value))
        if log.needs_roll:
            await log.roll(NOW_MS)

    async def sync(self, log: PartitionLog) -> None:
        self.synced_end = max(self.synced_end, await log.sync())

    async def checkpoint(self, log: PartitionLog) -> None:
        await log.checkpoint()
        self.synced_end = max(self.synced_end, log.checkpoints.offset)

    async def upkeep(self, log: PartitionLog) -> None:
        await log.apply_retention(NOW_MS)
        if is_due(log, NOW_MS):
            await log.clean(InlineWorker(), NOW_MS)


@pytest.mark.parametrize("first_seed", range(0, 15, 5))
def test_a_log_is_a_prefix_of_what_was_written_and_keeps_what_was_synced(first_seed: int) -> None:
    for seed in range(first_seed, first_seed + 5):
        host = Host(seed)
        try:
            host.loop.run_until_complete(host.run())
        finally:
            host.loop.end()
        assert not host.loop.unhandled, seed
