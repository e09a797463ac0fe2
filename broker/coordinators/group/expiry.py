"""What is forgotten: expired offsets, offsets of deleted topics, groups with nothing left, deleted
groups, single offsets that somebody wants deleted.

Offsets age from the moment when their group became Empty, or from their own commit when the group
never had members or no longer subscribes to the topic (KIP-211). A group that has members keeps
what it subscribes to for ever.
"""

from __future__ import annotations

from collections.abc import Iterator

from broker.coordinators.group.classic import ClassicGroup, GroupState
from broker.coordinators.group.effects import Decision, Moment
from broker.coordinators.group.offsets import FindTopic, is_of_topic
from broker.coordinators.group.records import (
    GroupRemoved,
    OffsetCommitted,
    OffsetRemoved,
    Record,
)
from broker.coordinators.group.stored import StoredGroups
from broker.coordinators.group.subscription import subscribed_topics
from broker.errors import ErrorCode
from broker.model import TopicPartition
from broker.wire.messages.offset_delete import (
    OffsetDeleteRequest,
    OffsetDeleteRequestTopic,
    OffsetDeleteResponse,
    OffsetDeleteResponsePartition,
    OffsetDeleteResponseTopic,
)


def decide_expiry(
    stored: StoredGroups, group: ClassicGroup, find_topic: FindTopic, moment: Moment
) -> list[Record]:
    """The removals that are due for this group; a group that is Empty and has no offset left goes
    too.
    """
    commits = stored.offsets.get(group.group_id, {})
    subscribed = _protected_topics(group)
    removed: list[Record] = [
        _removal(commit)
        for commit in commits.values()
        if not is_of_topic(commit, find_topic(commit.topic))
        or _is_expired(commit, group, subscribed, moment)
    ]
    if group.is_idle() and len(removed) == len(commits) and group.group_id in stored.generations:
        removed.append(GroupRemoved(group.group_id))
    return removed


def decide_topic_removal(stored: StoredGroups, group_id: str, topic_id: bytes) -> list[Record]:
    """The removals that follow from a topic's deletion; nothing else about the group changes."""
    commits = stored.offsets.get(group_id, {})
    return [_removal(commit) for commit in commits.values() if commit.topic_id == topic_id]


def decide_deletion(
    stored: StoredGroups, group: ClassicGroup | None, group_id: str
) -> tuple[list[Record], ErrorCode]:
    """DeleteGroups: everything that is stored about an Empty group."""
    if group is None:
        return [], ErrorCode.GROUP_ID_NOT_FOUND
    if group.state is not GroupState.EMPTY or group.pending:
        return [], ErrorCode.NON_EMPTY_GROUP
    records: list[Record] = [
        _removal(commit) for commit in stored.offsets.get(group_id, {}).values()
    ]
    if group_id in stored.generations:
        records.append(GroupRemoved(group_id))
    return records, ErrorCode.NONE


def decide_offset_deletion(
    stored: StoredGroups,
    group: ClassicGroup | None,
    request: OffsetDeleteRequest,
    find_topic: FindTopic,
) -> Decision:
    """OffsetDelete (KIP-496): commits of topics that no member subscribes to.

    | group                           | answer                                             |
    |---------------------------------|----------------------------------------------------|
    | unknown                         | GROUP_ID_NOT_FOUND                                 |
    | members that are no consumers   | NON_EMPTY_GROUP: nobody knows what they read       |
    | consumers                       | per topic: done, or GROUP_SUBSCRIBED_TO_TOPIC      |
    | Empty                           | done, also where there is no commit                |
    """
    if group is None:
        return Decision([], OffsetDeleteResponse(error_code=ErrorCode.GROUP_ID_NOT_FOUND))
    if group.members and group.protocol_type != "consumer":
        return Decision([], OffsetDeleteResponse(error_code=ErrorCode.NON_EMPTY_GROUP))
    commits = stored.offsets.get(request.group_id, {})
    subscribed = _subscribed_topics(group)
    removed: dict[TopicPartition, Record] = {}
    topics: list[OffsetDeleteResponseTopic] = []
    for topic in request.topics:
        answers = []
        for partition, code in _deletable(subscribed, topic, find_topic(topic.name)):
            answers.append(
                OffsetDeleteResponsePartition(partition_index=partition, error_code=code)
            )
            place = TopicPartition(topic.name, partition)
            if code is ErrorCode.NONE and place in commits:
                removed[place] = _removal(commits[place])
        topics.append(OffsetDeleteResponseTopic(name=topic.name, partitions=answers))
    return Decision(list(removed.values()), OffsetDeleteResponse(topics=topics))


def _deletable(
    subscribed: frozenset[str] | None,
    topic: OffsetDeleteRequestTopic,
    found: tuple[bytes, int] | None,
) -> Iterator[tuple[int, ErrorCode]]:
    """Each partition asked for, and whether its commit may go."""
    partition_count = found[1] if found is not None else 0
    is_subscribed = subscribed is None or topic.name in subscribed
    for partition in topic.partitions:
        code = ErrorCode.NONE
        if not 0 <= partition.partition_index < partition_count:
            code = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        elif is_subscribed:
            code = ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC
        yield partition.partition_index, code


def _subscribed_topics(group: ClassicGroup) -> frozenset[str] | None:
    """What any member may read; None, which is everything, when one cannot be understood."""
    topics: set[str] = set()
    for member in group.members.values():
        for _, metadata in member.protocols:
            of_member = subscribed_topics(metadata)
            if of_member is None:
                return None
            topics |= of_member
    return frozenset(topics)


def _protected_topics(group: ClassicGroup) -> frozenset[str] | None:
    """Topics whose offsets cannot expire now; None means all of them."""
    if group.state is GroupState.EMPTY:
        return frozenset()
    if group.state is not GroupState.STABLE or group.protocol_type != "consumer":
        return None
    topics: frozenset[str] = frozenset()
    for member in group.members.values():
        of_member = subscribed_topics(member.metadata_for(group.protocol))
        if of_member is None:
            return None
        topics |= of_member
    return topics


def _is_expired(
    commit: OffsetCommitted, group: ClassicGroup, protected: frozenset[str] | None, moment: Moment
) -> bool:
    if protected is None or commit.topic in protected:
        return False
    if commit.expire_timestamp_ms >= 0:
        return moment.wall_ms >= commit.expire_timestamp_ms
    since_ms = commit.commit_timestamp_ms
    if group.state is GroupState.EMPTY:
        since_ms = max(since_ms, group.state_timestamp_ms)
    return moment.wall_ms - since_ms >= moment.limits.offsets_retention_ms


def _removal(commit: OffsetCommitted) -> OffsetRemoved:
    return OffsetRemoved(commit.group, commit.topic, commit.partition)
