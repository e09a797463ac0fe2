"""JoinGroup: who may enter a classic group, and whether that begins a rebalance.

Source: KIP-394 (member ids are given out first), KIP-345 (static members), KIP-814 (skip the
assignment).
"""

from __future__ import annotations

from typing import Final

from broker.coordinators.group.classic import ClassicGroup, GroupState
from broker.coordinators.group.effects import Append, Caller, Effect, Moment, Reply
from broker.coordinators.group.limits import (
    MEMBER_ID_PREFIX_MAX,
    NEW_MEMBER_JOIN_TIMEOUT_MS,
    PENDING_MEMBERS_MAX,
)
from broker.coordinators.group.member import Member, Protocols, protocols_bytes
from broker.coordinators.group.rebalance import (
    join_error,
    join_response,
    prepare,
    remove_member,
    sync_error,
)
from broker.coordinators.group.subscription import subscribed_topics
from broker.errors import ErrorCode
from broker.wire.messages.join_group import JoinGroupRequest

MEMBER_ID_REQUIRED_FROM: Final = 4
SKIP_ASSIGNMENT_FROM: Final = 9


def check_join(request: JoinGroupRequest, moment: Moment) -> ErrorCode:
    """What is wrong with a join whatever the group's state; NONE when nothing is."""
    limits = moment.limits
    if not request.group_id:
        return ErrorCode.INVALID_GROUP_ID
    if not (
        limits.session_timeout_ms_min <= request.session_timeout_ms <= limits.session_timeout_ms_max
    ):
        return ErrorCode.INVALID_SESSION_TIMEOUT
    return ErrorCode.NONE


def on_join(
    group: ClassicGroup,
    request: JoinGroupRequest,
    caller: Caller,
    new_member_id: str,
    moment: Moment,
) -> list[Effect]:
    """A join that passed `check_join`. `new_member_id` is for a newcomer, from `member_id_for`."""
    protocols = tuple((protocol.name, bytes(protocol.metadata)) for protocol in request.protocols)
    if not _has_room(group, request, protocols, moment):
        effects = _drop(group, request.member_id, moment)
        error = join_error(ErrorCode.GROUP_MAX_SIZE_REACHED, request.member_id)
        return [*effects, Reply(caller.reply_to, error)]
    if not group.accepts(request.protocol_type, protocols):
        code = ErrorCode.INCONSISTENT_GROUP_PROTOCOL
        return [Reply(caller.reply_to, join_error(code, request.member_id))]
    if request.member_id:
        return _join_with_id(group, request, protocols, caller, moment)
    if request.group_instance_id is not None:
        if request.group_instance_id in group.instances:
            return _replace_static(group, request, protocols, caller, new_member_id, moment)
    elif caller.api_version >= MEMBER_ID_REQUIRED_FROM:
        return _hand_out_id(group, request, caller, new_member_id, moment)
    return _enter(group, request, protocols, caller, new_member_id, moment)


def on_disconnected(group: ClassicGroup, member_id: str, moment: Moment) -> list[Effect]:
    """The connection of a first join ended before its answer: a client before version 4 never
    learnt its member id, so nobody will come back for it (KAFKA-7610).
    """
    member = group.members.get(member_id)
    if member is None or not member.is_new or member.is_static:
        return []
    effects = remove_member(group, member_id)
    return effects + prepare(group, moment)


def member_id_for(client_id: str, instance_id: str | None, uuid: bytes) -> str:
    """`<client or instance id>-<uuid>`, as Kafka forms member ids. `uuid` has 16 bytes."""
    prefix = (client_id if instance_id is None else instance_id)[:MEMBER_ID_PREFIX_MAX]
    text = uuid.hex()
    return f"{prefix}-{text[:8]}-{text[8:12]}-{text[12:16]}-{text[16:20]}-{text[20:]}"


