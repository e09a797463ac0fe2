"""Offsets by time, and the offsets that groups have stored: one question to each broker concerned.

Shared by the consumer and the administrator. Each function is one attempt; `Cluster.call` repeats
it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
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
    OffsetFetchResponse,
    OffsetFetchResponseGroup,
)

LATEST: Final = -1
EARLIEST: Final = -2
NEWEST_TIMESTAMP: Final = -3
EARLIEST_LOCAL: Final = -4
"""The first offset on the broker's own disks (KIP-405); ListOffsets 8."""
LATEST_TIERED: Final = -5
"""The last offset in remote storage (KIP-1005), -1 without one; ListOffsets 9."""

_CONSUMER: Final = -1
_DEBUGGING_CONSUMER: Final = -2
"""Replica ids that are none; Kafka's `ListOffsetsRequest.DEBUGGING_REPLICA_ID`."""
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
    found, refused = await ask_offsets(cluster, wanted, isolation_level=isolation_level)
    for error in refused.values():
        raise error
    return found


async def ask_offsets(
    cluster: Cluster,
    wanted: Mapping[TopicPartition, int],
    *,
    isolation_level: int = 0,
    is_whole_log: bool = False,
) -> tuple[dict[TopicPartition, OffsetAtTime], dict[TopicPartition, BrokerRefusal]]:
    """As `list_offsets`: (what was found, what was refused). `is_whole_log` asks as Kafka's
    debugging consumer: where a topic has a delivery window, also beyond it.
    """
    found: dict[TopicPartition, OffsetAtTime] = {}
    refused: dict[TopicPartition, BrokerRefusal] = {}
    by_leader: dict[int, dict[str, ListOffsetsTopic]] = {}
    for where, timestamp in wanted.items():
        try:
            leader = cluster.known_leader(*where)
            if leader is None:
                leader, _ = await cluster.leader(*where)
        except BrokerRefusal as error:
            refused[where] = error
            continue
        row = by_leader.setdefault(leader, {}).setdefault(
            where.topic, ListOffsetsTopic(name=where.topic)
        )
        row.partitions.append(
            ListOffsetsPartition(partition_index=where.partition, timestamp=timestamp)
        )
    for leader, topics in by_leader.items():
        request = ListOffsetsRequest(
            replica_id=_DEBUGGING_CONSUMER if is_whole_log else _CONSUMER,
            isolation_level=isolation_level,
            topics=list(topics.values()),
        )
        answer: ListOffsetsResponse = await cluster.request(leader, api.LIST_OFFSETS, request)
        for answered in answer.topics:
            for each in answered.partitions:
                where = TopicPartition(answered.name, each.partition_index)
                if each.error_code:
                    cluster.forget_topic(where.topic)
                    refused[where] = BrokerRefusal(error_code(each.error_code), subject=str(where))
                else:
                    found[where] = OffsetAtTime(each.offset, each.timestamp, each.leader_epoch)
    return found, refused


async def fetch_committed(
    cluster: Cluster, group_id: str, partitions: Iterable[TopicPartition] | None = None
) -> dict[TopicPartition, CommittedOffset]:
    """What the group has stored, for `partitions` or (None) for all; those without a commit are
    left out.

    Raises BrokerRefusal, ConnectionLost, TimedOut.
    """
    wanted = None if partitions is None else list(partitions)
    found = (await fetch_committed_by_group(cluster, {group_id: wanted}))[group_id]
    if isinstance(found, BrokerRefusal):
        raise found
    return found


async def fetch_committed_by_group(
    cluster: Cluster, groups: Mapping[str, Sequence[TopicPartition] | None]
) -> dict[str, dict[TopicPartition, CommittedOffset] | BrokerRefusal]:
    """`fetch_committed` for many groups, in one request per coordinator where possible."""
    found: dict[str, dict[TopicPartition, CommittedOffset] | BrokerRefusal] = {}
    by_node: dict[int, list[str]] = {}
    for group_id, node in (await cluster.coordinators(groups)).items():
        if isinstance(node, BrokerRefusal):
            found[group_id] = node
        else:
            by_node.setdefault(node, []).append(group_id)
    for node, group_ids in by_node.items():
        version = await cluster.version(node, api.OFFSET_FETCH)
        if version >= _MANY_GROUPS_FROM:
            rows = [_group_request(group_id, groups[group_id]) for group_id in group_ids]
            answer = await cluster.request(node, api.OFFSET_FETCH, OffsetFetchRequest(groups=rows))
            for row in answer.groups:
                found[row.group_id] = _read_group(cluster, row.group_id, row)
            continue
        for group_id in group_ids:
            request = _single_request(group_id, groups[group_id])
            answer = await cluster.request(node, api.OFFSET_FETCH, request)
            found[group_id] = _read_group(cluster, group_id, answer)
    return found


def _group_request(
    group_id: str, partitions: Sequence[TopicPartition] | None
) -> OffsetFetchRequestGroup:
    topics = _by_topic(partitions)
    return OffsetFetchRequestGroup(
        group_id=group_id,
        topics=None
        if topics is None
        else [
            OffsetFetchRequestTopics(name=name, partition_indexes=topics[name]) for name in topics
        ],
    )


def _single_request(
    group_id: str, partitions: Sequence[TopicPartition] | None
) -> OffsetFetchRequest:
    topics = _by_topic(partitions)
    return OffsetFetchRequest(
        group_id=group_id,
        topics=None
        if topics is None
        else [
            OffsetFetchRequestTopic(name=name, partition_indexes=topics[name]) for name in topics
        ],
    )


def _by_topic(partitions: Sequence[TopicPartition] | None) -> dict[str, list[int]] | None:
    if partitions is None:
        return None
    topics: dict[str, list[int]] = {}
    for topic, partition in partitions:
        topics.setdefault(topic, []).append(partition)
    return topics


def _read_group(
    cluster: Cluster, group_id: str, answer: OffsetFetchResponse | OffsetFetchResponseGroup
) -> dict[TopicPartition, CommittedOffset] | BrokerRefusal:
    found: dict[TopicPartition, CommittedOffset] = {}
    try:
        _check_group(cluster, group_id, answer.error_code)
        for topic in answer.topics:
            for row in topic.partitions:
                where = TopicPartition(topic.name, row.partition_index)
                _check_group(cluster, group_id, row.error_code, subject=str(where))
                if row.committed_offset >= 0:
                    found[where] = CommittedOffset(
                        row.committed_offset, row.committed_leader_epoch, row.metadata or ""
                    )
    except BrokerRefusal as error:
        return error
    return found


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
