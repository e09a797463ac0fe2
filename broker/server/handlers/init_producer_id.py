"""InitProducerId (22): an identity for an idempotent producer.

A transactional id is refused with TRANSACTIONAL_ID_AUTHORIZATION_FAILED: there are no transactions
yet, and of all codes it is the one that every client treats as final at once, instead of retrying
or reporting an unknown error.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from broker.errors import ErrorCode, Refusal
from broker.model import NO_PRODUCER_EPOCH, NO_PRODUCER_ID
from broker.ports import MetastoreFault
from broker.server.context import RequestContext
from broker.server.producer_ids import ProducerIdentity
from broker.wire.messages.init_producer_id import InitProducerIdRequest, InitProducerIdResponse

if TYPE_CHECKING:
    from broker.server.node import Broker

_FENCED_FROM: Final = 4


async def handle_init_producer_id(
    broker: Broker, context: RequestContext, request: InitProducerIdRequest
) -> InitProducerIdResponse:
    """A new id with epoch 0.

    For a present (id, epoch) the next epoch (KIP-360), or a new id after the last one.
    """
    try:
        identity = await _identity(broker, request)
    except Refusal as refusal:
        code = refusal.code
        if code == ErrorCode.PRODUCER_FENCED and context.api_version < _FENCED_FROM:
            code = ErrorCode.INVALID_PRODUCER_EPOCH
        return InitProducerIdResponse(error_code=code, producer_epoch=NO_PRODUCER_EPOCH)
    except MetastoreFault:
        broker.metrics.metastore_faults_total.add()
        code = ErrorCode.COORDINATOR_NOT_AVAILABLE
        return InitProducerIdResponse(error_code=code, producer_epoch=NO_PRODUCER_EPOCH)
    return InitProducerIdResponse(producer_id=identity.producer_id, producer_epoch=identity.epoch)


async def _identity(broker: Broker, request: InitProducerIdRequest) -> ProducerIdentity:
    producer_ids = broker.catalog.producer_ids
    if request.transactional_id is not None:
        code = ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED
        if not request.transactional_id:
            code = ErrorCode.INVALID_REQUEST
        raise Refusal(code, "transactions do not exist yet: leave transactional.id unset")
    has_id = request.producer_id != NO_PRODUCER_ID
    if has_id != (request.producer_epoch != NO_PRODUCER_EPOCH) or request.producer_id < -1:
        raise Refusal(
            ErrorCode.INVALID_REQUEST, "producer id and epoch come together or not at all"
        )
    if has_id:
        return await producer_ids.next_epoch(request.producer_id, request.producer_epoch)
    return await producer_ids.new_identity()
