"""FindCoordinator (10): which broker coordinates a group or transactional id. 3 is flexible, 4 asks
for many keys.
"""

from __future__ import annotations

from broker.wire.schema import STRING, array, int8, int16, int32, message, string, struct


@message(api_key=10, direction="request", versions="0-6", flexible="3+")
class FindCoordinatorRequest:
    """`key_type` is 0 for groups, 1 for transactional ids, 2 for share groups."""

    key: str = string(versions="0-3")
    key_type: int = int8(versions="1+")
    coordinator_keys: list[str] = array(STRING, versions="4+")


@struct
class Coordinator:
    """The coordinator of `key`, or the error why there is none."""

    key: str = string(versions="4+")
    node_id: int = int32(versions="4+")
    host: str = string(versions="4+")
    port: int = int32(versions="4+")
    error_code: int = int16(versions="4+")
    error_message: str | None = string(versions="4+", nullable="0+", ignorable=True)


@message(api_key=10, direction="response", versions="0-6", flexible="3+")
class FindCoordinatorResponse:
    """One coordinator in the flat fields (up to version 3) or one per key."""

    throttle_time_ms: int = int32(versions="1+", ignorable=True)
    error_code: int = int16(versions="0-3")
    error_message: str | None = string(versions="1-3", nullable="0+", ignorable=True)
    node_id: int = int32(versions="0-3")
    host: str = string(versions="0-3")
    port: int = int32(versions="0-3")
    coordinators: list[Coordinator] = array(Coordinator, versions="4+")
