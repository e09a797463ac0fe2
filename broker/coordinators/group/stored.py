"""The log-backed half of a shard: each group's last stored generation and its committed offsets.

`apply` is the only mutator, and replaying the same records always gives the same state: a restart
is a replay. Not here: who may write what (offsets, expiry), live membership (classic).
"""

from __future__ import annotations

from typing import NamedTuple

from broker.coordinators.group.records import (
    GroupRemoved,
    GroupStored,
    OffsetCommitted,
    OffsetRemoved,
    Record,
)
from broker.model import TopicPartition


class StoredGroups:
    """`generations` by group id; `offsets` by group id, then partition. Read freely, write through
    `apply`.
    """

    __slots__ = ("generations", "offsets")

    def __init__(self) -> None:
        self.generations: dict[str, GroupStored] = {}
        self.offsets: dict[str, dict[TopicPartition, OffsetCommitted]] = {}

    def apply(self, record: Record) -> None:
        """Make `record` true. Applying it twice changes nothing more."""
        match record:
            case OffsetCommitted():
                partition = TopicPartition(record.topic, record.partition)
                self.offsets.setdefault(record.group, {})[partition] = record
            case OffsetRemoved():
                self._remove_offset(record)
            case GroupStored():
                self.generations[record.group] = record
            case GroupRemoved():
                self.generations.pop(record.group, None)

    def snapshot(self) -> StoredSnapshot:
        """A comparable copy."""
        offsets = {group: dict(commits) for group, commits in self.offsets.items()}
        return StoredSnapshot(dict(self.generations), offsets)

    def _remove_offset(self, record: OffsetRemoved) -> None:
        commits = self.offsets.get(record.group)
        if commits is None:
            return
        commits.pop(TopicPartition(record.topic, record.partition), None)
        if not commits:
            del self.offsets[record.group]


class StoredSnapshot(NamedTuple):
    """Equal when two shards store the same."""

    generations: dict[str, GroupStored]
    offsets: dict[str, dict[TopicPartition, OffsetCommitted]]
