"""OffsetForLeaderEpoch (23): where a leader epoch ended, so that a consumer notices truncation.
4 is flexible.
"""

from __future__ import annotations

from broker.wire.schema import array, int16, int32, int64, message, string, struct


@struct
class OffsetForLeaderPartition:
    """The epoch in question, and the one that the client takes for current (-1: no check)."""

    partition: int = int32()
    current_leader_epoch: int = int32(-1, versions="2+", ignorable=True)
    leader_epoch: int = int32()


@struct
class OffsetForLeaderTopic:
    """Questions for one topic."""

    topic: str = string()
    partitions: list[OffsetForLeaderPartition] = array(OffsetForLeaderPartition)


@message(api_key=23, direction="request", versions="2-4", flexible="4+")
class OffsetForLeaderEpochRequest:
    """Questions; `replica_id` is -1 for consumers."""

    replica_id: int = int32(-2, versions="3+", ignorable=True)
    topics: list[OffsetForLeaderTopic] = array(OffsetForLeaderTopic)


@struct
class EpochEndOffset:
    """The largest epoch at or below the one asked for, and where it ended; -1 for both: unknown."""

    error_code: int = int16()
    partition: int = int32()
    leader_epoch: int = int32(-1)
    end_offset: int = int64(-1)


@struct
class OffsetForLeaderTopicResult:
    """Answers for one topic."""

    topic: str = string()
    partitions: list[EpochEndOffset] = array(EpochEndOffset)


@message(api_key=23, direction="response", versions="2-4", flexible="4+")
class OffsetForLeaderEpochResponse:
    """Answers in the order of the questions."""

    throttle_time_ms: int = int32(versions="2+", ignorable=True)
    topics: list[OffsetForLeaderTopicResult] = array(OffsetForLeaderTopicResult)
