"""One shard of the group coordinator: the groups of one partition of `__consumer_offsets`.

Each `on_*` takes a request and the moment, and returns effects in the order in which they must be
carried out. A record is applied to `stored` as its Append is emitted; a shell that fails to append
it discards the shard and loads it anew, after `on_abandoned` has named everybody who waits. Not
here: the log, timers, sockets, routing (the server's shell).
"""

from __future__ import annotations

import heapq
from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Final

from broker.coordinators.group import expiry, join, leave, offsets, rebalance, sync
from broker.coordinators.group.classic import ClassicGroup, GroupState, group_from_stored
from broker.coordinators.group.describe import describe_group, list_groups
from broker.coordinators.group.effects import Append, Caller, Effect, Moment, Reply, ReplyTo
from broker.coordinators.group.offsets import FetchedTopics, FindTopic
from broker.coordinators.group.records import OffsetCommitted, Record
from broker.coordinators.group.stored import StoredGroups
from broker.errors import ErrorCode
from broker.wire.messages.describe_groups import DescribedGroup
from broker.wire.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from broker.wire.messages.join_group import JoinGroupRequest
from broker.wire.messages.leave_group import LeaveGroupRequest, LeaveGroupResponse
from broker.wire.messages.list_groups import ListedGroup, ListGroupsRequest
from broker.wire.messages.offset_commit import OffsetCommitRequest
from broker.wire.messages.offset_delete import OffsetDeleteRequest
from broker.wire.messages.sync_group import SyncGroupRequest

STALE_TIMERS_FACTOR: Final = 2
STALE_TIMERS_MIN: Final = 1_000
"""Timers kept at most: so many for each group, and so many on top."""


