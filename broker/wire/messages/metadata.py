"""Metadata (3): brokers, topics, partitions and their leaders. 9 is flexible, 10 has topic ids, 13
a top-level error.
"""

from __future__ import annotations

from broker.wire.schema import INT32, array, boolean, int16, int32, message, string, struct, uuid


@struct
class MetadataRequestTopic:
    """One topic, by id (`name` null) or by name."""

    topic_id: bytes = uuid(versions="10+", ignorable=True)
    name: str | None = string(nullable="10+")


@message(api_key=3, direction="request", versions="0-13", flexible="9+")
class MetadataRequest:
    """Which topics; null means all, and so does an empty list in version 0."""

    topics: list[MetadataRequestTopic] | None = array(MetadataRequestTopic, nullable="1+")
    allow_auto_topic_creation: bool = boolean(default=True, versions="4+")
    include_cluster_authorized_operations: bool = boolean(versions="8-10")
    include_topic_authorized_operations: bool = boolean(versions="8+")


@struct
class MetadataResponseBroker:
    """A broker and the address to reach it at."""

    node_id: int = int32()
    host: str = string()
    port: int = int32()
    rack: str | None = string(None, versions="1+", nullable="0+", ignorable=True)


@struct
class MetadataResponsePartition:
    """Leader, replicas and in-sync replicas of a partition."""

    error_code: int = int16()
    partition_index: int = int32()
    leader_id: int = int32()
    leader_epoch: int = int32(-1, versions="7+", ignorable=True)
    replica_nodes: list[int] = array(INT32)
    isr_nodes: list[int] = array(INT32)
    offline_replicas: list[int] = array(INT32, versions="5+", ignorable=True)


@struct
class MetadataResponseTopic:
    """A topic, or the error why it is not described."""

    error_code: int = int16()
    name: str | None = string(nullable="12+")
    topic_id: bytes = uuid(versions="10+", ignorable=True)
    is_internal: bool = boolean(versions="1+", ignorable=True)
    partitions: list[MetadataResponsePartition] = array(MetadataResponsePartition)
    topic_authorized_operations: int = int32(-(2**31), versions="8+")


@message(api_key=3, direction="response", versions="0-13", flexible="9+")
class MetadataResponse:
    """The cluster as this broker sees it."""

    throttle_time_ms: int = int32(versions="3+", ignorable=True)
    brokers: list[MetadataResponseBroker] = array(MetadataResponseBroker)
    cluster_id: str | None = string(None, versions="2+", nullable="0+", ignorable=True)
    controller_id: int = int32(-1, versions="1+", ignorable=True)
    topics: list[MetadataResponseTopic] = array(MetadataResponseTopic)
    cluster_authorized_operations: int = int32(-(2**31), versions="8-10")
    error_code: int = int16(versions="13+", ignorable=True)
