"""IncrementalAlterConfigs (44): set, unset or edit single configuration entries. 1 is flexible."""

from __future__ import annotations

from broker.wire.schema import array, boolean, int8, int16, int32, message, string, struct


@struct
class AlterableConfig:
    """One change: operation 0 sets, 1 deletes, 2 appends to a list, 3 removes from it."""

    name: str = string()
    config_operation: int = int8()
    value: str | None = string(nullable="0+")


@struct
class AlterConfigsResource:
    """Changes to one topic (type 2) or broker (4)."""

    resource_type: int = int8()
    resource_name: str = string()
    configs: list[AlterableConfig] = array(AlterableConfig)


@message(api_key=44, direction="request", versions="0-1", flexible="1+")
class IncrementalAlterConfigsRequest:
    """Changes; with `validate_only` nothing is changed."""

    resources: list[AlterConfigsResource] = array(AlterConfigsResource)
    validate_only: bool = boolean()


@struct
class AlterConfigsResourceResponse:
    """Changed, or why not."""

    error_code: int = int16()
    error_message: str | None = string(nullable="0+")
    resource_type: int = int8()
    resource_name: str = string()


@message(api_key=44, direction="response", versions="0-1", flexible="1+")
class IncrementalAlterConfigsResponse:
    """The outcome per resource."""

    throttle_time_ms: int = int32()
    responses: list[AlterConfigsResourceResponse] = array(AlterConfigsResourceResponse)
