"""Every metric declared once, and the light objects that count. No clock, no I/O, no names of
Prometheus' client.

`Metrics` is the table: a field per metric. Names follow Prometheus (`hermes_`, base units, `_total`
for counters). Hot paths bind their labels once (`labels(api="Produce")`) and then call `add`, `set`
or `observe` on plain numbers. A metric marked `is_computed` holds nothing: the scrape computes its
samples from the broker's state. Label values are bounded: beyond `CHILDREN_MAX` children of one
metric, all further ones share the child `other`.
"""

from __future__ import annotations

import dataclasses
from bisect import bisect_left
from collections.abc import Callable, Iterator, Sequence
from enum import StrEnum
from typing import Any, Final, Generic, TypeVar, cast

CHILDREN_MAX: Final = 2_000
OVERFLOW_LABEL: Final = "other"
DURATION_BOUNDS: Final = tuple(round(0.0001 * 2 ** (step / 2), 9) for step in range(40))
"""Seconds, from 0.1 ms to 74 s, each the square root of two above the one before."""
QUANTILES: Final = (0.5, 0.9, 0.99, 0.999)
RECENT_WINDOW_MS: Final = 60_000.0


class MetricKind(StrEnum):
    """Prometheus' types."""

    COUNTER = "counter"
    GAUGE = "gauge"
    HISTOGRAM = "histogram"


@dataclasses.dataclass(frozen=True, slots=True)
class MetricSpec:
    """One row: what is counted, in which unit (the name's ending says it), by which labels."""

    name: str
    kind: MetricKind
    documentation: str
    labels: tuple[str, ...] = ()
    is_computed: bool = False


class Value:
    """One number of a counter or gauge."""

    __slots__ = ("value",)

    def __init__(self) -> None:
        self.value: float = 0

    def add(self, amount: float = 1) -> None:
        """Counters take amounts of 0 and above only."""
        self.value += amount

    def set(self, value: float) -> None:
        """Gauges only."""
        self.value = value


class Distribution:
    """Counts of observations by bucket.

    `counts[i]` lie in (bounds[i-1], bounds[i]], the last one above all bounds.
    """

    __slots__ = ("_earlier", "_mark", "_mark_ms", "counts", "sum")

    def __init__(self) -> None:
        self.counts = [0] * (len(DURATION_BOUNDS) + 1)
        self.sum = 0.0
        self._mark: list[int] = [0] * len(self.counts)
        self._earlier: list[int] = self._mark
        self._mark_ms: float | None = None

    def observe(self, seconds: float) -> None:
        self.counts[bisect_left(DURATION_BOUNDS, seconds)] += 1
        self.sum += seconds

    @property
    def count(self) -> int:
        return sum(self.counts)

    def recent_counts(self, now_ms: float) -> list[int]:
        """Counts of the last one to two windows (since the start, before the first is over).

        A scrape drives it.
        """
        if self._mark_ms is None:
            self._mark_ms = now_ms
        elif now_ms - self._mark_ms >= RECENT_WINDOW_MS:
            self._earlier, self._mark, self._mark_ms = self._mark, list(self.counts), now_ms
        return [now - then for now, then in zip(self.counts, self._earlier, strict=True)]

    def percentile(self, quantile: float) -> float | None:
        """Seconds below which that share of all observations lies; None without any."""
        return percentile(self.counts, quantile)


C = TypeVar("C", Value, Distribution)


class Metric(Generic[C]):
    """A declared metric and its children by label values."""

    __slots__ = ("_make", "children", "spec")

    def __init__(self, spec: MetricSpec, make: Callable[[], C]) -> None:
        self.spec = spec
        self._make: Callable[[], C] = make
        self.children: dict[tuple[str, ...], C] = (
            {} if spec.labels or spec.is_computed else {(): make()}
        )

    def labels(self, **labels: str) -> C:
        """The child with these label values, made when new; keep it on hot paths."""
        assert len(labels) == len(self.spec.labels), (
            f"{self.spec.name} has the labels {self.spec.labels}"
        )
        key = tuple(labels[name] for name in self.spec.labels)
        child = self.children.get(key)
        if child is None:
            if len(self.children) >= CHILDREN_MAX:
                key = (OVERFLOW_LABEL,) * len(key)
            child = self.children.setdefault(key, self._make())
        return child

    def forget(self, **labels: str) -> None:
        """Drop every child with these values of some of the labels: its object is gone."""
        wanted = {self.spec.labels.index(name): value for name, value in labels.items()}
        for key in [key for key in self.children if all(key[i] == v for i, v in wanted.items())]:
            del self.children[key]


