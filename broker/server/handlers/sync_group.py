"""SyncGroup: the leader hands in the assignment, every member gets its own."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from broker.coordinators.group.rebalance import sync_error
from broker.server.context import RequestContext
from broker.server.groups.answers import caller_of
from broker.wire.messages.sync_group import SyncGroupRequest, SyncGroupResponse

if TYPE_CHECKING:
    from broker.server.node import Broker


def handle_sync_group(
    broker: Broker,
    context: RequestContext,
    request: SyncGroupRequest,
    reply: Callable[[SyncGroupResponse], None],
) -> None:
    """Parked until the leader's own sync is stored."""
    caller = caller_of(context, reply, sync_error)
    broker.groups.run(
        request.group_id,
        caller.reply_to,
        lambda shard, moment: shard.on_sync(request, caller, moment),
    )
