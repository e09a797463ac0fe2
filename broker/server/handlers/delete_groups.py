"""DeleteGroups: forget empty groups and their offsets."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from broker.coordinators.group.effects import Effect, Moment, Reply, ReplyTo
from broker.coordinators.group.shard import GroupShard
from broker.errors import ErrorCode
from broker.server.context import RequestContext
from broker.server.groups.answers import Gathered, counted
from broker.server.groups.shard import Step
from broker.wire.messages.delete_groups import (
    DeletableGroupResult,
    DeleteGroupsRequest,
    DeleteGroupsResponse,
)

if TYPE_CHECKING:
    from broker.server.node import Broker


def handle_delete_groups(
    broker: Broker,
    context: RequestContext,
    request: DeleteGroupsRequest,
    reply: Callable[[DeleteGroupsResponse], None],
) -> None:
    """One outcome per group asked for, in that order."""
    names = request.groups_names
    answer = counted(
        broker, "DeleteGroups", reply, lambda response: (r.error_code for r in response.results)
    )
    gathered = Gathered(len(names), lambda results: answer(DeleteGroupsResponse(results=results)))
    for index, group_id in enumerate(names):
        reply_to = gathered.part(index, _result(group_id))
        broker.groups.run(group_id, reply_to, _delete(group_id, reply_to))


def _delete(group_id: str, reply_to: ReplyTo) -> Step:
    def step(shard: GroupShard, _: Moment) -> list[Effect]:
        effects, code = shard.on_delete(group_id)
        return [*effects, Reply(reply_to, code)]

    return step


def _result(group_id: str) -> Callable[[ErrorCode], DeletableGroupResult]:
    return lambda code: DeletableGroupResult(group_id=group_id, error_code=code)
