"""ListOffsets (2): the offset of a point in time, or of the start or end of a partition. 6 is
flexible.
"""

from __future__ import annotations

from broker.wire.schema import array, int8, int16, int32, int64, message, string, struct


@struct
class ListOffsetsPartition:
    """The first offset at or after `timestamp`, or for -1 latest, -2 earliest, -3 of the newest
    timestamp.
    """

    partition_index: int = int32()
    current_leader_epoch: int = int32(-1, versions="4+", ignorable=True)
    timestamp: int = int64()


@struct
class ListOffsetsTopic:
    """Questions for one topic."""

    name: str = string()
    partitions: list[ListOffsetsPartition] = array(ListOffsetsPartition)


@message(api_key=2, direction="request", versions="1-11", flexible="6+")
class ListOffsetsRequest:
    """Questions of one isolation level; `replica_id` is -1 for consumers."""

    replica_id: int = int32()
    isolation_level: int = int8(versions="2+")
    topics: list[ListOffsetsTopic] = array(ListOffsetsTopic)
    timeout_ms: int = int32(versions="10+", ignorable=True)


@struct
class ListOffsetsPartitionResponse:
    """The offset found and its timestamp; -1 for both when there is none."""

    partition_index: int = int32()
    error_code: int = int16()
    timestamp: int = int64(-1)
    offset: int = int64(-1)
    leader_epoch: int = int32(-1, versions="4+")


@struct
class ListOffsetsTopicResponse:
    """Answers for one topic."""

    name: str = string()
    partitions: list[ListOffsetsPartitionResponse] = array(ListOffsetsPartitionResponse)


@message(api_key=2, direction="response", versions="1-11", flexible="6+")
class ListOffsetsResponse:
    """Answers in the order of the questions."""

    throttle_time_ms: int = int32(versions="2+", ignorable=True)
    topics: list[ListOffsetsTopicResponse] = array(ListOffsetsTopicResponse)
