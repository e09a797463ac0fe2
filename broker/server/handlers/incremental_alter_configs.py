"""IncrementalAlterConfigs (44): set, delete, append to and subtract from settings of topics and
brokers, live.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from broker.config.alter import ConfigChange
from broker.server.config_changes import ResourceChange, change_resources
from broker.server.context import RequestContext
from broker.wire.messages.incremental_alter_configs import (
    AlterConfigsResourceResponse,
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsResponse,
)

if TYPE_CHECKING:
    from broker.server.node import Broker


async def handle_incremental_alter_configs(
    broker: Broker, _context: RequestContext, request: IncrementalAlterConfigsRequest
) -> IncrementalAlterConfigsResponse:
    """An outcome for each resource, in order."""
    wanted = [
        ResourceChange(
            item.resource_type,
            item.resource_name,
            [
                ConfigChange(config.name, config.config_operation, config.value)
                for config in item.configs
            ],
        )
        for item in request.resources
    ]
    outcomes = await change_resources(
        broker,
        "IncrementalAlterConfigs",
        wanted,
        is_validation_only=request.validate_only,
        is_replacement=False,
    )
    return IncrementalAlterConfigsResponse(
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