def _join_with_id(
    group: ClassicGroup,
    request: JoinGroupRequest,
    protocols: Protocols,
    caller: Caller,
    moment: Moment,
) -> list[Effect]:
    member_id = request.member_id
    if member_id in group.pending and request.group_instance_id is None:
        return _enter(group, request, protocols, caller, member_id, moment)
    code = group.check_member(member_id, request.group_instance_id)
    if code is not ErrorCode.NONE:
        return [Reply(caller.reply_to, join_error(code, member_id))]
    member = group.members[member_id]
    must_rebalance = (
        group.state is GroupState.PREPARING_REBALANCE
        or (group.state is GroupState.STABLE and member_id == group.leader)
        or member.protocols != protocols
    )
    if not must_rebalance:
        group.refresh_session(member, moment.monotonic_ms)
        return [Reply(caller.reply_to, join_response(group, member))]
    effects = _park(group, member, request, protocols, caller, moment)
    return effects + prepare(group, moment)


def _enter(
    group: ClassicGroup,
    request: JoinGroupRequest,
    protocols: Protocols,
    caller: Caller,
    member_id: str,
    moment: Moment,
) -> list[Effect]:
    """A new member: it is parked until the barrier opens, at most NEW_MEMBER_JOIN_TIMEOUT_MS."""
    member = Member(
        member_id=member_id,
        instance_id=request.group_instance_id,
        client_id=caller.client_id,
        client_host=caller.client_host,
        session_timeout_ms=request.session_timeout_ms,
        rebalance_timeout_ms=_rebalance_timeout_ms(request),
        protocols=protocols,
    )
    member.is_new = True
    if not group.members:
        group.protocol_type = request.protocol_type
    group.add(member)
    group.park_join(member, caller.reply_to)
    group.expire_session_at(member, moment.monotonic_ms + NEW_MEMBER_JOIN_TIMEOUT_MS)
    group.has_new_member = True
    return prepare(group, moment)


def _hand_out_id(
    group: ClassicGroup, request: JoinGroupRequest, caller: Caller, member_id: str, moment: Moment
) -> list[Effect]:
    """KIP-394: a client proves that it hears us before it becomes a member."""
    while len(group.pending) >= PENDING_MEMBERS_MAX:
        del group.pending[next(iter(group.pending))]
    at_ms = moment.monotonic_ms + request.session_timeout_ms
    group.pending[member_id] = at_ms
    group.wake_by(at_ms)
    return [Reply(caller.reply_to, join_error(ErrorCode.MEMBER_ID_REQUIRED, member_id))]


def _replace_static(
    group: ClassicGroup,
    request: JoinGroupRequest,
    protocols: Protocols,
    caller: Caller,
    new_member_id: str,
    moment: Moment,
) -> list[Effect]:
    """A static member is back without its id: it takes its old place, whoever still uses the old id
    is fenced.
    """
    instance_id = request.group_instance_id
    assert instance_id is not None, "only a static member is replaced"
    old_leader = group.leader or ""
    member = group.replace_static(instance_id, new_member_id)
    effects = _fence_parked(group, member)
    member.client_id, member.client_host = caller.client_id, caller.client_host
    is_same = _is_same_subscription(request.protocol_type, member.protocols, protocols)
    effects += _park(group, member, request, protocols, caller, moment)
    if (
        group.state is not GroupState.STABLE
        or not is_same
        or group.protocol != group.choose_protocol()
        or not _fits_a_record(group, moment)
    ):
        return effects + prepare(group, moment)
    group.unpark_join(member)
    response = join_response(group, member)
    if caller.api_version >= SKIP_ASSIGNMENT_FROM:
        response.skip_assignment = new_member_id == group.leader
    else:
        # An older client that found itself leader would assign anew without a rebalance: it is
        # told the old id.
        response.leader, response.members = old_leader, []
    return [*effects, Append(group.to_stored()), Reply(caller.reply_to, response)]


