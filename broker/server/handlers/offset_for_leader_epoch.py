"""OffsetForLeaderEpoch: where a leader epoch ended (KIP-320).

Every restart begins a new epoch, and a consumer that knows the old one asks before it reads on.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from broker.errors import ErrorCode, Refusal
from broker.server.context import RequestContext
from broker.server.outcome import count_errors
from broker.wire.messages.offset_for_leader_epoch import (
    EpochEndOffset,
    OffsetForLeaderEpochRequest,
    OffsetForLeaderEpochResponse,
    OffsetForLeaderPartition,
    OffsetForLeaderTopicResult,
)

if TYPE_CHECKING:
    from broker.server.node import Broker


def handle_offset_for_leader_epoch(
    broker: Broker,
    _context: RequestContext,
    request: OffsetForLeaderEpochRequest,
    reply: Callable[[OffsetForLeaderEpochResponse], None],
) -> None:
    """An answer for each question, in order, errors per partition."""
    topics: list[OffsetForLeaderTopicResult] = []
    for topic in request.topics:
        answers = [_answer(broker, topic.topic, question) for question in topic.partitions]
        count_errors(broker, "OffsetForLeaderEpoch", [answer.error_code for answer in answers])
        topics.append(OffsetForLeaderTopicResult(topic=topic.topic, partitions=answers))
    reply(OffsetForLeaderEpochResponse(topics=topics))


def _answer(broker: Broker, topic: str, question: OffsetForLeaderPartition) -> EpochEndOffset:
    try:
        epoch, end_offset = _end_of_epoch(broker, topic, question)
    except Refusal as refusal:
        return EpochEndOffset(partition=question.partition, error_code=refusal.code)
    return EpochEndOffset(partition=question.partition, leader_epoch=epoch, end_offset=end_offset)


def _end_of_epoch(
    broker: Broker, topic: str, question: OffsetForLeaderPartition
) -> tuple[int, int]:
    partition = broker.partitions.get(topic, question.partition)
    if partition is None:
        raise Refusal(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
    code = partition.check_leader_epoch(question.current_leader_epoch)
    if code is not ErrorCode.NONE:
        raise Refusal(code)
    return partition.end_offset_for_epoch(question.leader_epoch)
