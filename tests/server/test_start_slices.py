"""A start and a stop of many partitions leave the loop to others, /healthz among them."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from broker.config.broker import BrokerSettings
from broker.metastore.memory import MemoryMetastore
from broker.runtime.clock import SystemClock
from broker.runtime.disk import SystemDisk
from broker.runtime.ids import SystemIds
from broker.runtime.network import SystemNetwork
from broker.runtime.worker import ProcessWorker
from broker.server.node import Broker
from broker.server.partitions import OPENING_COUNT_MAX
from broker.server.topic_rules import WantedTopic

PARTITIONS = 320
STEPS_MIN = PARTITIONS // OPENING_COUNT_MAX


class Turns:
    """Counts how often the loop came round while the block ran."""

    def __init__(self) -> None:
        self.count = 0

    async def _tick(self) -> None:
        while True:
            await asyncio.sleep(0)
            self.count += 1

    async def __aenter__(self) -> Turns:
        self._task = asyncio.get_running_loop().create_task(self._tick())
        return self

    async def __aexit__(self, *_exception: object) -> None:
        self._task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await self._task


@asynccontextmanager
async def node_in(path: Path, store: MemoryMetastore) -> AsyncIterator[Broker]:
    settings = BrokerSettings(
        listeners="PLAINTEXT://127.0.0.1:0", hermes_metrics_port=-1, log_dir=str(path)
    )
    disk, worker = SystemDisk(str(path)), ProcessWorker()
    node = Broker(settings, disk, SystemClock(), SystemNetwork(), store, SystemIds(), worker)
    try:
        yield node
    finally:
        await node.stop()
        worker.close()
        disk.close()


async def test_many_logs_are_opened_and_closed_in_many_steps(tmp_path: Path) -> None:
    store = MemoryMetastore()
    async with node_in(tmp_path, store) as first:
        await first.start()
        await first.catalog.create_topic(WantedTopic("many", PARTITIONS, 1))
    async with node_in(tmp_path, store) as second:
        await second.catalog.load()
        async with Turns() as opening:
            opened = await second.partitions.open_logs(second.catalog.topics())
        assert [log.offline_reason for log in opened] == [None] * PARTITIONS
        assert opening.count >= STEPS_MIN
        await second.partitions.serve(opened)
        async with Turns() as closing:
            await second.partitions.close()
        assert closing.count >= STEPS_MIN
