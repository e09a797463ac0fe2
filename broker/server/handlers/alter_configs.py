"""AlterConfigs (33), the older way: the settings named are all that a topic or broker has of its
own; what is not named goes back to its default.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from broker.config.alter import AlterOperation, ConfigChange
from broker.server.config_changes import ResourceChange, change_resources
from broker.server.context import RequestContext
from broker.wire.messages.alter_configs import (
    AlterConfigsRequest,
    AlterConfigsResourceResponse,
    AlterConfigsResponse,
)

if TYPE_CHECKING:
    from broker.server.node import Broker


async def handle_alter_configs(
    broker: Broker, _context: RequestContext, request: AlterConfigsRequest
) -> AlterConfigsResponse:
    """An outcome for each resource, in order."""
    wanted = [
        ResourceChange(
            item.resource_type,
            item.resource_name,
            [
                ConfigChange(config.name, AlterOperation.SET, config.value)
                for config in item.configs
            ],
        )
        for item in request.resources
    ]
    outcomes = await change_resources(
        broker,
        "AlterConfigs",
        wanted,
        is_validation_only=request.validate_only,
        is_replacement=True,
    )
    return AlterConfigsResponse(
        responses=[
            AlterConfigsResourceResponse(
                error_code=outcome.code,
                error_message=outcome.message,
                resource_type=item.resource_type,
                resource_name=item.resource_name,
            )
            for item, outcome in zip(wanted, outcomes, strict=True)
        ]
    )
