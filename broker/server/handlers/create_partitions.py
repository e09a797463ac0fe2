"""CreatePartitions (37): grow topics; each for itself.

Keys move to other partitions when a topic grows.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from broker.errors import ErrorCode, Refusal
from broker.server.context import RequestContext
from broker.server.outcome import count_errors, outcome_of, within
from broker.wire.messages.create_partitions import (
    CreatePartitionsRequest,
    CreatePartitionsResponse,
    CreatePartitionsTopic,
    CreatePartitionsTopicResult,
)

if TYPE_CHECKING:
    from broker.server.node import Broker


async def handle_create_partitions(
    broker: Broker, context: RequestContext, request: CreatePartitionsRequest
) -> CreatePartitionsResponse:
    """A topic that stands twice in the request is refused once, with INVALID_REQUEST."""
    counts = Counter(topic.name for topic in request.topics)
    deadline_ms = broker.clock.monotonic_ms() + request.timeout_ms
    results = []
    for wanted in {topic.name: topic for topic in request.topics}.values():
        left_ms = max(0, int(deadline_ms - broker.clock.monotonic_ms()))
        growth = _grow(
            broker,
            wanted,
            left_ms,
            is_twice=counts[wanted.name] > 1,
            is_validation_only=request.validate_only,
        )
        outcome = await outcome_of(growth)
        results.append(
            CreatePartitionsTopicResult(
                name=wanted.name, error_code=outcome.code, error_message=outcome.message
            )
        )
    count_errors(broker, "CreatePartitions", [result.error_code for result in results])
    return CreatePartitionsResponse(results=results)


async def _grow(
    broker: Broker,
    wanted: CreatePartitionsTopic,
    timeout_ms: int,
    *,
    is_twice: bool,
    is_validation_only: bool,
) -> None:
    if is_twice:
        raise Refusal(ErrorCode.INVALID_REQUEST, "the topic stands twice in the request")
    topic = broker.catalog.topic(wanted.name)
    if topic is not None and topic.is_internal:
        text = f"{topic.name} is an internal topic: its number of partitions is fixed"
        raise Refusal(ErrorCode.INVALID_TOPIC_EXCEPTION, text)
    assignments = None
    if wanted.assignments:
        assignments = [item.broker_ids for item in wanted.assignments]
    growth = broker.catalog.create_partitions(
        wanted.name, wanted.count, assignments, is_validation_only=is_validation_only
    )
    await within(broker, timeout_ms, growth)
