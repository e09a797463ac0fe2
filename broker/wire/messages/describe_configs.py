"""DescribeConfigs (32): effective configuration of topics and brokers. 4 is flexible."""

from __future__ import annotations

from broker.wire.schema import STRING, array, boolean, int8, int16, int32, message, string, struct


@struct
class DescribeConfigsResource:
    """A topic (type 2) or broker (4); null keys means all."""

    resource_type: int = int8()
    resource_name: str = string()
    configuration_keys: list[str] | None = array(STRING, nullable="0+")


@message(api_key=32, direction="request", versions="1-4", flexible="4+")
class DescribeConfigsRequest:
    """Resources whose settings are asked for."""

    resources: list[DescribeConfigsResource] = array(DescribeConfigsResource)
    include_synonyms: bool = boolean()
    include_documentation: bool = boolean(versions="3+")


@struct
class DescribeConfigsSynonym:
    """A place that the value could come from, strongest first."""

    name: str = string()
    value: str | None = string(nullable="0+")
    source: int = int8()


@struct
class DescribeConfigsResourceResult:
    """A setting with value, type, origin and documentation."""

    name: str = string()
    value: str | None = string(nullable="0+")
    read_only: bool = boolean()
    config_source: int = int8(-1)
    is_sensitive: bool = boolean()
    synonyms: list[DescribeConfigsSynonym] = array(DescribeConfigsSynonym)
    config_type: int = int8(versions="3+", ignorable=True)
    documentation: str | None = string(versions="3+", nullable="0+", ignorable=True)


@struct
class DescribeConfigsResult:
    """The settings of one resource, or its error."""

    error_code: int = int16()
    error_message: str | None = string(nullable="0+")
    resource_type: int = int8()
    resource_name: str = string()
    configs: list[DescribeConfigsResourceResult] = array(DescribeConfigsResourceResult)


@message(api_key=32, direction="response", versions="1-4", flexible="4+")
class DescribeConfigsResponse:
    """One result per resource."""

    throttle_time_ms: int = int32()
    results: list[DescribeConfigsResult] = array(DescribeConfigsResult)
