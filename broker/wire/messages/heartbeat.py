"""Heartbeat (12): a member is alive; the answer says whether it has to rejoin. 4 is flexible."""

from __future__ import annotations

from broker.wire.schema import int16, int32, message, string


@message(api_key=12, direction="request", versions="0-4", flexible="4+")
class HeartbeatRequest:
    """A sign of life of one member in one generation."""

    group_id: str = string()
    generation_id: int = int32()
    member_id: str = string()
    group_instance_id: str | None = string(None, versions="3+", nullable="0+")


@message(api_key=12, direction="response", versions="0-4", flexible="4+")
class HeartbeatResponse:
    """Go on, or why not."""

    throttle_time_ms: int = int32(versions="1+", ignorable=True)
    error_code: int = int16()
