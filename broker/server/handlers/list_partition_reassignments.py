"""ListPartitionReassignments (46): partitions that move between brokers. One broker has nowhere to
move them, so that there are never any.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from broker.server.context import RequestContext
from broker.wire.messages.list_partition_reassignments import (
    ListPartitionReassignmentsRequest,
    ListPartitionReassignmentsResponse,
)

if TYPE_CHECKING:
    from broker.server.node import Broker


def handle_list_partition_reassignments(
    _broker: Broker,
    _context: RequestContext,
    _request: ListPartitionReassignmentsRequest,
    reply: Callable[[ListPartitionReassignmentsResponse], None],
) -> None:
    """Nothing moves; what does not move is left out, known or not."""
    reply(ListPartitionReassignmentsResponse())
