"""Simulated readers without a group: they poll, check positions, and tell the history what
they saw.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Final

from broker.errors import RETRIABLE, ErrorCode
from broker.records.batch import is_intact
from broker.records.iterate import iterate_batches, iterate_records
from broker.simulator.session import ClientError, Session
from broker.simulator.world import Node, World
from broker.wire.messages.fetch import (
    FetchPartition,
    FetchRequest,
    FetchTopic,
    PartitionData,
)
from broker.wire.messages.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsTopic,
)
from broker.wire.messages.metadata import MetadataRequest, MetadataRequestTopic

FETCH_VERSION_MIN: Final = 4
FETCH_VERSION_MAX: Final = 17
ZSTD_VERSION_MIN: Final = 10
"""KIP-110."""
SEEK_PROBABILITY: Final = 0.03
EARLIEST: Final = -2
LATEST: Final = -1
UNPACKED_BYTES_MAX: Final = 1 << 20

Found = list[tuple[int, str]]
"""(offset, value) of each record."""


class Cursor:
    """One partition being read from a position on. A seek begins a new reader."""

    def __init__(self, name: str, label: str, partition: int, position: int) -> None:
        self.name = name
        self.label = label
        self.partition = partition
        self.position = position
        self.run = 0

    @property
    def reader(self) -> str:
        return f"{self.name}@{self.run}"

    def seek(self, position: int) -> None:
        self.run += 1
        self.position = position


async def fetch(
    world: World,
    session: Session,
    topic: str,
    topic_id: bytes,
    cursors: Sequence[Cursor],
    *,
    max_wait_ms: int,
    max_bytes: int,
) -> dict[int, PartitionData]:
    """One Fetch without a session, in any version: the answer per partition. Raises ClientError."""
    request = FetchRequest(
        max_wait_ms=max_wait_ms,
        min_bytes=1,
        max_bytes=max_bytes,
        topics=[
            FetchTopic(
                topic=topic,
                topic_id=topic_id,
                partitions=[
                    FetchPartition(
                        partition=cursor.partition,
                        fetch_offset=cursor.position,
                        partition_max_bytes=max_bytes,
                    )
                    for cursor in cursors
                ],
            )
        ],
    )
    lowest = ZSTD_VERSION_MIN if world.uses_zstd else FETCH_VERSION_MIN
    version = session.node.random.randint(lowest, FETCH_VERSION_MAX)
    response = await session.ask(request, version)
    return {data.partition_index: data for each in response.responses for data in each.partitions}


class DamagedRecords(Exception):
    """A batch with a wrong checksum was served."""


def records_from(data: PartitionData, position: int) -> Found:
    """The records at `position` and above: a batch may begin below. Raises DamagedRecords."""
    found: Found = []
    blob = data.records
    if not isinstance(blob, bytes | bytearray | memoryview):
        return found
    for batch in iterate_batches(blob):
        if not is_intact(batch):
            raise DamagedRecords(f"at position {position}: {bytes(batch[:61]).hex()}")
        for record in iterate_records(batch, size_max=UNPACKED_BYTES_MAX):
            if record.offset >= position:
                found.append((record.offset, (record.value or b"").decode().rstrip(" ")))
    return found


async def find_topic_id(session: Session, topic: str) -> bytes | None:
    """None when the topic does not exist or nobody answers."""
    request = MetadataRequest(
        topics=[MetadataRequestTopic(name=topic)], allow_auto_topic_creation=False
    )
    try:
        response = await session.ask(request, 12)
    except ClientError:
        return None
    found = response.topics[0]
    return None if found.error_code else bytes(found.topic_id)


async def list_offset(session: Session, topic: str, partition: int, timestamp: int) -> int | None:
    """The earliest or latest offset; None when there is no answer now."""
    request = ListOffsetsRequest(
        replica_id=-1,
        topics=[
            ListOffsetsTopic(
                name=topic,
                partitions=[ListOffsetsPartition(partition_index=partition, timestamp=timestamp)],
            )
        ],
    )
    try:
        response = await session.ask_any_version(request)
    except ClientError:
        return None
    answer = response.topics[0].partitions[0]
    return None if answer.error_code else int(answer.offset)


class Reader:
    """A process that reads every partition of a topic, over and over from random places."""

    def __init__(self, world: World, node: Node, topic: str, partitions: int) -> None:
        self.world = world
        self.node = node
        self._session = Session(node)
        self._topic = topic
        self._cursors = [Cursor(node.name, topic, index, 0) for index in range(partitions)]
        self.is_done = True

    async def run(self) -> None:
        topic_id = None
        while topic_id is None:
            await self._session.back_off()
            topic_id = await find_topic_id(self._session, self._topic)
        while True:
            await self._poll(topic_id)

    async def _poll(self, topic_id: bytes) -> None:
        random = self.node.random
        try:
            answers = await fetch(
                self.world,
                self._session,
                self._topic,
                topic_id,
                self._cursors,
                max_wait_ms=random.randint(0, 500),
                max_bytes=random.choice((1, 500, 5_000, 1 << 20)),
            )
        except ClientError:
            await self._session.back_off()
            return
        for cursor in self._cursors:
            if cursor.partition in answers:
                self._take(cursor, answers[cursor.partition])
        await asyncio.sleep(random.random() * 0.1)

    def _take(self, cursor: Cursor, data: PartitionData) -> None:
        random = self.node.random
        if data.error_code:
            if data.error_code not in RETRIABLE:
                name = ErrorCode(data.error_code).name
                evidence = f"{cursor.reader} {cursor.label}-{cursor.partition} at {cursor.position}"
                self.world.find("a valid fetch is refused", f"{evidence}: {name}")
                cursor.seek(0)
            return
        take_poll(self.world, cursor, data)
        if random.random() < SEEK_PROBABILITY:
            cursor.seek(random.randint(0, cursor.position))


def take_poll(world: World, cursor: Cursor, data: PartitionData) -> Found:
    """Tell the history, move the cursor behind the last record."""
    found = records_from(data, cursor.position)
    world.counters["polls"] += 1
    world.counters["records read"] += len(found)
    world.history.record(
        world.loop.time(),
        "poll",
        reader=cursor.reader,
        topic=cursor.label,
        partition=cursor.partition,
        position=cursor.position,
        records=found,
        high_watermark=data.high_watermark,
    )
    if found:
        cursor.position = found[-1][0] + 1
    return found


async def read_all(world: World, session: Session, topic: str, label: str, partition: int) -> bool:
    """Read one partition from its start to its end into a `final` event. False when it fails
    now.
    """
    start = await list_offset(session, topic, partition, EARLIEST)
    end = await list_offset(session, topic, partition, LATEST)
    topic_id = await find_topic_id(session, topic)
    if start is None or end is None or topic_id is None:
        return False
    cursor = Cursor(session.node.name, label, partition, start)
    records: Found = []
    while cursor.position < end:
        try:
            answers = await fetch(
                world, session, topic, topic_id, [cursor], max_wait_ms=100, max_bytes=1 << 20
            )
        except ClientError:
            return False
        data = answers[partition]
        found = records_from(data, cursor.position)
        if data.error_code or not found:
            return False
        records.extend(found)
        cursor.position = found[-1][0] + 1
    world.counters["records in the final logs"] += len(records)
    world.history.record(
        world.loop.time(),
        "final",
        topic=label,
        partition=partition,
        start=start,
        end=max(end, cursor.position),
        records=records,
    )
    return True
