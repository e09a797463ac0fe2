"""SyncGroup (14): the leader hands in the assignment, every member gets its own. 4 is flexible."""

from __future__ import annotations

from broker.wire.schema import array, bytes_, int16, int32, message, string, struct


@struct
class SyncGroupRequestAssignment:
    """What one member shall do (for consumers: its partitions)."""

    member_id: str = string()
    assignment: bytes = bytes_()


@message(api_key=14, direction="request", versions="0-5", flexible="4+")
class SyncGroupRequest:
    """A member; from the leader also everyone's assignment."""

    group_id: str = string()
    generation_id: int = int32()
    member_id: str = string()
    group_instance_id: str | None = string(None, versions="3+", nullable="0+")
    protocol_type: str | None = string(None, versions="5+", nullable="0+", ignorable=True)
    protocol_name: str | None = string(None, versions="5+", nullable="0+", ignorable=True)
    assignments: list[SyncGroupRequestAssignment] = array(SyncGroupRequestAssignment)


@message(api_key=14, direction="response", versions="0-5", flexible="4+")
class SyncGroupResponse:
    """The member's own assignment."""

    throttle_time_ms: int = int32(versions="1+", ignorable=True)
    error_code: int = int16()
    protocol_type: str | None = string(None, versions="5+", nullable="0+", ignorable=True)
    protocol_name: str | None = string(None, versions="5+", nullable="0+", ignorable=True)
    assignment: bytes = bytes_()
