"""LeaveGroup: one member up to version 2, from version 3 many, static ones by instance id
(KIP-345).
"""

from __future__ import annotations

from typing import Final

from broker.coordinators.group.classic import ClassicGroup
from broker.coordinators.group.effects import Caller, Effect, Moment, Reply
from broker.coordinators.group.rebalance import complete_if_all_joined, prepare, remove_member
from broker.errors import ErrorCode
from broker.wire.messages.leave_group import (
    LeaveGroupRequest,
    LeaveGroupResponse,
    MemberIdentity,
    MemberResponse,
)

BATCHED_FROM: Final = 3
"""A request names several members from this version on (KIP-345)."""


def on_leave(
    group: ClassicGroup | None, request: LeaveGroupRequest, caller: Caller, moment: Moment
) -> list[Effect]:
    """Members go at once, all of a request before one rebalance begins."""
    is_batched = caller.api_version >= BATCHED_FROM
    identities = request.members if is_batched else [MemberIdentity(member_id=request.member_id)]
    effects: list[Effect] = []
    answers: list[MemberResponse] = []
    has_left = has_forgotten = False
    for identity in identities:
        code, member_id = _find(group, identity)
        if group is not None and code is ErrorCode.NONE:
            if member_id in group.pending:
                del group.pending[member_id]
                has_forgotten = True
            else:
                effects += remove_member(group, member_id)
                has_left = True
        answers.append(
            MemberResponse(
                member_id=identity.member_id,
                group_instance_id=identity.group_instance_id,
                error_code=code,
            )
        )
    if group is not None and has_left:
        effects += prepare(group, moment)
    elif group is not None and has_forgotten:
        effects += complete_if_all_joined(group, moment)
    if is_batched:
        response = LeaveGroupResponse(members=answers)
    else:
        response = LeaveGroupResponse(error_code=answers[0].error_code)
    return [*effects, Reply(caller.reply_to, response)]


def _find(group: ClassicGroup | None, identity: MemberIdentity) -> tuple[ErrorCode, str]:
    """(NONE, the id of the member meant) or (why there is none, "")."""
    if group is None:
        return ErrorCode.UNKNOWN_MEMBER_ID, ""
    member_id, instance_id = identity.member_id, identity.group_instance_id
    if instance_id is None:
        if member_id in group.pending:
            return ErrorCode.NONE, member_id
    elif not member_id:
        member_id = group.instances.get(instance_id, "")
        return (ErrorCode.NONE if member_id else ErrorCode.UNKNOWN_MEMBER_ID), member_id
    return group.check_member(member_id, instance_id), member_id
