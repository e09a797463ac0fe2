"""OffsetDelete (47): forget committed offsets of a group, for topics that it no longer reads."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

from broker.errors import ErrorCode
from broker.server.context import RequestContext
from broker.server.groups.answers import counted, or_error
from broker.wire.messages.offset_delete import OffsetDeleteRequest, OffsetDeleteResponse

if TYPE_CHECKING:
    from broker.server.node import Broker


def handle_offset_delete(
    broker: Broker,
    _context: RequestContext,
    request: OffsetDeleteRequest,
    reply: Callable[[OffsetDeleteResponse], None],
) -> None:
    """An outcome per partition, or one error of the group."""
    answer = counted(broker, "OffsetDelete", reply, _codes)
    if not request.group_id:
        answer(OffsetDeleteResponse(error_code=ErrorCode.INVALID_GROUP_ID))
        return
    reply_to = or_error(answer, lambda code: OffsetDeleteResponse(error_code=code))
    find_topic = broker.groups.find_topic
    broker.groups.run(
        request.group_id,
        reply_to,
        lambda shard, _: shard.on_offset_delete(request, find_topic, reply_to),
    )


def _codes(response: OffsetDeleteResponse) -> Iterator[int]:
    return (item.error_code for topic in response.topics for item in topic.partitions)
