"""A classic group: its state, its members and what they have in common.

| state               | meaning                   | heartbeat | sync   | commit | exits            |
|---------------------|---------------------------|-----------|--------|--------|------------------|
| Empty               | no members, maybe offsets | 25        | 25     | 25     | join, expiry     |
| PreparingRebalance  | joins are parked          | 27        | 27     | taken  | joined, timeout  |
| CompletingRebalance | the leader assigns        | 0         | parked | 27     | sync, any change |
| Stable              | all have an assignment    | 0         | answer | taken  | any change       |
| Dead                | forgotten by its shard    | 25        | 25     | 22     | none             |

`commit` is a member's; one without a generation is taken while the group is Empty.
Invariants: `leader` is a member or None; every instance id maps to a member; joins are parked only
in PreparingRebalance, syncs only in CompletingRebalance. Not here: the steps (join, sync, leave,
rebalance).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from enum import StrEnum
from typing import Final

from broker.coordinators.group.effects import ReplyTo
from broker.coordinators.group.member import (
    Member,
    Protocols,
    member_from_stored,
    protocols_bytes,
)
from broker.coordinators.group.records import GroupStored
from broker.errors import ErrorCode

MEMBER_OVERHEAD_BYTES: Final = 64
"""The lengths and times of a stored member, rounded up."""


class GroupState(StrEnum):
    """Kafka's names, as DescribeGroups and ListGroups show them."""

    EMPTY = "Empty"
    PREPARING_REBALANCE = "PreparingRebalance"
    COMPLETING_REBALANCE = "CompletingRebalance"
    STABLE = "Stable"
    DEAD = "Dead"


EXITS: Final = {
    GroupState.EMPTY: frozenset({GroupState.PREPARING_REBALANCE, GroupState.DEAD}),
    GroupState.PREPARING_REBALANCE: frozenset(
        {GroupState.COMPLETING_REBALANCE, GroupState.EMPTY, GroupState.DEAD}
    ),
    GroupState.COMPLETING_REBALANCE: frozenset(
        {GroupState.STABLE, GroupState.PREPARING_REBALANCE, GroupState.DEAD}
    ),
    GroupState.STABLE: frozenset({GroupState.PREPARING_REBALANCE, GroupState.DEAD}),
    GroupState.DEAD: frozenset[GroupState](),
}