def _park(
    group: ClassicGroup,
    member: Member,
    request: JoinGroupRequest,
    protocols: Protocols,
    caller: Caller,
    moment: Moment,
) -> list[Effect]:
    """The member's latest join takes the parking place; an earlier one is sent back to retry."""
    effects: list[Effect] = []
    displaced = group.park_join(member, caller.reply_to)
    if displaced is not None:
        error = join_error(ErrorCode.REBALANCE_IN_PROGRESS, member.member_id)
        effects.append(Reply(displaced, error))
    member.session_timeout_ms = request.session_timeout_ms
    member.rebalance_timeout_ms = _rebalance_timeout_ms(request)
    group.update_protocols(member, protocols)
    if member.is_new:
        group.expire_session_at(member, moment.monotonic_ms + NEW_MEMBER_JOIN_TIMEOUT_MS)
    else:
        group.refresh_session(member, moment.monotonic_ms)
    return effects


def _fence_parked(group: ClassicGroup, member: Member) -> list[Effect]:
    effects: list[Effect] = []
    parked = group.unpark_join(member)
    if parked is not None:
        error = join_error(ErrorCode.FENCED_INSTANCE_ID, member.member_id)
        effects.append(Reply(parked, error))
    if member.parked_sync is not None:
        effects.append(Reply(member.parked_sync, sync_error(ErrorCode.FENCED_INSTANCE_ID)))
        member.parked_sync = None
    return effects


def _is_same_subscription(protocol_type: str, old: Protocols, new: Protocols) -> bool:
    """Whether a restarted static member wants what it wanted before.

    For consumers only the topics count: the metadata also tells which partitions it owned, and that
    it has forgotten.
    """
    if protocol_type != "consumer":
        return old == new
    return _topics_by_protocol(old) == _topics_by_protocol(new)


def _topics_by_protocol(protocols: Protocols) -> dict[str, frozenset[str] | bytes]:
    topics_by_protocol: dict[str, frozenset[str] | bytes] = {}
    for name, metadata in protocols:
        topics = subscribed_topics(metadata)
        topics_by_protocol[name] = metadata if topics is None else topics
    return topics_by_protocol


def _has_room(
    group: ClassicGroup, request: JoinGroupRequest, protocols: Protocols, moment: Moment
) -> bool:
    """group.max.size, and that the group's stored form stays below one record's size."""
    limits = moment.limits
    member = group.members.get(request.member_id)
    bytes_new = protocols_bytes(protocols)
    bytes_old = member.metadata_bytes() if member is not None else 0
    if group.metadata_bytes - bytes_old + bytes_new > limits.group_record_bytes_max:
        return False
    if request.group_instance_id is not None and request.group_instance_id in group.instances:
        return True
    if group.state is GroupState.PREPARING_REBALANCE:
        is_waiting = member is not None and member.parked_join is not None
        return is_waiting or group.parked_join_count < limits.group_size_max
    return member is not None or len(group.members) < limits.group_size_max


def _fits_a_record(group: ClassicGroup, moment: Moment) -> bool:
    """Whether the generation can be stored as it is: a client id is as long as a client likes."""
    assignments = {member.member_id: member.assignment for member in group.members.values()}
    return group.stored_bytes(assignments) <= moment.limits.group_record_bytes_max


def _drop(group: ClassicGroup, member_id: str, moment: Moment) -> list[Effect]:
    """Whoever finds no room is not waited for."""
    group.pending.pop(member_id, None)
    if member_id not in group.members:
        return []
    effects = remove_member(group, member_id)
    return effects + prepare(group, moment)


def _rebalance_timeout_ms(request: JoinGroupRequest) -> int:
    """Version 0 has no rebalance timeout and reads as -1: the session timeout stands in
    (KAFKA-8653).
    """
    timeout_ms = request.rebalance_timeout_ms
    return timeout_ms if timeout_ms >= 0 else request.session_timeout_ms
