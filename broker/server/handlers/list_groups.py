"""ListGroups: the groups that this broker coordinates."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from broker.coordinators.group.effects import Effect, Moment, Reply, ReplyTo
from broker.coordinators.group.shard import GroupShard
from broker.errors import ErrorCode
from broker.server.context import RequestContext
from broker.server.groups.answers import Gathered
from broker.server.groups.shard import Step
from broker.wire.messages.list_groups import ListGroupsRequest, ListGroupsResponse

if TYPE_CHECKING:
    from broker.server.node import Broker


def handle_list_groups(
    broker: Broker,
    context: RequestContext,
    request: ListGroupsRequest,
    reply: Callable[[ListGroupsResponse], None],
) -> None:
    """All groups that pass the filters; an error at the top when some shard could not be asked."""
    shards = broker.groups.shards()

    def merge(parts: list[ListGroupsResponse]) -> None:
        code = next((part.error_code for part in parts if part.error_code), ErrorCode.NONE)
        groups = [group for part in parts for group in part.groups]
        reply(ListGroupsResponse(error_code=code, groups=groups))

    gathered = Gathered(len(shards), merge)
    for index, shard in enumerate(shards):
        reply_to = gathered.part(index, lambda code: ListGroupsResponse(error_code=code))
        shard.read(reply_to, _list(request, reply_to))


def _list(request: ListGroupsRequest, reply_to: ReplyTo) -> Step:
    def step(shard: GroupShard, _: Moment) -> list[Effect]:
        return [Reply(reply_to, ListGroupsResponse(groups=shard.list_groups(request)))]

    return step
