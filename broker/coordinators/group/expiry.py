"""What is forgotten: expired offsets, offsets of deleted topics, groups with nothing left, deleted
groups.

Offsets age from the moment when their group became Empty, or from their own commit when the group
never had members or no longer subscribes to the topic (KIP-211). A group that has members keeps
what it subscribes to for ever.
"""

from __future__ import annotations

from broker.coordinators.group.classic import ClassicGroup, GroupState
from broker.coordinators.group.effects import Moment
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
