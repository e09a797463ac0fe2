"""Settings of topics, brokers, groups and other resources: read with their sources, changed one by
one.

Every function repeats itself within the request timeout while failures may pass, and raises
ClientError; what is refused for one resource is an item of the result.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from enum import IntEnum
from typing import Any, Final, NamedTuple

from broker.client.cluster import ANY_NODE, Cluster
from broker.client.failure import BrokerRefusal, Unsupported
from broker.errors import ErrorCode, error_code
from broker.wire import api
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
from broker.wire.messages.list_config_resources import ListConfigResourcesRequest

SOURCE_NAMES: Final = {
    1: "topic",
    2: "broker",
    3: "cluster",
    4: "static",
    5: "default",
    6: "logger",
    7: "client-metrics",
    8: "group",
}
"""`ConfigEntry.source` in words: 2 is one broker's, 3 all brokers' dynamic setting, 4 a file, flag
or variable.
"""
TYPE_NAMES: Final = {
    1: "boolean",
    2: "string",
    3: "int",
    4: "short",
    5: "long",
    6: "double",
    7: "list",
    8: "class",
    9: "password",
}
DEFAULT_SOURCE: Final = 5
ONE_BROKER_SOURCE: Final = 2
ALL_BROKERS_SOURCE: Final = 3
_ANY_KIND_FROM: Final = 1


class ResourceKind(IntEnum):
    """What settings may belong to; the numbers are the protocol's."""

    TOPIC = 2
    BROKER = 4
    BROKER_LOGGER = 8
    CLIENT_METRICS = 16
    GROUP = 32


class ConfigResource(NamedTuple):
    """One owner of settings. A BROKER's name is its id, or "" for the default of all brokers.

    `kind` may be a number without a name in ResourceKind, when a newer broker lists it.
    """

    kind: int
    name: str

    def __str__(self) -> str:
        known = self.kind in ResourceKind.__members__.values()
        word = (
            ResourceKind(self.kind).name.lower().replace("_", "-") if known else f"kind {self.kind}"
        )
        return "all brokers" if (word, self.name) == ("broker", "") else f"{word} {self.name!r}"


ALL_BROKERS_RESOURCE: Final = ConfigResource(ResourceKind.BROKER, "")
_OWN_SOURCES: Final[Mapping[int, int]] = {
    ResourceKind.TOPIC: 1,
    ResourceKind.BROKER: ONE_BROKER_SOURCE,
    ResourceKind.BROKER_LOGGER: 6,
    ResourceKind.CLIENT_METRICS: 7,
    ResourceKind.GROUP: 8,
}


def own_source(resource: ConfigResource) -> int | None:
    """The `ConfigEntry.source` of what was set for this resource itself; None when its kind is not
    known.
    """
    if resource == ALL_BROKERS_RESOURCE:
        return ALL_BROKERS_SOURCE
    return _OWN_SOURCES.get(resource.kind)


class ConfigOperation(IntEnum):
    """How a setting is changed. APPEND and SUBTRACT are for lists alone; DELETE has no value."""

    SET = 0
    DELETE = 1
    APPEND = 2
    SUBTRACT = 3


class ConfigChange(NamedTuple):
    """One change of one setting."""

    name: str
    value: str | None = None
    operation: ConfigOperation = ConfigOperation.SET


class ConfigSynonym(NamedTuple):
    """A place that a value may come from; `source` as in ConfigEntry."""

    name: str
    value: str | None
    source: int


class ConfigEntry(NamedTuple):
    """A setting. `source` as in Kafka: 1 topic, 2 and 3 dynamic broker, 4 file or flag, 5 default.
    `value` is None when it is secret. `synonyms` begin with what is effective.
    """

    name: str
    value: str | None
    source: int
    is_read_only: bool
    is_sensitive: bool
    config_type: int
    documentation: str | None
    synonyms: tuple[ConfigSynonym, ...]

    @property
    def is_default(self) -> bool:
        return self.source == DEFAULT_SOURCE

    @property
    def source_name(self) -> str:
        """One of SOURCE_NAMES' words, "unknown" for others."""
        return SOURCE_NAMES.get(self.source, "unknown")

    @property
    def type_name(self) -> str:
        """One of TYPE_NAMES' words, "unknown" for others."""
        return TYPE_NAMES.get(self.config_type, "unknown")


