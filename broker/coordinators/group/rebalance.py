"""The join barrier of a classic group: begin a rebalance, complete it, and what time does to it.

Every function returns effects and leaves the group in a state of its table (classic). A join that
is parked is answered by `complete_join`, by its member's removal, or by a newer join of the same
member.
"""

from __future__ import annotations

from collections.abc import Callable

from broker.coordinators.group.classic import ClassicGroup, GroupState
from broker.coordinators.group.effects import Append, Effect, Moment, Reply
from broker.coordinators.group.member import Member
from broker.errors import ErrorCode
from broker.wire.messages.join_group import JoinGroupResponse, JoinGroupResponseMember
from broker.wire.messages.sync_group import SyncGroupResponse


def prepare(group: ClassicGroup, moment: Moment) -> list[Effect]:
    """Something about the members changed: begin a rebalance, or see whether the one under way is
    complete.
    """
    if group.state is GroupState.PREPARING_REBALANCE:
        return complete_if_all_joined(group, moment)
    group.unsynced.clear()
    interrupted = sync_error(ErrorCode.REBALANCE_IN_PROGRESS)
    effects = answer_syncs(group, moment, lambda _: interrupted)
    group.is_initial_rebalance = group.state is GroupState.EMPTY
    group.sync_deadline_ms = None
    group.enter(GroupState.PREPARING_REBALANCE, moment.wall_ms)
    if not group.is_initial_rebalance:
        group.await_joins_until(moment.monotonic_ms + group.rebalance_timeout_ms)
        return effects + complete_if_all_joined(group, moment)
    delay_ms = min(moment.limits.initial_rebalance_delay_ms, group.rebalance_timeout_ms)
    group.initial_delay_left_ms = max(group.rebalance_timeout_ms - delay_ms, 0)
    group.has_new_member = False
    group.await_joins_until(moment.monotonic_ms + delay_ms)
    return effects + (complete_join(group, moment) if delay_ms == 0 else [])


def complete_if_all_joined(group: ClassicGroup, moment: Moment) -> list[Effect]:
    """The barrier opens when nobody is left to wait for; a group's first rebalance waits for its
    delay.
    """
    if group.state is not GroupState.PREPARING_REBALANCE or not group.has_all_joined():
        return []
    if group.is_initial_rebalance and group.members:
        return []
    return complete_join(group, moment)


def complete_join(group: ClassicGroup, moment: Moment) -> list[Effect]:
    """Begin the next generation with those who joined.

    Dynamic members that did not rejoin are out. Static ones stay until their session ends; when
    only such are left, the barrier stays for another rebalance timeout.
    """
    for member in list(group.members.values()):
        if member.parked_join is None and not member.is_static:
            group.remove(member.member_id)
    if group.members and not _elect_joined_leader(group):
        group.await_joins_until(moment.monotonic_ms + group.rebalance_timeout_ms)
        return []
    group.rebalance_deadline_ms = None
    group.generation += 1
    group.rebalance_count += 1
    if not group.members:
        group.protocol = None
        group.enter(GroupState.EMPTY, moment.wall_ms)
        return [Append(group.to_stored())]
    group.protocol = group.choose_protocol()
    group.enter(GroupState.COMPLETING_REBALANCE, moment.wall_ms)
    group.await_syncs_until(moment.monotonic_ms + group.rebalance_timeout_ms)
    return _answer_joins(group, moment)


def remove_member(group: ClassicGroup, member_id: str) -> list[Effect]:
    """Take a member out and answer what it had parked; the caller goes on with `prepare`."""
    member = group.remove(member_id)
    effects: list[Effect] = []
    if member.parked_join is not None:
        effects.append(
            Reply(member.parked_join, join_error(ErrorCode.UNKNOWN_MEMBER_ID, member_id))
        )
    if member.parked_sync is not None:
        effects.append(Reply(member.parked_sync, sync_error(ErrorCode.UNKNOWN_MEMBER_ID)))
    return effects


