"""CreatePartitions (37): raise the number of partitions of topics. 2 is flexible."""

from __future__ import annotations

from broker.wire.schema import INT32, array, boolean, int16, int32, message, string, struct


@struct
class CreatePartitionsAssignment:
    """The brokers of one new partition."""

    broker_ids: list[int] = array(INT32)


@struct
class CreatePartitionsTopic:
    """`count` is the new total; null assignments leaves the placement to the broker."""

    name: str = string()
    count: int = int32()
    assignments: list[CreatePartitionsAssignment] | None = array(
        CreatePartitionsAssignment, nullable="0+"
    )


@message(api_key=37, direction="request", versions="0-3", flexible="2+")
class CreatePartitionsRequest:
    """Topics to grow; with `validate_only` nothing happens."""

    topics: list[CreatePartitionsTopic] = array(CreatePartitionsTopic)
    timeout_ms: int = int32()
    validate_only: bool = boolean()


@struct
class CreatePartitionsTopicResult:
    """Grown, or why not."""

    name: str = string()
    error_code: int = int16()
    error_message: str | None = string(None, nullable="0+")


@message(api_key=37, direction="response", versions="0-3", flexible="2+")
class CreatePartitionsResponse:
    """The outcome per topic."""

    throttle_time_ms: int = int32()
    results: list[CreatePartitionsTopicResult] = array(CreatePartitionsTopicResult)
