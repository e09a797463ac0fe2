"""AlterConfigs (33): replace all settings of a topic or broker, the older way. 2 is flexible."""

from __future__ import annotations

from broker.wire.schema import array, boolean, int8, int16, int32, message, string, struct


@struct
class AlterableConfig:
    """One setting as it shall be."""

    name: str = string()
    value: str | None = string(nullable="0+")


@struct
class AlterConfigsResource:
    """All settings of one topic (type 2) or broker (4); what is left out goes back to its
    default.
    """

    resource_type: int = int8()
    resource_name: str = string()
    configs: list[AlterableConfig] = array(AlterableConfig)


@message(api_key=33, direction="request", versions="0-2", flexible="2+")
class AlterConfigsRequest:
    """Resources; with `validate_only` nothing is changed."""

    resources: list[AlterConfigsResource] = array(AlterConfigsResource)
    validate_only: bool = boolean()


@struct
class AlterConfigsResourceResponse:
    """Changed, or why not."""

    error_code: int = int16()
    error_message: str | None = string(nullable="0+")
    resource_type: int = int8()
    resource_name: str = string()


@message(api_key=33, direction="response", versions="0-2", flexible="2+")
class AlterConfigsResponse:
    """The outcome per resource."""

    throttle_time_ms: int = int32()
    responses: list[AlterConfigsResourceResponse] = array(AlterConfigsResourceResponse)
