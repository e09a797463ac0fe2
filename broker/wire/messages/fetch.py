"""Fetch (1): read record batches, waiting for them if asked. 7 has sessions, 12 is flexible, 13
names topics by id.
"""

from __future__ import annotations

from collections.abc import Sequence

from broker.ports import Buffer
from broker.wire.schema import (
    INT32,
    array,
    int8,
    int16,
    int32,
    int64,
    message,
    nested,
    records,
    string,
    struct,
    uuid,
)


@struct
class ReplicaState:
    """Set by a fetching follower; -1 for consumers."""

    replica_id: int = int32(-1, versions="15+")
    replica_epoch: int = int64(-1, versions="15+")


@struct
class FetchPartition:
    """Read from `fetch_offset`, at most about `partition_max_bytes`."""

    partition: int = int32()
    current_leader_epoch: int = int32(-1, versions="9+", ignorable=True)
    fetch_offset: int = int64()
    last_fetched_epoch: int = int32(-1, versions="12+")
    log_start_offset: int = int64(-1, versions="5+", ignorable=True)
    partition_max_bytes: int = int32()
    replica_directory_id: bytes = uuid(versions="17+", tag=0, ignorable=True)


@struct
class FetchTopic:
    """Partitions of one topic, named up to version 12, by id from 13."""

    topic: str = string(versions="0-12", ignorable=True)
    topic_id: bytes = uuid(versions="13+", ignorable=True)
    partitions: list[FetchPartition] = array(FetchPartition)


@struct
class ForgottenTopic:
    """Partitions to drop from a fetch session."""

    topic: str = string(versions="7-12", ignorable=True)
    topic_id: bytes = uuid(versions="13+", ignorable=True)
    partitions: list[int] = array(INT32, versions="7+")


@message(api_key=1, direction="request", versions="4-17", flexible="12+")
class FetchRequest:
    """Offsets to read from; answered when `min_bytes` are there or after `max_wait_ms`."""

    cluster_id: str | None = string(None, versions="12+", nullable="0+", tag=0, ignorable=True)
    replica_id: int = int32(-1, versions="0-14")
    replica_state: ReplicaState = nested(ReplicaState, versions="15+", tag=1)
    max_wait_ms: int = int32()
    min_bytes: int = int32()
    max_bytes: int = int32(2**31 - 1)
    isolation_level: int = int8()
    session_id: int = int32(versions="7+", ignorable=True)
    session_epoch: int = int32(-1, versions="7+", ignorable=True)
    topics: list[FetchTopic] = array(FetchTopic)
    forgotten_topics_data: list[ForgottenTopic] = array(ForgottenTopic, versions="7+")
    rack_id: str = string(versions="11+", ignorable=True)


@struct
class EpochEndOffset:
    """The largest epoch below the asked one, and where it ends: the reader goes back to that."""

    epoch: int = int32(-1, versions="12+")
    end_offset: int = int64(-1, versions="12+")


@struct
class LeaderIdAndEpoch:
    """Who leads now, -1 when unknown: sent along with an error that says "not here"."""

    leader_id: int = int32(-1, versions="12+")
    leader_epoch: int = int32(-1, versions="12+")


@struct
class SnapshotId:
    """Unused by this broker: where a snapshot begins."""

    end_offset: int = int64(-1)
    epoch: int = int32(-1)


@struct
class AbortedTransaction:
    """Records of `producer_id` from `first_offset` up to its next marker are to be dropped."""

    producer_id: int = int64()
    first_offset: int = int64()


@struct
class PartitionData:
    """What a partition has to give; `records` is empty when there is nothing."""

    partition_index: int = int32()
    error_code: int = int16()
    high_watermark: int = int64()
    last_stable_offset: int = int64(-1)
    log_start_offset: int = int64(-1, versions="5+", ignorable=True)
    diverging_epoch: EpochEndOffset = nested(EpochEndOffset, versions="12+", tag=0)
    current_leader: LeaderIdAndEpoch = nested(LeaderIdAndEpoch, versions="12+", tag=1)
    snapshot_id: SnapshotId = nested(SnapshotId, versions="12+", tag=2)
    aborted_transactions: list[AbortedTransaction] | None = array(AbortedTransaction, nullable="0+")
    preferred_read_replica: int = int32(-1, versions="11+")
    records: Buffer | Sequence[Buffer] | None = records(nullable="0+")


@struct
class FetchableTopicResponse:
    """Partitions of one topic, named up to version 12, by id from 13."""

    topic: str = string(versions="0-12", ignorable=True)
    topic_id: bytes = uuid(versions="13+", ignorable=True)
    partitions: list[PartitionData] = array(PartitionData)


@struct
class NodeEndpoint:
    """Where a broker that is named as the current leader listens."""

    node_id: int = int32(versions="16+")
    host: str = string(versions="16+")
    port: int = int32(versions="16+")
    rack: str | None = string(None, versions="16+", nullable="0+")


@message(api_key=1, direction="response", versions="4-17", flexible="12+")
class FetchResponse:
    """Batches per partition; in a session only partitions with something new."""

    throttle_time_ms: int = int32()
    error_code: int = int16(versions="7+", ignorable=True)
    session_id: int = int32(versions="7+")
    responses: list[FetchableTopicResponse] = array(FetchableTopicResponse)
    node_endpoints: list[NodeEndpoint] = array(NodeEndpoint, versions="16+", tag=0)
