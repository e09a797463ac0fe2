"""A simulated administrator: it creates a topic, uses it, deletes it, and creates it again under
the same name.

Its link is never cut, so that no old request can arrive late; the broker is killed under it all
the same. In the history each incarnation has a name of its own ("recycled/3"): anything of an
earlier one is a phantom.
"""

from __future__ import annotations

import asyncio
from typing import Any, Final

from broker.errors import RETRIABLE, ErrorCode
from broker.model import INT64_MAX
from broker.simulator.bookkeeping import check_refusal, commit, find_coordinator, read_committed
from broker.simulator.producing import Lane, Target, obtain_producer_id
from broker.simulator.reading import read_all
from broker.simulator.session import ClientError, Session
from broker.simulator.world import Node, World
from broker.wire.messages.create_topics import (
    CreatableTopic,
    CreatableTopicConfig,
    CreateTopicsRequest,
)
from broker.wire.messages.delete_topics import DeleteTopicsRequest, DeleteTopicState

ROUNDS_MAX: Final = 6
ANY_TIME: Final = {"message.timestamp.after.max.ms": str(INT64_MAX)}
"""The clocks jump: a producer's timestamp may be far ahead of the broker's."""
TOPIC: Final = "recycled"
NAME: Final = "recycler"


async def create_topic(
    world: World, session: Session, topic: str, partitions: int, configs: dict[str, str]
) -> None:
    """Until it exists."""
    request = CreateTopicsRequest(
        topics=[
            CreatableTopic(
                name=topic,
                num_partitions=partitions,
                replication_factor=1,
                configs=[CreatableTopicConfig(name=name, value=configs[name]) for name in configs],
            )
        ],
        timeout_ms=10_000,
    )
    await _ask_until(world, session, request, ErrorCode.TOPIC_ALREADY_EXISTS)
    world.counters["topics created"] += 1


async def delete_topic(world: World, session: Session, topic: str) -> None:
    """Until it does not exist."""
    request = DeleteTopicsRequest(
        topics=[DeleteTopicState(name=topic)], topic_names=[topic], timeout_ms=10_000
    )
    await _ask_until(world, session, request, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
    world.counters["topics deleted"] += 1


async def _ask_until(world: World, session: Session, request: Any, done: ErrorCode) -> None:
    """Repeat until the answer is NONE or `done` (an earlier try may have worked unheard)."""
    while True:
        try:
            response = await session.ask_any_version(request)
        except ClientError:
            await session.back_off()
            continue
        results = getattr(response, "topics", None) or response.responses
        code = ErrorCode(results[0].error_code)
        if code in (ErrorCode.NONE, done):
            return
        if code not in RETRIABLE:
            check_refusal(world, type(request).__name__, code)
        await session.back_off()


class Recycler:
    """See the module."""

    def __init__(self, world: World, node: Node) -> None:
        self.world = world
        self.node = node
        self.is_done = False
        self._session = Session(node)

    async def run(self) -> None:
        await find_coordinator(self._session, NAME)
        await delete_topic(self.world, self._session, TOPIC)  # an earlier recycler's
        incarnation = 0
        while not self.world.is_healing:
            incarnation += 1
            await self._live_once(f"{TOPIC}/{self.node.name}/{incarnation}")
        self.is_done = True
        self._session.close()

    async def _live_once(self, label: str) -> None:
        random = self.node.random
        await create_topic(
            self.world, self._session, TOPIC, 1, {"segment.bytes": "4096", **ANY_TIME}
        )
        if self.world.is_durable_by_default:
            self.world.note_durable(label)
        await self._read_committed(label)
        identity = await obtain_producer_id(self._session)
        target = Target(TOPIC, label, 0)
        name = f"{self.node.name}/{label}"
        lane = Lane(self.world, self._session, target, name, identity, -1, 1)
        for _ in range(random.randint(1, ROUNDS_MAX)):
            await lane.run_round(may_start=True)
            while lane.pending:
                await lane.run_round(may_start=False)
        while not await read_all(self.world, self._session, TOPIC, label, 0):
            await self._session.back_off()
        while not await commit(
            self.world, self._session, NAME, TOPIC, label, random.randint(1, lane.next_sequence)
        ):
            await self._session.back_off()
        await self._read_committed(label)
        await delete_topic(self.world, self._session, TOPIC)
        await asyncio.sleep(random.random())

    async def _read_committed(self, label: str) -> None:
        while not await read_committed(self.world, self._session, NAME, TOPIC, label):
            await self._session.back_off()
