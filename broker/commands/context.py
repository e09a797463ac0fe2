"""What a running command has: options, terminal, cluster; and what all commands ask for."""

from __future__ import annotations

import argparse
import fnmatch
from collections.abc import Iterable, Sequence
from typing import Any, Final

from broker.client import admin, admin_groups
from broker.client.cluster import Cluster, TopicView
from broker.client.failure import BrokerRefusal, ErrorCode
from broker.client.offsets import EARLIEST, LATEST
from broker.commands import text
from broker.commands.terminal import Terminal
from broker.commands.values import TopicSelection
from broker.model import TopicPartition

HINTS: Final = {
    ErrorCode.NON_EMPTY_GROUP: " Stop its members first.",
    ErrorCode.UNKNOWN_MEMBER_ID: " The group has members: stop them first.",
    ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC: " Its members read that topic: stop them first.",
    ErrorCode.INVALID_REPLICATION_FACTOR: " Ask for at most as many replicas as there are brokers.",
    ErrorCode.TOPIC_ALREADY_EXISTS: " Choose another name, or add --if-not-exists.",
    ErrorCode.TOPIC_AUTHORIZATION_FAILED: " Ask who owns the topic for the right to do this.",
    ErrorCode.GROUP_AUTHORIZATION_FAILED: " Ask who owns the group for the right to do this.",
    ErrorCode.MESSAGE_TOO_LARGE: " The topic's max.message.bytes (or max.record.bytes) is "
    "the limit.",
    ErrorCode.CORRUPT_MESSAGE: " What lies before and behind the place can be read: go on behind "
    "it (the broker's log says at which offset, where its disk is damaged) with --from N or, for a "
    "group, `hermes groups reset --to-offset N`. docs/recovery.md has more.",
}
"""What to do about a refusal."""


class Refused(Exception):
    """The command cannot be carried out as it was meant; the text says what to do."""


class Context:
    """One run of a command."""

    def __init__(self, options: argparse.Namespace, terminal: Terminal, cluster: Cluster) -> None:
        self.options: Any = options
        self.terminal = terminal
        self.cluster = cluster

    def now_ms(self) -> int:
        return self.cluster.clock.wall_ms()

    def refuse(self, item: str, error: BrokerRefusal) -> None:
        """One of many was refused by the broker; the command goes on."""
        self.terminal.fail(item, error, hint=hint_for(error))

    async def topics(self, names: Iterable[str]) -> dict[str, TopicView]:
        """These topics. Raises Refused, with the nearest name, for the first that is not there."""
        wanted = list(dict.fromkeys(names))
        found = await admin.describe_topics(self.cluster, wanted)
        views: dict[str, TopicView] = {}
        for name, view in found.items():
            if isinstance(view, BrokerRefusal):
                raise Refused(await self.missing_topic(name, view))
            views[name] = view
        return views

    async def missing_topic(self, name: str, refusal: BrokerRefusal) -> str:
        """What to say of a topic that could not be described."""
        if refusal.code is not ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
            return f"{refusal}{hint_for(refusal)}"
        known = [view.name for view in await admin.list_topics(self.cluster, with_internal=True)]
        near = text.nearest(name, known) or " `hermes topics list` shows which there are."
        return f"there is no topic {name!r}.{near}"

    async def missing_group(self, name: str) -> str:
        """What to say of a group that does not exist."""
        known = [row.group_id for row in await admin_groups.list_groups(self.cluster)]
        near = text.nearest(name, known) or " `hermes groups list` shows which there are."
        return f"there is no group {name!r}.{near}"

    async def select(self, selections: Sequence[TopicSelection]) -> list[TopicPartition]:
        """The partitions that selections name, sorted. Raises Refused for one that is not there."""
        views = await self.topics(selection.topic for selection in selections)
        found: set[TopicPartition] = set()
        for topic, wanted in selections:
            there = [row.partition for row in views[topic].partitions]
            missing = sorted(set(wanted or ()) - set(there))
            if missing:
                raise Refused(
                    f"topic {topic!r} has no partition {text.ranges(missing)}: it has "
                    f"{text.plural(len(there), 'partition')}, numbered from 0"
                )
            found.update(TopicPartition(topic, each) for each in (wanted or there))
        return sorted(found)

    async def bounds(
        self, partitions: Sequence[TopicPartition], *, isolation_level: int = 0
    ) -> dict[TopicPartition, tuple[int, int]]:
        """Per partition (first offset, end); those without a leader are left out."""
        starts = await admin_groups.offsets_where_known(
            self.cluster, dict.fromkeys(partitions, EARLIEST)
        )
        ends = await admin_groups.offsets_where_known(
            self.cluster, dict.fromkeys(partitions, LATEST), isolation_level=isolation_level
        )
        return {
            where: (starts[where].offset, ends[where].offset)
            for where in partitions
            if where in starts and where in ends
        }


def hint_for(error: BrokerRefusal) -> str:
    """A sentence on what to do, or ""."""
    return HINTS.get(error.code, "")


def matching(pattern: str | None, names: Iterable[str]) -> set[str]:
    """The names that a shell pattern (`orders-*`) matches; None matches all."""
    return set(names) if pattern is None else set(fnmatch.filter(list(names), pattern))