def on_deadline(group: ClassicGroup, moment: Moment) -> list[Effect]:
    """Whatever has run out by now: unused member ids, sessions, the barrier, late syncs."""
    now_ms = moment.monotonic_ms
    pending = [member_id for member_id, at in group.pending.items() if at <= now_ms]
    for member_id in pending:
        del group.pending[member_id]
    expired = [
        member_id
        for member_id, member in group.members.items()
        if (at := member.expires_at_ms()) is not None and at <= now_ms
    ]
    if group.sync_deadline_ms is not None and group.sync_deadline_ms <= now_ms:
        group.sync_deadline_ms = None
        expired += [
            member_id
            for member_id in group.members
            if member_id in group.unsynced and member_id not in expired
        ]
    effects: list[Effect] = []
    for member_id in expired:
        effects += remove_member(group, member_id)
    if expired:
        effects += prepare(group, moment)
    elif pending:
        effects += complete_if_all_joined(group, moment)
    if group.rebalance_deadline_ms is not None and group.rebalance_deadline_ms <= now_ms:
        effects += _on_barrier_deadline(group, moment)
    return effects


def join_error(code: ErrorCode, member_id: str = "") -> JoinGroupResponse:
    return JoinGroupResponse(
        error_code=code, generation_id=-1, protocol_name="", leader="", member_id=member_id
    )


def join_response(group: ClassicGroup, member: Member) -> JoinGroupResponse:
    """The current generation as `member` is told of it: the leader gets everybody's metadata."""
    members: list[JoinGroupResponseMember] = []
    if member.member_id == group.leader:
        members = everybody(group)
    return JoinGroupResponse(
        error_code=ErrorCode.NONE,
        generation_id=group.generation,
        protocol_type=group.protocol_type,
        protocol_name=group.protocol or "",
        leader=group.leader or "",
        member_id=member.member_id,
        members=members,
    )


def everybody(group: ClassicGroup) -> list[JoinGroupResponseMember]:
    return [
        JoinGroupResponseMember(
            member_id=member.member_id,
            group_instance_id=member.instance_id,
            metadata=member.metadata_for(group.protocol),
        )
        for member in group.members.values()
    ]


def answer_syncs(
    group: ClassicGroup, moment: Moment, response_of: Callable[[Member], SyncGroupResponse]
) -> list[Effect]:
    """Answer every parked sync; those who waited have fresh sessions."""
    effects: list[Effect] = []
    for member in group.members.values():
        if member.parked_sync is not None:
            effects.append(Reply(member.parked_sync, response_of(member)))
            member.parked_sync = None
            group.refresh_session(member, moment.monotonic_ms)
    return effects


def sync_error(code: ErrorCode) -> SyncGroupResponse:
    return SyncGroupResponse(error_code=code, assignment=b"")


def _elect_joined_leader(group: ClassicGroup) -> bool:
    """Keep the leader when it joined, else take the first that did; False when nobody joined."""
    leader = group.members.get(group.leader) if group.leader is not None else None
    if leader is not None and leader.parked_join is not None:
        return True
    for member in group.members.values():
        if member.parked_join is not None:
            group.leader = member.member_id
            return True
    return False


def _answer_joins(group: ClassicGroup, moment: Moment) -> list[Effect]:
    effects: list[Effect] = []
    for member in group.members.values():
        parked = group.unpark_join(member)
        if parked is None:
            continue
        effects.append(Reply(parked, join_response(group, member)))
        member.is_new = False
        group.unsynced.add(member.member_id)
        group.refresh_session(member, moment.monotonic_ms)
    return effects


def _on_barrier_deadline(group: ClassicGroup, moment: Moment) -> list[Effect]:
    """A first rebalance is prolonged while new members arrive, up to the rebalance timeout
    (KIP-134).
    """
    if group.is_initial_rebalance and group.has_new_member and group.initial_delay_left_ms > 0:
        delay_ms = min(moment.limits.initial_rebalance_delay_ms, group.initial_delay_left_ms)
        group.initial_delay_left_ms = max(group.initial_delay_left_ms - delay_ms, 0)
        group.has_new_member = False
        group.await_joins_until(moment.monotonic_ms + delay_ms)
        return []
    return complete_join(group, moment)
