"""JoinGroup: enter a group and wait for its next generation."""

from __future__ import annotations

from typing import TYPE_CHECKING

from broker.coordinators.group.join import MEMBER_ID_REQUIRED_FROM, member_id_for
from broker.coordinators.group.rebalance import join_error
from broker.server.context import RequestContext
from broker.server.groups.answers import caller_of
from broker.wire.messages.join_group import JoinGroupRequest

if TYPE_CHECKING:
    from broker.server.node import Broker
    from broker.server.requests import Reply


def handle_join_group(
    broker: Broker,
    context: RequestContext,
    request: JoinGroupRequest,
    reply: Reply,
) -> None:
    """Parked until the join barrier opens.

    A newcomer of a version in which it does not know its id yet is forgotten when it hangs up.
    """
    caller = caller_of(context, reply, lambda code: join_error(code, request.member_id))
    member_id = request.member_id or member_id_for(
        context.client_id, request.group_instance_id, broker.ids.uuid()
    )
    if not request.member_id and context.api_version < MEMBER_ID_REQUIRED_FROM:
        reply.when_dropped(lambda: broker.groups.forget_newcomer(request.group_id, member_id))
    broker.groups.run(
        request.group_id,
        caller.reply_to,
        lambda shard, moment: shard.on_join(request, caller, member_id, moment),
    )
