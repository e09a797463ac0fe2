"""ListConfigResources (74): what has settings (KIP-1142). Version 0 asks for client metrics
subscriptions only, as ListClientMetricsResources did. Flexible.
"""

from __future__ import annotations

from broker.wire.schema import INT8, array, int8, int16, int32, message, string, struct


@message(api_key=74, direction="request", versions="0-1", flexible="0+")
class ListConfigResourcesRequest:
    """The resource types wanted; none means every type."""

    resource_types: list[int] = array(INT8, versions="1+")


@struct
class ConfigResource:
    """One resource; its type is 16 (client metrics) where the version has none."""

    resource_name: str = string()
    resource_type: int = int8(16, versions="1+", ignorable=True)


@message(api_key=74, direction="response", versions="0-1", flexible="0+")
class ListConfigResourcesResponse:
    """Every resource of the wanted types."""

    throttle_time_ms: int = int32()
    error_code: int = int16()
    config_resources: list[ConfigResource] = array(ConfigResource)
