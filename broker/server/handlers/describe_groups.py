"""DescribeGroups: state, members and assignment of groups."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Final

from broker.coordinators.group.effects import Moment
from broker.coordinators.group.shard import GroupShard
from broker.errors import ErrorCode
from broker.server.authorized import GROUP_OPERATIONS
from broker.server.context import RequestContext
from broker.server.groups.answers import Gathered, counted
from broker.wire.messages.describe_groups import (
    DescribedGroup,
    DescribeGroupsRequest,
    DescribeGroupsResponse,
)

if TYPE_CHECKING:
    from broker.server.node import Broker

OPERATIONS_FROM: Final = 3


def handle_describe_groups(
    broker: Broker,
    context: RequestContext,
    request: DescribeGroupsRequest,
    reply: Callable[[DescribeGroupsResponse], None],
) -> None:
    """One entry per group asked for, in that order."""
    answer = counted(
        broker, "DescribeGroups", reply, lambda response: (g.error_code for g in response.groups)
    )
    gathered = Gathered(
        len(request.groups), lambda groups: answer(DescribeGroupsResponse(groups=groups))
    )
    version = context.api_version
    shows_operations = request.include_authorized_operations and version >= OPERATIONS_FROM
    for index, group_id in enumerate(request.groups):
        broker.groups.read(
            group_id,
            gathered.part(index, _refused(group_id)),
            _describe(group_id, version, shows_operations=shows_operations),
        )


def _describe(
    group_id: str, version: int, *, shows_operations: bool
) -> Callable[[GroupShard, Moment], DescribedGroup]:
    def describe(shard: GroupShard, _: Moment) -> DescribedGroup:
        described = shard.describe(group_id, version)
        if shows_operations and not described.error_code:
            described.authorized_operations = GROUP_OPERATIONS
        return described

    return describe


def _refused(group_id: str) -> Callable[[ErrorCode], DescribedGroup]:
    return lambda code: DescribedGroup(group_id=group_id, error_code=code)
