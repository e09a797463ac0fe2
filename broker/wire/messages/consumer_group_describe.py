"""ConsumerGroupDescribe (69): groups of the consumer protocol (KIP-848), which Apache Kafka has and
this broker has not: our client alone speaks it. 1 tells a member's protocol. Flexible.
"""

from __future__ import annotations

from broker.wire.schema import (
    INT32,
    STRING,
    array,
    boolean,
    int8,
    int16,
    int32,
    message,
    nested,
    string,
    struct,
    uuid,
)


@message(api_key=69, direction="request", versions="0-1", flexible="0+")
class ConsumerGroupDescribeRequest:
    """Groups by id."""

    group_ids: list[str] = array(STRING)
    include_authorized_operations: bool = boolean()


@struct
class TopicPartitions:
    """Partitions of one topic."""

    topic_id: bytes = uuid()
    topic_name: str = string()
    partitions: list[int] = array(INT32)


@struct
class Assignment:
    """What a member has, or shall have."""

    topic_partitions: list[TopicPartitions] = array(TopicPartitions)


@struct
class Member:
    """A member; `member_type` is 0 for the classic protocol, 1 for the consumer protocol."""

    member_id: str = string()
    instance_id: str | None = string(None, nullable="0+")
    rack_id: str | None = string(None, nullable="0+")
    member_epoch: int = int32()
    client_id: str = string()
    client_host: str = string()
    subscribed_topic_names: list[str] = array(STRING)
    subscribed_topic_regex: str | None = string(None, nullable="0+")
    assignment: Assignment = nested(Assignment)
    target_assignment: Assignment = nested(Assignment)
    member_type: int = int8(-1, versions="1+", ignorable=True)


@struct
class DescribedGroup:
    """A group, or why it could not be described."""

    error_code: int = int16()
    error_message: str | None = string(None, nullable="0+")
    group_id: str = string()
    group_state: str = string()
    group_epoch: int = int32()
    assignment_epoch: int = int32()
    assignor_name: str = string()
    members: list[Member] = array(Member)
    authorized_operations: int = int32(-(2**31))


@message(api_key=69, direction="response", versions="0-1", flexible="0+")
class ConsumerGroupDescribeResponse:
    """One row per group."""

    throttle_time_ms: int = int32()
    groups: list[DescribedGroup] = array(DescribedGroup)
