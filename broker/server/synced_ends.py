"""Keeping how far each log was synced, for a start after a crash: one small file of the broker.

Not here: what a start does with it (`broker.log.recovery`). Written every few seconds, off the way
of every request, and only while something was synced that no snapshot says. What was synced since
is not known to the next start: damage there is taken for a torn write.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Final

import structlog

from broker.log.partition_log import PartitionLog
from broker.log.synced_ends import (
    NOTHING_SYNCED,
    LogKey,
    SyncedEnd,
    decode_ends,
    encode_end,
    encode_ends,
)
from broker.ports import DiskFault

if TYPE_CHECKING:
    from broker.server.node import Broker

FILE: Final = "synced-ends"
STORE_INTERVAL_MS: Final = 2_000
LOGS_PER_STEP: Final = 1_000
"""Looked at in one step of the loop."""

_log = structlog.get_logger("hermes.synced_ends")


class SyncedEnds:
    """Of one broker's logs. `load` before they are opened, `run` is its task."""

    def __init__(self, broker: Broker) -> None:
        self._broker = broker
        self._logs: dict[LogKey, PartitionLog] = {}
        self._found: dict[LogKey, SyncedEnd] = {}
        self._stored = b""
        self._is_failing = False

    def load(self) -> None:
        """Read what the last process left. A file that cannot be read says nothing."""
        try:
            self._stored = self._broker.disk.read_file(FILE)
        except FileNotFoundError:
            return
        except DiskFault as fault:
            _log.error("the synced ends of logs cannot be read", fault=str(fault))
            return
        self._found = decode_ends(self._stored)

    def of(self, topic_id: bytes, partition: int) -> SyncedEnd:
        """What the last process left of a log."""
        return self._found.get((topic_id, partition), NOTHING_SYNCED)

    def add(self, log: PartitionLog) -> None:
        """From now on the log itself says how far it is synced."""
        self._logs[log.topic_id, log.partition] = log

    def forget(self, topic_id: bytes, partition: int) -> None:
        """Its topic was deleted."""
        self._logs.pop((topic_id, partition), None)

    async def run(self) -> None:
        """Until cancelled."""
        while True:
            await asyncio.sleep(STORE_INTERVAL_MS / 1000)
            await self.store()

    async def store(self) -> None:
        """Write the file when it says something else than before."""
        entries = await self._entries()
        content = encode_ends(entries)
        if content == self._stored or not (entries or self._stored):
            return
        try:
            await self._broker.disk.replace_file(FILE, content)
        except DiskFault as fault:  # the old one is still true
            if not self._is_failing:
                _log.error("the synced ends of logs cannot be written", fault=str(fault))
            self._is_failing = True
            return
        self._stored = content
        self._is_failing = False

    async def _entries(self) -> list[bytes]:
        """Of the logs that were synced beyond their snapshot; of those that could not be opened,
        what was found.
        """
        partitions = self._broker.partitions
        entries = [
            encode_end(key, end)
            for key, end in self._found.items()
            if key not in self._logs and partitions.get_by_id(*key) is not None
        ]
        for number, (key, log) in enumerate(list(self._logs.items()), start=1):
            end = log.checkpoints.unwritten_end
            if end is not None:
                entries.append(encode_end(key, end))
            if number % LOGS_PER_STEP == 0:
                await asyncio.sleep(0)
        return entries
