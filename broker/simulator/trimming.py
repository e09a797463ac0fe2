"""A simulated application that deletes what it has processed: it writes to a topic of its own and
moves the topic's start up, to an offset, to the end, and sometimes where it must not.

Its producer goes on over the deletions (KAFKA-7190). What was asked is in the history before the
broker hears of it, because an answer may be lost.
"""

from __future__ import annotations

import asyncio
from typing import Final

from broker.errors import ErrorCode
from broker.simulator.bookkeeping import check_refusal
from broker.simulator.history import FAIL, INFO, OK
from broker.simulator.producing import BATCHES_IN_FLIGHT_MAX, Lane, Target, obtain_producer_id
from broker.simulator.reading import EARLIEST, LATEST, TRIMMED_TOPIC, list_offset
from broker.simulator.session import ClientError, Session
from broker.simulator.world import Node, World
from broker.wire.messages.delete_records import (
    DeleteRecordsPartition,
    DeleteRecordsPartitionResult,
    DeleteRecordsRequest,
    DeleteRecordsTopic,
)

TO_THE_END: Final = -1
TRIM_PROBABILITY: Final = 0.3
PAUSE_S_MAX: Final = 0.5
BEYOND: Final = 1_000_000
"""So far beyond the end that no producer gets there meanwhile."""
_UNDECIDED: Final = frozenset({ErrorCode.KAFKA_STORAGE_ERROR, ErrorCode.REQUEST_TIMED_OUT})


class Trimmer:
    """See the module."""

    def __init__(self, world: World, node: Node) -> None:
        self.world = world
        self.node = node
        self.is_done = False
        self._session = Session(node)

    async def run(self) -> None:
        identity = await obtain_producer_id(self._session)
        target = Target(TRIMMED_TOPIC, TRIMMED_TOPIC, 0)
        window = self.node.random.choice((1, BATCHES_IN_FLIGHT_MAX))
        lane = Lane(self.world, self._session, target, self.node.name, identity, -1, window)
        while lane.pending or not self.world.is_healing:
            await lane.run_round(may_start=not self.world.is_healing)
            if self.node.random.random() < TRIM_PROBABILITY:
                await self._trim()
            await asyncio.sleep(self.node.random.random() * PAUSE_S_MAX)
        while not await self._trim():
            await self._session.back_off()
        self.is_done = True
        self._session.close()

    async def _trim(self) -> bool:
        """One deletion. Whether it was acknowledged."""
        offset = await self._choose_offset()
        if offset is None:
            return False
        world, place = self.world, {"topic": TRIMMED_TOPIC, "partition": 0}
        identity = world.history.invoke(world.loop.time(), "trim", offset=offset, **place)
        answer = await self._ask(offset)
        if answer is None:
            world.history.end(world.loop.time(), identity, INFO, "trim")
            return False
        code = ErrorCode(answer.error_code)
        if code is ErrorCode.NONE:
            world.counters["records trimmed away"] += 1
            start = answer.low_watermark
            world.history.end(world.loop.time(), identity, OK, "trim", start=start, **place)
            return True
        kind = INFO if code in _UNDECIDED else FAIL
        world.history.end(world.loop.time(), identity, kind, "trim")
        if code is not ErrorCode.OFFSET_OUT_OF_RANGE or offset < BEYOND:
            check_refusal(world, f"deletion up to {offset}", code)
        return False

    async def _choose_offset(self) -> int | None:
        random = self.node.random
        start = await list_offset(self._session, TRIMMED_TOPIC, 0, EARLIEST)
        end = await list_offset(self._session, TRIMMED_TOPIC, 0, LATEST)
        if start is None or end is None:
            await self._session.back_off()
            return None
        return random.choice(
            (
                random.randint(start, end),
                random.randint(start, end),
                random.randint(0, start),
                end,
                TO_THE_END,
                end + BEYOND,
            )
        )

    async def _ask(self, offset: int) -> DeleteRecordsPartitionResult | None:
        """None when nobody knows what became of it."""
        wanted = DeleteRecordsPartition(partition_index=0, offset=offset)
        topic = DeleteRecordsTopic(name=TRIMMED_TOPIC, partitions=[wanted])
        request = DeleteRecordsRequest(topics=[topic], timeout_ms=5_000)
        try:
            response = await self._session.ask_any_version(request)
        except ClientError:
            await self._session.back_off()
            return None
        answer = response.topics[0].partitions[0]
        assert isinstance(answer, DeleteRecordsPartitionResult), "one partition was asked"
        return answer
