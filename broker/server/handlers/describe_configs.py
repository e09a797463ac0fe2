"""DescribeConfigs (32): the effective settings of topics and brokers, with type, documentation and
where they come from.

An unknown setting among the asked-for names is left out. The broker with the empty name stands for
the dynamic defaults of all brokers: only what was set there is shown.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Iterator
from enum import IntEnum
from typing import TYPE_CHECKING, Final

from broker.config.effective import (
    ConfigSource,
    EffectiveConfig,
    effective_broker_config,
    effective_topic_config,
)
from broker.errors import ErrorCode, Refusal
from broker.server.broker_configs import BROKER_ROWS
from broker.server.catalog import TOPIC_ROWS
from broker.server.context import RequestContext
from broker.server.encoded import EncodedBody, encode_sliced
from broker.server.names import name_problem
from broker.server.outcome import count_errors
from broker.wire.api import DESCRIBE_CONFIGS
from broker.wire.messages.describe_configs import (
    DescribeConfigsRequest,
    DescribeConfigsResource,
    DescribeConfigsResourceResult,
    DescribeConfigsResponse,
    DescribeConfigsResult,
    DescribeConfigsSynonym,
)

if TYPE_CHECKING:
    from broker.server.node import Broker

RESOURCES_PER_STEP: Final = 5


class ResourceType(IntEnum):
    """The protocol's numbers."""

    TOPIC = 2
    BROKER = 4


async def handle_describe_configs(
    broker: Broker, context: RequestContext, request: DescribeConfigsRequest
) -> EncodedBody:
    """A result for each resource asked for, in order, made a few resources at a time."""
    results: list[DescribeConfigsResult] = []
    for count, resource in enumerate(request.resources, start=1):
        results.append(_describe(broker, request, resource))
        if count % RESOURCES_PER_STEP == 0:
            await asyncio.sleep(0)
    count_errors(broker, "DescribeConfigs", [result.error_code for result in results])
    response = DescribeConfigsResponse(results=results)
    return await encode_sliced(
        DESCRIBE_CONFIGS, context.api_version, response, ["results"], RESOURCES_PER_STEP
    )


def _describe(
    broker: Broker, request: DescribeConfigsRequest, resource: DescribeConfigsResource
) -> DescribeConfigsResult:
    result = DescribeConfigsResult(
        resource_type=resource.resource_type, resource_name=resource.resource_name
    )
    try:
        configs = _effective(broker, resource)
        result.configs = [_shown(request, config) for config in _asked(resource, configs)]
    except Refusal as refusal:
        result.error_code, result.error_message = refusal.code, refusal.message
    return result


def _effective(broker: Broker, resource: DescribeConfigsResource) -> Iterable[EffectiveConfig]:
    layers = broker.catalog.broker_configs.config
    name = resource.resource_name
    if resource.resource_type == ResourceType.TOPIC:
        topic = broker.catalog.topic(name)
        if topic is None:
            raise unknown_topic(name)
        return [effective_topic_config(row, topic.overrides, layers) for row in TOPIC_ROWS.values()]
    broker_id = broker_of_resource(broker, resource.resource_type, name)
    configs = [effective_broker_config(row, layers) for row in BROKER_ROWS.values()]
    if broker_id is not None:
        return configs
    return [
        _as_cluster_default(config)
        for config in configs
        if any(link.source == ConfigSource.DYNAMIC_DEFAULT_BROKER for link in config.chain)
    ]


def _as_cluster_default(config: EffectiveConfig) -> EffectiveConfig:
    chain = tuple(
        link for link in config.chain if link.source >= ConfigSource.DYNAMIC_DEFAULT_BROKER
    )
    return config._replace(value=chain[0].value, source=chain[0].source, chain=chain[:1])


def broker_of_resource(broker: Broker, resource_type: int, name: str) -> int | None:
    """The broker that a resource of type BROKER names; None for all brokers. Raises Refusal."""
    if resource_type != ResourceType.BROKER:
        raise Refusal(
            ErrorCode.INVALID_REQUEST,
            f"resources of type {resource_type} have no settings here, "
            "topics (2) and brokers (4) have",
        )
    if name == "":
        return None
    if name != str(broker.node_id):
        raise Refusal(
            ErrorCode.INVALID_REQUEST, f"there is no broker {name!r}; this one is {broker.node_id}"
        )
    return broker.node_id


def _asked(
    resource: DescribeConfigsResource, configs: Iterable[EffectiveConfig]
) -> Iterator[EffectiveConfig]:
    if resource.configuration_keys is None:
        yield from configs
        return
    wanted = frozenset(resource.configuration_keys)
    yield from (config for config in configs if config.name in wanted)


def _shown(
    request: DescribeConfigsRequest, config: EffectiveConfig
) -> DescribeConfigsResourceResult:
    row = config.setting
    synonyms = []
    if request.include_synonyms:
        synonyms = [
            DescribeConfigsSynonym(
                name=link.name, value=None if row.is_sensitive else link.value, source=link.source
            )
            for link in config.chain
        ]
    return DescribeConfigsResourceResult(
        name=config.name,
        value=config.value,
        read_only=config.is_read_only,
        config_source=config.source,
        is_sensitive=row.is_sensitive,
        synonyms=synonyms,
        config_type=row.type,
        documentation=row.documentation if request.include_documentation else None,
    )


def unknown_topic(name: str) -> Refusal:
    """Why a topic of that name has no settings: there is none, or cannot be one."""
    problem = name_problem(name)
    if problem is not None:
        return Refusal(ErrorCode.INVALID_TOPIC_EXCEPTION, problem)
    return Refusal(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"topic {name} does not exist")
