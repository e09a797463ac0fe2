"""Administration of topics, partitions and settings, and what the cluster is.

Groups are in `admin_groups`. Every function repeats itself within the request timeout while
failures may pass, and raises ClientError; a refusal names the topic or setting.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final, NamedTuple

from broker.client.cluster import ANY_NODE, Cluster, Node, TopicView
from broker.client.failure import BrokerRefusal
from broker.errors import ErrorCode, error_code
from broker.wire import api
from broker.wire.messages.create_partitions import CreatePartitionsRequest, CreatePartitionsTopic
from broker.wire.messages.create_topics import (
    CreatableTopic,
    CreatableTopicConfig,
    CreateTopicsRequest,
)
from broker.wire.messages.delete_topics import DeleteTopicsRequest, DeleteTopicState
from broker.wire.messages.describe_cluster import DescribeClusterRequest
from broker.wire.messages.describe_configs import (
    DescribeConfigsRequest,
    DescribeConfigsResource,
    DescribeConfigsResult,
)
from broker.wire.messages.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)

TOPIC: Final = 2
BROKER: Final = 4
BROKER_DEFAULT: Final = -1
_SET: Final = 0
_DELETE: Final = 1
_NAMED_STATES_FROM: Final = 6


class ClusterDescription(NamedTuple):
    """`controller_id` is the node that administration goes to, -1 when there is none."""

    cluster_id: str
    controller_id: int
    nodes: tuple[Node, ...]


class NewTopic(NamedTuple):
    """A topic to create; -1 leaves the number to the broker."""

    name: str
    partition_count: int = -1
    replication_factor: int = -1
    configs: Mapping[str, str] = {}


class ConfigEntry(NamedTuple):
    """A setting. `source` as in Kafka: 1 topic, 2 and 3 dynamic broker, 4 file or flag, 5 default.
    `value` is None when it is secret.
    """

    name: str
    value: str | None
    source: int
    is_read_only: bool
    is_sensitive: bool
    config_type: int
    documentation: str | None
    synonyms: tuple[tuple[str, str | None, int], ...]

    @property
    def is_default(self) -> bool:
        return self.source == 5


async def describe_cluster(cluster: Cluster) -> ClusterDescription:
    """The cluster's id, controller and brokers."""

    async def attempt() -> ClusterDescription:
        answer = await cluster.request(ANY_NODE, api.DESCRIBE_CLUSTER, DescribeClusterRequest())
        _check(answer.error_code, answer.error_message, "cluster")
        nodes = tuple(Node(row.broker_id, row.host, row.port, row.rack) for row in answer.brokers)
        return ClusterDescription(answer.cluster_id, answer.controller_id, nodes)

    return await cluster.call(attempt, what="describe the cluster")


async def list_topics(cluster: Cluster, *, with_internal: bool = False) -> list[TopicView]:
    """Every topic, by name."""
    await cluster.call(lambda: cluster.refresh(None), what="list topics")
    topics = sorted(cluster.topics.values())
    return [topic for topic in topics if with_internal or not topic.is_internal]


async def describe_topic(cluster: Cluster, name: str) -> TopicView:
    """One topic as it is now."""
    cluster.forget_topic(name)
    return await cluster.call(lambda: cluster.topic(name), what=f"describe topic {name!r}")


async def create_topics(
    cluster: Cluster, topics: Sequence[NewTopic], *, validate_only: bool = False
) -> None:
    """Create them all. Raises BrokerRefusal for the first that is refused, others may exist."""
    request = CreateTopicsRequest(
        topics=[
            CreatableTopic(
                name=topic.name,
                num_partitions=topic.partition_count,
                replication_factor=topic.replication_factor,
                configs=[
                    CreatableTopicConfig(name=name, value=value)
                    for name, value in topic.configs.items()
                ],
            )
            for topic in topics
        ],
        timeout_ms=cluster.settings.request_timeout_ms,
        validate_only=validate_only,
    )
    answer = await _ask_controller(cluster, api.CREATE_TOPICS, request, what="create topics")
    for row in answer.topics:
        cluster.forget_topic(row.name)
        _check(row.error_code, row.error_message, f"topic {row.name!r}")


async def delete_topics(cluster: Cluster, names: Sequence[str]) -> None:
    """Delete them all. Raises BrokerRefusal for the first that is refused."""

    async def attempt() -> Any:
        node = await cluster.controller()
        version = await cluster.version(node, api.DELETE_TOPICS)
        request = DeleteTopicsRequest(timeout_ms=cluster.settings.request_timeout_ms)
        if version >= _NAMED_STATES_FROM:
            request.topics = [DeleteTopicState(name=name) for name in names]
        else:
            request.topic_names = list(names)
        return await cluster.request(node, api.DELETE_TOPICS, request)

    answer = await cluster.call(attempt, what="delete topics")
    for row in answer.responses:
        cluster.forget_topic(row.name)
        _check(row.error_code, row.error_message, f"topic {row.name!r}")


