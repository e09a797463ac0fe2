"""InitProducerId (22): an identity for an idempotent or transactional producer. 2 is flexible."""

from __future__ import annotations

from broker.wire.schema import int16, int32, int64, message, string


@message(api_key=22, direction="request", versions="0-5", flexible="2+")
class InitProducerIdRequest:
    """Null `transactional_id` for a merely idempotent producer; a current id and epoch ask for the
    next epoch.
    """

    transactional_id: str | None = string(nullable="0+")
    transaction_timeout_ms: int = int32()
    producer_id: int = int64(-1, versions="3+")
    producer_epoch: int = int16(-1, versions="3+")


@message(api_key=22, direction="response", versions="0-5", flexible="2+")
class InitProducerIdResponse:
    """The producer's id and epoch."""

    throttle_time_ms: int = int32()
    error_code: int = int16()
    producer_id: int = int64(-1)
    producer_epoch: int = int16()
