"""A simulated topic with a delivery window, those who watch it, and its end.

A watcher reads like any consumer, from random places, also below what is expired and beyond what is
due; it tells the history when each record was stamped, and when it asked. Its offsets are always in
the log, so no fetch may be refused. After the heal the clock goes to where it was at its latest, so
that everything comes due; then the window ends, and the whole log is read.
"""

from __future__ import annotations

import asyncio
from random import Random
from typing import Final

from broker.errors import RETRIABLE, ErrorCode
from broker.simulator.fetching import Cursor, Dialogue, records_from, stamps_from
from broker.simulator.ports import WALL_START_MS
from broker.simulator.reading import EARLIEST, LATEST, find_topic_id, list_offset
from broker.simulator.session import ClientError, Session
from broker.simulator.world import Node, World
from broker.wire.messages.fetch import PartitionData
from broker.wire.messages.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)

DELAYED_TOPIC: Final = "delayed"
PARTITION: Final = 0
SEEK_PROBABILITY: Final = 0.2
DEBUGGING_REPLICA: Final = -2
CONVERGE_S_MAX: Final = 60.0
_DELAYS_MS: Final = (200, 1_000, 3_000)
_TTLS_MS: Final = (-1, 4_000, 10_000)
_TOPIC_RESOURCE: Final = 2


def window_configs(world: World, random: Random) -> dict[str, str]:
    """The topic's window, drawn; the history knows it from here on."""
    delay_ms, ttl_ms = random.choice(_DELAYS_MS), random.choice(_TTLS_MS)
    _record_window(world, delay_ms, ttl_ms)
    return {
        "message.timestamp.type": "LogAppendTime",
        "delivery.delay.ms": str(delay_ms),
        "delivery.ttl.ms": str(ttl_ms),
        "segment.bytes": "4096",
    }


class Watcher:
    """A process that reads the topic until it is killed."""

    def __init__(self, world: World, node: Node) -> None:
        self.world = world
        self.node = node
        self.is_done = True
        self._session = Session(node)
        self._cursor = Cursor(node.name, DELAYED_TOPIC, PARTITION, 0)
        self._end = 0

    async def run(self) -> None:
        topic_id = None
        while topic_id is None:
            await self._session.back_off()
            topic_id = await find_topic_id(self._session, DELAYED_TOPIC)
        is_incremental = self.node.random.random() < 0.5
        dialogue = Dialogue(self.world, self._session, DELAYED_TOPIC, topic_id, is_incremental)
        while True:
            await self._poll(dialogue)
            if self.node.random.random() < SEEK_PROBABILITY:
                await self._seek()

    async def _poll(self, dialogue: Dialogue) -> None:
        world, random = self.world, self.node.random
        asked_s, incarnation = world.loop.time(), world.counters["broker starts"]
        try:
            answers = await dialogue.fetch(
                [self._cursor],
                max_wait_ms=random.choice((0, 500, 2_000)),
                max_bytes=random.choice((1, 2_000, 1 << 20)),
            )
        except ClientError:
            await self._session.back_off()
            return
        if PARTITION in answers:
            is_same = world.counters["broker starts"] == incarnation
            await self._take(answers[PARTITION], asked_s, incarnation if is_same else None)

    async def _take(self, data: PartitionData, asked_s: float, incarnation: int | None) -> None:
        cursor, code = self._cursor, ErrorCode(data.error_code)
        if code in RETRIABLE:
            await self._session.back_off()
            return
        if code is not ErrorCode.NONE:
            evidence = f"{cursor.reader} {DELAYED_TOPIC} at {cursor.position}"
            self.world.find("a valid fetch is refused", f"{evidence}: {code.name}")
            cursor.seek(0)
            return
        found = records_from(data, cursor.position)
        self.world.history.record(
            self.world.loop.time(),
            "watch",
            reader=cursor.reader,
            topic=DELAYED_TOPIC,
            partition=PARTITION,
            position=cursor.position,
            records=found,
            stamps=[stamp - WALL_START_MS for stamp in stamps_from(data, cursor.position)],
            visible_end=data.high_watermark,
            asked_s=round(asked_s, 6),
            incarnation=incarnation,
        )
        self.world.counters["records read in a window"] += len(found)
        if found:
            self.world.counters["expired records passed"] += found[0][0] - cursor.position
            cursor.position = found[-1][0] + 1

    async def _seek(self) -> None:
        """To anywhere in the log, its end included: below, inside or beyond the window."""
        end = await list_offset(
            self._session, DELAYED_TOPIC, PARTITION, LATEST, replica_id=DEBUGGING_REPLICA
        )
        if end is not None:
            self._cursor.seek(self.node.random.randint(0, end))


async def settle_window(world: World, session: Session) -> None:
    """Everything comes due, and then the window ends. Whatever does not is a finding."""
    world.wall.skew_ms = world.wall.latest_skew_ms
    record_clock(world)
    deadline_s = world.loop.time() + CONVERGE_S_MAX
    while not await _is_all_due(session):
        if world.loop.time() > deadline_s:
            world.find("does not converge", "records of the delayed topic are not delivered")
            break
        await asyncio.sleep(0.1)
    _record_window(world, 0, -1)
    while not await _end_window(session):
        if world.loop.time() > deadline_s:
            world.find("does not converge", "the delivery window cannot be ended")
            break
        await session.back_off()


def record_clock(world: World) -> None:
    """The wall clock was moved: the history's times mean other wall times from here on."""
    world.history.record(world.loop.time(), "clock", skew_ms=world.wall.skew_ms)


def _record_window(world: World, delay_ms: int, ttl_ms: int) -> None:
    world.history.record(
        world.loop.time(),
        "window",
        topic=DELAYED_TOPIC,
        partition=PARTITION,
        delay_ms=delay_ms,
        ttl_ms=ttl_ms,
    )


async def _is_all_due(session: Session) -> bool:
    ends = [
        await list_offset(session, DELAYED_TOPIC, PARTITION, LATEST, replica_id=replica_id)
        for replica_id in (DEBUGGING_REPLICA, -1)
    ]
    first = await list_offset(session, DELAYED_TOPIC, PARTITION, EARLIEST)
    return None not in ends and ends[0] == ends[1] and first is not None and first <= (ends[1] or 0)


async def _end_window(session: Session) -> bool:
    configs = [
        AlterableConfig(name="delivery.delay.ms", config_operation=0, value="0"),
        AlterableConfig(name="delivery.ttl.ms", config_operation=0, value="-1"),
    ]
    resource = AlterConfigsResource(
        resource_type=_TOPIC_RESOURCE, resource_name=DELAYED_TOPIC, configs=configs
    )
    try:
        response = await session.ask(IncrementalAlterConfigsRequest(resources=[resource]), 1)
    except ClientError:
        return False
    return bool(response.responses[0].error_code == 0)
