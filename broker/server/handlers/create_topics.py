"""CreateTopics (19): each topic for itself.

One that is refused does not keep the others from being made.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from broker.config.effective import effective_topic_config
from broker.errors import ErrorCode, Refusal
from broker.server.catalog import TOPIC_ROWS
from broker.server.context import RequestContext
from broker.server.outcome import Outcome, count_errors, outcome_of, within
from broker.server.topic_rules import WantedTopic
from broker.server.topics import Topic
from broker.wire.messages.create_topics import (
    CreatableTopic,
    CreatableTopicConfigs,
    CreatableTopicResult,
    CreateTopicsRequest,
    CreateTopicsResponse,
)

if TYPE_CHECKING:
    from broker.server.node import Broker


async def handle_create_topics(
    broker: Broker, context: RequestContext, request: CreateTopicsRequest
) -> CreateTopicsResponse:
    """A name that stands twice in the request is refused once, with INVALID_REQUEST."""
    counts = Counter(topic.name for topic in request.topics)
    deadline_ms = broker.clock.monotonic_ms() + request.timeout_ms
    results: dict[str, CreatableTopicResult] = {}
    for topic in request.topics:
        if topic.name in results:
            continue
        if counts[topic.name] > 1:
            twice = Outcome(ErrorCode.INVALID_REQUEST, "the topic stands twice in the request")
            results[topic.name] = _refused(topic, twice)
            continue
        left_ms = max(0, int(deadline_ms - broker.clock.monotonic_ms()))
        results[topic.name] = await _create(broker, topic, request.validate_only, left_ms)
    count_errors(broker, "CreateTopics", [result.error_code for result in results.values()])
    return CreateTopicsResponse(topics=list(results.values()))


async def _create(
    broker: Broker,
    wanted: CreatableTopic,
    is_validation_only: bool,  # noqa: FBT001 - the request's field
    timeout_ms: int,
) -> CreatableTopicResult:
    made: list[Topic] = []

    async def create() -> None:
        made.append(
            await broker.catalog.create_topic(
                _wanted_topic(wanted),
                _overrides(wanted),
                is_validation_only=is_validation_only,
            )
        )

    outcome = await outcome_of(within(broker, timeout_ms, create()))
    if not outcome.is_done:
        return _refused(wanted, outcome)
    return _created(broker, made[0])


def _wanted_topic(wanted: CreatableTopic) -> WantedTopic:
    assignments = {item.partition_index: item.broker_ids for item in wanted.assignments}
    if len(assignments) != len(wanted.assignments):
        raise Refusal(
            ErrorCode.INVALID_REPLICA_ASSIGNMENT, "a partition is assigned twice in the request"
        )
    return WantedTopic(wanted.name, wanted.num_partitions, wanted.replication_factor, assignments)


def _overrides(wanted: CreatableTopic) -> dict[str, str | None]:
    overrides = {config.name: config.value for config in wanted.configs}
    if len(overrides) != len(wanted.configs):
        raise Refusal(ErrorCode.INVALID_CONFIG, "a setting stands twice in the request")
    return overrides


def _created(broker: Broker, topic: Topic) -> CreatableTopicResult:
    config = broker.catalog.broker_configs.config
    effective = [
        effective_topic_config(row, topic.overrides, config) for row in TOPIC_ROWS.values()
    ]
    return CreatableTopicResult(
        name=topic.name,
        topic_id=topic.topic_id,
        num_partitions=topic.partition_count,
        replication_factor=1,
        configs=[
            CreatableTopicConfigs(
                name=item.name,
                value=item.value,
                read_only=item.is_read_only,
                config_source=item.source,
                is_sensitive=item.setting.is_sensitive,
            )
            for item in effective
        ],
    )


def _refused(wanted: CreatableTopic, outcome: Outcome) -> CreatableTopicResult:
    return CreatableTopicResult(
        name=wanted.name, error_code=outcome.code, error_message=outcome.message
    )
