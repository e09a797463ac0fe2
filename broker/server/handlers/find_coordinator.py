"""FindCoordinator: which broker coordinates a group or transactional id: on one node, this one."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

import structlog

from broker.errors import ErrorCode, Refusal
from broker.ports import MetastoreFault
from broker.server.context import RequestContext
from broker.wire.messages.find_coordinator import (
    Coordinator,
    FindCoordinatorRequest,
    FindCoordinatorResponse,
)

if TYPE_CHECKING:
    from broker.server.node import Broker

GROUP: Final = 0
TRANSACTION: Final = 1
NO_NODE: Final = -1
BATCHED_FROM: Final = 4

_log = structlog.get_logger("hermes.groups")


async def handle_find_coordinator(
    broker: Broker, context: RequestContext, request: FindCoordinatorRequest
) -> FindCoordinatorResponse:
    """The first question about a group creates the internal topic. Cancelled, the topic may be
    made.

    A transactional id is coordinated here as well, so that InitProducerId can say what is wrong
    with it.
    """
    is_batched = context.api_version >= BATCHED_FROM
    keys = request.coordinator_keys if is_batched else [request.key]
    code, message = await _prepare(broker, request.key_type)
    answers = _answers(broker, keys, code, message)
    if is_batched:
        return FindCoordinatorResponse(coordinators=answers)
    answer = answers[0]
    return FindCoordinatorResponse(
        error_code=answer.error_code,
        error_message=answer.error_message,
        node_id=answer.node_id,
        host=answer.host,
        port=answer.port,
    )


async def _prepare(broker: Broker, key_type: int) -> tuple[ErrorCode, str]:
    if key_type == TRANSACTION:
        return ErrorCode.NONE, ""
    if key_type != GROUP:
        return ErrorCode.INVALID_REQUEST, f"coordinators of key type {key_type} do not exist"
    try:
        await broker.groups.ensure_topic()
    except (Refusal, MetastoreFault) as error:
        _log.warning("the internal offsets topic could not be created", reason=str(error))
        return ErrorCode.COORDINATOR_NOT_AVAILABLE, str(error)
    return ErrorCode.NONE, ""


def _answers(
    broker: Broker, keys: Sequence[str], code: ErrorCode, message: str
) -> list[Coordinator]:
    if code is not ErrorCode.NONE:
        return [
            Coordinator(
                key=key, node_id=NO_NODE, host="", port=-1, error_code=code, error_message=message
            )
            for key in keys
        ]
    return [
        Coordinator(
            key=key,
            node_id=broker.node_id,
            host=broker.advertised_host,
            port=broker.advertised_port,
            error_code=ErrorCode.NONE,
            error_message=None,
        )
        for key in keys
    ]