class GroupShard:
    """`stored` is what the log holds, `groups` the live half of every group that is known.

    `states` counts groups for metrics; `rebalanced` names a group per generation
    begun, until the shell has counted and cleared it.
    """

    __slots__ = ("_timers", "groups", "rebalanced", "states", "stored")

    def __init__(self) -> None:
        self.stored = StoredGroups()
        self.groups: dict[str, ClassicGroup] = {}
        self.states: Counter[GroupState] = Counter()
        self.rebalanced: list[str] = []
        self._timers: list[tuple[float, str]] = []

    # --- loading ---

    def apply(self, record: Record) -> None:
        """Replay one record of the log, before `restore`."""
        self.stored.apply(record)

    def restore(self, now_ms: float) -> None:
        """The log is replayed: bring every group to life, its members with fresh sessions."""
        for stored in self.stored.generations.values():
            self.groups[stored.group] = group_from_stored(stored, now_ms)
        for group_id in self.stored.offsets:
            if group_id not in self.groups:
                self.groups[group_id] = ClassicGroup(group_id)
        for group in list(self.groups.values()):
            self._settle(group)

    # --- membership ---

    def on_join(
        self, request: JoinGroupRequest, caller: Caller, new_member_id: str, moment: Moment
    ) -> list[Effect]:
        code = join.check_join(request, moment)
        group = self.groups.get(request.group_id)
        if code is ErrorCode.NONE and group is None and request.member_id:
            code = ErrorCode.UNKNOWN_MEMBER_ID
        if code is not ErrorCode.NONE:
            return [Reply(caller.reply_to, rebalance.join_error(code, request.member_id))]
        if group is None and not moment.may_create_group:
            error = rebalance.join_error(ErrorCode.POLICY_VIOLATION)
            return [Reply(caller.reply_to, error)]
        if group is None:
            group = self._create(request.group_id)
        return self._finish(group, join.on_join(group, request, caller, new_member_id, moment))

    def on_disconnected(self, group_id: str, member_id: str, moment: Moment) -> list[Effect]:
        """A client that was never told its member id is gone."""
        group = self.groups.get(group_id)
        if group is None:
            return []
        return self._finish(group, join.on_disconnected(group, member_id, moment))

    def on_sync(self, request: SyncGroupRequest, caller: Caller, moment: Moment) -> list[Effect]:
        if not request.group_id:
            return [Reply(caller.reply_to, rebalance.sync_error(ErrorCode.INVALID_GROUP_ID))]
        group = self.groups.get(request.group_id)
        return self._finish(group, sync.on_sync(group, request, caller, moment))

    def on_heartbeat(
        self, request: HeartbeatRequest, caller: Caller, moment: Moment
    ) -> list[Effect]:
        """Only moves a session's end back, so no timer changes."""
        if not request.group_id:
            code = ErrorCode.INVALID_GROUP_ID
            return [Reply(caller.reply_to, HeartbeatResponse(error_code=code))]
        return sync.on_heartbeat(self.groups.get(request.group_id), request, caller, moment)

    def on_leave(self, request: LeaveGroupRequest, caller: Caller, moment: Moment) -> list[Effect]:
        if not request.group_id:
            code = ErrorCode.INVALID_GROUP_ID
            return [Reply(caller.reply_to, LeaveGroupResponse(error_code=code))]
        group = self.groups.get(request.group_id)
        return self._finish(group, leave.on_leave(group, request, caller, moment))

    def next_deadline_ms(self) -> float | None:
        """When `on_deadline` next has something to do; perhaps too early, never too late."""
        return self._timers[0][0] if self._timers else None

    def on_deadline(self, moment: Moment, count_max: int) -> list[Effect]:
        """What has run out, for at most `count_max` groups; the rest is due at once."""
        effects: list[Effect] = []
        for _ in range(count_max):
            if not self._timers or self._timers[0][0] > moment.monotonic_ms:
                break
            at_ms, group_id = heapq.heappop(self._timers)
            group = self.groups.get(group_id)
            if group is None or group.scheduled_at_ms != at_ms:
                continue
            group.scheduled_at_ms = None
            group_effects = rebalance.on_deadline(group, moment)
            group.soonest_ms = group.next_deadline_ms()
            effects += self._finish(group, group_effects)
        return effects

    def on_abandoned(self, code: ErrorCode) -> list[Reply]:
        """The shard goes: every parked request and the error it gets."""
        parked = [
            reply_to
            for group in self.groups.values()
            for member in group.members.values()
            for reply_to in (member.parked_join, member.parked_sync)
            if reply_to is not None
        ]
        return [Reply(reply_to, code) for reply_to in parked]

    # --- offsets ---

    def on_commit(
        self, request: OffsetCommitRequest, find_topic: FindTopic, caller: Caller, moment: Moment
    ) -> list[Effect]:
        group = self.groups.get(request.group_id)
        decision = offsets.decide_commit(group, request, find_topic, moment)
        if group is None and decision.records:
            group = self._create(request.group_id)
        if group is not None and request.member_id in group.members:
            is_heard = offsets.check_commit(group, request) is ErrorCode.NONE
            if is_heard:
                group.refresh_session(group.members[request.member_id], moment.monotonic_ms)
        effects: list[Effect] = [Append(record) for record in decision.records]
        for record in decision.records:
            self.stored.apply(record)
        return [*effects, Reply(caller.reply_to, decision.response)]

    def fetch_offsets(
        self,
        group_id: str,
        wanted: Sequence[tuple[str, Sequence[int]]] | None,
        find_topic: FindTopic,
    ) -> FetchedTopics:
        """See `offsets.fetch_offsets`. The answer is a read: it too leaves after what was appended
        before it.
        """
        return offsets.fetch_offsets(self.stored, group_id, wanted, find_topic)

    def all_offsets(self) -> Iterator[OffsetCommitted]:
        """Every commit; the shard may change between two items."""
        for group_id in list(self.stored.offsets):
            yield from list(self.stored.offsets.get(group_id, {}).values())

    # --- administration ---

    def describe(self, group_id: str, api_version: int) -> DescribedGroup:
        return describe_group(self.groups.get(group_id), group_id, api_version)

    def list_groups(self, request: ListGroupsRequest) -> list[ListedGroup]:
        return list_groups(self.groups.values(), request)

    def on_delete(self, group_id: str) -> tuple[list[Effect], ErrorCode]:
        group = self.groups.get(group_id)
        records, code = expiry.decide_deletion(self.stored, group, group_id)
        return self._finish(group, [Append(record) for record in records]), code

    def on_offset_delete(
        self, request: OffsetDeleteRequest, find_topic: FindTopic, reply_to: ReplyTo
    ) -> list[Effect]:
        group = self.groups.get(request.group_id)
        decision = expiry.decide_offset_deletion(self.stored, group, request, find_topic)
        effects: list[Effect] = [Append(record) for record in decision.records]
        return self._finish(group, [*effects, Reply(reply_to, decision.response)])

    def on_expiry(self, group_id: str, find_topic: FindTopic, moment: Moment) -> list[Effect]:
        """The periodic look at one group."""
        group = self.groups.get(group_id)
        if group is None:
            return []
        records = expiry.decide_expiry(self.stored, group, find_topic, moment)
        return self._finish(group, [Append(record) for record in records])

    def on_topic_removed(self, group_id: str, topic_id: bytes) -> list[Effect]:
        records = expiry.decide_topic_removal(self.stored, group_id, topic_id)
        return self._finish(self.groups.get(group_id), [Append(record) for record in records])

    # --- bookkeeping ---

    def _create(self, group_id: str) -> ClassicGroup:
        group = self.groups[group_id] = ClassicGroup(group_id)
        self._count(group)
        return group

    def _finish(self, group: ClassicGroup | None, effects: list[Effect]) -> list[Effect]:
        for effect in effects:
            if isinstance(effect, Append):
                self.stored.apply(effect.record)
        if group is not None:
            self._settle(group)
        return effects

    def _settle(self, group: ClassicGroup) -> None:
        """After a step: forget a group of which nothing is left, keep the counts, schedule its next
        deadline.
        """
        group_id = group.group_id
        self.rebalanced += [group_id] * group.rebalance_count
        group.rebalance_count = 0
        is_stored = group_id in self.stored.generations or group_id in self.stored.offsets
        if group.is_idle() and not is_stored:
            group.enter(GroupState.DEAD, group.state_timestamp_ms)
            self._uncount(group)
            del self.groups[group_id]
            return
        self._count(group)
        deadline_ms = group.soonest_ms
        if deadline_ms is None:
            group.scheduled_at_ms = None
        elif group.scheduled_at_ms is None or deadline_ms < group.scheduled_at_ms:
            group.scheduled_at_ms = deadline_ms
            heapq.heappush(self._timers, (deadline_ms, group_id))
            if len(self._timers) > STALE_TIMERS_FACTOR * len(self.groups) + STALE_TIMERS_MIN:
                self._drop_stale_timers()

    def _drop_stale_timers(self) -> None:
        """Timers of groups that are gone or were moved ahead must not pile up."""
        self._timers = [
            (group.scheduled_at_ms, group_id)
            for group_id, group in self.groups.items()
            if group.scheduled_at_ms is not None
        ]
        heapq.heapify(self._timers)

    def _count(self, group: ClassicGroup) -> None:
        if group.counted is not group.state:
            self._uncount(group)
            self.states[group.state] += 1
            group.counted = group.state

    def _uncount(self, group: ClassicGroup) -> None:
        if group.counted is not None:
            self.states[group.counted] -= 1
            group.counted = None
