"""Heartbeat: a member is alive; the answer says whether it has to rejoin."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from broker.server.context import RequestContext
from broker.server.groups.answers import caller_of
from broker.wire.messages.heartbeat import HeartbeatRequest, HeartbeatResponse

if TYPE_CHECKING:
    from broker.server.node import Broker


def handle_heartbeat(
    broker: Broker,
    context: RequestContext,
    request: HeartbeatRequest,
    reply: Callable[[HeartbeatResponse], None],
) -> None:
    """Answered at once unless an append is under way."""
    caller = caller_of(context, reply, lambda code: HeartbeatResponse(error_code=code))
    broker.groups.run_unstored(
        request.group_id,
        caller.reply_to,
        lambda shard, moment: shard.on_heartbeat(request, caller, moment),
    )
