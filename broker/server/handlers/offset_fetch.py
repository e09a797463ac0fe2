"""OffsetFetch: the stored positions of one group (up to version 7) or of many."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, Final

from broker.coordinators.group.effects import ReplyTo
from broker.coordinators.group.offsets import FetchedOffset, FetchedTopics
from broker.errors import ErrorCode
from broker.model import NO_OFFSET
from broker.server.context import RequestContext
from broker.server.groups.answers import Gathered, counted, or_error
from broker.wire.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchResponse,
    OffsetFetchResponseGroup,
    OffsetFetchResponsePartition,
    OffsetFetchResponsePartitions,
    OffsetFetchResponseTopic,
    OffsetFetchResponseTopics,
)

if TYPE_CHECKING:
    from broker.server.node import Broker

BATCHED_FROM: Final = 8
NO_LEADER_EPOCH: Final = -1

Wanted = Sequence[tuple[str, Sequence[int]]] | None


def handle_offset_fetch(
    broker: Broker,
    context: RequestContext,
    request: OffsetFetchRequest,
    reply: Callable[[OffsetFetchResponse], None],
) -> None:
    """No commit reads as offset -1 without an error.

    `require_stable` is accepted and changes nothing: without transactions no offset is pending.
    """
    if context.api_version >= BATCHED_FROM:
        answer = counted(
            broker, "OffsetFetch", reply, lambda response: (g.error_code for g in response.groups)
        )
        gathered = Gathered(
            len(request.groups), lambda groups: answer(OffsetFetchResponse(groups=groups))
        )
        for index, group in enumerate(request.groups):
            _fetch_group(broker, group, gathered.part(index, _refused_group(group.group_id)))
        return
    wanted = _wanted(request.topics)
    _fetch(
        broker,
        request.group_id,
        wanted,
        or_error(reply, lambda code: _refused_flat(wanted, code)),
        lambda topics: OffsetFetchResponse(topics=_flat_topics(topics)),
    )


def _fetch_group(broker: Broker, group: OffsetFetchRequestGroup, reply_to: ReplyTo) -> None:
    group_id = group.group_id
    _fetch(
        broker,
        group_id,
        _wanted(group.topics),
        reply_to,
        lambda topics: OffsetFetchResponseGroup(group_id=group_id, topics=_topics(topics)),
    )


def _fetch(
    broker: Broker,
    group_id: str,
    wanted: Wanted,
    reply_to: ReplyTo,
    respond: Callable[[FetchedTopics], Any],
) -> None:
    find_topic = broker.groups.find_topic
    broker.groups.read(
        group_id,
        reply_to,
        lambda shard, _: respond(shard.fetch_offsets(group_id, wanted, find_topic)),
    )


def _wanted(topics: Sequence[Any] | None) -> Wanted:
    return None if topics is None else [(topic.name, topic.partition_indexes) for topic in topics]


def _refused_group(group_id: str) -> Callable[[ErrorCode], OffsetFetchResponseGroup]:
    return lambda code: OffsetFetchResponseGroup(group_id=group_id, error_code=code)


def _refused_flat(wanted: Wanted, code: ErrorCode) -> OffsetFetchResponse:
    """The error at the top and in every partition: version 1 has no other place for it."""
    topics = [
        OffsetFetchResponseTopic(
            name=name,
            partitions=[
                OffsetFetchResponsePartition(
                    partition_index=index, committed_offset=NO_OFFSET, error_code=code
                )
                for index in partitions
            ],
        )
        for name, partitions in wanted or ()
    ]
    return OffsetFetchResponse(error_code=code, topics=topics)


def _flat_topics(topics: FetchedTopics) -> list[OffsetFetchResponseTopic]:
    return [
        OffsetFetchResponseTopic(
            name=name,
            partitions=[
                OffsetFetchResponsePartition(**_partition(fetched)) for fetched in partitions
            ],
        )
        for name, partitions in topics
    ]


def _topics(topics: FetchedTopics) -> list[OffsetFetchResponseTopics]:
    return [
        OffsetFetchResponseTopics(
            name=name,
            partitions=[
                OffsetFetchResponsePartitions(**_partition(fetched)) for fetched in partitions
            ],
        )
        for name, partitions in topics
    ]


def _partition(fetched: FetchedOffset) -> dict[str, Any]:
    commit = fetched.commit
    return {
        "partition_index": fetched.partition,
        "committed_offset": NO_OFFSET if commit is None else commit.offset,
        "committed_leader_epoch": NO_LEADER_EPOCH if commit is None else commit.leader_epoch,
        "metadata": "" if commit is None else commit.metadata,
    }