async def create_partitions(cluster: Cluster, topic: str, partition_count: int) -> None:
    """Grow a topic to `partition_count` partitions. Keys move to other partitions."""
    request = CreatePartitionsRequest(
        topics=[CreatePartitionsTopic(name=topic, count=partition_count, assignments=None)],
        timeout_ms=cluster.settings.request_timeout_ms,
    )
    answer = await _ask_controller(cluster, api.CREATE_PARTITIONS, request, what="add partitions")
    cluster.forget_topic(topic)
    for row in answer.results:
        _check(row.error_code, row.error_message, f"topic {row.name!r}")


async def describe_topic_configs(
    cluster: Cluster, names: Iterable[str]
) -> dict[str, dict[str, ConfigEntry]]:
    """Topic -> setting -> entry."""
    return await _describe_configs(cluster, ANY_NODE, TOPIC, list(names))


async def describe_broker_configs(cluster: Cluster, node_id: int) -> dict[str, ConfigEntry]:
    """Setting -> entry of one broker."""
    found = await _describe_configs(cluster, node_id, BROKER, [str(node_id)])
    return found[str(node_id)]


async def _describe_configs(
    cluster: Cluster, node_id: int, resource_type: int, names: Sequence[str]
) -> dict[str, dict[str, ConfigEntry]]:
    request = DescribeConfigsRequest(
        resources=[
            DescribeConfigsResource(
                resource_type=resource_type, resource_name=name, configuration_keys=None
            )
            for name in names
        ],
        include_synonyms=True,
        include_documentation=True,
    )

    async def attempt() -> Any:
        if node_id != ANY_NODE and node_id not in cluster.nodes:
            await cluster.refresh([])
        return await cluster.request(node_id, api.DESCRIBE_CONFIGS, request)

    answer = await cluster.call(attempt, what="read settings")
    for row in answer.results:
        _check(row.error_code, row.error_message, f"settings of {row.resource_name!r}")
    return {row.resource_name: _entries(row) for row in answer.results}


def _entries(result: DescribeConfigsResult) -> dict[str, ConfigEntry]:
    return {
        row.name: ConfigEntry(
            row.name,
            row.value,
            row.config_source,
            row.read_only,
            row.is_sensitive,
            row.config_type,
            row.documentation,
            tuple((each.name, each.value, each.source) for each in row.synonyms),
        )
        for row in result.configs
    }


async def alter_topic_config(
    cluster: Cluster, topic: str, changes: Mapping[str, str | None], *, validate_only: bool = False
) -> None:
    """Set settings of a topic; None takes an override away."""
    await _alter(cluster, ANY_NODE, TOPIC, topic, changes, validate_only=validate_only)


async def alter_broker_config(
    cluster: Cluster,
    changes: Mapping[str, str | None],
    *,
    node_id: int = BROKER_DEFAULT,
    validate_only: bool = False,
) -> None:
    """Set dynamic settings of one broker, or (BROKER_DEFAULT) of all; None takes them away."""
    name = "" if node_id == BROKER_DEFAULT else str(node_id)
    await _alter(cluster, node_id, BROKER, name, changes, validate_only=validate_only)


async def _alter(
    cluster: Cluster,
    node_id: int,
    resource_type: int,
    name: str,
    changes: Mapping[str, str | None],
    *,
    validate_only: bool,
) -> None:
    configs = [
        AlterableConfig(name=key, config_operation=_DELETE if value is None else _SET, value=value)
        for key, value in changes.items()
    ]
    resource = AlterConfigsResource(
        resource_type=resource_type, resource_name=name, configs=configs
    )
    request = IncrementalAlterConfigsRequest(resources=[resource], validate_only=validate_only)

    async def attempt() -> Any:
        target = await cluster.controller() if node_id < 0 else node_id
        if target >= 0 and target not in cluster.nodes:
            await cluster.refresh([])
        return await cluster.request(target, api.INCREMENTAL_ALTER_CONFIGS, request)

    answer = await cluster.call(attempt, what="change settings")
    for row in answer.responses:
        _check(row.error_code, row.error_message, f"settings of {row.resource_name!r}")


async def _ask_controller(cluster: Cluster, api_key: int, request: object, *, what: str) -> Any:
    async def attempt() -> Any:
        return await cluster.request(await cluster.controller(), api_key, request)

    return await cluster.call(attempt, what=what)


def _check(code: int, message: str | None, subject: str) -> None:
    if code != ErrorCode.NONE:
        raise BrokerRefusal(error_code(code), message, subject=subject)
