"""The dispatch table as a running broker uses it: function, kind, API and metrics in one row by
API key.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

from broker.metrics import Metrics
from broker.server.dispatch import HANDLERS, Kind
from broker.server.request_metrics import ApiMetrics, bind_api_metrics
from broker.wire.api import APIS, Api


class Route(NamedTuple):
    """Where requests of one API go."""

    api: Api
    kind: Kind
    handle: Callable[..., Any]
    metrics: ApiMetrics


def build_routes(metrics: Metrics) -> dict[int, Route]:
    """One route for each row of HANDLERS."""
    api_metrics = bind_api_metrics(metrics)
    return {
        row.api_key: Route(APIS[row.api_key], row.kind, row.handle, api_metrics[row.api_key])
        for row in HANDLERS
    }
