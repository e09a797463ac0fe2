"""SyncGroup and Heartbeat: the generation's assignment, and the signs of life."""

from __future__ import annotations

from typing import Final

from broker.coordinators.group.classic import ClassicGroup, GroupState
from broker.coordinators.group.effects import Append, Caller, Effect, Moment, Reply
from broker.coordinators.group.member import Member
from broker.coordinators.group.rebalance import answer_syncs, prepare, sync_error
from broker.errors import ErrorCode
from broker.wire.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from broker.wire.messages.sync_group import SyncGroupRequest, SyncGroupResponse

HEARTBEAT_ANSWERS: Final = {
    GroupState.EMPTY: ErrorCode.UNKNOWN_MEMBER_ID,
    GroupState.PREPARING_REBALANCE: ErrorCode.REBALANCE_IN_PROGRESS,
    GroupState.COMPLETING_REBALANCE: ErrorCode.NONE,
    GroupState.STABLE: ErrorCode.NONE,
    GroupState.DEAD: ErrorCode.UNKNOWN_MEMBER_ID,
}


def on_heartbeat(
    group: ClassicGroup | None, request: HeartbeatRequest, caller: Caller, moment: Moment
) -> list[Effect]:
    """A member lives, and learns whether to rejoin. Its session is refreshed either way."""
    code = check_generation(
        group, request.member_id, request.group_instance_id, request.generation_id
    )
    if group is not None and code is ErrorCode.NONE:
        code = HEARTBEAT_ANSWERS[group.state]
        group.refresh_session(group.members[request.member_id], moment.monotonic_ms)
    return [Reply(caller.reply_to, HeartbeatResponse(error_code=code))]


def on_sync(
    group: ClassicGroup | None, request: SyncGroupRequest, caller: Caller, moment: Moment
) -> list[Effect]:
    """Followers wait for the leader's assignment, the leader's own sync hands it to everybody."""
    code = check_generation(
        group, request.member_id, request.group_instance_id, request.generation_id
    )
    if code is ErrorCode.NONE and group is not None:
        code = _check_protocol(group, request)
    if code is not ErrorCode.NONE or group is None:
        return [Reply(caller.reply_to, sync_error(code))]
    member = group.members[request.member_id]
    if group.state is GroupState.PREPARING_REBALANCE:
        return [Reply(caller.reply_to, sync_error(ErrorCode.REBALANCE_IN_PROGRESS))]
    if group.state is GroupState.STABLE:
        group.note_synced(member.member_id)
        group.refresh_session(member, moment.monotonic_ms)
        return [Reply(caller.reply_to, _sync_response(group, member))]
    assert group.state is GroupState.COMPLETING_REBALANCE, "an empty group has no members to sync"
    effects = _park(member, caller)
    group.note_synced(member.member_id)
    if request.member_id != group.leader:
        return effects
    return effects + _assign(group, request, moment)


def check_generation(
    group: ClassicGroup | None, member_id: str, instance_id: str | None, generation: int
) -> ErrorCode:
    """NONE when the caller is a member of exactly this generation; else 25, 82 or 22."""
    if group is None:
        return ErrorCode.UNKNOWN_MEMBER_ID
    code = group.check_member(member_id, instance_id)
    if code is not ErrorCode.NONE:
        return code
    return ErrorCode.NONE if generation == group.generation else ErrorCode.ILLEGAL_GENERATION


def _check_protocol(group: ClassicGroup, request: SyncGroupRequest) -> ErrorCode:
    """From version 5 a member says what it believes was chosen (KIP-559)."""
    is_consistent = request.protocol_type in (None, group.protocol_type) and (
        request.protocol_name in (None, group.protocol)
        or group.state is GroupState.PREPARING_REBALANCE
    )
    return ErrorCode.NONE if is_consistent else ErrorCode.INCONSISTENT_GROUP_PROTOCOL


def _park(member: Member, caller: Caller) -> list[Effect]:
    effects: list[Effect] = []
    if member.parked_sync is not None:
        effects.append(Reply(member.parked_sync, sync_error(ErrorCode.REBALANCE_IN_PROGRESS)))
    member.parked_sync = caller.reply_to
    return effects


def _assign(group: ClassicGroup, request: SyncGroupRequest, moment: Moment) -> list[Effect]:
    """The leader has spoken: store the generation, then answer everybody who waits."""
    assignments = {item.member_id: bytes(item.assignment) for item in request.assignments}
    if group.stored_bytes(assignments) > moment.limits.group_record_bytes_max:
        return _refuse_all(group, moment)
    for member in group.members.values():
        member.assignment = assignments.get(member.member_id, b"")
    group.enter(GroupState.STABLE, moment.wall_ms)
    stored = Append(group.to_stored())
    return [stored, *answer_syncs(group, moment, lambda member: _sync_response(group, member))]


def _refuse_all(group: ClassicGroup, moment: Moment) -> list[Effect]:
    """An assignment that one record cannot hold: everybody hears of it and joins again."""
    error = sync_error(ErrorCode.UNKNOWN_SERVER_ERROR)
    return answer_syncs(group, moment, lambda _: error) + prepare(group, moment)


def _sync_response(group: ClassicGroup, member: Member) -> SyncGroupResponse:
    return SyncGroupResponse(
        error_code=ErrorCode.NONE,
        protocol_type=group.protocol_type,
        protocol_name=group.protocol,
        assignment=member.assignment,
    )