class ClassicGroup:
    """One group's live state. Deadlines are monotonic ms, None when the timer is off.

    `soonest_ms` is at or before the next deadline. `unsynced` members have heard of the generation
    and not asked for their assignment. `scheduled_at_ms`, `rebalance_count` and `counted` are its
    shard's notes about it.
    """

    __slots__ = (
        "_support",
        "counted",
        "generation",
        "group_id",
        "has_new_member",
        "initial_delay_left_ms",
        "instances",
        "is_initial_rebalance",
        "leader",
        "members",
        "metadata_bytes",
        "parked_join_count",
        "pending",
        "protocol",
        "protocol_type",
        "rebalance_count",
        "rebalance_deadline_ms",
        "scheduled_at_ms",
        "soonest_ms",
        "state",
        "state_timestamp_ms",
        "sync_deadline_ms",
        "unsynced",
    )

    def __init__(self, group_id: str) -> None:
        self.group_id = group_id
        self.state = GroupState.EMPTY
        self.state_timestamp_ms = -1
        self.protocol_type = ""
        self.protocol: str | None = None
        self.generation = 0
        self.leader: str | None = None
        self.members: dict[str, Member] = {}
        self.instances: dict[str, str] = {}
        self.pending: dict[str, float] = {}
        self.rebalance_deadline_ms: float | None = None
        self.sync_deadline_ms: float | None = None
        self.is_initial_rebalance = False
        self.has_new_member = False
        self.initial_delay_left_ms = 0.0
        self.scheduled_at_ms: float | None = None
        self.rebalance_count = 0
        self.counted: GroupState | None = None
        self.soonest_ms: float | None = None
        self.parked_join_count = 0
        self.metadata_bytes = 0
        self.unsynced: set[str] = set()
        self._support: Counter[str] = Counter()

    def enter(self, state: GroupState, wall_ms: int) -> None:
        assert state in EXITS[self.state], f"group {self.group_id!r} went {self.state} -> {state}"
        self.state = state
        self.state_timestamp_ms = wall_ms

    # --- members ---

    def add(self, member: Member) -> None:
        assert member.member_id not in self.members, "a member joins once"
        self.members[member.member_id] = member
        self._count(member.protocols, 1)
        self.pending.pop(member.member_id, None)
        if member.instance_id is not None:
            self.instances[member.instance_id] = member.member_id
        if self.leader is None:
            self.leader = member.member_id

    def remove(self, member_id: str) -> Member:
        """The member, no longer of this group. A lost leader is replaced by the longest-standing
        member.
        """
        member = self.members.pop(member_id)
        self._count(member.protocols, -1)
        self.parked_join_count -= member.parked_join is not None
        self.unsynced.discard(member_id)
        if member.instance_id is not None and self.instances.get(member.instance_id) == member_id:
            del self.instances[member.instance_id]
        if self.leader == member_id:
            self.leader = next(iter(self.members), None)
        return member

    def replace_static(self, instance_id: str, new_member_id: str) -> Member:
        """The member of `instance_id` under a new id; its place, assignment and leadership stay."""
        old_id = self.instances[instance_id]
        member = self.members[old_id]
        member.member_id = new_member_id
        self.members = {
            (new_member_id if key == old_id else key): value for key, value in self.members.items()
        }
        self.instances[instance_id] = new_member_id
        if old_id in self.unsynced:
            self.unsynced.remove(old_id)
            self.unsynced.add(new_member_id)
        if self.leader == old_id:
            self.leader = new_member_id
        return member

    def update_protocols(self, member: Member, protocols: Protocols) -> None:
        self._count(member.protocols, -1)
        member.protocols = protocols
        self._count(protocols, 1)

    def check_member(self, member_id: str, instance_id: str | None) -> ErrorCode:
        """NONE when the pair names a member; 82 when another has taken the instance id, else 25."""
        if instance_id is not None:
            owner = self.instances.get(instance_id)
            if owner is None:
                return ErrorCode.UNKNOWN_MEMBER_ID
            if owner != member_id:
                return ErrorCode.FENCED_INSTANCE_ID
        return ErrorCode.NONE if member_id in self.members else ErrorCode.UNKNOWN_MEMBER_ID

    # --- protocols ---

    def accepts(self, protocol_type: str, protocols: Protocols) -> bool:
        """Whether a member with these protocols has one in common with everybody."""
        if not protocol_type or not protocols:
            return False
        if not self.members:
            return True
        if protocol_type != self.protocol_type:
            return False
        count = len(self.members)
        return any(self._support[name] == count for name, _ in protocols)

    def choose_protocol(self) -> str:
        """Every member votes for its first protocol that all support; the most votes win, the first
        voted breaks a tie.
        """
        count = len(self.members)
        candidates = frozenset(name for name, support in self._support.items() if support == count)
        assert candidates, f"the members of group {self.group_id!r} have no protocol in common"
        votes: Counter[str] = Counter()
        for member in self.members.values():
            choice = member.first_of(candidates)
            assert choice is not None, "a member supports what all support"
            votes[choice] += 1
        return votes.most_common(1)[0][0]

    # --- joins, syncs, deadlines ---

    @property
    def rebalance_timeout_ms(self) -> int:
        """The longest that any member may take to join again."""
        return max((member.rebalance_timeout_ms for member in self.members.values()), default=0)

    def park_join(self, member: Member, reply_to: ReplyTo) -> ReplyTo | None:
        """The member's latest join takes its parking place; who stood there before."""
        before, member.parked_join = member.parked_join, reply_to
        self.parked_join_count += before is None
        return before

    def unpark_join(self, member: Member) -> ReplyTo | None:
        """Who stood in the member's parking place."""
        before, member.parked_join = member.parked_join, None
        self.parked_join_count -= before is not None
        return before

    def has_all_joined(self) -> bool:
        """Whether nobody is left to wait for: no member that has not rejoined, no id handed out and
        unused.
        """
        return not self.pending and self.parked_join_count == len(self.members)

    def refresh_session(self, member: Member, now_ms: float) -> None:
        """The member has been heard of."""
        self.expire_session_at(member, now_ms + member.session_timeout_ms)

    def expire_session_at(self, member: Member, at_ms: float) -> None:
        member.session_deadline_ms = at_ms
        self.wake_by(at_ms)

    def await_joins_until(self, at_ms: float) -> None:
        self.rebalance_deadline_ms = at_ms
        self.wake_by(at_ms)

    def await_syncs_until(self, at_ms: float) -> None:
        self.sync_deadline_ms = at_ms
        self.wake_by(at_ms)

    def wake_by(self, at_ms: float) -> None:
        """Every new deadline comes here: `soonest_ms` is never later than any of them."""
        if self.soonest_ms is None or at_ms < self.soonest_ms:
            self.soonest_ms = at_ms

    def note_synced(self, member_id: str) -> None:
        self.unsynced.discard(member_id)
        if not self.unsynced:
            self.sync_deadline_ms = None

    def next_deadline_ms(self) -> float | None:
        """The earliest moment at which `rebalance.on_deadline` has something to do."""
        deadlines = [
            at for at in (self.rebalance_deadline_ms, self.sync_deadline_ms) if at is not None
        ]
        deadlines += self.pending.values()
        for member in self.members.values():
            expires_at = member.expires_at_ms()
            if expires_at is not None:
                deadlines.append(expires_at)
        return min(deadlines, default=None)

    def is_idle(self) -> bool:
        """Whether the live half remembers nothing that the stored half does not."""
        return self.state is GroupState.EMPTY and not self.pending

    # --- the stored half ---

    def to_stored(self) -> GroupStored:
        members = tuple(member.to_stored(self.protocol) for member in self.members.values())
        return GroupStored(
            self.group_id,
            self.protocol_type,
            self.generation,
            self.protocol,
            self.leader,
            self.state_timestamp_ms,
            members,
        )

    def stored_bytes(self, assignments: Mapping[str, bytes]) -> int:
        """What the generation with these assignments takes in the log at most, in bytes."""
        names = (self.group_id, self.protocol_type, self.protocol or "", self.leader or "")
        return sum(len(name.encode()) for name in names) + sum(
            len(assignments.get(member.member_id, b""))
            + len(member.metadata_for(self.protocol))
            + member.identity_bytes()
            + MEMBER_OVERHEAD_BYTES
            for member in self.members.values()
        )

    def _count(self, protocols: Protocols, step: int) -> None:
        self.metadata_bytes += step * protocols_bytes(protocols)
        for name in {name for name, _ in protocols}:
            self._support[name] += step
            if not self._support[name]:
                del self._support[name]


def group_from_stored(stored: GroupStored, now_ms: float) -> ClassicGroup:
    """The group as a restart finds it: Stable with fresh sessions, or Empty."""
    group = ClassicGroup(stored.group)
    group.protocol_type = stored.protocol_type
    group.generation = stored.generation
    group.protocol = stored.protocol
    group.state_timestamp_ms = stored.state_timestamp_ms
    for stored_member in stored.members:
        member = member_from_stored(stored_member, stored.protocol)
        group.add(member)
        group.refresh_session(member, now_ms)
    if group.members:
        group.state = GroupState.STABLE
        group.leader = stored.leader if stored.leader in group.members else group.leader
    return group
