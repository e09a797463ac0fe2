"""Produce (0): append record batches. Version 3 is the first with batches of magic 2, 9 the first
flexible one.
"""

from __future__ import annotations

from collections.abc import Sequence

from broker.ports import Buffer
from broker.wire.schema import array, int16, int32, int64, message, nested, records, string, struct


@struct
class PartitionProduceData:
    """One batch for one partition; null records are refused by the broker."""

    index: int = int32()
    records: Buffer | Sequence[Buffer] | None = records(nullable="0+")


@struct
class TopicProduceData:
    """Batches for one topic."""

    name: str = string()
    partition_data: list[PartitionProduceData] = array(PartitionProduceData)


@message(api_key=0, direction="request", versions="3-11", flexible="9+")
class ProduceRequest:
    """Batches for partitions; `acks` is 0 (no answer), 1 (leader) or -1 (all in-sync replicas)."""

    transactional_id: str | None = string(None, nullable="0+")
    acks: int = int16()
    timeout_ms: int = int32()
    topic_data: list[TopicProduceData] = array(TopicProduceData)


@struct
class BatchIndexAndErrorMessage:
    """Why one record of a batch was refused; `batch_index` is its 0-based place in the batch."""

    batch_index: int = int32(versions="8+")
    batch_index_error_message: str | None = string(None, versions="8+", nullable="0+")


@struct
class LeaderIdAndEpoch:
    """Who leads now, -1 when unknown: sent along with an error that says "not here"."""

    leader_id: int = int32(-1, versions="10+")
    leader_epoch: int = int32(-1, versions="10+")


@struct
class PartitionProduceResponse:
    """The batch is at `base_offset`, or `error_code` says why not."""

    index: int = int32()
    error_code: int = int16()
    base_offset: int = int64()
    log_append_time_ms: int = int64(-1)
    log_start_offset: int = int64(-1, versions="5+", ignorable=True)
    record_errors: list[BatchIndexAndErrorMessage] = array(
        BatchIndexAndErrorMessage, versions="8+", ignorable=True
    )
    error_message: str | None = string(None, versions="8+", nullable="0+", ignorable=True)
    current_leader: LeaderIdAndEpoch = nested(LeaderIdAndEpoch, versions="10+", tag=0)


@struct
class TopicProduceResponse:
    """Results of one topic."""

    name: str = string()
    partition_responses: list[PartitionProduceResponse] = array(PartitionProduceResponse)


@struct
class NodeEndpoint:
    """Where a broker that is named as the current leader listens."""

    node_id: int = int32(versions="10+")
    host: str = string(versions="10+")
    port: int = int32(versions="10+")
    rack: str | None = string(None, versions="10+", nullable="0+")


@message(api_key=0, direction="response", versions="3-11", flexible="9+")
class ProduceResponse:
    """What became of each batch."""

    responses: list[TopicProduceResponse] = array(TopicProduceResponse)
    throttle_time_ms: int = int32()
    node_endpoints: list[NodeEndpoint] = array(NodeEndpoint, versions="10+", tag=0)
