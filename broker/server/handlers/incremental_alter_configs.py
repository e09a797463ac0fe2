"""IncrementalAlterConfigs (44): set, delete, append to and subtract from settings of topics and
brokers, live.

Each resource is changed as a whole or not at all. Stored before it is in force.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from broker.config.alter import ConfigChange
from broker.errors import ErrorCode, Refusal
from broker.server.context import RequestContext
from broker.server.handlers.describe_configs import ResourceType, broker_of_resource
from broker.server.outcome import count_errors, outcome_of
from broker.wire.messages.incremental_alter_configs import (
    AlterConfigsResource,
    AlterConfigsResourceResponse,
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsResponse,
)

if TYPE_CHECKING:
    from broker.server.node import Broker


async def handle_incremental_alter_configs(
    broker: Broker, context: RequestContext, request: IncrementalAlterConfigsRequest
) -> IncrementalAlterConfigsResponse:
    """A resource that stands twice in the request is refused, each time, with INVALID_REQUEST."""
    counts = Counter((item.resource_type, item.resource_name) for item in request.resources)
    responses = []
    for item in request.resources:
        is_twice = counts[item.resource_type, item.resource_name] > 1
        change = _alter(broker, item, is_twice=is_twice, is_validation_only=request.validate_only)
        outcome = await outcome_of(change)
        responses.append(
            AlterConfigsResourceResponse(
                error_code=outcome.code,
                error_message=outcome.message,
                resource_type=item.resource_type,
                resource_name=item.resource_name,
            )
        )
    count_errors(broker, "IncrementalAlterConfigs", [item.error_code for item in responses])
    return IncrementalAlterConfigsResponse(responses=responses)


async def _alter(
    broker: Broker,
    resource: AlterConfigsResource,
    *,
    is_twice: bool,
    is_validation_only: bool,
) -> None:
    if is_twice:
        raise Refusal(ErrorCode.INVALID_REQUEST, "the resource stands twice in the request")
    changes = [
        ConfigChange(config.name, config.config_operation, config.value)
        for config in resource.configs
    ]
    if resource.resource_type == ResourceType.TOPIC:
        topic = broker.catalog.topic(resource.resource_name)
        if topic is not None and topic.is_internal:
            text = f"{topic.name} is an internal topic: its settings follow from the broker's"
            raise Refusal(ErrorCode.INVALID_TOPIC_EXCEPTION, text)
        await broker.catalog.alter_topic_config(
            resource.resource_name, changes, is_validation_only=is_validation_only
        )
        return
    broker_id = broker_of_resource(broker, resource.resource_type, resource.resource_name)
    await broker.catalog.alter_broker_config(
        broker_id, changes, is_validation_only=is_validation_only
    )
