"""What keeps one group from reading: each thing that is wrong, with the members and partitions that
it is about and what to do. Pure.

| kind | when |
|---|---|
| no-member | records wait and nobody is connected |
| rebalance-loop | REBALANCES_MIN or more rebalances within REBALANCE_WINDOW_MS, and not over |
| rebalance-long | one rebalance goes on for REBALANCE_LONG_MS |
| silent-member | a member's partitions with waiting records have all stalled |
| no-owner | a group with members has partitions that nobody reads |
| lost-records | the commit lies below the first record that still exists |
| beyond-end | the commit lies beyond the partition's end |
| hidden-members | the group is of a kind whose members the console cannot see |
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from typing import Final

from hermes_console import words
from hermes_console.live.observation import GroupObserved
from hermes_console.samples.snapshot import Blocker, PartitionSnapshot, Verdict

REBALANCING: Final = frozenset({"PreparingRebalance", "CompletingRebalance"})
REBALANCE_WINDOW_MS: Final = 300_000
REBALANCES_MIN: Final = 3
REBALANCES_KEPT: Final = 64
REBALANCE_LONG_MS: Final = 60_000
MEMBERS_TOLD_MAX: Final = 5


class Rebalances:
    """When a group's assignment changed, as far as samples show it; bounded."""

    __slots__ = ("_assignment", "_began_at_ms", "_times")

    def __init__(self) -> None:
        self._times: deque[int] = deque(maxlen=REBALANCES_KEPT)
        self._began_at_ms: int | None = None
        self._assignment: frozenset[object] | None = None

    def add(self, group: GroupObserved, at_ms: int) -> None:
        """One rebalance: the state says so, or between two samples the assignment changed."""
        is_rebalancing = group.state in REBALANCING
        if is_rebalancing:
            if self._began_at_ms is None:
                self._began_at_ms = at_ms
                self._times.append(at_ms)
        else:
            assignment = frozenset((one.member_id, one.assignment) for one in group.members)
            was_seen = self._began_at_ms is not None
            if self._assignment not in {None, assignment} and not was_seen:
                self._times.append(at_ms)
            self._assignment = assignment
            self._began_at_ms = None
        while self._times and at_ms - self._times[0] > REBALANCE_WINDOW_MS:
            self._times.popleft()

    @property
    def count(self) -> int:
        """Within the window."""
        return len(self._times)

    def lasts_ms(self, at_ms: int) -> int:
        """For how long the one that goes on has done so; 0 when none does."""
        return 0 if self._began_at_ms is None else at_ms - self._began_at_ms


def find_blockers(
    group: GroupObserved,
    partitions: Sequence[PartitionSnapshot],
    rebalances: Rebalances,
    at_ms: int,
) -> tuple[Blocker, ...]:
    """In the order of the table above."""
    found: list[Blocker] = []
    waiting = sum(one.lag or 0 for one in partitions)
    if group.is_hidden:
        found.append(
            Blocker(
                "hidden-members",
                "Its members cannot be seen from here.",
                f"The group uses another protocol ({group.kind}); only its commits are judged.",
            )
        )
    elif not group.members and group.state not in REBALANCING and waiting:
        found.append(
            Blocker(
                "no-member",
                f"No member is connected; {words.count(waiting, 'message')} "
                f"{'waits' if waiting == 1 else 'wait'}.",
                "Start a client of this group.",
            )
        )
    if group.members or group.state in REBALANCING:
        found += _rebalances(rebalances, at_ms)
    found += _silent_members(group, partitions)
    found += _unowned(group, partitions)
    found += _lost(partitions)
    return tuple(found)


def _rebalances(rebalances: Rebalances, at_ms: int) -> list[Blocker]:
    lasts_ms = rebalances.lasts_ms(at_ms)
    if lasts_ms >= REBALANCE_LONG_MS:
        return [
            Blocker(
                "rebalance-long",
                f"It has been rebalancing for {words.duration(lasts_ms / 1000)}; "
                "nobody reads meanwhile.",
                "A member does not join again: it works on a batch longer than its rebalance "
                "timeout (max.poll.interval.ms) allows.",
            )
        ]
    if rebalances.count >= REBALANCES_MIN:
        return [
            Blocker(
                "rebalance-loop",
                f"It rebalanced {rebalances.count} times within "
                f"{words.duration(REBALANCE_WINDOW_MS / 1000)}.",
                "Members join and leave in a loop: look for restarts, for max.poll.interval.ms or "
                "session.timeout.ms exceeded in the clients' logs; static ids "
                "(group.instance.id) keep a restart from moving partitions.",
            )
        ]
    return []


def _silent_members(group: GroupObserved, partitions: Sequence[PartitionSnapshot]) -> list[Blocker]:
    """Members with a heartbeat, but without any progress where records wait."""
    found = []
    for member in group.members:
        own = [one for one in partitions if one.member_id == member.member_id and one.lag]
        if own and all(one.verdict is Verdict.STALLED for one in own):
            names = words.listed([f"{one.topic}-{one.partition}" for one in own])
            found.append(
                Blocker(
                    "silent-member",
                    f"{member.client_id or 'A member without a name'} on {member.client_host} "
                    f"holds {names} and commits nothing while messages wait.",
                    "It stopped polling, hangs in its work or fails on one message again and "
                    "again: look at that process, or restart it.",
                )
            )
    return found[:MEMBERS_TOLD_MAX]


def _unowned(group: GroupObserved, partitions: Sequence[PartitionSnapshot]) -> list[Blocker]:
    if not group.members or group.state in REBALANCING:
        return []
    assigned = {one.topic for member in group.members for one in member.assignment}
    unowned = [one for one in partitions if not one.member_id and (one.lag or one.lag is None)]
    within = [one for one in unowned if one.topic in assigned]
    beside = [one for one in unowned if one.topic not in assigned and one.lag]
    found = []
    if within:
        names = words.listed([f"{one.topic}-{one.partition}" for one in within])
        found.append(
            Blocker(
                "no-owner",
                f"Nobody reads {names}, although the group reads the topic.",
                "The members have not heard of these partitions yet (metadata.max.age.ms), or "
                "assign partitions by hand and leave them out.",
            )
        )
    if beside:
        names = words.listed(sorted({one.topic for one in beside}))
        found.append(
            Blocker(
                "no-owner",
                f"Messages wait in {names}, which no member subscribes to any more.",
                "Start the client that reads it, or delete the group's offsets in that topic.",
            )
        )
    return found


def _lost(partitions: Sequence[PartitionSnapshot]) -> list[Blocker]:
    found = []
    lost = [
        one for one in partitions if one.committed is not None and one.committed < one.log_start
    ]
    if lost:
        count = sum(one.log_start - (one.committed or 0) for one in lost)
        names = words.listed([f"{one.topic}-{one.partition}" for one in lost])
        found.append(
            Blocker(
                "lost-records",
                f"{words.count(count, 'message')} of {names} were deleted, or expired, before it "
                "read them.",
                "Retention or delivery.ttl.ms was shorter than the lag. The client goes on behind "
                "what expired, or where its auto.offset.reset says; or reset the offsets to the "
                "earliest.",
            )
        )
    beyond = [one for one in partitions if one.committed is not None and one.committed > one.end]
    if beyond:
        names = words.listed([f"{one.topic}-{one.partition}" for one in beyond])
        found.append(
            Blocker(
                "beyond-end",
                f"Its offset in {names} lies beyond the end.",
                "The topic was recreated or lost records. Reset the offsets; otherwise the client "
                "goes where its auto.offset.reset says.",
            )
        )
    return found
