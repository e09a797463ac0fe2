"""DeleteRecords (21): move the start of partitions up, so that records below it are gone
(KIP-107).

Refused per partition: internal topics (the broker's own state), topics that are only compacted
(POLICY_VIOLATION), an offset beyond the high watermark (OFFSET_OUT_OF_RANGE). An offset below the
log start is fine and changes nothing. Answered when a restart would find the new start.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Final

from broker.errors import ErrorCode, Refusal
from broker.server.context import RequestContext
from broker.server.outcome import count_errors, outcome_of, within
from broker.wire.messages.delete_records import (
    DeleteRecordsPartition,
    DeleteRecordsPartitionResult,
    DeleteRecordsRequest,
    DeleteRecordsResponse,
    DeleteRecordsTopicResult,
)

if TYPE_CHECKING:
    from broker.server.node import Broker

AT_ONCE_MAX: Final = 16
"""Partitions of one request whose new start is stored at a time."""
TIMEOUT_MS_MIN: Final = 1_000
"""The client's time-out is for replicas; the disk gets at least this long."""
NOTHING_DELETED: Final = -1


async def handle_delete_records(
    broker: Broker, _context: RequestContext, request: DeleteRecordsRequest
) -> DeleteRecordsResponse:
    """An outcome for each partition asked for, in order."""
    deadline_ms = broker.clock.monotonic_ms() + max(request.timeout_ms, TIMEOUT_MS_MIN)
    topics = [
        DeleteRecordsTopicResult(
            name=topic.name,
            partitions=[
                DeleteRecordsPartitionResult(
                    partition_index=wanted.partition_index, low_watermark=NOTHING_DELETED
                )
                for wanted in topic.partitions
            ],
        )
        for topic in request.topics
    ]
    waiting = iter(
        [
            (topic.name, wanted, result)
            for topic, answer in zip(request.topics, topics, strict=True)
            for wanted, result in zip(topic.partitions, answer.partitions, strict=True)
        ]
    )

    async def delete(
        name: str, wanted: DeleteRecordsPartition, result: DeleteRecordsPartitionResult
    ) -> None:
        left_ms = max(0, int(deadline_ms - broker.clock.monotonic_ms()))
        result.low_watermark = await within(broker, left_ms, _delete(broker, name, wanted))

    async def delete_next() -> None:
        for name, wanted, result in waiting:
            outcome = await outcome_of(delete(name, wanted, result))
            result.error_code = outcome.code

    async with asyncio.TaskGroup() as group:
        for _ in range(AT_ONCE_MAX):
            group.create_task(delete_next())
    for topic in topics:
        count_errors(broker, "DeleteRecords", [result.error_code for result in topic.partitions])
    return DeleteRecordsResponse(topics=topics)


async def _delete(broker: Broker, topic: str, wanted: DeleteRecordsPartition) -> int:
    partition = broker.partitions.get(topic, wanted.partition_index)
    if partition is None:
        raise Refusal(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
    if partition.is_internal:
        text = f"{topic} is an internal topic: the broker keeps its own state in it"
        raise Refusal(ErrorCode.INVALID_TOPIC_EXCEPTION, text)
    try:
        return await partition.delete_records(wanted.offset)
    finally:  # on a full disk it makes the room in which the new start is stored
        broker.maintenance.retain_soon(partition)
