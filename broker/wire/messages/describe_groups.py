"""DescribeGroups (15): state and members of groups. 5 is flexible."""

from __future__ import annotations

from broker.wire.schema import STRING, array, boolean, bytes_, int16, int32, message, string, struct


@message(api_key=15, direction="request", versions="0-6", flexible="5+")
class DescribeGroupsRequest:
    """Group ids."""

    groups: list[str] = array(STRING)
    include_authorized_operations: bool = boolean(versions="3+")


@struct
class DescribedGroupMember:
    """A member with its subscription and assignment in the group's own encoding."""

    member_id: str = string()
    group_instance_id: str | None = string(None, versions="4+", nullable="0+", ignorable=True)
    client_id: str = string()
    client_host: str = string()
    member_metadata: bytes = bytes_()
    member_assignment: bytes = bytes_()


@struct
class DescribedGroup:
    """State, protocol and members of a group."""

    error_code: int = int16()
    error_message: str | None = string(None, versions="6+", nullable="0+")
    group_id: str = string()
    group_state: str = string()
    protocol_type: str = string()
    protocol_data: str = string()
    members: list[DescribedGroupMember] = array(DescribedGroupMember)
    authorized_operations: int = int32(-(2**31), versions="3+")


@message(api_key=15, direction="response", versions="0-6", flexible="5+")
class DescribeGroupsResponse:
    """One entry per group asked for."""

    throttle_time_ms: int = int32(versions="1+", ignorable=True)
    groups: list[DescribedGroup] = array(DescribedGroup)
