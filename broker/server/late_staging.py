"""Batches of one Produce request that cannot be staged at once, because the worker process opens
one of them first.

The connection is held meanwhile: no later request of it is looked at, so that batches keep their
order for each partition and each producer. Invariants: the bytes are copies of our own (the receive
buffer goes on), counted in the request memory; a connection that ended stores nothing more of it;
everything that may have changed during the wait is looked at again.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, NamedTuple, Protocol

from broker.errors import Refusal
from broker.model import AppendResult
from broker.records.intake import Intake, NeedsWorker

if TYPE_CHECKING:
    from broker.server.connection import Connection
    from broker.server.partition import Partition


class WaitingBatch(NamedTuple):
    """One batch of a request. `position` is its place in it; `records` is a copy."""

    position: int
    topic: str
    partition: int
    records: bytearray | None


class Answer(Protocol):
    """Who is told what became of each batch."""

    def settle(self, position: int, result: AppendResult | Refusal) -> None:
        """It was staged (and is acknowledged later) or refused."""


Stage = Callable[[WaitingBatch, memoryview | None, "Partition | None"], AppendResult]
"""Stage a batch (these bytes), which the partition's intake, if one is given, has seen. Raises
Refusal.
"""


def stage_later(
    connection: Connection, answer: Answer, batches: Sequence[WaitingBatch], stage: Stage
) -> None:
    """Stage `batches` one after the other, and hold the connection until the last one is."""
    connection.hold()
    connection.broker.spawn(_stage_all(connection, answer, batches, stage))


async def _stage_all(
    connection: Connection, answer: Answer, batches: Sequence[WaitingBatch], stage: Stage
) -> None:
    """Cancelled, it leaves what is not staged yet unstored and unanswered."""
    memory = connection.table.request_memory
    size = sum(len(batch.records or ()) for batch in batches)
    memory.take(size)
    try:
        for batch in batches:
            result = await _stage_one(connection, batch, stage)
            if result is None:
                return
            answer.settle(batch.position, result)
    except Exception as error:  # noqa: BLE001 - the root of the request's task
        connection.fail(error)
    finally:
        memory.give(size)
        connection.go_on()


async def _stage_one(
    connection: Connection, batch: WaitingBatch, stage: Stage
) -> AppendResult | Refusal | None:
    """What became of it; None when the connection ended: then it is not stored."""
    broker = connection.broker
    partition = broker.partitions.get(batch.topic, batch.partition)
    records = None if batch.records is None else memoryview(batch.records)
    try:
        if partition is not None and partition.intake is not None and batch.records is not None:
            records = await _open(connection, partition.intake, batch.records)
        if connection.is_closed or connection.is_ending:
            return None
        connection.now_wall_ms = broker.clock.wall_ms()
        return stage(batch, records, partition)
    except Refusal as refusal:
        if partition is not None and batch.records is not None:
            partition.on_refused(batch.records, refusal.code, broker.clock.wall_ms())
        return refusal


async def _open(connection: Connection, intake: Intake, records: bytearray) -> memoryview:
    """Small ones here, others in the worker process. Raises Refusal."""
    openings, now_wall_ms = connection.broker.openings, connection.broker.clock.wall_ms()
    try:
        return openings.take_in_now(connection, intake, memoryview(records), now_wall_ms)
    except NeedsWorker:
        return await openings.take_in_worker(intake, records, now_wall_ms)
