"""OffsetFetch (9): the stored positions of groups. 6 is flexible, 8 asks for many groups."""

from __future__ import annotations

from broker.wire.schema import INT32, array, boolean, int16, int32, int64, message, string, struct


@struct
class OffsetFetchRequestTopic:
    """Partitions asked for, up to version 7."""

    name: str = string(versions="0-7")
    partition_indexes: list[int] = array(INT32, versions="0-7")


@struct
class OffsetFetchRequestTopics:
    """Partitions asked for, from version 8."""

    name: str = string(versions="8+", ignorable=True)
    partition_indexes: list[int] = array(INT32, versions="8+")


@struct
class OffsetFetchRequestGroup:
    """What is asked of one group."""

    group_id: str = string(versions="8+")
    member_id: str | None = string(None, versions="9+", nullable="0+", ignorable=True)
    member_epoch: int = int32(-1, versions="9+", ignorable=True)
    topics: list[OffsetFetchRequestTopics] | None = array(
        OffsetFetchRequestTopics, versions="8+", nullable="0+"
    )


@message(api_key=9, direction="request", versions="1-9", flexible="6+")
class OffsetFetchRequest:
    """One group (up to version 7) or many; null topics means everything stored."""

    group_id: str = string(versions="0-7")
    topics: list[OffsetFetchRequestTopic] | None = array(
        OffsetFetchRequestTopic, versions="0-7", nullable="2-7"
    )
    groups: list[OffsetFetchRequestGroup] = array(OffsetFetchRequestGroup, versions="8+")
    require_stable: bool = boolean(versions="7+")


@struct
class OffsetFetchResponsePartition:
    """A stored offset, -1 when there is none; up to version 7."""

    partition_index: int = int32(versions="0-7")
    committed_offset: int = int64(versions="0-7")
    committed_leader_epoch: int = int32(-1, versions="5-7", ignorable=True)
    metadata: str | None = string(versions="0-7", nullable="0+")
    error_code: int = int16(versions="0-7")


@struct
class OffsetFetchResponseTopic:
    """Offsets of one topic, up to version 7."""

    name: str = string(versions="0-7")
    partitions: list[OffsetFetchResponsePartition] = array(
        OffsetFetchResponsePartition, versions="0-7"
    )


@struct
class OffsetFetchResponsePartitions:
    """A stored offset, -1 when there is none; from version 8."""

    partition_index: int = int32(versions="8+")
    committed_offset: int = int64(versions="8+")
    committed_leader_epoch: int = int32(-1, versions="8+", ignorable=True)
    metadata: str | None = string(versions="8+", nullable="0+")
    error_code: int = int16(versions="8+")


@struct
class OffsetFetchResponseTopics:
    """Offsets of one topic, from version 8."""

    name: str = string(versions="8+", ignorable=True)
    partitions: list[OffsetFetchResponsePartitions] = array(
        OffsetFetchResponsePartitions, versions="8+"
    )


@struct
class OffsetFetchResponseGroup:
    """Offsets of one group, or its error."""

    group_id: str = string(versions="8+")
    topics: list[OffsetFetchResponseTopics] = array(OffsetFetchResponseTopics, versions="8+")
    error_code: int = int16(versions="8+")


@message(api_key=9, direction="response", versions="1-9", flexible="6+")
class OffsetFetchResponse:
    """Stored offsets of one group (up to version 7) or of many."""

    throttle_time_ms: int = int32(versions="3+", ignorable=True)
    topics: list[OffsetFetchResponseTopic] = array(OffsetFetchResponseTopic, versions="0-7")
    error_code: int = int16(versions="2-7", ignorable=True)
    groups: list[OffsetFetchResponseGroup] = array(OffsetFetchResponseGroup, versions="8+")
