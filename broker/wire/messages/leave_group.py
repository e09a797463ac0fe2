"""LeaveGroup (13): members go. 3 takes many at once, 4 is flexible."""

from __future__ import annotations

from broker.wire.schema import array, int16, int32, message, string, struct


@struct
class MemberIdentity:
    """A member by its id, or a static one by its instance id."""

    member_id: str = string(versions="3+")
    group_instance_id: str | None = string(None, versions="3+", nullable="0+")
    reason: str | None = string(None, versions="5+", nullable="0+", ignorable=True)


@message(api_key=13, direction="request", versions="0-5", flexible="4+")
class LeaveGroupRequest:
    """One member (up to version 2) or many."""

    group_id: str = string()
    member_id: str = string(versions="0-2")
    members: list[MemberIdentity] = array(MemberIdentity, versions="3+")


@struct
class MemberResponse:
    """Gone, or why not."""

    member_id: str = string(versions="3+")
    group_instance_id: str | None = string(versions="3+", nullable="0+")
    error_code: int = int16(versions="3+")


@message(api_key=13, direction="response", versions="0-5", flexible="4+")
class LeaveGroupResponse:
    """The outcome, from version 3 per member."""

    throttle_time_ms: int = int32(versions="1+", ignorable=True)
    error_code: int = int16()
    members: list[MemberResponse] = array(MemberResponse, versions="3+")
