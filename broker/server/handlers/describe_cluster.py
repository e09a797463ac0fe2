"""DescribeCluster (60): the cluster's id and brokers."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Final

from broker.errors import ErrorCode
from broker.server.authorized import CLUSTER_OPERATIONS, NOT_ASKED
from broker.server.context import RequestContext
from broker.wire.messages.describe_cluster import (
    DescribeClusterBroker,
    DescribeClusterRequest,
    DescribeClusterResponse,
)

if TYPE_CHECKING:
    from broker.server.node import Broker

BROKERS: Final = 1
CONTROLLERS: Final = 2


def handle_describe_cluster(
    broker: Broker,
    context: RequestContext,
    request: DescribeClusterRequest,
    reply: Callable[[DescribeClusterResponse], None],
) -> None:
    """Only brokers are listed: controllers (endpoint type 2) have no listener of their own."""
    if request.endpoint_type != BROKERS:
        is_known = request.endpoint_type == CONTROLLERS
        code = (
            ErrorCode.MISMATCHED_ENDPOINT_TYPE if is_known else ErrorCode.UNSUPPORTED_ENDPOINT_TYPE
        )
        text = "this is a broker: ask it for brokers (endpoint type 1)"
        reply(DescribeClusterResponse(error_code=code, error_message=text))
        return
    asks = request.include_cluster_authorized_operations
    reply(
        DescribeClusterResponse(
            cluster_authorized_operations=CLUSTER_OPERATIONS if asks else NOT_ASKED,
            cluster_id=broker.cluster_id,
            controller_id=broker.node_id,
            brokers=[
                DescribeClusterBroker(
                    broker_id=broker.node_id,
                    host=broker.advertised_host,
                    port=broker.advertised_port,
                )
            ],
        )
    )
