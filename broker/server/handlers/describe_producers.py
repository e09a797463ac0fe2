"""DescribeProducers (61): the idempotent producers that a partition remembers (KIP-664).

A producer that was silent for longer than `producer.id.expiration.ms` is no longer shown. There are
no transactions yet: nothing is open, and no coordinator has an epoch.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Final

from broker.errors import ErrorCode, Refusal
from broker.server.context import RequestContext
from broker.server.encoded import EncodedBody, encode_sliced
from broker.server.outcome import count_errors
from broker.wire.api import DESCRIBE_PRODUCERS
from broker.wire.messages.describe_producers import (
    DescribeProducersRequest,
    DescribeProducersResponse,
    PartitionResponse,
    ProducerState,
    TopicResponse,
)

if TYPE_CHECKING:
    from broker.server.node import Broker

PRODUCERS_PER_STEP: Final = 250
NO_COORDINATOR_EPOCH: Final = -1


async def handle_describe_producers(
    broker: Broker, context: RequestContext, request: DescribeProducersRequest
) -> EncodedBody:
    """An answer for each partition asked about, in order, once for each."""
    topics: list[TopicResponse] = []
    asked: dict[str, list[int]] = {}
    for topic in request.topics:
        asked.setdefault(topic.name, []).extend(topic.partition_indexes)
    for name, indexes in asked.items():
        partitions = []
        for index in dict.fromkeys(indexes):
            partitions.append(await _describe(broker, name, index))
            await asyncio.sleep(0)
        count_errors(broker, "DescribeProducers", [item.error_code for item in partitions])
        topics.append(TopicResponse(name=name, partitions=partitions))
    return await encode_sliced(
        DESCRIBE_PRODUCERS,
        context.api_version,
        DescribeProducersResponse(topics=topics),
        ["topics", "partitions", "active_producers"],
        PRODUCERS_PER_STEP,
    )


async def _describe(broker: Broker, topic: str, index: int) -> PartitionResponse:
    answer = PartitionResponse(partition_index=index)
    partition = broker.partitions.get(topic, index)
    try:
        if partition is None:
            raise Refusal(
                ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"there is no partition {topic}-{index}"
            )
        producers = partition.log.producers.active(broker.clock.wall_ms())
    except Refusal as refusal:
        answer.error_code, answer.error_message = refusal.code, refusal.message
        return answer
    for count, (producer_id, (epoch, last_wall_ms, batches)) in enumerate(producers, start=1):
        state = ProducerState(
            producer_id=producer_id,
            producer_epoch=epoch,
            last_sequence=batches[-1].last_sequence,
            last_timestamp=last_wall_ms,
            coordinator_epoch=NO_COORDINATOR_EPOCH,
        )
        answer.active_producers.append(state)
        if count % PRODUCERS_PER_STEP == 0:
            await asyncio.sleep(0)
    return answer
