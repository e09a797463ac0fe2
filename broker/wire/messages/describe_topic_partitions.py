"""DescribeTopicPartitions (75): topics with their partitions, page by page (KIP-966). Flexible."""

from __future__ import annotations

from broker.wire.schema import (
    INT32,
    array,
    boolean,
    int16,
    int32,
    message,
    nested,
    string,
    struct,
    uuid,
)


@struct
class TopicRequest:
    """One topic, by name."""

    name: str = string()


@struct
class Cursor:
    """Where a page begins: a topic and its first partition."""

    topic_name: str = string()
    partition_index: int = int32()


@message(api_key=75, direction="request", versions="0", flexible="0+")
class DescribeTopicPartitionsRequest:
    """Topics, none for all; how many partitions one page has; where it begins."""

    topics: list[TopicRequest] = array(TopicRequest)
    response_partition_limit: int = int32(2000)
    cursor: Cursor | None = nested(Cursor, None, nullable="0+")


@struct
class DescribeTopicPartitionsResponsePartition:
    """Leader and replicas; the eligible leaders are empty while no broker keeps them."""

    error_code: int = int16()
    partition_index: int = int32()
    leader_id: int = int32()
    leader_epoch: int = int32(-1, ignorable=True)
    replica_nodes: list[int] = array(INT32)
    isr_nodes: list[int] = array(INT32)
    eligible_leader_replicas: list[int] | None = array(INT32, None, nullable="0+")
    last_known_elr: list[int] | None = array(INT32, None, nullable="0+")
    offline_replicas: list[int] = array(INT32, ignorable=True)


@struct
class DescribeTopicPartitionsResponseTopic:
    """A topic, or the error why it is not described."""

    error_code: int = int16()
    name: str | None = string(nullable="0+")
    topic_id: bytes = uuid(ignorable=True)
    is_internal: bool = boolean(ignorable=True)
    partitions: list[DescribeTopicPartitionsResponsePartition] = array(
        DescribeTopicPartitionsResponsePartition
    )
    topic_authorized_operations: int = int32(-(2**31))


@message(api_key=75, direction="response", versions="0", flexible="0+")
class DescribeTopicPartitionsResponse:
    """One page; `next_cursor` is where the next one begins, null on the last."""

    throttle_time_ms: int = int32(ignorable=True)
    topics: list[DescribeTopicPartitionsResponseTopic] = array(DescribeTopicPartitionsResponseTopic)
    next_cursor: Cursor | None = nested(Cursor, None, nullable="0+", ignorable=True)
