"""JoinGroup (11): enter a group and wait for its next generation. 6 is flexible."""

from __future__ import annotations

from broker.wire.schema import array, boolean, bytes_, int16, int32, message, string, struct


@struct
class JoinGroupRequestProtocol:
    """A protocol and what the member says under it (for consumers: its subscription)."""

    name: str = string()
    metadata: bytes = bytes_()


@message(api_key=11, direction="request", versions="0-9", flexible="6+")
class JoinGroupRequest:
    """A member, its timeouts, and the protocols that it could follow, best first."""

    group_id: str = string()
    session_timeout_ms: int = int32()
    rebalance_timeout_ms: int = int32(-1, versions="1+", ignorable=True)
    member_id: str = string()
    group_instance_id: str | None = string(None, versions="5+", nullable="0+")
    protocol_type: str = string()
    protocols: list[JoinGroupRequestProtocol] = array(JoinGroupRequestProtocol)
    reason: str | None = string(None, versions="8+", nullable="0+", ignorable=True)


@struct
class JoinGroupResponseMember:
    """What the leader needs to know of a member."""

    member_id: str = string()
    group_instance_id: str | None = string(None, versions="5+", nullable="0+", ignorable=True)
    metadata: bytes = bytes_()


@message(api_key=11, direction="response", versions="0-9", flexible="6+")
class JoinGroupResponse:
    """The new generation; only the leader gets the members."""

    throttle_time_ms: int = int32(versions="2+", ignorable=True)
    error_code: int = int16()
    generation_id: int = int32(-1)
    protocol_type: str | None = string(None, versions="7+", nullable="0+", ignorable=True)
    protocol_name: str | None = string(nullable="7+")
    leader: str = string()
    skip_assignment: bool = boolean(versions="9+")
    member_id: str = string()
    members: list[JoinGroupResponseMember] = array(JoinGroupResponseMember)
