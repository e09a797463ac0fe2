"""DescribeTopicPartitions (75): topics by name, with their partitions, page by page (KIP-966).

| asked for              | answer                                                        |
|------------------------|---------------------------------------------------------------|
| no topic               | all of them                                                   |
| names                  | those, each once; 3 or 17 in place of what does not exist     |
| a cursor               | from that topic and partition on, in the order of names       |
| a cursor below 0, or   | INVALID_REQUEST for every name                                |
| at no name of those    |                                                               |

A page has as many partitions as the client wants, `PARTITIONS_MAX` at most and 1 at least; its
`next_cursor` is where the next one begins.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Final

from broker.errors import ErrorCode
from broker.server.authorized import TOPIC_OPERATIONS
from broker.server.context import RequestContext
from broker.server.encoded import EncodedBody, encode_sliced
from broker.server.metadata_answers import describe_partition
from broker.server.names import name_problem
from broker.server.outcome import count_errors
from broker.server.topics import PartitionState, Topic
from broker.wire.api import DESCRIBE_TOPIC_PARTITIONS
from broker.wire.messages.describe_topic_partitions import (
    Cursor,
    DescribeTopicPartitionsRequest,
    DescribeTopicPartitionsResponse,
    DescribeTopicPartitionsResponsePartition,
    DescribeTopicPartitionsResponseTopic,
)

if TYPE_CHECKING:
    from broker.server.node import Broker

PARTITIONS_MAX: Final = 2_000
"""Kafka's default of `max.request.partition.size.limit`."""
PARTITIONS_PER_STEP: Final = 100
TOPICS_PER_STEP: Final = 50


async def handle_describe_topic_partitions(
    broker: Broker, context: RequestContext, request: DescribeTopicPartitionsRequest
) -> EncodedBody:
    """One page."""
    if _has_bad_cursor(request):
        invalid = ErrorCode.INVALID_REQUEST
        topics = [_refused(topic.name, invalid) for topic in request.topics]
        response = DescribeTopicPartitionsResponse(topics=topics)
    else:
        response = await _page(broker, request)
    codes = [topic.error_code for topic in response.topics]
    count_errors(broker, "DescribeTopicPartitions", codes)
    return await encode_sliced(
        DESCRIBE_TOPIC_PARTITIONS,
        context.api_version,
        response,
        ["topics", "partitions"],
        PARTITIONS_PER_STEP,
    )


def _has_bad_cursor(request: DescribeTopicPartitionsRequest) -> bool:
    cursor = request.cursor
    if cursor is None:
        return False
    is_elsewhere = cursor.topic_name not in {topic.name for topic in request.topics}
    return cursor.partition_index < 0 or (bool(request.topics) and is_elsewhere)


async def _page(
    broker: Broker, request: DescribeTopicPartitionsRequest
) -> DescribeTopicPartitionsResponse:
    response = DescribeTopicPartitionsResponse()
    cursor = request.cursor or Cursor()
    left = max(1, min(request.response_partition_limit, PARTITIONS_MAX))
    for count, name in enumerate(_names(broker, request, cursor.topic_name), start=1):
        if left == 0:
            response.next_cursor = Cursor(topic_name=name, partition_index=0)
            break
        topic = broker.catalog.topic(name)
        if topic is None:
            if request.topics:
                response.topics.append(_refused(name, _why_missing(name)))
        else:
            first = cursor.partition_index if name == cursor.topic_name else 0
            states = topic.partitions[first : first + left]
            response.topics.append(await _describe(broker, topic, states))
            left -= len(states)
            end = first + len(states)
            if end < topic.partition_count:
                response.next_cursor = Cursor(topic_name=name, partition_index=end)
                break
        if count % TOPICS_PER_STEP == 0:
            await asyncio.sleep(0)
    return response


def _names(broker: Broker, request: DescribeTopicPartitionsRequest, first: str) -> list[str]:
    """In order, from `first` on."""
    if request.topics:
        names = sorted({topic.name for topic in request.topics})
    else:
        names = [topic.name for topic in broker.catalog.topics()]
    return [name for name in names if name >= first]


async def _describe(
    broker: Broker, topic: Topic, states: tuple[PartitionState, ...]
) -> DescribeTopicPartitionsResponseTopic:
    partitions = []
    for count, state in enumerate(states, start=1):
        found = describe_partition(broker, topic, state)
        partitions.append(
            DescribeTopicPartitionsResponsePartition(
                error_code=found.error_code,
                partition_index=found.partition_index,
                leader_id=found.leader_id,
                leader_epoch=found.leader_epoch,
                replica_nodes=found.replica_nodes,
                isr_nodes=found.isr_nodes,
                eligible_leader_replicas=[],  # the Java client reads no null here
                last_known_elr=[],
                offline_replicas=found.offline_replicas,
            )
        )
        if count % PARTITIONS_PER_STEP == 0:
            await asyncio.sleep(0)
    return DescribeTopicPartitionsResponseTopic(
        name=topic.name,
        topic_id=topic.topic_id,
        is_internal=topic.is_internal,
        partitions=partitions,
        topic_authorized_operations=TOPIC_OPERATIONS,
    )


def _why_missing(name: str) -> ErrorCode:
    if name_problem(name) is not None:
        return ErrorCode.INVALID_TOPIC_EXCEPTION
    return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


def _refused(name: str, code: ErrorCode) -> DescribeTopicPartitionsResponseTopic:
    return DescribeTopicPartitionsResponseTopic(name=name, error_code=code)
