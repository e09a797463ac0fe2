"""ListGroups (16): the groups that a broker coordinates. 3 is flexible."""

from __future__ import annotations

from broker.wire.schema import STRING, array, int16, int32, message, string, struct


@message(api_key=16, direction="request", versions="0-5", flexible="3+")
class ListGroupsRequest:
    """Filters; an empty one lets everything pass."""

    states_filter: list[str] = array(STRING, versions="4+")
    types_filter: list[str] = array(STRING, versions="5+")


@struct
class ListedGroup:
    """A group, in short."""

    group_id: str = string()
    protocol_type: str = string()
    group_state: str = string(versions="4+", ignorable=True)
    group_type: str = string(versions="5+", ignorable=True)


@message(api_key=16, direction="response", versions="0-5", flexible="3+")
class ListGroupsResponse:
    """The groups that pass."""

    throttle_time_ms: int = int32(versions="1+", ignorable=True)
    error_code: int = int16()
    groups: list[ListedGroup] = array(ListedGroup)
