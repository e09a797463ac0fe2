"""The metrics of each API, bound once so that a request costs two additions and one observation."""

from __future__ import annotations

from broker.errors import ErrorCode
from broker.metrics import Metrics, Value
from broker.wire.api import APIS


class ApiMetrics:
    """Counts of one API."""

    __slots__ = ("_duration", "_errors", "_metrics", "_requests", "name")

    def __init__(self, name: str, metrics: Metrics) -> None:
        self.name = name
        self._metrics = metrics
        self._requests = metrics.requests_total.labels(api=name)
        self._duration = metrics.request_duration_seconds.labels(api=name)
        self._errors: dict[int, Value] = {}

    def count_request(self, count: int = 1) -> None:
        """`count` requests arrived."""
        self._requests.value += count

    def count_answer(self, duration_ms: float, count: int = 1) -> None:
        """The answers of `count` requests, which arrived together, are ready to leave."""
        self._duration.observe(duration_ms / 1000, count)

    def count_error(self, error_code: int) -> None:
        """One error code in an answer."""
        found = self._errors.get(error_code)
        if found is None:
            found = self._errors[error_code] = self._metrics.request_errors_total.labels(
                api=self.name, error=ErrorCode(error_code).name
            )
        found.value += 1


def bind_api_metrics(metrics: Metrics) -> dict[int, ApiMetrics]:
    """One row for each API, by key."""
    return {key: ApiMetrics(api.name, metrics) for key, api in APIS.items()}
