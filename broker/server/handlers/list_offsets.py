"""ListOffsets (2): the offset at a point in time, or at a named place of a partition.

| timestamp   | from version | answer                                                             |
|-------------|--------------|--------------------------------------------------------------------|
| 0 and above | 1            | the first record of that timestamp or a later one; none: offset -1 |
| -1 latest   | 1            | the high watermark, also the last stable offset: nothing is open   |
| -2 earliest | 1            | the first offset still kept                                        |
| -3 max      | 7            | the record with the largest timestamp (KIP-734)                    |
| -4 local    | 8            | as -2: nothing is kept elsewhere                                   |
| -5 tiered   | 9            | offset -1: nothing is kept elsewhere                               |
| -6 pending  | 11           | offset -1: nothing waits to be moved elsewhere (KIP-1023)          |

A topic with a delivery window answers consumers from its window: earliest is its first record that
is not expired, latest the end of what is due, times are looked for in between. A request of replica
id -2 (Kafka's debugging consumer) is answered from the whole log up to the high watermark: so tools
learn how many records are expired and delayed, and may ask any cluster.

Any other negative timestamp, or one before its version: UNSUPPORTED_VERSION. A partition that is
asked for twice: INVALID_REQUEST, both times.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from typing import TYPE_CHECKING, Final

from broker.errors import ErrorCode, Refusal
from broker.log.lookup import TimestampedOffset
from broker.model import NO_OFFSET, NO_TIMESTAMP
from broker.ports import WorkerFault
from broker.server.context import RequestContext
from broker.server.outcome import count_errors
from broker.wire.messages.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsPartitionResponse,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopicResponse,
)

if TYPE_CHECKING:
    from broker.server.node import Broker
    from broker.server.partition import Partition

LATEST: Final = -1
EARLIEST: Final = -2
MAX_TIMESTAMP: Final = -3
EARLIEST_LOCAL: Final = -4
LATEST_TIERED: Final = -5
EARLIEST_PENDING_UPLOAD: Final = -6
NAMED_FROM: Final = {
    LATEST: 1,
    EARLIEST: 1,
    MAX_TIMESTAMP: 7,
    EARLIEST_LOCAL: 8,
    LATEST_TIERED: 9,
    EARLIEST_PENDING_UPLOAD: 11,
}
"""The version from which each negative timestamp has a meaning."""

PARTITIONS_PER_STEP: Final = 200
DEBUGGING_REPLICA: Final = -2
"""Kafka's id of a reader that sees what consumers do not see (yet)."""
_NOWHERE: Final = TimestampedOffset(NO_OFFSET, NO_TIMESTAMP, -1)


async def handle_list_offsets(
    broker: Broker, context: RequestContext, request: ListOffsetsRequest
) -> ListOffsetsResponse:
    """An answer for each question, in order, errors per partition."""
    counts = Counter(
        (topic.name, item.partition_index) for topic in request.topics for item in topic.partitions
    )
    topics: list[ListOffsetsTopicResponse] = []
    answered = 0
    for topic in request.topics:
        partitions = []
        for question in topic.partitions:
            is_twice = counts[topic.name, question.partition_index] > 1
            partitions.append(
                await _answer(
                    broker,
                    context.api_version,
                    topic.name,
                    question,
                    is_twice=is_twice,
                    is_debugging=request.replica_id == DEBUGGING_REPLICA,
                )
            )
            answered += 1
            if context.connection.is_closed:
                return ListOffsetsResponse()  # nobody reads it: look up no more
            if answered % PARTITIONS_PER_STEP == 0:
                await asyncio.sleep(0)
        count_errors(broker, "ListOffsets", [item.error_code for item in partitions])
        topics.append(ListOffsetsTopicResponse(name=topic.name, partitions=partitions))
    return ListOffsetsResponse(topics=topics)


async def _answer(
    broker: Broker,
    version: int,
    topic: str,
    question: ListOffsetsPartition,
    *,
    is_twice: bool,
    is_debugging: bool,
) -> ListOffsetsPartitionResponse:
    index = question.partition_index
    try:
        if is_twice:
            raise Refusal(ErrorCode.INVALID_REQUEST, "the partition is asked for twice")
        _check_timestamp(version, question.timestamp)
        partition = broker.partitions.get(topic, index)
        if partition is None:
            raise Refusal(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
        code = partition.check_leader_epoch(question.current_leader_epoch)
        if code is not ErrorCode.NONE:
            raise Refusal(code)
        found = await _find(broker, partition, question.timestamp, is_debugging=is_debugging)
    except Refusal as refusal:
        return ListOffsetsPartitionResponse(partition_index=index, error_code=refusal.code)
    return ListOffsetsPartitionResponse(
        partition_index=index,
        timestamp=found.timestamp,
        offset=found.offset,
        leader_epoch=found.leader_epoch if version >= 4 else -1,
    )


async def _find(
    broker: Broker, partition: Partition, timestamp: int, *, is_debugging: bool
) -> TimestampedOffset:
    log = partition.log
    if timestamp in (LATEST_TIERED, EARLIEST_PENDING_UPLOAD):
        return _NOWHERE
    try:
        if partition.window is None or is_debugging:
            start, end = log.log_start_offset, partition.high_watermark
        else:
            await partition.window.catch_up()
            start, end = partition.window.first_offset, partition.window.visible_end
        if timestamp == LATEST:
            return TimestampedOffset(end, NO_TIMESTAMP, partition.leader_epoch)
        if timestamp in (EARLIEST, EARLIEST_LOCAL):
            return TimestampedOffset(start, NO_TIMESTAMP, log.epoch_at(start))
        if timestamp == MAX_TIMESTAMP:
            found = await log.max_timestamp(end, broker.worker, start)
        else:
            found = await log.offset_for_timestamp(timestamp, end, broker.worker, start)
    except Refusal:
        partition.report_damage()
        raise
    except WorkerFault as fault:
        raise Refusal(ErrorCode.REQUEST_TIMED_OUT, f"{fault}: ask again") from fault
    return found or _NOWHERE


def _check_timestamp(version: int, timestamp: int) -> None:
    if timestamp < 0 and version < NAMED_FROM.get(timestamp, version + 1):
        raise Refusal(
            ErrorCode.UNSUPPORTED_VERSION, f"timestamp {timestamp} means nothing in this version"
        )
