"""Simulated readers without a group: they poll, check positions, and tell the history what
they saw.
"""

from __future__ import annotations

import asyncio
from typing import Final

from broker.errors import RETRIABLE, ErrorCode
from broker.simulator.fetching import Cursor, Dialogue, Found, records_from, stamps_from
from broker.simulator.ports import WALL_START_MS
from broker.simulator.session import ClientError, Session
from broker.simulator.world import Node, World
from broker.wire.messages.fetch import PartitionData
from broker.wire.messages.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsTopic,
)
from broker.wire.messages.metadata import MetadataRequest, MetadataRequestTopic

INCREMENTAL_PROBABILITY: Final = 0.6
PART_PROBABILITY: Final = 0.1
"""A poll that leaves some partitions out."""
EXPIRING_TOPIC: Final = "expiring"
TRIMMED_TOPIC: Final = "trimmed"
SEEK_PROBABILITY: Final = 0.03
EARLIEST: Final = -2
LATEST: Final = -1


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


async def list_offset(
    session: Session, topic: str, partition: int, timestamp: int, *, replica_id: int = -1
) -> int | None:
    """The earliest or latest offset; None when there is no answer now."""
    request = ListOffsetsRequest(
        replica_id=replica_id,
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
        is_incremental = self.node.random.random() < INCREMENTAL_PROBABILITY
        dialogue = Dialogue(self.world, self._session, self._topic, topic_id, is_incremental)
        while True:
            await self._poll(dialogue)

    async def _poll(self, dialogue: Dialogue) -> None:
        random = self.node.random
        cursors = self._cursors
        if random.random() < PART_PROBABILITY:
            cursors = random.sample(cursors, random.randint(1, len(cursors)))
        try:
            answers = await dialogue.fetch(
                cursors,
                max_wait_ms=random.randint(0, 500),
                max_bytes=random.choice((1, 500, 5_000, 1 << 20)),
            )
        except ClientError:
            await self._session.back_off()
            return
        for cursor in cursors:
            if cursor.partition in answers:
                await self._take(cursor, answers[cursor.partition])
        await asyncio.sleep(random.random() * 0.1)

    async def _take(self, cursor: Cursor, data: PartitionData) -> None:
        random = self.node.random
        code = ErrorCode(data.error_code)
        if code is ErrorCode.OFFSET_OUT_OF_RANGE and may_shrink(self._topic):
            start = await list_offset(self._session, self._topic, cursor.partition, EARLIEST)
            if start is not None:
                self.world.counters["readers overtaken by the log start"] += 1
                cursor.seek(start)
        elif code in RETRIABLE:
            await self._session.back_off()
        elif code is not ErrorCode.NONE:
            evidence = f"{cursor.reader} {cursor.label}-{cursor.partition} at {cursor.position}"
            self.world.find("a valid fetch is refused", f"{evidence}: {code.name}")
            cursor.seek(0)
        else:
            take_poll(self.world, cursor, data)
            if random.random() < SEEK_PROBABILITY:
                cursor.seek(random.randint(0, cursor.position))


def may_expire(topic: str) -> bool:
    """Whether retention takes records of this topic away during a run."""
    return topic == EXPIRING_TOPIC


def may_shrink(topic: str) -> bool:
    """Whether the log start of this topic moves during a run."""
    return topic in {EXPIRING_TOPIC, TRIMMED_TOPIC}


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
    dialogue = Dialogue(world, session, topic, topic_id)
    records: Found = []
    stamps: list[int] = []
    while cursor.position < end:
        try:
            answers = await dialogue.fetch([cursor], max_wait_ms=100, max_bytes=1 << 20)
        except ClientError:
            return False
        data = answers[partition]
        found = records_from(data, cursor.position)
        if data.error_code or not found:
            return False
        records.extend(found)
        stamps += [stamp - WALL_START_MS for stamp in stamps_from(data, cursor.position)]
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
        stamps=stamps,
        may_expire=may_expire(topic),
    )
    return True
