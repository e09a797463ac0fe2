"""DescribeGroups and ListGroups: a group as operators see it. Reads only."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from broker.coordinators.group.classic import ClassicGroup, GroupState
from broker.coordinators.group.member import Member
from broker.errors import ErrorCode
from broker.wire.messages.describe_groups import DescribedGroup, DescribedGroupMember
from broker.wire.messages.list_groups import ListedGroup, ListGroupsRequest

GROUP_TYPE: Final = "classic"
NOT_FOUND_FROM: Final = 6
"""The DescribeGroups version from which an unknown group is an error and not a Dead group
(KIP-1043).
"""


def describe_group(group: ClassicGroup | None, group_id: str, api_version: int) -> DescribedGroup:
    """Only a Stable group shows its protocol, metadata and assignments."""
    if group is None:
        described = DescribedGroup(group_id=group_id, group_state=GroupState.DEAD)
        if api_version >= NOT_FOUND_FROM:
            described.error_code = ErrorCode.GROUP_ID_NOT_FOUND
            described.error_message = f"Group {group_id} not found."
        return described
    protocol = group.protocol if group.state is GroupState.STABLE else None
    return DescribedGroup(
        group_id=group_id,
        group_state=group.state,
        protocol_type=group.protocol_type,
        protocol_data=protocol or "",
        members=[_described_member(member, protocol) for member in group.members.values()],
    )


def list_groups(groups: Iterable[ClassicGroup], request: ListGroupsRequest) -> list[ListedGroup]:
    """The groups whose state and type pass both filters, whatever their case; an empty filter
    passes everything.
    """
    states = {state.lower() for state in request.states_filter}
    types = {group_type.lower() for group_type in request.types_filter}
    if types and GROUP_TYPE not in types:
        return []
    return [
        ListedGroup(
            group_id=group.group_id,
            protocol_type=group.protocol_type,
            group_state=group.state,
            group_type=GROUP_TYPE,
        )
        for group in groups
        if not states or group.state.lower() in states
    ]


def _described_member(member: Member, protocol: str | None) -> DescribedGroupMember:
    is_shown = protocol is not None
    return DescribedGroupMember(
        member_id=member.member_id,
        group_instance_id=member.instance_id,
        client_id=member.client_id,
        client_host=member.client_host,
        member_metadata=member.metadata_for(protocol) if is_shown else b"",
        member_assignment=member.assignment if is_shown else b"",
    )
