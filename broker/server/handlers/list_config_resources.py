"""ListConfigResources (74): what has settings here: every topic, and this broker.

Other types that the protocol knows (broker loggers, client metrics, groups) have none here: they
are answered with nothing. Version 0 asks for client metrics alone.
"""

from __future__ import annotations

from collections.abc import Iterable
from enum import IntEnum
from typing import TYPE_CHECKING, Final

from broker.errors import ErrorCode
from broker.server.context import RequestContext
from broker.server.encoded import EncodedBody, encode_sliced
from broker.wire.api import LIST_CONFIG_RESOURCES
from broker.wire.messages.list_config_resources import (
    ConfigResource,
    ListConfigResourcesRequest,
    ListConfigResourcesResponse,
)

if TYPE_CHECKING:
    from broker.server.node import Broker

RESOURCES_PER_STEP: Final = 500
_TYPES_FROM: Final = 1


class ListedType(IntEnum):
    """The protocol's numbers of types that may be asked for."""

    TOPIC = 2
    BROKER = 4
    BROKER_LOGGER = 8
    CLIENT_METRICS = 16
    GROUP = 32


async def handle_list_config_resources(
    broker: Broker, context: RequestContext, request: ListConfigResourcesRequest
) -> EncodedBody:
    """Resources of the wanted types; without a wish, of all."""
    response = ListConfigResourcesResponse()
    wanted = set(request.resource_types) or set(ListedType)
    if context.api_version < _TYPES_FROM:
        wanted = {ListedType.CLIENT_METRICS}
    if wanted <= set(ListedType):
        response.config_resources = [
            ConfigResource(resource_name=name, resource_type=kind)
            for kind in sorted(wanted)
            for name in _names(broker, kind)
        ]
    else:
        response.error_code = ErrorCode.UNSUPPORTED_VERSION
    return await encode_sliced(
        LIST_CONFIG_RESOURCES,
        context.api_version,
        response,
        ["config_resources"],
        RESOURCES_PER_STEP,
    )


def _names(broker: Broker, kind: int) -> Iterable[str]:
    if kind == ListedType.TOPIC:
        return (topic.name for topic in broker.catalog.topics())
    if kind == ListedType.BROKER:
        return (str(broker.node_id),)
    return ()
