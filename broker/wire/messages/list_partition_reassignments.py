"""ListPartitionReassignments (46): partitions that move between brokers (KIP-455). Flexible."""

from __future__ import annotations

from broker.wire.schema import INT32, array, int16, int32, message, string, struct


@struct
class ListPartitionReassignmentsTopics:
    """Partitions of one topic."""

    name: str = string()
    partition_indexes: list[int] = array(INT32)


@message(api_key=46, direction="request", versions="0", flexible="0+")
class ListPartitionReassignmentsRequest:
    """The partitions asked about; null means all."""

    timeout_ms: int = int32(60_000)
    topics: list[ListPartitionReassignmentsTopics] | None = array(
        ListPartitionReassignmentsTopics, None, nullable="0+"
    )


@struct
class OngoingPartitionReassignment:
    """One partition on its way."""

    partition_index: int = int32()
    replicas: list[int] = array(INT32)
    adding_replicas: list[int] = array(INT32)
    removing_replicas: list[int] = array(INT32)


@struct
class OngoingTopicReassignment:
    """Partitions of one topic that move."""

    name: str = string()
    partitions: list[OngoingPartitionReassignment] = array(OngoingPartitionReassignment)


@message(api_key=46, direction="response", versions="0", flexible="0+")
class ListPartitionReassignmentsResponse:
    """What moves; partitions that do not are left out."""

    throttle_time_ms: int = int32()
    error_code: int = int16()
    error_message: str | None = string(None, nullable="0+")
    topics: list[OngoingTopicReassignment] = array(OngoingTopicReassignment)
