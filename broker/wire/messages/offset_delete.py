"""OffsetDelete (47): forget committed offsets of one group (KIP-496). Never flexible."""

from __future__ import annotations

from broker.wire.schema import array, int16, int32, message, string, struct


@struct
class OffsetDeleteRequestPartition:
    """One partition."""

    partition_index: int = int32()


@struct
class OffsetDeleteRequestTopic:
    """Partitions of one topic."""

    name: str = string()
    partitions: list[OffsetDeleteRequestPartition] = array(OffsetDeleteRequestPartition)


@message(api_key=47, direction="request", versions="0", flexible="none")
class OffsetDeleteRequest:
    """The group and the partitions whose commits go."""

    group_id: str = string()
    topics: list[OffsetDeleteRequestTopic] = array(OffsetDeleteRequestTopic)


@struct
class OffsetDeleteResponsePartition:
    """Deleted (also when there was no commit), or why not."""

    partition_index: int = int32()
    error_code: int = int16()


@struct
class OffsetDeleteResponseTopic:
    """Outcomes of one topic."""

    name: str = string()
    partitions: list[OffsetDeleteResponsePartition] = array(OffsetDeleteResponsePartition)


@message(api_key=47, direction="response", versions="0", flexible="none")
class OffsetDeleteResponse:
    """The outcome per partition; with an error of the group there are none."""

    error_code: int = int16()
    throttle_time_ms: int = int32(ignorable=True)
    topics: list[OffsetDeleteResponseTopic] = array(OffsetDeleteResponseTopic)
