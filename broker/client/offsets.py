"""Offsets by time, and the offsets that groups have stored: one question to each broker concerned.

Shared by the consumer and the administrator. Each function is one attempt; `Cluster.call` repeats
it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final, NamedTuple

from broker.client.cluster import Cluster
from broker.client.failure import BrokerRefusal
from broker.errors import ErrorCode, error_code
from broker.model import TopicPartition
from broker.wire import api
from broker.wire.messages.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopic,
)
from broker.wire.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
    OffsetCommitResponse,
)
from broker.wire.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopic,
    OffsetFetchRequestTopics,
)

LATEST: Final = -1
EARLIEST: Final = -2
NEWEST_TIMESTAMP: Final = -3

_MANY_GROUPS_FROM: Final = 8
_COORDINATOR_ERRORS: Final = frozenset(
    {ErrorCode.NOT_COORDINATOR, ErrorCode.COORDINATOR_NOT_AVAILABLE}
)


class OffsetAtTime(NamedTuple):
    """What a partition has at a time. `offset` is -1 when nothing is that young; so is
    `timestamp_ms`.
    """

    offset: int
    timestamp_ms: int
    leader_epoch: int


class CommittedOffset(NamedTuple):
    """The next offset that a group will read, and the text it stored with it."""

    offset: int
    leader_epoch: int
    metadata: str


async def list_offsets(
    cluster: Cluster, wanted: Mapping[TopicPartition, int], *, isolation_level: int = 0
) -> dict[TopicPartition, OffsetAtTime]:
    """Per partition the first offset at or after a timestamp, or at EARLIEST, LATEST,
    NEWEST_TIMESTAMP.

    Raises BrokerRefusal for the first partition that is refused, ConnectionLost, TimedOut.
    """
    by_leader: dict[int, dict[str, ListOffsetsTopic]] = {}
    for (topic, partition), timestamp in wanted.items():
        leader, _ = await cluster.leader(topic, partition)
        topics = by_leader.setdefault(leader, {})
        row = topics.setdefault(topic, ListOffsetsTopic(name=topic))
        row.partitions.append(ListOffsetsPartition(partition_index=partition, timestamp=timestamp))
    found: dict[TopicPartition, OffsetAtTime] = {}
    for leader, topics in by_leader.items():
        request = ListOffsetsRequest(
            replica_id=-1, isolation_level=isolation_level, topics=list(topics.values())
        )
        answer: ListOffsetsResponse = await cluster.request(leader, api.LIST_OFFSETS, request)
        for answered in answer.topics:
            for each in answered.partitions:
                where = TopicPartition(answered.name, each.partition_index)
                if each.error_code:
                    cluster.forget_topic(where.topic)
                    raise BrokerRefusal(error_code(each.error_code), subject=str(where))
                found[where] = OffsetAtTime(each.offset, each.timestamp, each.leader_epoch)
    return found


async def fetch_committed(
    cluster: Cluster, group_id: str, partitions: Iterable[TopicPartition] | None = None
) -> dict[TopicPartition, CommittedOffset]:
    """What the group has stored, for `partitions` or (None) for all; those without a commit are
    left out.

    Raises BrokerRefusal, ConnectionLost, TimedOut.
    """
    node = await cluster.coordinator(group_id)
    version = await cluster.version(node, api.OFFSET_FETCH)
    names: dict[str, list[int]] | None = None
    if partitions is not None:
        names = {}
        for topic, partition in partitions:
            names.setdefault(topic, []).append(partition)
    answer = await cluster.request(
        node, api.OFFSET_FETCH, _offset_fetch_request(version, group_id, names)
    )
    result = answer.groups[0] if version >= _MANY_GROUPS_FROM else answer
    _check_group(cluster, group_id, result.error_code)
    found: dict[TopicPartition, CommittedOffset] = {}
    for topic in result.topics:
        for row in topic.partitions:
            where = TopicPartition(topic.name, row.partition_index)
            _check_group(cluster, group_id, row.error_code, subject=str(where))
            if row.committed_offset >= 0:
                found[where] = CommittedOffset(
                    row.committed_offset, row.committed_leader_epoch, row.metadata or ""
                )
    return found


def _offset_fetch_request(
    version: int, group_id: str, names: Mapping[str, list[int]] | None
) -> OffsetFetchRequest:
    if version >= _MANY_GROUPS_FROM:
        group = OffsetFetchRequestGroup(group_id=group_id, topics=None)
        if names is not None:
            group.topics = [
                OffsetFetchRequestTopics(name=name, partition_indexes=indexes)
                for name, indexes in names.items()
            ]
        return OffsetFetchRequest(groups=[group])
    request = OffsetFetchRequest(group_id=group_id, topics=None)
    if names is not None:
        request.topics = [
            OffsetFetchRequestTopic(name=name, partition_indexes=indexes)
            for name, indexes in names.items()
        ]
    return request


async def commit_offsets(
    cluster: Cluster,
    group_id: str,
    offsets: Mapping[TopicPartition, int],
    *,
    member_id: str = "",
    generation: int = -1,
    instance_id: str | None = None,
    purpose: str = "",
) -> None:
    """Store the next offsets to read; without a member id from outside the group, which must be
    empty then.

    Raises BrokerRefusal for the first partition that is refused, ConnectionLost, TimedOut.
    """
    if not offsets:
        return
    node = await cluster.coordinator(group_id)
    topics: dict[str, OffsetCommitRequestTopic] = {}
    for (topic, partition), offset in offsets.items():
        row = topics.setdefault(topic, OffsetCommitRequestTopic(name=topic))
        row.partitions.append(
            OffsetCommitRequestPartition(
                partition_index=partition, committed_offset=offset, committed_metadata=""
            )
        )
    request = OffsetCommitRequest(
        group_id=group_id,
        generation_id_or_member_epoch=generation,
        member_id=member_id,
        group_instance_id=instance_id,
        topics=list(topics.values()),
    )
    answer: OffsetCommitResponse = await cluster.request(
        node, api.OFFSET_COMMIT, request, purpose=purpose
    )
    for answered in answer.topics:
        for each in answered.partitions:
            where = f"{answered.name}-{each.partition_index}"
            _check_group(cluster, group_id, each.error_code, subject=where)


def _check_group(cluster: Cluster, group_id: str, code: int, subject: str = "") -> None:
    if not code:
        return
    if error_code(code) in _COORDINATOR_ERRORS:
        cluster.forget_coordinator(group_id)
    raise BrokerRefusal(error_code(code), subject=subject or f"group {group_id!r}")
