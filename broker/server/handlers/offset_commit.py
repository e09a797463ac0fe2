"""OffsetCommit: store the positions of a group."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

from broker.errors import ErrorCode
from broker.server.context import RequestContext
from broker.server.groups.answers import caller_of, counted
from broker.wire.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitResponse,
    OffsetCommitResponsePartition,
    OffsetCommitResponseTopic,
)

if TYPE_CHECKING:
    from broker.server.node import Broker


def handle_offset_commit(
    broker: Broker,
    context: RequestContext,
    request: OffsetCommitRequest,
    reply: Callable[[OffsetCommitResponse], None],
) -> None:
    """Answered when the commits are stored; commits of one turn of the loop share an append."""
    answer = counted(broker, "OffsetCommit", reply, _codes)
    caller = caller_of(context, answer, lambda code: _refused(request, code))
    find_topic = broker.groups.find_topic
    broker.groups.run(
        request.group_id,
        caller.reply_to,
        lambda shard, moment: shard.on_commit(request, find_topic, caller, moment),
    )


def _codes(response: OffsetCommitResponse) -> Iterator[int]:
    return (item.error_code for topic in response.topics for item in topic.partitions)


def _refused(request: OffsetCommitRequest, code: ErrorCode) -> OffsetCommitResponse:
    return OffsetCommitResponse(
        topics=[
            OffsetCommitResponseTopic(
                name=topic.name,
                partitions=[
                    OffsetCommitResponsePartition(
                        partition_index=partition.partition_index, error_code=code
                    )
                    for partition in topic.partitions
                ],
            )
            for topic in request.topics
        ]
    )