class Counter(Metric[Value]):
    """Only grows."""

    __slots__ = ()

    def add(self, amount: float = 1, **labels: str) -> None:
        (self.labels(**labels) if labels else self.children[()]).value += amount


class Gauge(Metric[Value]):
    """Goes up and down."""

    __slots__ = ()

    def add(self, amount: float = 1, **labels: str) -> None:
        (self.labels(**labels) if labels else self.children[()]).value += amount

    def set(self, value: float, **labels: str) -> None:
        (self.labels(**labels) if labels else self.children[()]).value = value


class Histogram(Metric[Distribution]):
    """Durations in fixed log-scaled buckets."""

    __slots__ = ()

    def observe(self, seconds: float, **labels: str) -> None:
        (self.labels(**labels) if labels else self.children[()]).observe(seconds)


def percentile(counts: Sequence[int], quantile: float) -> float | None:
    """The value below which `quantile` (0 to 1) of the observations lie, interpolated in its
    bucket; None without any.

    An observation above the last bound counts as that bound.
    """
    total = sum(counts)
    if total == 0:
        return None
    rank = quantile * total
    below = 0
    for index, count in enumerate(counts):
        if count and below + count >= rank:
            if index == len(DURATION_BOUNDS):
                break
            low = DURATION_BOUNDS[index - 1] if index else 0.0
            return low + (DURATION_BOUNDS[index] - low) * max(0.0, rank - below) / count
        below += count
    return DURATION_BOUNDS[-1]


def _counter(
    name: str, documentation: str, labels: tuple[str, ...] = (), *, computed: bool = False
) -> Counter:
    spec = MetricSpec(name, MetricKind.COUNTER, documentation, labels, computed)
    return _field(spec, lambda: Counter(spec, Value))


def _gauge(
    name: str, documentation: str, labels: tuple[str, ...] = (), *, computed: bool = False
) -> Gauge:
    spec = MetricSpec(name, MetricKind.GAUGE, documentation, labels, computed)
    return _field(spec, lambda: Gauge(spec, Value))


def _histogram(name: str, documentation: str, labels: tuple[str, ...] = ()) -> Histogram:
    spec = MetricSpec(name, MetricKind.HISTOGRAM, documentation, labels)
    return _field(spec, lambda: Histogram(spec, Distribution))


M = TypeVar("M")


def _field(spec: MetricSpec, make: Callable[[], M]) -> M:
    field: Any = dataclasses.field(default_factory=make, metadata={"spec": spec})
    return cast("M", field)


_PARTITION: Final = ("topic", "partition")
_GROUP_PARTITION: Final = ("group", "topic", "partition")


