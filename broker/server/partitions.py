"""The partitions this broker leads: one `Partition` each, found by name or by topic id.

Opened at start (a bounded number at a time), made and removed by the catalog afterwards. A
partition whose log cannot be opened is offline and still found, so that its clients get an error
and everything else serves.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Final, NamedTuple

import structlog

from broker.errors import ErrorCode
from broker.log.directory import (
    move_to_trash,
    partition_directory,
    partition_name,
    topic_directory,
)
from broker.log.names import LOG, PARTITION_FILE
from broker.log.partition_file import PartitionIdentity, read_identity
from broker.log.partition_log import PartitionLog
from broker.log.placing import new_log, place_logs, remove_unfinished
from broker.model import TopicId
from broker.ports import Buffer, DiskFault, DiskFull, NewDirectory, NoDescriptor
from broker.server.acks import OnDone
from broker.server.forsaken import Forsaken
from broker.server.limits import LogLines
from broker.server.log_settings import log_config
from broker.server.partition import ParkedFetch, Partition, Surroundings
from broker.server.repeated import ProduceHeads
from broker.server.storage import discard_partition, discard_unknown_topics
from broker.server.topics import Topic

if TYPE_CHECKING:
    from broker.server.node import Broker

__all__ = ["OnDone", "ParkedFetch", "Partition", "PartitionRegistry"]

OPENING_COUNT_MAX: Final = 16
"""Logs opened at a time at start."""
PLACED_AT_A_TIME: Final = 1_000
"""New partitions that one sync makes durable: a list of more holds the loop up."""
PARTITIONS_PER_STEP: Final = 50
"""Partitions that begin to serve in one step of the loop."""

_log = structlog.get_logger("hermes.partitions")


class OpenedLog(NamedTuple):
    """A log found at start, or why it cannot be used."""

    topic: Topic
    partition: int
    log: PartitionLog | None
    offline_reason: str | None


class PartitionRegistry:
    """Every partition of this broker."""

    def __init__(self, broker: Broker) -> None:
        self._broker = broker
        self._by_name: dict[tuple[str, int], Partition] = {}
        self._by_id: dict[tuple[bytes, int], Partition] = {}
        self._placed: set[tuple[bytes, int]] = set()
        """Made by `place` and not opened yet."""
        self._full_lines = LogLines()
        self._forsaken = Forsaken()
        self.produce_heads = ProduceHeads()

    def __len__(self) -> int:
        return len(self._by_name)

    def get(self, topic: str, index: int) -> Partition | None:
        """The partition, or None when it does not exist (any more)."""
        return self._by_name.get((topic, index))

    def get_by_id(self, topic_id: bytes, index: int) -> Partition | None:
        """As `get`, for one incarnation of a topic."""
        return self._by_id.get((topic_id, index))

    def find(self, topic: str | bytes, index: int) -> Partition | None:
        """By name (str) or topic id (bytes), as requests name topics."""
        if isinstance(topic, str):
            return self._by_name.get((topic, index))
        return self._by_id.get((topic, index))

    def note_refused(self, topic: str, index: int, batch: Buffer | None, now_wall_ms: int) -> None:
        """A batch was for a partition that is not there, or no longer the one it was meant for."""
        present = self.get(topic, index)
        if present is None:
            self._forsaken.on_refused(topic, index, batch, now_wall_ms)
        elif batch is not None:
            present.on_refused(batch, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, now_wall_ms)

    def all(self) -> Iterator[Partition]:
        """Every partition, internal ones included, in no particular order; a snapshot."""
        return iter(tuple(self._by_name.values()))

    # start

    async def open_logs(self, topics: Iterable[Topic]) -> list[OpenedLog]:
        """Open, or make, the log of every partition that the catalog knows; move unknown
        directories away.

        Raises DiskFull: with space, the next start finds everything as it is. Other faults are that
        partition's.
        """
        topics = tuple(topics)
        known = frozenset(topic.name for topic in topics)
        for name in await discard_unknown_topics(self._broker.disk, known):
            _log.warning("moved the directory of an unknown topic to the trash", topic=name)
        for topic in topics:
            await self._complete(topic)
        opened: list[OpenedLog] = []
        waiting = iter([(topic, state.index) for topic in topics for state in topic.partitions])
        full: list[DiskFull] = []

        async def open_next() -> None:
            for topic, index in waiting:
                try:
                    opened.append(await self._open_or_make(topic, index))
                except DiskFull as fault:
                    full.append(fault)
                    return
                await asyncio.sleep(0)  # a log that was closed cleanly opens without waiting

        async with asyncio.TaskGroup() as group:
            for _ in range(OPENING_COUNT_MAX):
                group.create_task(open_next())
        if full:
            raise full[0]
        return opened

    async def _complete(self, topic: Topic) -> None:
        """Finish what a crash left of the topic's making. What cannot be made is told when it is
        opened. Raises DiskFull.
        """
        try:
            await remove_unfinished(self._broker.disk, topic_directory(topic.name))
            await self.place(topic, range(topic.partition_count))
        except DiskFull:
            raise
        except DiskFault as fault:
            _log.error("partitions are missing", topic=topic.name, fault=str(fault))

    async def serve(self, opened: Iterable[OpenedLog]) -> None:
        """Lead what `open_logs` found, in the leader epochs that the catalog now has."""
        for count, (topic, index, log, reason) in enumerate(opened, start=1):
            current = self._broker.catalog.topic(topic.name) or topic
            self._add(current, index, log, reason)
            if count % PARTITIONS_PER_STEP == 0:
                await asyncio.sleep(0)

    def close_idle_files(self) -> None:
        """Descriptors are short: closed segments are opened again when they are read."""
        for partition in self.all():
            if not partition.is_offline:
                partition.log.open_segments.close_idle()

    # the catalog's calls

    async def place(self, topic: Topic, indexes: Iterable[int]) -> None:
        """Make the directories of those partitions that have none, all at once. Raises DiskFault:
        the next attempt, or the next start, makes what is missing.
        """
        present = frozenset(self._broker.disk.list_directory(topic_directory(topic.name)))
        missing: dict[int, NewDirectory] = {}
        for count, index in enumerate(indexes, start=1):
            if (name := partition_name(index)) not in present:
                identity = PartitionIdentity(topic.topic_id, index, topic.name)
                missing[index] = new_log(name, identity)
            if len(missing) >= PLACED_AT_A_TIME:
                await self._place(topic, missing)
                missing = {}
            if count % PARTITIONS_PER_STEP == 0:
                await asyncio.sleep(0)
        if missing:
            await self._place(topic, missing)

    async def _place(self, topic: Topic, missing: Mapping[int, NewDirectory]) -> None:
        try:
            await place_logs(self._broker.disk, topic_directory(topic.name), list(missing.values()))
        except NoDescriptor:
            self.close_idle_files()
            raise
        for index in missing:
            self._placed.add((topic.topic_id, index))

    async def create_partition(self, topic: Topic, index: int) -> Partition:
        """Make the partition's log and serve it; an existing one is returned. Raises DiskFault."""
        known = self.get_by_id(topic.topic_id, index)
        if known is not None:
            return known
        try:
            return self._add(topic, index, await self._open(topic, index), None)
        except NoDescriptor:
            self.close_idle_files()
            raise

    async def delete_topic(self, topic: Topic) -> None:
        """Stop serving at once, move the directories to the trash; parked requests are answered
        with an error. Raises DiskFault when the directories could not be moved.
        """
        gone = [partition for partition in self.all() if partition.topic_id == topic.topic_id]
        for partition in gone:
            self._forsake(partition)
            self._by_name.pop((partition.topic, partition.index), None)
            self._by_id.pop((partition.topic_id, partition.index), None)
            self._broker.synced_ends.forget(partition.topic_id, partition.index)
            self._broker.journal.forget(partition)
            partition.mark_deleted()
        self._placed = {key for key in self._placed if key[0] != topic.topic_id}
        self.produce_heads.forget()
        for partition in gone:
            await self._close(partition, is_clean=False)
            await asyncio.sleep(0)
        self._broker.metrics.records_in_total.forget(topic=topic.name)
        self._broker.metrics.bytes_in_total.forget(topic=topic.name)
        self._broker.metrics.records_out_total.forget(topic=topic.name)
        self._broker.metrics.bytes_out_total.forget(topic=topic.name)
        await move_to_trash(self._broker.disk, topic.name, topic.topic_id)
        self._broker.maintenance.empty_trash_soon()

    def _forsake(self, partition: Partition) -> None:
        """Whoever waits there is refused, and sends it again, as who was refused before does."""
        topic, index, producers = partition.topic, partition.index, partition.producers
        if producers is None:
            return
        now_wall_ms = self._broker.clock.wall_ms()
        for batch in producers.unacknowledged(partition.high_watermark):
            self._forsaken.note(topic, index, batch, now_wall_ms)
        for batch, refused_ms in producers.awaited():
            self._forsaken.note(topic, index, batch, refused_ms)

    def configure_topic(self, topic: Topic) -> None:
        """The topic's settings changed: every later batch is judged by the new ones."""
        config = log_config(topic.settings, self._broker.settings)
        for state in topic.partitions:
            partition = self.get_by_id(topic.topic_id, state.index)
            if partition is not None:
                partition.configure(topic.settings, config)

    # stop

    async def close(self) -> None:
        """Checkpoint and close every log, so that the next start has nothing to recover."""
        waiting = iter(tuple(self._by_name.values()))

        async def close_next() -> None:
            for partition in waiting:
                await self._close(partition, is_clean=True)
                await asyncio.sleep(0)

        async with asyncio.TaskGroup() as group:
            for _ in range(OPENING_COUNT_MAX):
                group.create_task(close_next())
        self._by_name.clear()
        self._by_id.clear()
        self.produce_heads.forget()

    async def _close(self, partition: Partition, *, is_clean: bool) -> None:
        try:
            await partition.close(is_clean=is_clean)
        except DiskFault as fault:
            _log.error(
                "a partition could not be closed", partition=str(partition), fault=str(fault)
            )

    def _add(
        self, topic: Topic, index: int, log: PartitionLog | None, reason: str | None
    ) -> Partition:
        partition = Partition(
            self._surroundings(),
            topic.name,
            index,
            TopicId(topic.topic_id),
            topic.settings,
            is_internal=topic.is_internal,
            leader_epoch=topic.partitions[index].leader_epoch,
            log=log,
            offline_reason=reason,
        )
        if log is not None:
            log.open_segments.make_room = self.close_idle_files
            self._broker.synced_ends.add(log)
            self._forsaken.hand_over(topic.name, index, log.producers)
        self.produce_heads.forget()
        self._by_name[topic.name, index] = partition
        self._by_id[topic.topic_id, index] = partition
        return partition

    def _surroundings(self) -> Surroundings:
        broker = self._broker
        return Surroundings(
            broker.broker_id,
            broker.clock,
            broker.turn,
            broker.metrics,
            broker.maintenance.roll_soon,
            broker.sync_rounds.add,
            self._full_lines,
            broker.space,
            broker.call_later,
            broker.spawn,
        )

    async def _open_or_make(self, topic: Topic, index: int) -> OpenedLog:
        recoveries = self._broker.metrics.recoveries_total
        try:
            log = await self._open(topic, index)
            recoveries.add(1, outcome="repaired" if log.damage else "intact")
            return OpenedLog(topic, index, log, None)
        except DiskFull:
            raise
        except DiskFault as fault:
            recoveries.add(1, outcome="offline")
            _log.error(
                "a partition is offline; repair its directory and restart the broker",
                partition=f"{topic.name}-{index}",
                fault=str(fault),
            )
            return OpenedLog(topic, index, None, str(fault))

    async def _open(self, topic: Topic, index: int) -> PartitionLog:
        """The partition's log, made when it is missing; what a deleted incarnation left of it goes
        to the trash. Raises DiskFault, also for segments that say no longer whose they are.
        """
        directory = partition_directory(topic.name, index)
        disk = self._broker.disk
        self._broker.journal.check(directory, (bytes(topic.topic_id), index))
        names = disk.list_directory(directory)
        is_owned = PARTITION_FILE in names or any(name.endswith(LOG) for name in names)
        if is_owned and read_identity(disk, directory).topic_id != topic.topic_id:
            await discard_partition(disk, topic.name, index)
        log = await PartitionLog.create(
            disk,
            directory,
            topic_id=topic.topic_id,
            partition=index,
            topic=topic.name,
            config=log_config(topic.settings, self._broker.settings),
            now_wall_ms=self._broker.clock.wall_ms(),
            synced=self._broker.synced_ends.of(topic.topic_id, index),
        )
        if (key := (bytes(topic.topic_id), index)) in self._placed:
            self._placed.discard(key)
            log.checkpoints.note_placed()
        for damage in log.damage:
            _log.warning("repaired", partition=f"{topic.name}-{index}", damage=damage)
        return log