async def describe_configs(
    cluster: Cluster, resources: Iterable[ConfigResource]
) -> dict[ConfigResource, dict[str, ConfigEntry] | BrokerRefusal]:
    """Per resource, in the order asked: setting -> entry, or why it could not be read."""
    wanted = list(dict.fromkeys(resources))

    async def attempt() -> dict[ConfigResource, dict[str, ConfigEntry] | BrokerRefusal]:
        found: dict[ConfigResource, dict[str, ConfigEntry] | BrokerRefusal] = {}
        for node_id, group in (await _by_node(cluster, wanted)).items():
            rows = [
                DescribeConfigsResource(
                    resource_type=kind, resource_name=name, configuration_keys=None
                )
                for kind, name in group
            ]
            request = DescribeConfigsRequest(
                resources=rows, include_synonyms=True, include_documentation=True
            )
            answer = await cluster.request(node_id, api.DESCRIBE_CONFIGS, request)
            for row in answer.results:
                resource = ConfigResource(row.resource_type, row.resource_name)
                refusal = _refusal(row, resource)
                found[resource] = _entries(row) if refusal is None else refusal
        return {resource: found[resource] for resource in wanted if resource in found}

    return await cluster.call(attempt, what="read settings")


async def broker_defaults(cluster: Cluster) -> dict[str, ConfigEntry]:
    """Every setting of the brokers with what counts where none has a value of its own. The cluster
    tells of all brokers what was set for them, so that one of them is asked for the rest; what its
    file says is marked as such. Empty when it may not be read. Raises ClientError.
    """
    if not cluster.nodes:
        await cluster.refresh([])
    node = ConfigResource(ResourceKind.BROKER, str(min(cluster.nodes)))
    found = (await describe_configs(cluster, [node])).get(node, {})
    entries = {} if isinstance(found, BrokerRefusal) else found
    return {name: _without_own(entry) for name, entry in entries.items()}


def _without_own(entry: ConfigEntry) -> ConfigEntry:
    """What counts when the broker that was asked has no value of its own."""
    synonyms = tuple(each for each in entry.synonyms if each.source != ONE_BROKER_SOURCE)
    if entry.source != ONE_BROKER_SOURCE or not synonyms:
        return entry
    first = synonyms[0]
    return entry._replace(value=first.value, source=first.source, synonyms=synonyms)


async def alter_configs(
    cluster: Cluster,
    changes: Mapping[ConfigResource, Sequence[ConfigChange]],
    *,
    validate_only: bool = False,
) -> dict[ConfigResource, BrokerRefusal | None]:
    """Change settings: per resource None when all its changes were made, else why none was."""

    async def attempt() -> dict[ConfigResource, BrokerRefusal | None]:
        outcome: dict[ConfigResource, BrokerRefusal | None] = {}
        for node_id, group in (await _by_node(cluster, changes)).items():
            request = IncrementalAlterConfigsRequest(
                resources=[_altered(each, changes[each]) for each in group],
                validate_only=validate_only,
            )
            target = await cluster.controller() if node_id == ANY_NODE else node_id
            answer = await cluster.request(target, api.INCREMENTAL_ALTER_CONFIGS, request)
            for row in answer.responses:
                resource = ConfigResource(row.resource_type, row.resource_name)
                refusal = _refusal(row, resource)
                if refusal is not None and refusal.code is ErrorCode.NOT_CONTROLLER:
                    cluster.forget_controller()
                    raise refusal
                outcome[resource] = refusal
        return outcome

    return await cluster.call(attempt, what="change settings")


async def list_config_resources(
    cluster: Cluster, kinds: Iterable[ResourceKind] = ()
) -> list[ConfigResource]:
    """The resources that have settings, of these kinds or (none given) of all.

    Raises Unsupported when the broker cannot list them (before Kafka 4.1).
    """
    wanted = [int(kind) for kind in kinds]

    async def attempt() -> list[ConfigResource]:
        version = await cluster.version(ANY_NODE, api.LIST_CONFIG_RESOURCES)
        if version < _ANY_KIND_FROM and wanted != [ResourceKind.CLIENT_METRICS]:
            msg = "this broker lists resources of the kind client-metrics alone"
            raise Unsupported(msg)
        request = ListConfigResourcesRequest()
        if version >= _ANY_KIND_FROM:
            request.resource_types = wanted
        answer = await cluster.request(ANY_NODE, api.LIST_CONFIG_RESOURCES, request)
        if answer.error_code:
            raise BrokerRefusal(error_code(answer.error_code), subject="config resources")
        return sorted(
            ConfigResource(row.resource_type, row.resource_name) for row in answer.config_resources
        )

    return await cluster.call(attempt, what="list config resources")


