"""Committed offsets: who may commit, what is stored, what a fetch shows.

A commit carries the id of the topic it was made for, and a fetch shows it only while the topic of
that name still has that id: a recreated topic never shows an old offset.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final, NamedTuple

from broker.coordinators.group.classic import ClassicGroup, GroupState
from broker.coordinators.group.effects import Decision, Moment
from broker.coordinators.group.records import OffsetCommitted, Record
from broker.coordinators.group.stored import StoredGroups
from broker.coordinators.group.sync import check_generation
from broker.errors import ErrorCode
from broker.model import NO_TOPIC_ID, TopicPartition
from broker.wire.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitResponse,
    OffsetCommitResponsePartition,
    OffsetCommitResponseTopic,
)

FindTopic = Callable[[str], tuple[bytes, int] | None]
"""(topic id, partition count) of a topic by name; None when it does not exist."""

NO_GENERATION: Final = -1


def check_commit(group: ClassicGroup | None, request: OffsetCommitRequest) -> ErrorCode:
    """Whether this caller may commit to this group now.

    | caller                       | group             | answer        |
    |------------------------------|-------------------|---------------|
    | without generation           | none or Empty     | taken         |
    | without generation or member | has members       | 25            |
    | member of a generation       | none              | 22            |
    | member                       | not a member      | 25 or 82      |
    | member                       | other generation  | 22            |
    | member                       | Completing…       | 27            |
    | member                       | Preparing, Stable | taken         |
    """
    generation = request.generation_id_or_member_epoch
    if group is None:
        return ErrorCode.NONE if generation < 0 else ErrorCode.ILLEGAL_GENERATION
    if generation < 0 and group.state is GroupState.EMPTY:
        return ErrorCode.NONE
    if generation < 0 and not request.member_id and request.group_instance_id is None:
        return ErrorCode.UNKNOWN_MEMBER_ID
    code = check_generation(group, request.member_id, request.group_instance_id, generation)
    if code is ErrorCode.NONE and group.state is GroupState.COMPLETING_REBALANCE:
        return ErrorCode.REBALANCE_IN_PROGRESS
    return code


def decide_commit(
    group: ClassicGroup | None, request: OffsetCommitRequest, find_topic: FindTopic, moment: Moment
) -> Decision:
    """What a commit stores; each partition has an error of its own, a refused caller has one
    everywhere.
    """
    refusal = check_commit(group, request)
    if refusal is ErrorCode.NONE and group is None and not moment.may_create_group:
        refusal = ErrorCode.POLICY_VIOLATION
    records: list[Record] = []
    topics: list[OffsetCommitResponseTopic] = []
    for topic in request.topics:
        found = find_topic(topic.name)
        answers: list[OffsetCommitResponsePartition] = []
        for partition in topic.partitions:
            code = refusal
            if code is ErrorCode.NONE:
                code = _check_partition(partition, found, moment)
            if code is ErrorCode.NONE and found is not None:
                records.append(_committed(request, topic.name, partition, found[0], moment))
            answers.append(
                OffsetCommitResponsePartition(
                    partition_index=partition.partition_index, error_code=code
                )
            )
        topics.append(OffsetCommitResponseTopic(name=topic.name, partitions=answers))
    return Decision(records, OffsetCommitResponse(topics=topics))


class FetchedOffset(NamedTuple):
    """One partition's answer; `commit` is None when there is nothing to show."""

    partition: int
    commit: OffsetCommitted | None


FetchedTopics = list[tuple[str, list[FetchedOffset]]]


def fetch_offsets(
    stored: StoredGroups,
    group_id: str,
    wanted: Sequence[tuple[str, Sequence[int]]] | None,
    find_topic: FindTopic,
) -> FetchedTopics:
    """The offsets of the wanted (topic, partitions), or of everything committed when `wanted` is
    None.
    """
    commits = stored.offsets.get(group_id, {})
    if wanted is None:
        return _everything(commits, find_topic)
    answer: FetchedTopics = []
    for topic, partitions in wanted:
        found = find_topic(topic)
        offsets = [
            FetchedOffset(partition, _visible(commits.get(TopicPartition(topic, partition)), found))
            for partition in partitions
        ]
        answer.append((topic, offsets))
    return answer


def is_of_topic(commit: OffsetCommitted, found: tuple[bytes, int] | None) -> bool:
    """Whether the commit was made for the topic that now has its name."""
    return found is not None and commit.topic_id in (found[0], NO_TOPIC_ID)


def _everything(
    commits: dict[TopicPartition, OffsetCommitted], find_topic: FindTopic
) -> FetchedTopics:
    by_topic: dict[str, list[FetchedOffset]] = {}
    for (topic, partition), commit in commits.items():
        if is_of_topic(commit, find_topic(topic)):
            by_topic.setdefault(topic, []).append(FetchedOffset(partition, commit))
    return list(by_topic.items())


def _visible(
    commit: OffsetCommitted | None, found: tuple[bytes, int] | None
) -> OffsetCommitted | None:
    return commit if commit is not None and is_of_topic(commit, found) else None


def _check_partition(
    partition: OffsetCommitRequestPartition, found: tuple[bytes, int] | None, moment: Moment
) -> ErrorCode:
    if found is None or not 0 <= partition.partition_index < found[1]:
        return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    metadata = partition.committed_metadata
    if metadata is not None and len(metadata.encode()) > moment.limits.offset_metadata_bytes_max:
        return ErrorCode.OFFSET_METADATA_TOO_LARGE
    if partition.committed_offset < 0:
        return ErrorCode.OFFSET_OUT_OF_RANGE
    return ErrorCode.NONE


def _committed(
    request: OffsetCommitRequest,
    topic: str,
    partition: OffsetCommitRequestPartition,
    topic_id: bytes,
    moment: Moment,
) -> OffsetCommitted:
    return OffsetCommitted(
        request.group_id,
        topic,
        partition.partition_index,
        partition.committed_offset,
        partition.committed_leader_epoch,
        partition.committed_metadata or "",
        moment.wall_ms,
        topic_id,
    )
