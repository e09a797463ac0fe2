"""DescribeCluster (60): cluster id, controller and brokers. Always flexible."""

from __future__ import annotations

from broker.wire.schema import array, boolean, int8, int16, int32, message, string, struct


@message(api_key=60, direction="request", versions="0-2", flexible="0+")
class DescribeClusterRequest:
    """`endpoint_type` 1 asks for brokers, 2 for controllers."""

    include_cluster_authorized_operations: bool = boolean()
    endpoint_type: int = int8(1, versions="1+")
    include_fenced_brokers: bool = boolean(versions="2+")


@struct
class DescribeClusterBroker:
    """A broker and its address."""

    broker_id: int = int32()
    host: str = string()
    port: int = int32()
    rack: str | None = string(None, nullable="0+")
    is_fenced: bool = boolean(versions="2+")


@message(api_key=60, direction="response", versions="0-2", flexible="0+")
class DescribeClusterResponse:
    """The cluster id, its controller and its brokers."""

    throttle_time_ms: int = int32()
    error_code: int = int16()
    error_message: str | None = string(None, nullable="0+")
    endpoint_type: int = int8(1, versions="1+")
    cluster_id: str = string()
    controller_id: int = int32(-1)
    brokers: list[DescribeClusterBroker] = array(DescribeClusterBroker)
    cluster_authorized_operations: int = int32(-(2**31))
