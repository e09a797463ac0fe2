"""What a group is now, and the preview of a change of its offsets. Reads only.

A preview carries a token of the commits it was made from; the act refuses another one. Ends are
read after the commits, so that no lag is below 0.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Final

from broker.client.blocking import (
    EARLIEST,
    LATEST,
    BlockingClient,
    BrokerRefusal,
    ClientError,
    CommittedOffset,
    GroupMember,
    TopicPartition,
    TopicView,
)
from hermes_console import words
from hermes_console.clusters import Cluster
from hermes_console.connect import client_for
from hermes_console.errors import Refused
from hermes_console.operations.groups_plan import (
    PARTITIONS_MAX,
    Facts,
    Move,
    Place,
    Selection,
    Target,
    Totals,
    Where,
    make_token,
    plan_move,
    totals,
)

GONE: Final = "Dead"
QUIET_STATES: Final = frozenset({"Empty", GONE})
CLASSIC_TYPES: Final = frozenset({"", "classic"})
GROUP_LENGTH_MAX: Final = 255
MEMBERS_NAMED_MAX: Final = 5


@dataclass(frozen=True, slots=True)
class GroupNow:
    """A group as the cluster describes it this moment; `state` "Dead": there is none."""

    name: str
    state: str
    members: tuple[GroupMember, ...]
    commits: Mapping[Where, int]

    @property
    def exists(self) -> bool:
        return self.state != GONE or bool(self.commits)

    @property
    def is_active(self) -> bool:
        return bool(self.members) or self.state not in QUIET_STATES

    @property
    def why_active(self) -> str:
        """One sentence, with what to do; "" when nothing stands in the way."""
        if not self.is_active:
            return ""
        if not self.members:
            return f"The group is in state {self.state}; wait until it is Empty, then try again."
        named = words.listed([member_name(one) for one in self.members[:MEMBERS_NAMED_MAX]])
        return (
            f"{words.count(len(self.members), 'member')} of the group "
            f"{'is' if len(self.members) == 1 else 'are'} connected ({named}) and would overwrite "
            "the offsets. Stop these clients, wait until the group is Empty, then try again."
        )


@dataclass(frozen=True, slots=True)
class Preview:
    """`why_refused` is "" when the change can be made as it is shown. Counts of topics in
    `estimated` are upper bounds: compaction removes records between offsets.
    """

    group: GroupNow
    target: Target
    moves: tuple[Move, ...]
    token: str
    estimated: frozenset[str]
    why_refused: str

    @property
    def totals(self) -> Totals:
        return totals(self.moves)

    @property
    def changes(self) -> tuple[Move, ...]:
        return tuple(move for move in self.moves if move.is_change)


def member_name(member: GroupMember) -> str:
    """`client@host`."""
    return f"{member.client_id or 'a client without a name'}@{member.client_host.lstrip('/')}"


def read_group(cluster: Cluster, name: str) -> GroupNow:
    """Raises ClientError; Refused for a group whose members this console cannot see."""
    client = client_for(cluster)
    described = client.describe_groups([name])[0]
    if described.error is not None:
        raise described.error
    if described.state == GONE:
        _check_type(client, name)
    return GroupNow(name, described.state, described.members, read_commits(client, name))


def read_commits(client: BlockingClient, name: str) -> dict[Where, int]:
    """All commits of the group. Raises ClientError."""
    found: dict[TopicPartition, CommittedOffset] | BrokerRefusal
    found = client.committed_offsets([name])[name]
    if isinstance(found, BrokerRefusal):
        raise found
    return {Where(*one): commit.offset for one, commit in found.items() if commit.offset >= 0}


def _check_type(client: BlockingClient, name: str) -> None:
    """A group that cannot be described may be one of another kind."""
    for listing in client.list_groups():
        if listing.group_id == name and listing.group_type.lower() not in CLASSIC_TYPES:
            raise Refused(
                409,
                "group-type",
                f"{name!r} is a group of type {listing.group_type!r} (state {listing.state}): this "
                "console cannot see its members, so it does not change its offsets. Use the "
                "cluster's own kafka-consumer-groups tool.",
            )


def preview_reset(cluster: Cluster, name: str, selection: Selection, target: Target) -> Preview:
    """Where the group would read on. An empty selection means every topic it has commits in.

    Raises Refused (no such group, topic or partition), ClientError.
    """
    group = read_group(cluster, name)
    if not group.exists:
        raise no_such_group(name)
    chosen = selection or dict.fromkeys(sorted({where.topic for where in group.commits}))
    if not chosen:
        raise Refused(409, "no-commits", "The group has no committed offset; choose topics.")
    return _preview(cluster, group, chosen, target, group.why_active)


def preview_create(cluster: Cluster, name: str, selection: Selection, target: Target) -> Preview:
    """As `preview_reset`, for a group that does not exist yet. Raises Refused (it exists, a bad
    name, no topic chosen), ClientError.
    """
    check_name(name)
    if not selection:
        raise Refused(400, "no-topic", "Choose at least one topic that the group shall read.")
    if target.place is Place.SHIFT:
        raise Refused(400, "bad-target", "A new group has nothing to shift: choose another place.")
    group = read_group(cluster, name)
    if group.exists:
        raise Refused(
            409, "group-exists", f"There is a group {name!r} already; reset its offsets instead."
        )
    return _preview(cluster, group, selection, target, "")


def no_such_group(name: str) -> Refused:
    return Refused(
        404,
        "unknown-group",
        f"There is no group {name!r} on this cluster: it never joined, was deleted or expired.",
    )


def check_name(name: str) -> None:
    """Raises Refused for a name that no client could use or no person could read."""
    if not name.strip() or name != name.strip():
        raise Refused(400, "bad-name", "Give a name without spaces at its ends.")
    if len(name) > GROUP_LENGTH_MAX:
        raise Refused(400, "bad-name", f"A name has at most {GROUP_LENGTH_MAX} characters.")
    if not name.isprintable():
        raise Refused(
            400, "bad-name", "A name must not contain line breaks or other control characters."
        )


def _preview(
    cluster: Cluster, group: GroupNow, selection: Selection, target: Target, why_refused: str
) -> Preview:
    client = client_for(cluster)
    topics = {topic.name: topic for topic in client.list_topics(with_internal=True)}
    wanted = _partitions(selection, topics)
    facts = _facts(client, group, wanted, target)
    moves = tuple(plan_move(where, facts[where], target) for where in wanted if where in facts)
    lost = [where for where in wanted if where not in facts]
    if lost:
        names = words.listed([f"{where.topic}-{where.partition}" for where in lost])
        raise Refused(
            503, "no-leader", f"No broker answers for {names} now. Try again when it has a leader."
        )
    if not why_refused and not any(move.is_change for move in moves):
        why_refused = "Nothing would change: every chosen partition is there already."
    return Preview(
        group,
        target,
        moves,
        preview_token(group, selection, topics),
        _compacted(client, selection),
        why_refused,
    )


def preview_token(
    group: GroupNow, selection: Iterable[str], topics: Mapping[str, TopicView]
) -> str:
    """See `groups_plan.make_token`."""
    names = set(selection)
    return make_token(
        group.name,
        {name: topics[name].topic_id.hex() for name in names if name in topics},
        {where: offset for where, offset in group.commits.items() if where.topic in names},
    )


def _partitions(selection: Selection, topics: Mapping[str, TopicView]) -> list[Where]:
    """Every selected partition, in order. Raises Refused for those that do not exist."""
    found: list[Where] = []
    for name, indexes in sorted(selection.items()):
        topic = topics.get(name)
        if topic is None:
            raise Refused(404, "unknown-topic", f"There is no topic {name!r} on this cluster.")
        existing = sorted(one.partition for one in topic.partitions)
        missing = sorted(set(indexes or ()) - set(existing))
        if missing:
            raise Refused(
                404,
                "unknown-partition",
                f"Topic {name!r} has no partition {missing[0]}; it has {len(existing)}, "
                f"numbered 0 to {len(existing) - 1}.",
            )
        found.extend(Where(name, index) for index in (existing if indexes is None else indexes))
    if len(found) > PARTITIONS_MAX:
        raise Refused(
            400, "too-many-partitions", f"Choose at most {PARTITIONS_MAX:,} partitions at once."
        )
    return found


def _facts(
    client: BlockingClient, group: GroupNow, wanted: list[Where], target: Target
) -> dict[Where, Facts]:
    """Partitions that no broker answers for are missing."""
    keys = [TopicPartition(*where) for where in wanted]
    starts = client.offsets(dict.fromkeys(keys, EARLIEST))
    at_time = (
        client.offsets(dict.fromkeys(keys, target.value)) if target.place is Place.TIME else {}
    )
    ends = client.offsets(dict.fromkeys(keys, LATEST))
    facts: dict[Where, Facts] = {}
    for key in keys:
        if key not in starts or key not in ends:
            continue
        found = at_time.get(key)
        facts[Where(*key)] = Facts(
            committed=group.commits.get(Where(*key)),
            log_start=starts[key].offset,
            end=ends[key].offset,
            at_time=None if found is None else found.offset,
        )
    return facts


def _compacted(client: BlockingClient, topics: Iterable[str]) -> frozenset[str]:
    """The topics whose counts are only estimates; empty where the cluster does not tell."""
    try:
        configs = client.topic_configs(list(topics))
    except ClientError:
        return frozenset()
    return frozenset(
        name
        for name, entries in configs.items()
        if "cleanup.policy" in entries and "compact" in (entries["cleanup.policy"].value or "")
    )
