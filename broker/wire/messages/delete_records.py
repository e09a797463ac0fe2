"""DeleteRecords (21): move the start of partitions up (KIP-107). 2 is flexible."""

from __future__ import annotations

from broker.wire.schema import array, int16, int32, int64, message, string, struct


@struct
class DeleteRecordsPartition:
    """The new first offset; -1 is the high watermark."""

    partition_index: int = int32()
    offset: int = int64()


@struct
class DeleteRecordsTopic:
    """Partitions of one topic."""

    name: str = string()
    partitions: list[DeleteRecordsPartition] = array(DeleteRecordsPartition)


@message(api_key=21, direction="request", versions="0-2", flexible="2+")
class DeleteRecordsRequest:
    """Partitions to cut, and how long the client waits."""

    topics: list[DeleteRecordsTopic] = array(DeleteRecordsTopic)
    timeout_ms: int = int32()


@struct
class DeleteRecordsPartitionResult:
    """The first offset that is left, or -1 and why nothing was deleted."""

    partition_index: int = int32()
    low_watermark: int = int64()
    error_code: int = int16()


@struct
class DeleteRecordsTopicResult:
    """Outcomes of one topic."""

    name: str = string()
    partitions: list[DeleteRecordsPartitionResult] = array(DeleteRecordsPartitionResult)


@message(api_key=21, direction="response", versions="0-2", flexible="2+")
class DeleteRecordsResponse:
    """The outcome per partition."""

    throttle_time_ms: int = int32()
    topics: list[DeleteRecordsTopicResult] = array(DeleteRecordsTopicResult)
