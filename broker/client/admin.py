"""Administration of topics, and what the cluster is.

Settings are in `admin_configs`, partitions in `admin_partitions`, groups in `admin_groups`. Every
function repeats itself within the request timeout while failures may pass, and raises ClientError;
a refusal names the topic.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, NamedTuple

from broker.client.cluster import ANY_NODE, Cluster, Node, TopicView
from broker.client.failure import BrokerRefusal
from broker.client.negotiation import API_NAMES, common_version
from broker.errors import ErrorCode, error_code
from broker.wire import api
from broker.wire.messages.create_partitions import CreatePartitionsRequest, CreatePartitionsTopic
from broker.wire.messages.create_topics import (
    CreatableReplicaAssignment,
    CreatableTopic,
    CreatableTopicConfig,
    CreateTopicsRequest,
)
from broker.wire.messages.delete_topics import DeleteTopicsRequest, DeleteTopicState
from broker.wire.messages.describe_cluster import DescribeClusterRequest

_NAMED_STATES_FROM: Final = 6


class ClusterDescription(NamedTuple):
    """`controller_id` is the node that administration goes to, -1 when there is none."""

    cluster_id: str
    controller_id: int
    nodes: tuple[Node, ...]


class NewTopic(NamedTuple):
    """A topic to create; -1 leaves the number to the broker. `assignments` has the replicas'
    broker ids per partition, the leader first; the numbers stay -1 then.
    """

    name: str
    partition_count: int = -1
    replication_factor: int = -1
    configs: Mapping[str, str | None] = {}
    assignments: Sequence[Sequence[int]] = ()


class TopicCreated(NamedTuple):
    """What a new topic became. The numbers are -1 and the id is zero from brokers too old to say;
    `configs` are its effective settings, empty then.
    """

    topic_id: bytes
    partition_count: int
    replication_factor: int
    configs: Mapping[str, str | None]


class ApiRange(NamedTuple):
    """An API that a broker offers, in which versions (inclusive). `name` is "" for one that this
    client does not know; `used_version` is what this client speaks with it, None for no common one.
    """

    api_key: int
    name: str
    min_version: int
    max_version: int
    used_version: int | None


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
    """One topic as it is now. Raises BrokerRefusal, at once when there is none."""
    found = (await describe_topics(cluster, [name]))[name]
    if isinstance(found, BrokerRefusal):
        raise found
    return found


async def describe_topics(
    cluster: Cluster, names: Sequence[str]
) -> dict[str, TopicView | BrokerRefusal]:
    """Per topic what it is now, or why it could not be described. Creates none."""
    if not names:
        return {}
    answer = await cluster.call(lambda: cluster.refresh(names), what="describe topics")
    codes = {row.name: row.error_code for row in answer.topics}
    found: dict[str, TopicView | BrokerRefusal] = {}
    for name in names:
        code = codes.get(name, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
        view = cluster.topics.get(name)
        if view is None or code:
            found[name] = BrokerRefusal(error_code(code), subject=f"topic {name!r}")
        else:
            found[name] = view
    return found


async def create_topics(
    cluster: Cluster, topics: Sequence[NewTopic], *, validate_only: bool = False
) -> None:
    """Create them all. Raises BrokerRefusal for the first that is refused, others may exist."""
    outcome = await create_topics_each(cluster, topics, validate_only=validate_only)
    for found in outcome.values():
        if isinstance(found, BrokerRefusal):
            raise found


async def create_topics_each(
    cluster: Cluster, topics: Sequence[NewTopic], *, validate_only: bool = False
) -> dict[str, TopicCreated | BrokerRefusal]:
    """Per topic what it became (with `validate_only`: what it would become), or why it was refused.

    Explicit assignments of replicas fix the number of partitions.
    """
    request = CreateTopicsRequest(
        topics=[_creatable(topic) for topic in topics],
        timeout_ms=cluster.settings.request_timeout_ms,
        validate_only=validate_only,
    )
    answer = await _ask_controller(
        cluster, api.CREATE_TOPICS, request, lambda found: found.topics, what="create topics"
    )
    outcome: dict[str, TopicCreated | BrokerRefusal] = {}
    for row in answer.topics:
        cluster.forget_topic(row.name)
        refusal = _refusal(row.error_code, row.error_message, row.name)
        configs = {each.name: each.value for each in row.configs or ()}
        outcome[row.name] = refusal or TopicCreated(
            row.topic_id, row.num_partitions, row.replication_factor, configs
        )
    return outcome


def _creatable(topic: NewTopic) -> CreatableTopic:
    return CreatableTopic(
        name=topic.name,
        num_partitions=topic.partition_count,
        replication_factor=topic.replication_factor,
        assignments=[
            CreatableReplicaAssignment(partition_index=index, broker_ids=list(nodes))
            for index, nodes in enumerate(topic.assignments)
        ],
        configs=[
            CreatableTopicConfig(name=name, value=value) for name, value in topic.configs.items()
        ],
    )


async def delete_topics(cluster: Cluster, names: Sequence[str]) -> None:
    """Delete them all. Raises BrokerRefusal for the first that is refused, others may be gone."""
    for refusal in (await delete_topics_each(cluster, names)).values():
        if refusal is not None:
            raise refusal


async def delete_topics_each(
    cluster: Cluster, names: Sequence[str]
) -> dict[str, BrokerRefusal | None]:
    """Per topic None when it is deleted, else why not."""

    async def attempt() -> Any:
        node = await cluster.controller()
        version = await cluster.version(node, api.DELETE_TOPICS)
        request = DeleteTopicsRequest(timeout_ms=cluster.settings.request_timeout_ms)
        if version >= _NAMED_STATES_FROM:
            request.topics = [DeleteTopicState(name=name) for name in names]
        else:
            request.topic_names = list(names)
        answer = await cluster.request(node, api.DELETE_TOPICS, request)
        _check_controller(cluster, answer.responses)
        return answer

    answer = await cluster.call(attempt, what="delete topics")
    outcome: dict[str, BrokerRefusal | None] = {}
    for row in answer.responses:
        cluster.forget_topic(row.name)
        outcome[row.name] = _refusal(row.error_code, row.error_message, row.name)
    return outcome


async def create_partitions(
    cluster: Cluster, topic: str, partition_count: int, *, validate_only: bool = False
) -> None:
    """Grow a topic to `partition_count` partitions. Keys move to other partitions."""
    request = CreatePartitionsRequest(
        topics=[CreatePartitionsTopic(name=topic, count=partition_count, assignments=None)],
        timeout_ms=cluster.settings.request_timeout_ms,
        validate_only=validate_only,
    )
    answer = await _ask_controller(
        cluster, api.CREATE_PARTITIONS, request, lambda found: found.results, what="add partitions"
    )
    cluster.forget_topic(topic)
    for row in answer.results:
        refusal = _refusal(row.error_code, row.error_message, row.name)
        if refusal is not None:
            raise refusal


async def api_versions(cluster: Cluster, node_id: int = ANY_NODE) -> list[ApiRange]:
    """What a broker (ANY_NODE: whichever is connected) offers, by key."""

    async def attempt() -> list[ApiRange]:
        if node_id != ANY_NODE and node_id not in cluster.nodes:
            await cluster.refresh([])
        ranges = await cluster.api_ranges(node_id)
        return [
            ApiRange(key, _api_name(key), low, high, common_version(ranges, key))
            for key, (low, high) in sorted(ranges.items())
        ]

    return await cluster.call(attempt, what="ask which APIs there are")


def _api_name(key: int) -> str:
    return api.CLIENT_APIS[key].name if key in api.CLIENT_APIS else API_NAMES.get(key, "")


async def _ask_controller(
    cluster: Cluster,
    api_key: int,
    request: object,
    rows: Callable[[Any], Sequence[Any]],
    *,
    what: str,
) -> Any:
    """The controller's answer; asked again when it is another node meanwhile."""

    async def attempt() -> Any:
        answer = await cluster.request(await cluster.controller(), api_key, request)
        _check_controller(cluster, rows(answer))
        return answer

    return await cluster.call(attempt, what=what)


def _check_controller(cluster: Cluster, rows: Sequence[Any]) -> None:
    """Nothing was done when the first item says NOT_CONTROLLER: another node is to be asked."""
    if rows and rows[0].error_code == ErrorCode.NOT_CONTROLLER:
        cluster.forget_controller()
        raise BrokerRefusal(ErrorCode.NOT_CONTROLLER, subject="cluster")


def _refusal(code: int, message: str | None, topic: str) -> BrokerRefusal | None:
    if code == ErrorCode.NONE:
        return None
    return BrokerRefusal(error_code(code), message, subject=f"topic {topic!r}")


def _check(code: int, message: str | None, subject: str) -> None:
    if code != ErrorCode.NONE:
        raise BrokerRefusal(error_code(code), message, subject=subject)
