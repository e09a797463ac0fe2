"""OffsetCommit (8): store the positions of a group. 8 is flexible."""

from __future__ import annotations

from broker.wire.schema import array, int16, int32, int64, message, string, struct


@struct
class OffsetCommitRequestPartition:
    """`committed_offset` is the next offset to read."""

    partition_index: int = int32()
    committed_offset: int = int64()
    committed_leader_epoch: int = int32(-1, versions="6+", ignorable=True)
    committed_metadata: str | None = string(nullable="0+")


@struct
class OffsetCommitRequestTopic:
    """Offsets of one topic."""

    name: str = string()
    partitions: list[OffsetCommitRequestPartition] = array(OffsetCommitRequestPartition)


@message(api_key=8, direction="request", versions="2-9", flexible="8+")
class OffsetCommitRequest:
    """Offsets of a member; generation -1 comes from outside the group."""

    group_id: str = string()
    generation_id_or_member_epoch: int = int32(-1)
    member_id: str = string()
    group_instance_id: str | None = string(None, versions="7+", nullable="0+")
    retention_time_ms: int = int64(-1, versions="0-4", ignorable=True)
    topics: list[OffsetCommitRequestTopic] = array(OffsetCommitRequestTopic)


@struct
class OffsetCommitResponsePartition:
    """Stored, or why not."""

    partition_index: int = int32()
    error_code: int = int16()


@struct
class OffsetCommitResponseTopic:
    """Outcomes of one topic."""

    name: str = string()
    partitions: list[OffsetCommitResponsePartition] = array(OffsetCommitResponsePartition)


@message(api_key=8, direction="response", versions="2-9", flexible="8+")
class OffsetCommitResponse:
    """The outcome per partition."""

    throttle_time_ms: int = int32(versions="3+", ignorable=True)
    topics: list[OffsetCommitResponseTopic] = array(OffsetCommitResponseTopic)
