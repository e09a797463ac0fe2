"""What a HermesMQ broker tells of itself at its metrics address: latency by API, loop lag,
connections. Apache Kafka has no such address: then there is nothing to read.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Final

from prometheus_client.parser import text_string_to_metric_families

from hermes_console.metricsaddress import MetricsUnread, read_metrics_text

APIS_SHOWN_MAX: Final = 40
PREFIX: Final = "hermes_"
REQUESTS: Final = "hermes_requests_total"
ERRORS: Final = "hermes_request_errors_total"
QUANTILES: Final = "hermes_request_duration_quantile_seconds"
LOOP_LAG: Final = "hermes_loop_lag_quantile_seconds"
PLAIN: Final = {
    "hermes_connections": "connections",
    "hermes_queued_requests": "queued_requests",
    "hermes_parked_fetches": "parked_fetches",
    "hermes_partitions": "partitions",
    "hermes_offline_partitions": "offline_partitions",
    "hermes_descriptors_open": "descriptors_open",
    "hermes_descriptors_limit": "descriptors_limit",
    "hermes_cleaner_uncleanable_partitions": "uncleanable_partitions",
    "hermes_cleaner_removed_bytes_total": "compacted_bytes",
    "hermes_retention_deleted_bytes_total": "retired_bytes",
    "hermes_scrubbed_bytes_total": "checked_bytes",
}
CLEANINGS: Final = "hermes_cleaner_runs_total"
TIMES: Final = {
    "hermes_cleaner_last_run_timestamp_seconds": "compacted_at_ms",
    "hermes_scrub_last_round_timestamp_seconds": "checked_at_ms",
}
WANTED: Final = (REQUESTS, ERRORS, QUANTILES, LOOP_LAG, CLEANINGS, *PLAIN, *TIMES)


@dataclass(frozen=True, slots=True)
class ApiMetrics:
    """Requests since the broker's start; `quantiles` are (quantile, seconds) of the last window."""

    api: str
    request_count: int
    error_count: int
    quantiles: tuple[tuple[str, float], ...]

    def seconds(self, quantile: str) -> float | None:
        return next((value for name, value in self.quantiles if name == quantile), None)

    @property
    def median_ms(self) -> float | None:
        return _milliseconds(self.seconds("0.5"))

    @property
    def p99_ms(self) -> float | None:
        return _milliseconds(self.seconds("0.99"))


@dataclass(frozen=True, slots=True)
class BrokerMetrics:
    """None where the text has no such line."""

    apis: tuple[ApiMetrics, ...] = ()
    loop_lag: tuple[tuple[str, float], ...] = ()
    connections: int | None = None
    queued_requests: int | None = None
    parked_fetches: int | None = None
    partitions: int | None = None
    offline_partitions: int | None = None
    descriptors_open: int | None = None
    descriptors_limit: int | None = None
    cleanings: Mapping[str, int] = field(default_factory=dict)
    uncleanable_partitions: int | None = None
    compacted_bytes: int | None = None
    retired_bytes: int | None = None
    checked_bytes: int | None = None
    compacted_at_ms: int | None = None
    checked_at_ms: int | None = None

    @property
    def cleaning_count(self) -> int:
        return sum(self.cleanings.values())

    @property
    def failed_cleaning_count(self) -> int:
        return self.cleanings.get("failed", 0)

    @property
    def loop_lag_p99_ms(self) -> float | None:
        return _milliseconds(next((value for name, value in self.loop_lag if name == "0.99"), None))


def fetch_metrics(address: str) -> BrokerMetrics:
    """Raises MetricsUnread."""
    return read_broker_metrics(read_metrics_text(address))


def read_broker_metrics(text: str) -> BrokerMetrics:
    """The numbers of `text`; lines of other metrics are skipped before they are parsed. Pure."""
    requests: dict[str, float] = {}
    errors: dict[str, float] = {}
    quantiles: dict[str, list[tuple[str, float]]] = {}
    loop_lag: list[tuple[str, float]] = []
    cleanings: dict[str, int] = {}
    plain: dict[str, int] = {}
    try:
        families = list(text_string_to_metric_families("\n".join(_wanted_lines(text)) + "\n"))
    except ValueError as error:
        raise MetricsUnread(f"The metrics cannot be read: {error}.") from error
    for sample in (sample for family in families for sample in family.samples):
        api = sample.labels.get("api", "")
        if sample.name == REQUESTS:
            requests[api] = sample.value
        elif sample.name == ERRORS:
            errors[api] = errors.get(api, 0) + sample.value
        elif sample.name == QUANTILES:
            quantiles.setdefault(api, []).append((sample.labels["quantile"], sample.value))
        elif sample.name == LOOP_LAG:
            loop_lag.append((sample.labels["quantile"], sample.value))
        elif sample.name == CLEANINGS:
            cleanings[sample.labels["outcome"]] = int(sample.value)
        elif sample.name in PLAIN:
            plain[PLAIN[sample.name]] = int(sample.value)
        elif sample.name in TIMES and sample.value:
            plain[TIMES[sample.name]] = int(sample.value * 1000)
    by_count = sorted(requests.items(), key=lambda one: (-one[1], one[0]))[:APIS_SHOWN_MAX]
    return BrokerMetrics(
        apis=tuple(
            ApiMetrics(api, int(count), int(errors.get(api, 0)), tuple(quantiles.get(api, ())))
            for api, count in by_count
            if count
        ),
        loop_lag=tuple(loop_lag),
        cleanings=cleanings,
        **plain,
    )


def _wanted_lines(text: str) -> Iterable[str]:
    for line in text.split("\n"):
        if line.startswith(PREFIX):
            name = line.partition(" ")[0].partition("{")[0]
            if name in WANTED:
                yield line


def _milliseconds(seconds: float | None) -> float | None:
    return None if seconds is None else seconds * 1000