async def describe_topic_configs(
    cluster: Cluster, names: Iterable[str]
) -> dict[str, dict[str, ConfigEntry]]:
    """Topic -> setting -> entry. Raises BrokerRefusal for the first that is refused."""
    resources = [ConfigResource(ResourceKind.TOPIC, name) for name in names]
    found = await describe_configs(cluster, resources)
    return {resource.name: _granted(entries) for resource, entries in found.items()}


async def describe_broker_configs(cluster: Cluster, node_id: int) -> dict[str, ConfigEntry]:
    """Setting -> entry of one broker. Raises BrokerRefusal."""
    resource = ConfigResource(ResourceKind.BROKER, str(node_id))
    return _granted((await describe_configs(cluster, [resource]))[resource])


async def alter_topic_config(
    cluster: Cluster, topic: str, changes: Mapping[str, str | None], *, validate_only: bool = False
) -> None:
    """Set settings of a topic; None takes an override away. Raises BrokerRefusal."""
    resource = ConfigResource(ResourceKind.TOPIC, topic)
    await _alter_one(cluster, resource, changes, validate_only=validate_only)


async def alter_broker_config(
    cluster: Cluster,
    changes: Mapping[str, str | None],
    *,
    node_id: int = ANY_NODE,
    validate_only: bool = False,
) -> None:
    """Set dynamic settings of one broker, or (ANY_NODE) of all; None takes them away. Raises
    BrokerRefusal.
    """
    resource = ConfigResource(ResourceKind.BROKER, "" if node_id == ANY_NODE else str(node_id))
    await _alter_one(cluster, resource, changes, validate_only=validate_only)


async def _alter_one(
    cluster: Cluster,
    resource: ConfigResource,
    changes: Mapping[str, str | None],
    *,
    validate_only: bool,
) -> None:
    rows = [
        ConfigChange(name, value, ConfigOperation.DELETE if value is None else ConfigOperation.SET)
        for name, value in changes.items()
    ]
    outcome = await alter_configs(cluster, {resource: rows}, validate_only=validate_only)
    for refusal in outcome.values():
        if refusal is not None:
            raise refusal


async def _by_node(
    cluster: Cluster, resources: Iterable[ConfigResource]
) -> dict[int, list[ConfigResource]]:
    """Who is to be asked: a broker's own settings are known to that broker alone."""
    by_node: dict[int, list[ConfigResource]] = {}
    for resource in resources:
        node_id = ANY_NODE
        if resource.kind in (ResourceKind.BROKER, ResourceKind.BROKER_LOGGER) and resource.name:
            if not resource.name.isdecimal():
                msg = f"{resource}: a broker's name is its number, or empty for all brokers"
                raise Unsupported(msg)
            node_id = int(resource.name)
            if node_id not in cluster.nodes:
                await cluster.refresh([])
            if node_id not in cluster.nodes:
                known = ", ".join(str(each) for each in sorted(cluster.nodes))
                text = f"the cluster has no broker {node_id}; its brokers are {known}"
                raise BrokerRefusal(ErrorCode.BROKER_ID_NOT_REGISTERED, text)
        by_node.setdefault(node_id, []).append(resource)
    return by_node


def _altered(resource: ConfigResource, changes: Sequence[ConfigChange]) -> AlterConfigsResource:
    return AlterConfigsResource(
        resource_type=resource.kind,
        resource_name=resource.name,
        configs=[
            AlterableConfig(name=name, config_operation=operation, value=value)
            for name, value, operation in changes
        ],
    )


def _refusal(row: Any, resource: ConfigResource) -> BrokerRefusal | None:
    if row.error_code == ErrorCode.NONE:
        return None
    return BrokerRefusal(
        error_code(row.error_code), row.error_message, subject=f"settings of {resource}"
    )


def _granted(
    found: dict[str, ConfigEntry] | BrokerRefusal,
) -> dict[str, ConfigEntry]:
    if isinstance(found, BrokerRefusal):
        raise found
    return found


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
            tuple(ConfigSynonym(each.name, each.value, each.source) for each in row.synonyms),
        )
        for row in result.configs
    }