@dataclasses.dataclass(slots=True)
class Metrics:
    """One broker's metrics. The attribute is the metric's name without `hermes_`."""

    # Requests.
    requests_total: Counter = _counter("hermes_requests_total", "Requests received.", ("api",))
    request_errors_total: Counter = _counter(
        "hermes_request_errors_total",
        "Error codes in answers, one for each topic, partition or group refused.",
        ("api", "error"),
    )
    request_duration_seconds: Histogram = _histogram(
        "hermes_request_duration_seconds",
        "From a request's last byte to its answer handed to the socket.",
        ("api",),
    )
    request_duration_quantile_seconds: Gauge = _gauge(
        "hermes_request_duration_quantile_seconds",
        "The quantile of hermes_request_duration_seconds over the last one to two minutes.",
        ("api", "quantile"),
        computed=True,
    )
    queued_requests: Gauge = _gauge(
        "hermes_queued_requests",
        "Requests received and not answered yet, parked fetches and joins included.",
    )
    queued_responses: Gauge = _gauge(
        "hermes_queued_responses",
        "Connections whose answers wait in memory for their client to read.",
    )
    inflight_bytes: Gauge = _gauge(
        "hermes_inflight_bytes",
        "Bytes held for requests, half-received ones included, and for answers of fetches.",
    )
    parked_fetches: Gauge = _gauge("hermes_parked_fetches", "Fetches that wait for records.")
    malformed_requests_total: Counter = _counter(
        "hermes_malformed_requests_total",
        "Connections closed because of what they sent.",
        ("reason",),
    )
    fetch_sessions: Gauge = _gauge(
        "hermes_fetch_sessions", "Incremental fetch sessions kept.", computed=True
    )
    fetch_sessions_evicted_total: Counter = _counter(
        "hermes_fetch_sessions_evicted_total",
        "Fetch sessions that gave way to a new one.",
        computed=True,
    )

    # Connections.
    connections: Gauge = _gauge("hermes_connections", "Open client connections.")
    connections_opened_total: Counter = _counter(
        "hermes_connections_opened_total", "Client connections accepted."
    )
    connections_closed_total: Counter = _counter(
        "hermes_connections_closed_total", "Client connections closed, by reason.", ("reason",)
    )
    connections_refused_total: Counter = _counter(
        "hermes_connections_refused_total", "Client connections refused by a limit.", ("reason",)
    )

    # Data.
    batches_opened_total: Counter = _counter(
        "hermes_batches_opened_total",
        "Batches of clients opened before they were stored (record.validation, compression.type), "
        "on the event loop or in the worker process.",
        ("place",),
    )
    records_in_total: Counter = _counter(
        "hermes_records_in_total", "Records appended for clients.", ("topic",)
    )
    bytes_in_total: Counter = _counter(
        "hermes_bytes_in_total", "Bytes of batches appended for clients.", ("topic",)
    )
    records_out_total: Counter = _counter(
        "hermes_records_out_total", "Records sent to consumers.", ("topic",)
    )
    bytes_out_total: Counter = _counter(
        "hermes_bytes_out_total", "Bytes of batches sent to consumers.", ("topic",)
    )
    fetch_reads_total: Counter = _counter(
        "hermes_fetch_reads_total",
        "Reads of a partition for fetches, by where the records were: page_cache, read at once on "
        "the loop, or device, read by a thread because at least a part was not in memory.",
        ("source",),
    )
    fetch_read_bytes_total: Counter = _counter(
        "hermes_fetch_read_bytes_total",
        "Bytes of the reads that hermes_fetch_reads_total counts. What the system read ahead "
        "counts as page_cache.",
        ("source",),
    )
    duplicate_batches_total: Counter = _counter(
        "hermes_duplicate_batches_total",
        "Retried batches of idempotent producers that were in the log already.",
    )
    log_flush_duration_seconds: Histogram = _histogram(
        "hermes_log_flush_duration_seconds", "Writing what was staged for one partition."
    )
    sync_rounds_total: Counter = _counter(
        "hermes_sync_rounds_total",
        "Sync rounds of topics with durability=fsync: direct (file by file) or by syncfs.",
        ("way",),
    )
    synced_files_total: Counter = _counter(
        "hermes_synced_files_total",
        "Files that sync rounds made durable; divided by the rounds, the files of a round.",
        ("way",),
    )
    sync_round_duration_seconds: Histogram = _histogram(
        "hermes_sync_round_duration_seconds",
        "What the device took for a sync round: every write of it waits that long.",
        ("way",),
    )
    unsynced_bytes: Gauge = _gauge(
        "hermes_unsynced_bytes",
        "Bytes written to topics with durability=fsync that no sync round has made durable yet.",
        computed=True,
    )
    segments_rolled_total: Counter = _counter(
        "hermes_segments_rolled_total", "Segments closed for a new one."
    )
    retention_deleted_segments_total: Counter = _counter(
        "hermes_retention_deleted_segments_total", "Segments deleted because of age or size."
    )
    retention_deleted_bytes_total: Counter = _counter(
        "hermes_retention_deleted_bytes_total", "Bytes of segments deleted because of age or size."
    )
    cleaner_runs_total: Counter = _counter(
        "hermes_cleaner_runs_total",
        "Compactions of a partition: cleaned, nothing (to remove), failed (the next goes on).",
        ("outcome",),
    )
    cleaner_duration_seconds: Histogram = _histogram(
        "hermes_cleaner_duration_seconds", "One compaction of a partition, its pauses included."
    )
    cleaner_removed_bytes_total: Counter = _counter(
        "hermes_cleaner_removed_bytes_total", "Bytes that compaction took out of segments."
    )
    cleaner_read_bytes_total: Counter = _counter(
        "hermes_cleaner_read_bytes_total", "Bytes of segments that compaction read."
    )
    cleaner_written_bytes_total: Counter = _counter(
        "hermes_cleaner_written_bytes_total", "Bytes of new segments that compaction wrote."
    )
    cleaner_last_run_timestamp_seconds: Gauge = _gauge(
        "hermes_cleaner_last_run_timestamp_seconds",
        "When a compaction last came to its end, in seconds since 1970; 0 before the first.",
    )
    cleaner_dirty_ratio: Gauge = _gauge(
        "hermes_cleaner_dirty_ratio",
        "The share of a compacted partition's closed segments that no compaction has seen yet.",
        ("topic", "partition"),
        computed=True,
    )
    cleaner_uncleanable_partitions: Gauge = _gauge(
        "hermes_cleaner_uncleanable_partitions",
        "Partitions of which compaction leaves a part as it is, because that is damaged or cannot "
        "be opened; the broker's log names it.",
        computed=True,
    )
    recoveries_total: Counter = _counter(
        "hermes_recoveries_total",
        "Partitions opened at start: intact, repaired (a torn or damaged part cut off), offline.",
        ("outcome",),
    )
    disk_faults_total: Counter = _counter(
        "hermes_disk_faults_total",
        "Disk faults: full, fault (took a partition offline), read (a place cannot be read).",
        ("kind",),
    )
    metastore_faults_total: Counter = _counter(
        "hermes_metastore_faults_total", "Failed metastore operations."
    )

    # Partitions, computed at each scrape.
    topics: Gauge = _gauge("hermes_topics", "Topics, internal ones included.", computed=True)
    partitions: Gauge = _gauge("hermes_partitions", "Partitions on this node.", computed=True)
    offline_partitions: Gauge = _gauge(
        "hermes_offline_partitions",
        "Partitions that a fault took offline; each needs an operator.",
        computed=True,
    )
    partition_offline: Gauge = _gauge(
        "hermes_partition_offline",
        "1 for each partition that a fault took offline, absent for the others.",
        _PARTITION,
        computed=True,
    )
    log_size_bytes: Gauge = _gauge(
        "hermes_log_size_bytes", "Bytes of a partition's segments.", _PARTITION, computed=True
    )
    log_start_offset: Gauge = _gauge(
        "hermes_log_start_offset",
        "The first offset that a partition still holds.",
        _PARTITION,
        computed=True,
    )
    high_watermark: Gauge = _gauge(
        "hermes_high_watermark",
        "The end of what is committed of a partition; consumers may read up to there, or to where "
        "a delivery window ends.",
        _PARTITION,
        computed=True,
    )

    delivery_delayed_records: Gauge = _gauge(
        "hermes_delivery_delayed_records",
        "Records that consumers do not see yet (delivery.delay.ms); of topics with a delivery "
        "window only.",
        _PARTITION,
        computed=True,
    )
    delivery_expired_records: Gauge = _gauge(
        "hermes_delivery_expired_records",
        "Records still on disk that consumers do not see any more (delivery.ttl.ms); of topics "
        "with a delivery window only.",
        _PARTITION,
        computed=True,
    )
    delivery_wake_delay_seconds: Histogram = _histogram(
        "hermes_delivery_wake_delay_seconds",
        "How long after its time (delivery.delay.ms) a record woke the fetches that waited for it.",
    )

    # Groups.
    groups: Gauge = _gauge("hermes_groups", "Groups by state.", ("state",), computed=True)
    group_members: Gauge = _gauge(
        "hermes_group_members", "Members of a group.", ("group",), computed=True
    )
    group_rebalances_total: Counter = _counter(
        "hermes_group_rebalances_total", "Rebalances completed: generations begun.", ("group",)
    )
    offset_commits_total: Counter = _counter(
        "hermes_offset_commits_total", "Offsets committed.", ("group",)
    )
    group_committed_offset: Gauge = _gauge(
        "hermes_group_committed_offset",
        "The offset that a group committed.",
        _GROUP_PARTITION,
        computed=True,
    )
    group_lag_records: Gauge = _gauge(
        "hermes_group_lag_records",
        "Records between a group's committed offset and the end of what consumers see; absent "
        "without a commit.",
        _GROUP_PARTITION,
        computed=True,
    )
    group_oldest_unread_seconds: Gauge = _gauge(
        "hermes_group_oldest_unread_seconds",
        "Age, by the broker's clock at append (under delivery.delay.ms: since it came due), of "
        "the first record that a group has not committed; 0 without lag.",
        _GROUP_PARTITION,
        computed=True,
    )

    # The process.
    loop_lag_seconds: Histogram = _histogram(
        "hermes_loop_lag_seconds",
        "How late the event loop ran a timer: the longest step in between.",
    )
    loop_lag_quantile_seconds: Gauge = _gauge(
        "hermes_loop_lag_quantile_seconds",
        "The quantile of hermes_loop_lag_seconds over the last one to two minutes.",
        ("quantile",),
        computed=True,
    )
    descriptors_open: Gauge = _gauge(
        "hermes_descriptors_open", "Open file descriptors.", computed=True
    )
    descriptors_limit: Gauge = _gauge(
        "hermes_descriptors_limit", "File descriptors allowed.", computed=True
    )
    disk_used_bytes: Gauge = _gauge(
        "hermes_disk_used_bytes", "Used bytes of the data directory's file system.", computed=True
    )
    disk_free_bytes: Gauge = _gauge(
        "hermes_disk_free_bytes", "Free bytes of the data directory's file system.", computed=True
    )
    disk_low: Gauge = _gauge(
        "hermes_disk_low",
        "1 while clients' records are refused because space is low, else 0.",
        computed=True,
    )
    disk_low_mark_bytes: Gauge = _gauge(
        "hermes_disk_low_mark_bytes",
        "With less free space than this clients' records are refused.",
        computed=True,
    )
    process_resident_memory_bytes: Gauge = _gauge(
        "hermes_process_resident_memory_bytes",
        "Resident memory of the broker process.",
        computed=True,
    )
    process_cpu_seconds_total: Counter = _counter(
        "hermes_process_cpu_seconds_total", "Processor time of the broker process.", computed=True
    )
    uptime_seconds: Gauge = _gauge(
        "hermes_uptime_seconds", "Time since the broker started.", computed=True
    )
    ready: Gauge = _gauge("hermes_ready", "1 when the broker serves, else 0.", computed=True)
    node_info: Gauge = _gauge(
        "hermes_node_info",
        "Always 1; the labels say who answers.",
        ("node_id", "cluster_id", "version"),
        computed=True,
    )

    def all(self) -> Iterator[Metric[Any]]:
        """Every metric, in the table's order."""
        for field in dataclasses.fields(self):
            yield getattr(self, field.name)


