"""LeaveGroup: members go, and the others need not wait for their sessions to end."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from broker.server.context import RequestContext
from broker.server.groups.answers import caller_of, counted
from broker.wire.messages.leave_group import LeaveGroupRequest, LeaveGroupResponse

if TYPE_CHECKING:
    from broker.server.node import Broker


def handle_leave_group(
    broker: Broker,
    context: RequestContext,
    request: LeaveGroupRequest,
    reply: Callable[[LeaveGroupResponse], None],
) -> None:
    """Errors are per member from version 3."""
    answer = counted(
        broker, "LeaveGroup", reply, lambda response: (m.error_code for m in response.members)
    )
    caller = caller_of(context, answer, lambda code: LeaveGroupResponse(error_code=code))
    broker.groups.run(
        request.group_id,
        caller.reply_to,
        lambda shard, moment: shard.on_leave(request, caller, moment),
    )
