"""Metadata (3): the brokers, and the topics asked for with their leaders.

| asked for                     | answer                                                      |
|-------------------------------|-------------------------------------------------------------|
| null, or nothing in version 0 | every topic                                                 |
| an empty list                 | no topic                                                    |
| a name that exists            | the topic                                                   |
| an unknown name               | the topic, made now, if client and broker allow; else 3     |
| a name that cannot be one     | error 17                                                    |
| an unknown id (version 12)    | error 100, the name null                                    |
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Final

from broker.errors import ErrorCode
from broker.model import NO_TOPIC_ID
from broker.server.authorized import CLUSTER_OPERATIONS, NOT_ASKED
from broker.server.context import RequestContext
from broker.server.encoded import EncodedBody
from broker.server.metadata_answers import TopicAnswer, encode_metadata
from broker.server.names import INTERNAL_TOPICS, name_problem
from broker.server.outcome import count_errors, outcome_of
from broker.server.topic_rules import WantedTopic
from broker.server.topics import Topic
from broker.wire.messages.metadata import (
    MetadataRequest,
    MetadataRequestTopic,
    MetadataResponse,
    MetadataResponseBroker,
)

if TYPE_CHECKING:
    from broker.server.node import Broker

CREATED_PER_REQUEST_MAX: Final = 50
"""Further unknown topics of one request get LEADER_NOT_AVAILABLE: the client asks again."""
_IDS_FROM: Final = 12


async def handle_metadata(
    broker: Broker, context: RequestContext, request: MetadataRequest
) -> EncodedBody:
    """The answer as bytes, kept for the next one who asks the same."""
    version = context.api_version
    wanted = request.topics
    if version == 0 and not wanted:
        wanted = None
    refusals: dict[str, ErrorCode] = {}
    if wanted is not None and _may_create(broker, request):
        refusals = await _create_missing(broker, wanted)
    question = (
        version,
        request.include_topic_authorized_operations,
        request.include_cluster_authorized_operations,
        None if wanted is None else tuple((topic.name, bytes(topic.topic_id)) for topic in wanted),
    )
    kept = broker.catalog.metadata_answers
    generation, now_ms = broker.catalog.generation, broker.clock.monotonic_ms()
    answer = kept.find(question, generation, now_ms)
    if answer is None:
        answers = _answers(broker, version, wanted, refusals)
        errors = [int(answer.error_code) for answer in answers]
        count_errors(broker, "Metadata", errors)
        answer = await encode_metadata(
            broker,
            version,
            _head(broker, request),
            answers,
            shows_operations=request.include_topic_authorized_operations,
        )
        if generation == broker.catalog.generation and not any(errors):
            kept.keep(question, generation, now_ms, answer)
    return answer


def _head(broker: Broker, request: MetadataRequest) -> MetadataResponse:
    asks = request.include_cluster_authorized_operations
    return MetadataResponse(
        brokers=[
            MetadataResponseBroker(
                node_id=broker.node_id, host=broker.advertised_host, port=broker.advertised_port
            )
        ],
        cluster_id=broker.cluster_id,
        controller_id=broker.node_id,
        cluster_authorized_operations=CLUSTER_OPERATIONS if asks else NOT_ASKED,
    )


def _answers(
    broker: Broker,
    version: int,
    wanted: list[MetadataRequestTopic] | None,
    refusals: Mapping[str, ErrorCode],
) -> list[TopicAnswer]:
    if wanted is None:
        return [_found(topic) for topic in broker.catalog.topics()]
    questions = dict.fromkeys((topic.name, bytes(topic.topic_id)) for topic in wanted)
    return [_answer(broker, version, name, topic_id, refusals) for name, topic_id in questions]


def _answer(
    broker: Broker,
    version: int,
    name: str | None,
    topic_id: bytes,
    refusals: Mapping[str, ErrorCode],
) -> TopicAnswer:
    has_id = topic_id != NO_TOPIC_ID
    if version < _IDS_FROM and (has_id or name is None):
        return TopicAnswer(None, name or "", topic_id, ErrorCode.INVALID_REQUEST)
    if has_id or name is None:
        topic = broker.catalog.topic_by_id(topic_id)
        if topic is None:
            return TopicAnswer(None, None, topic_id, ErrorCode.UNKNOWN_TOPIC_ID)
        return _found(topic)
    topic = broker.catalog.topic(name)
    if topic is not None:
        return _found(topic)
    code = refusals.get(name, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
    if name_problem(name) is not None:
        code = ErrorCode.INVALID_TOPIC_EXCEPTION
    return TopicAnswer(None, name, NO_TOPIC_ID, code)


def _found(topic: Topic) -> TopicAnswer:
    return TopicAnswer(topic, topic.name, topic.topic_id, ErrorCode.NONE)


def _may_create(broker: Broker, request: MetadataRequest) -> bool:
    return request.allow_auto_topic_creation and broker.settings.auto_create_topics_enable


async def _create_missing(
    broker: Broker, wanted: list[MetadataRequestTopic]
) -> dict[str, ErrorCode]:
    """Create what does not exist. Returns why some could not be created.

    LEADER_NOT_AVAILABLE asks to try again.
    """
    missing = dict.fromkeys(
        topic.name
        for topic in wanted
        if topic.name is not None
        and broker.catalog.topic(topic.name) is None
        and topic.name not in INTERNAL_TOPICS
        and name_problem(topic.name) is None
    )
    refusals: dict[str, ErrorCode] = {}
    for count, name in enumerate(missing):
        code = ErrorCode.KAFKA_STORAGE_ERROR
        if count < CREATED_PER_REQUEST_MAX:
            code = (await outcome_of(broker.catalog.ensure_topic(WantedTopic(name)))).code
        if code == ErrorCode.KAFKA_STORAGE_ERROR:
            code = ErrorCode.LEADER_NOT_AVAILABLE
        if code != ErrorCode.NONE:
            refusals[name] = code
    return refusals