METRICS: Final[tuple[MetricSpec, ...]] = tuple(
    f.metadata["spec"] for f in dataclasses.fields(Metrics)
)


@dataclasses.dataclass(slots=True)
class GatewayMetrics:
    """One HTTP gateway's metrics. The attribute is the metric's name without `hermes_gateway_`."""

    requests_total: Counter = _counter(
        "hermes_gateway_requests_total",
        "Requests answered, by operation and status.",
        ("operation", "status"),
    )
    problems_total: Counter = _counter(
        "hermes_gateway_problems_total",
        "Refusals by their code, one for each message of a batch.",
        ("code",),
    )
    request_duration_seconds: Histogram = _histogram(
        "hermes_gateway_request_duration_seconds",
        "From a request's head to its answer handed to the socket.",
        ("operation",),
    )
    connections: Gauge = _gauge("hermes_gateway_connections", "Open client connections.")
    connections_refused_total: Counter = _counter(
        "hermes_gateway_connections_refused_total",
        "Connections closed at once, or for what their client did not send in time.",
        ("reason",),
    )
    inflight_bytes: Gauge = _gauge(
        "hermes_gateway_inflight_bytes", "Bytes of requests and of messages not stored yet."
    )
    messages_stored_total: Counter = _counter(
        "hermes_gateway_messages_stored_total", "Messages stored for clients."
    )
    messages_fetched_total: Counter = _counter(
        "hermes_gateway_messages_fetched_total", "Messages handed out to clients."
    )
    parked_fetches: Gauge = _gauge("hermes_gateway_parked_fetches", "Fetches under way.")
    duplicates_total: Counter = _counter(
        "hermes_gateway_duplicates_total", "Messages answered with the first answer to their id."
    )
    double_stores_total: Counter = _counter(
        "hermes_gateway_double_stores_total",
        "Messages stored twice, because a request of the process before arrived after the new one "
        "had looked.",
    )
    ids: Gauge = _gauge("hermes_gateway_ids", "messageIds remembered.")
    ids_unrecorded: Gauge = _gauge(
        "hermes_gateway_ids_unrecorded", "messageIds that are not in the ids topic yet."
    )
    recovered_ids_total: Counter = _counter(
        "hermes_gateway_recovered_ids_total",
        "messageIds read at start: from the ids topic, or from the topics themselves.",
        ("source",),
    )
    ready: Gauge = _gauge("hermes_gateway_ready", "1 when messages are accepted, else 0.")
    process_cpu_seconds_total: Counter = _counter(
        "hermes_gateway_process_cpu_seconds_total", "Processor time of the gateway."
    )
    process_resident_memory_bytes: Gauge = _gauge(
        "hermes_gateway_process_resident_memory_bytes", "Resident memory of the gateway."
    )

    def all(self) -> Iterator[Metric[Any]]:
        """Every metric, in the table's order."""
        for field in dataclasses.fields(self):
            yield getattr(self, field.name)


GATEWAY_METRICS: Final[tuple[MetricSpec, ...]] = tuple(
    f.metadata["spec"] for f in dataclasses.fields(GatewayMetrics)
)
