"""JoinGroup: enter a group and wait for its next generation."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from broker.coordinators.group.join import member_id_for
from broker.coordinators.group.rebalance import join_error
from broker.server.context import RequestContext
from broker.server.groups.answers import caller_of
from broker.wire.messages.join_group import JoinGroupRequest, JoinGroupResponse

if TYPE_CHECKING:
    from broker.server.node import Broker


def handle_join_group(
    broker: Broker,
    context: RequestContext,
    request: JoinGroupRequest,
    reply: Callable[[JoinGroupResponse], None],
) -> None:
    """Parked until the join barrier opens."""
    caller = caller_of(context, reply, lambda code: join_error(code, request.member_id))
    member_id = request.member_id or member_id_for(
        context.client_id, request.group_instance_id, broker.ids.uuid()
    )
    broker.groups.run(
        request.group_id,
        caller.reply_to,
        lambda shard, moment: shard.on_join(request, caller, member_id, moment),
    )
