"""DeleteGroups (42): forget empty groups and their offsets. 2 is flexible."""

from __future__ import annotations

from broker.wire.schema import STRING, array, int16, int32, message, string, struct


@message(api_key=42, direction="request", versions="0-2", flexible="2+")
class DeleteGroupsRequest:
    """Group ids."""

    groups_names: list[str] = array(STRING)


@struct
class DeletableGroupResult:
    """Deleted, or why not."""

    group_id: str = string()
    error_code: int = int16()


@message(api_key=42, direction="response", versions="0-2", flexible="2+")
class DeleteGroupsResponse:
    """The outcome per group."""

    throttle_time_ms: int = int32()
    results: list[DeletableGroupResult] = array(DeletableGroupResult)
