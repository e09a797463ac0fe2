"""CreateTopics (19). 5 is flexible and returns the configuration, 7 returns the topic id."""

from __future__ import annotations

from broker.wire.schema import (
    INT32,
    array,
    boolean,
    int8,
    int16,
    int32,
    message,
    string,
    struct,
    uuid,
)


@struct
class CreatableReplicaAssignment:
    """The brokers of one partition, the preferred leader first."""

    partition_index: int = int32()
    broker_ids: list[int] = array(INT32)


@struct
class CreatableTopicConfig:
    """A setting that overrides the broker's default."""

    name: str = string()
    value: str | None = string(nullable="0+")


@struct
class CreatableTopic:
    """A topic; -1 partitions or replicas means the broker's default."""

    name: str = string()
    num_partitions: int = int32()
    replication_factor: int = int16()
    assignments: list[CreatableReplicaAssignment] = array(CreatableReplicaAssignment)
    configs: list[CreatableTopicConfig] = array(CreatableTopicConfig)


@message(api_key=19, direction="request", versions="2-7", flexible="5+")
class CreateTopicsRequest:
    """Topics to create; with `validate_only` nothing is created."""

    topics: list[CreatableTopic] = array(CreatableTopic)
    timeout_ms: int = int32(60000)
    validate_only: bool = boolean()


@struct
class CreatableTopicConfigs:
    """A setting of the new topic."""

    name: str = string(versions="5+")
    value: str | None = string(versions="5+", nullable="0+")
    read_only: bool = boolean(versions="5+")
    config_source: int = int8(-1, versions="5+", ignorable=True)
    is_sensitive: bool = boolean(versions="5+")


@struct
class CreatableTopicResult:
    """Created, with its id, or why not."""

    name: str = string()
    topic_id: bytes = uuid(versions="7+", ignorable=True)
    error_code: int = int16()
    error_message: str | None = string(nullable="0+")
    topic_config_error_code: int = int16(versions="5+", tag=0, ignorable=True)
    num_partitions: int = int32(-1, versions="5+", ignorable=True)
    replication_factor: int = int16(-1, versions="5+", ignorable=True)
    configs: list[CreatableTopicConfigs] | None = array(
        CreatableTopicConfigs, versions="5+", nullable="0+", ignorable=True
    )


@message(api_key=19, direction="response", versions="2-7", flexible="5+")
class CreateTopicsResponse:
    """The outcome per topic."""

    throttle_time_ms: int = int32()
    topics: list[CreatableTopicResult] = array(CreatableTopicResult)
