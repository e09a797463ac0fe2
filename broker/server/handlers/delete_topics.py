"""DeleteTopics (20): by name, or from version 6 by id; each topic for itself."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Final

from broker.errors import ErrorCode, Refusal
from broker.model import NO_TOPIC_ID, format_uuid
from broker.server.context import RequestContext
from broker.server.outcome import count_errors, outcome_of, within
from broker.server.topics import Topic
from broker.wire.messages.delete_topics import (
    DeletableTopicResult,
    DeleteTopicsRequest,
    DeleteTopicsResponse,
    DeleteTopicState,
)

if TYPE_CHECKING:
    from broker.server.node import Broker

_IDS_FROM: Final = 6
_DISABLED_FROM: Final = 3


async def handle_delete_topics(
    broker: Broker, context: RequestContext, request: DeleteTopicsRequest
) -> DeleteTopicsResponse:
    """A topic that stands twice in the request, by name or id, is refused once, with
    INVALID_REQUEST.
    """
    wanted = [(topic.name, bytes(topic.topic_id)) for topic in request.topics]
    if context.api_version < _IDS_FROM:
        wanted = [(name, NO_TOPIC_ID) for name in request.topic_names]
    counts = Counter(wanted)
    deadline_ms = broker.clock.monotonic_ms() + request.timeout_ms
    results = []
    for name, topic_id in counts:
        left_ms = max(0, int(deadline_ms - broker.clock.monotonic_ms()))
        state = DeleteTopicState(name=name, topic_id=topic_id)
        is_twice = counts[name, topic_id] > 1
        results.append(await _delete(broker, context, state, left_ms, is_twice=is_twice))
    count_errors(broker, "DeleteTopics", [result.error_code for result in results])
    return DeleteTopicsResponse(responses=results)


async def _delete(
    broker: Broker,
    context: RequestContext,
    wanted: DeleteTopicState,
    timeout_ms: int,
    *,
    is_twice: bool,
) -> DeletableTopicResult:
    result = DeletableTopicResult(name=wanted.name, topic_id=wanted.topic_id)

    async def delete() -> None:
        if is_twice:
            raise Refusal(ErrorCode.INVALID_REQUEST, "the topic stands twice in the request")
        topic = _find(broker, wanted)
        result.name, result.topic_id = topic.name, topic.topic_id
        _check_allowed(broker, topic, context.api_version)
        try:
            await within(broker, timeout_ms, broker.catalog.delete_topic(topic.topic_id))
        except Refusal as refusal:
            if refusal.code is not ErrorCode.UNKNOWN_TOPIC_ID or wanted.topic_id != NO_TOPIC_ID:
                raise
            raise _no_topic(topic.name) from None  # another request was faster

    outcome = await outcome_of(delete())
    result.error_code, result.error_message = outcome.code, outcome.message
    return result


def _find(broker: Broker, wanted: DeleteTopicState) -> Topic:
    by_id = wanted.topic_id != NO_TOPIC_ID
    if by_id == (wanted.name is not None):
        raise Refusal(ErrorCode.INVALID_REQUEST, "a topic is named either by its name or by its id")
    topic: Topic | None
    if by_id:
        topic = broker.catalog.topic_by_id(wanted.topic_id)
        if topic is None:
            text = f"no topic has the id {format_uuid(wanted.topic_id)}"
            raise Refusal(ErrorCode.UNKNOWN_TOPIC_ID, text)
        return topic
    topic = broker.catalog.topic(wanted.name or "")
    if topic is None:
        raise _no_topic(wanted.name)
    return topic


def _no_topic(name: str | None) -> Refusal:
    return Refusal(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"topic {name} does not exist")


def _check_allowed(broker: Broker, topic: Topic, version: int) -> None:
    if topic.is_internal:
        text = f"{topic.name} is an internal topic: the broker keeps its own state in it"
        raise Refusal(ErrorCode.INVALID_TOPIC_EXCEPTION, text)
    if not broker.settings.delete_topic_enable:
        is_old = version < _DISABLED_FROM
        code = ErrorCode.INVALID_REQUEST if is_old else ErrorCode.TOPIC_DELETION_DISABLED
        raise Refusal(code, "topics cannot be deleted here: delete.topic.enable is false")
