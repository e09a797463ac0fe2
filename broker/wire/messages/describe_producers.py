"""DescribeProducers (61): who writes to a partition with a producer id (KIP-664). Flexible."""

from __future__ import annotations

from broker.wire.schema import INT32, array, int16, int32, int64, message, string, struct


@struct
class TopicRequest:
    """Partitions of one topic."""

    name: str = string()
    partition_indexes: list[int] = array(INT32)


@message(api_key=61, direction="request", versions="0", flexible="0+")
class DescribeProducersRequest:
    """The partitions asked about."""

    topics: list[TopicRequest] = array(TopicRequest)


@struct
class ProducerState:
    """One producer; `last_timestamp` is when it last wrote. -1 stands for none: no sequence, no
    open transaction, no coordinator yet.
    """

    producer_id: int = int64()
    producer_epoch: int = int32()
    last_sequence: int = int32(-1)
    last_timestamp: int = int64(-1)
    coordinator_epoch: int = int32()
    current_txn_start_offset: int = int64(-1)


@struct
class PartitionResponse:
    """The producers of one partition, or its error."""

    partition_index: int = int32()
    error_code: int = int16()
    error_message: str | None = string(None, nullable="0+")
    active_producers: list[ProducerState] = array(ProducerState)


@struct
class TopicResponse:
    """Partitions of one topic."""

    name: str = string()
    partitions: list[PartitionResponse] = array(PartitionResponse)


@message(api_key=61, direction="response", versions="0", flexible="0+")
class DescribeProducersResponse:
    """An answer per partition."""

    throttle_time_ms: int = int32()
    topics: list[TopicResponse] = array(TopicResponse)
