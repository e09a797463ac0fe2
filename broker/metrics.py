"""Every metric declared once. No clock, no I/O, no names of Prometheus' client.

`Metrics` is the table: a field per metric. Names follow Prometheus (`hermes_`, base units, `_total`
for counters). How they count: `broker.measures`.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from typing import Any, Final

from broker.measures import (
    CHILDREN_MAX,
    DURATION_BOUNDS,
    OVERFLOW_LABEL,
    QUANTILES,
    RECENT_WINDOW_MS,
    Counter,
    Distribution,
    Gauge,
    Histogram,
    Metric,
    MetricKind,
    MetricSpec,
    Value,
    counter,
    gauge,
    histogram,
    percentile,
)

__all__ = [
    "CHILDREN_MAX",
    "DURATION_BOUNDS",
    "GATEWAY_METRICS",
    "METRICS",
    "OVERFLOW_LABEL",
    "QUANTILES",
    "RECENT_WINDOW_MS",
    "Distribution",
    "GatewayMetrics",
    "Metric",
    "MetricKind",
    "MetricSpec",
    "Metrics",
    "Value",
    "percentile",
]

_PARTITION: Final = ("topic", "partition")
_GROUP_PARTITION: Final = ("group", "topic", "partition")


@dataclasses.dataclass(slots=True, eq=False, repr=False)
class Metrics:
    """One broker's metrics. The attribute is the metric's name without `hermes_`."""

    # Requests.
    requests_total: Counter = counter("hermes_requests_total", "Requests received.", ("api",))
    request_errors_total: Counter = counter(
        "hermes_request_errors_total",
        "Error codes in answers, one for each topic, partition or group refused.",
        ("api", "error"),
    )
    request_duration_seconds: Histogram = histogram(
        "hermes_request_duration_seconds",
        "From a request's last byte to its answer handed to the socket.",
        ("api",),
    )
    request_duration_quantile_seconds: Gauge = gauge(
        "hermes_request_duration_quantile_seconds",
        "The quantile of hermes_request_duration_seconds over the last one to two minutes.",
        ("api", "quantile"),
        computed=True,
    )
    queued_requests: Gauge = gauge(
        "hermes_queued_requests",
        "Requests received and not answered yet, parked fetches and joins included.",
    )
    queued_responses: Gauge = gauge(
        "hermes_queued_responses",
        "Connections whose answers wait in memory for their client to read.",
    )
    inflight_bytes: Gauge = gauge(
        "hermes_inflight_bytes",
        "Bytes held for requests, half-received ones included, and for answers of fetches.",
    )
    parked_fetches: Gauge = gauge("hermes_parked_fetches", "Fetches that wait for records.")
    malformed_requests_total: Counter = counter(
        "hermes_malformed_requests_total",
        "Connections closed because of what they sent.",
        ("reason",),
    )
    fetch_sessions: Gauge = gauge(
        "hermes_fetch_sessions", "Incremental fetch sessions kept.", computed=True
    )
    fetch_sessions_evicted_total: Counter = counter(
        "hermes_fetch_sessions_evicted_total",
        "Fetch sessions that gave way to a new one.",
        computed=True,
    )

    # Connections.
    connections: Gauge = gauge("hermes_connections", "Open client connections.")
    connections_opened_total: Counter = counter(
        "hermes_connections_opened_total", "Client connections accepted."
    )
    connections_closed_total: Counter = counter(
        "hermes_connections_closed_total", "Client connections closed, by reason.", ("reason",)
    )
    connections_refused_total: Counter = counter(
        "hermes_connections_refused_total", "Client connections refused by a limit.", ("reason",)
    )

    # Data.
    batches_opened_total: Counter = counter(
        "hermes_batches_opened_total",
        "Batches of clients opened before they were stored (record.validation, compression.type), "
        "on the event loop or in the worker process.",
        ("place",),
    )
    records_in_total: Counter = counter(
        "hermes_records_in_total", "Records appended for clients.", ("topic",)
    )
    bytes_in_total: Counter = counter(
        "hermes_bytes_in_total", "Bytes of batches appended for clients.", ("topic",)
    )
    records_out_total: Counter = counter(
        "hermes_records_out_total", "Records sent to consumers.", ("topic",)
    )
    bytes_out_total: Counter = counter(
        "hermes_bytes_out_total", "Bytes of batches sent to consumers.", ("topic",)
    )
    fetch_reads_total: Counter = counter(
        "hermes_fetch_reads_total",
        "Reads of a partition for fetches, by where the records were: page_cache, read at once on "
        "the loop, or device, read by a thread because at least a part was not in memory.",
        ("source",),
    )
    fetch_read_bytes_total: Counter = counter(
        "hermes_fetch_read_bytes_total",
        "Bytes of the reads that hermes_fetch_reads_total counts. What the system has read ahead "
        "by then counts as page_cache.",
        ("source",),
    )
    duplicate_batches_total: Counter = counter(
        "hermes_duplicate_batches_total",
        "Retried batches of idempotent producers that were in the log already.",
    )
    log_flush_duration_seconds: Histogram = histogram(
        "hermes_log_flush_duration_seconds", "Writing what was staged for one partition."
    )
    sync_rounds_total: Counter = counter(
        "hermes_sync_rounds_total",
        "Syncs of topics with durability=fsync: rounds to the journal, direct (file by file) or by "
        "syncfs; settle is the sync of the files of one half of the journal, beside the rounds.",
        ("way",),
    )
    synced_files_total: Counter = counter(
        "hermes_synced_files_total",
        "Files that sync rounds made durable (with the journal, those whose records it took); "
        "divided by the rounds, the files of a round.",
        ("way",),
    )
    journal_replayed_records_total: Counter = counter(
        "hermes_journal_replayed_records_total",
        "Records of the journal that this process's start found after a crash, needed or not.",
    )
    sync_round_duration_seconds: Histogram = histogram(
        "hermes_sync_round_duration_seconds",
        "How long a sync round took: its writes wait that long; settle has none.",
        ("way",),
    )
    unsynced_bytes: Gauge = gauge(
        "hermes_unsynced_bytes",
        "Bytes written to topics with durability=fsync that no sync round has made durable yet.",
        computed=True,
    )
    segments_rolled_total: Counter = counter(
        "hermes_segments_rolled_total", "Segments closed for a new one."
    )
    retention_deleted_segments_total: Counter = counter(
        "hermes_retention_deleted_segments_total", "Segments deleted because of age or size."
    )
    retention_deleted_bytes_total: Counter = counter(
        "hermes_retention_deleted_bytes_total", "Bytes of segments deleted because of age or size."
    )
    cleaner_runs_total: Counter = counter(
        "hermes_cleaner_runs_total",
        "Compactions of a partition: cleaned, nothing (to remove), failed (the next goes on), "
        "paused (space is low).",
        ("outcome",),
    )
    cleaner_duration_seconds: Histogram = histogram(
        "hermes_cleaner_duration_seconds", "One compaction of a partition, its pauses included."
    )
    cleaner_removed_bytes_total: Counter = counter(
        "hermes_cleaner_removed_bytes_total", "Bytes that compaction took out of segments."
    )
    cleaner_read_bytes_total: Counter = counter(
        "hermes_cleaner_read_bytes_total", "Bytes of segments that compaction read."
    )
    cleaner_written_bytes_total: Counter = counter(
        "hermes_cleaner_written_bytes_total", "Bytes of new segments that compaction wrote."
    )
    cleaner_last_run_timestamp_seconds: Gauge = gauge(
        "hermes_cleaner_last_run_timestamp_seconds",
        "When a compaction last came to its end, in seconds since 1970; 0 before the first.",
    )
    cleaner_dirty_ratio: Gauge = gauge(
        "hermes_cleaner_dirty_ratio",
        "The share of a compacted partition's closed segments that no compaction has seen yet.",
        ("topic", "partition"),
        computed=True,
    )
    cleaner_uncleanable_partitions: Gauge = gauge(
        "hermes_cleaner_uncleanable_partitions",
        "Partitions of which compaction leaves a part as it is, because that is damaged or cannot "
        "be opened; the broker's log names it.",
        computed=True,
    )
    recoveries_total: Counter = counter(
        "hermes_recoveries_total",
        "Partitions opened at start: intact, repaired (a torn or damaged part cut off), offline.",
        ("outcome",),
    )
    disk_faults_total: Counter = counter(
        "hermes_disk_faults_total",
        "Disk faults: full, fault (took a partition offline), read (a place cannot be read).",
        ("kind",),
    )
    damaged_ranges: Gauge = gauge(
        "hermes_damaged_ranges",
        "Places in a partition's log that are damaged on disk; only partitions that have any.",
        _PARTITION,
        computed=True,
    )
    damaged_offsets: Gauge = gauge(
        "hermes_damaged_offsets",
        "Offsets that cannot be read because of damage; only partitions that have damaged places.",
        _PARTITION,
        computed=True,
    )
    scrubbed_bytes_total: Counter = counter(
        "hermes_scrubbed_bytes_total", "Stored bytes that were checked for damage."
    )
    scrub_rounds_total: Counter = counter(
        "hermes_scrub_rounds_total", "Times that everything stored was checked for damage."
    )
    scrub_last_round_timestamp_seconds: Gauge = gauge(
        "hermes_scrub_last_round_timestamp_seconds",
        "When the last full round of checks ended (Unix time); absent before the first.",
        computed=True,
    )
    metastore_faults_total: Counter = counter(
        "hermes_metastore_faults_total", "Failed metastore operations."
    )

    # Partitions, computed at each scrape.
    topics: Gauge = gauge("hermes_topics", "Topics, internal ones included.", computed=True)
    partitions: Gauge = gauge("hermes_partitions", "Partitions on this node.", computed=True)
    offline_partitions: Gauge = gauge(
        "hermes_offline_partitions",
        "Partitions that a fault took offline; each needs an operator.",
        computed=True,
    )
    partition_offline: Gauge = gauge(
        "hermes_partition_offline",
        "1 for each partition that a fault took offline, absent for the others.",
        _PARTITION,
        computed=True,
    )
    log_size_bytes: Gauge = gauge(
        "hermes_log_size_bytes", "Bytes of a partition's segments.", _PARTITION, computed=True
    )
    log_start_offset: Gauge = gauge(
        "hermes_log_start_offset",
        "The first offset that a partition still holds.",
        _PARTITION,
        computed=True,
    )
    high_watermark: Gauge = gauge(
        "hermes_high_watermark",
        "The end of what is committed of a partition; consumers may read up to there, or to where "
        "a delivery window ends.",
        _PARTITION,
        computed=True,
    )

    delivery_delayed_records: Gauge = gauge(
        "hermes_delivery_delayed_records",
        "Records that consumers do not see yet (delivery.delay.ms); of topics with a delivery "
        "window only.",
        _PARTITION,
        computed=True,
    )
    delivery_expired_records: Gauge = gauge(
        "hermes_delivery_expired_records",
        "Records still on disk that consumers do not see any more (delivery.ttl.ms); of topics "
        "with a delivery window only.",
        _PARTITION,
        computed=True,
    )
    delivery_wake_delay_seconds: Histogram = histogram(
        "hermes_delivery_wake_delay_seconds",
        "How long after its time (delivery.delay.ms) a record woke the fetches that waited for it.",
    )

    # Groups.
    groups: Gauge = gauge("hermes_groups", "Groups by state.", ("state",), computed=True)
    group_members: Gauge = gauge(
        "hermes_group_members", "Members of a group.", ("group",), computed=True
    )
    group_rebalances_total: Counter = counter(
        "hermes_group_rebalances_total", "Rebalances completed: generations begun.", ("group",)
    )
    offset_commits_total: Counter = counter(
        "hermes_offset_commits_total", "Offsets committed.", ("group",)
    )
    group_committed_offset: Gauge = gauge(
        "hermes_group_committed_offset",
        "The offset that a group committed.",
        _GROUP_PARTITION,
        computed=True,
    )
    group_lag_records: Gauge = gauge(
        "hermes_group_lag_records",
        "Records between a group's committed offset and the end of what consumers see; absent "
        "without a commit.",
        _GROUP_PARTITION,
        computed=True,
    )
    group_oldest_unread_seconds: Gauge = gauge(
        "hermes_group_oldest_unread_seconds",
        "Age, by the broker's clock at append (under delivery.delay.ms: since it came due), of "
        "the first record that a group has not committed; 0 without lag.",
        _GROUP_PARTITION,
        computed=True,
    )

    # The process.
    loop_lag_seconds: Histogram = histogram(
        "hermes_loop_lag_seconds",
        "How late the event loop ran a timer: the longest step in between.",
    )
    loop_lag_quantile_seconds: Gauge = gauge(
        "hermes_loop_lag_quantile_seconds",
        "The quantile of hermes_loop_lag_seconds over the last one to two minutes.",
        ("quantile",),
        computed=True,
    )
    descriptors_open: Gauge = gauge(
        "hermes_descriptors_open", "Open file descriptors.", computed=True
    )
    descriptors_limit: Gauge = gauge(
        "hermes_descriptors_limit", "File descriptors allowed.", computed=True
    )
    disk_used_bytes: Gauge = gauge(
        "hermes_disk_used_bytes",
        "Used bytes of the data directory's file system, as df says.",
        computed=True,
    )
    disk_free_bytes: Gauge = gauge(
        "hermes_disk_free_bytes",
        "Free bytes of the data directory's file system, without those reserved for others.",
        computed=True,
    )
    disk_low: Gauge = gauge(
        "hermes_disk_low",
        "1 while clients' records are refused because space is low, else 0.",
        computed=True,
    )
    disk_low_mark_bytes: Gauge = gauge(
        "hermes_disk_low_mark_bytes",
        "With less free space than this clients' records are refused.",
        computed=True,
    )
    process_resident_memory_bytes: Gauge = gauge(
        "hermes_process_resident_memory_bytes",
        "Resident memory of the broker process.",
        computed=True,
    )
    process_cpu_seconds_total: Counter = counter(
        "hermes_process_cpu_seconds_total", "Processor time of the broker process.", computed=True
    )
    process_device_read_bytes_total: Counter = counter(
        "hermes_process_device_read_bytes_total",
        "Bytes that the system read from the device for the broker, read-ahead included; beside "
        "hermes_fetch_read_bytes_total it tells the page cache's hit ratio.",
        computed=True,
    )
    uptime_seconds: Gauge = gauge(
        "hermes_uptime_seconds", "Time since the broker started.", computed=True
    )
    ready: Gauge = gauge("hermes_ready", "1 when the broker serves, else 0.", computed=True)
    node_info: Gauge = gauge(
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


@dataclasses.dataclass(slots=True, eq=False, repr=False)
class GatewayMetrics:
    """One HTTP gateway's metrics. The attribute is the metric's name without `hermes_gateway_`."""

    requests_total: Counter = counter(
        "hermes_gateway_requests_total",
        "Requests answered, by operation and status.",
        ("operation", "status"),
    )
    problems_total: Counter = counter(
        "hermes_gateway_problems_total",
        "Refusals by their code, one for each message of a batch.",
        ("code",),
    )
    request_duration_seconds: Histogram = histogram(
        "hermes_gateway_request_duration_seconds",
        "From a request's head to its answer handed to the socket.",
        ("operation",),
    )
    connections: Gauge = gauge("hermes_gateway_connections", "Open client connections.")
    connections_refused_total: Counter = counter(
        "hermes_gateway_connections_refused_total",
        "Connections closed at once, or for what their client did not send in time.",
        ("reason",),
    )
    inflight_bytes: Gauge = gauge(
        "hermes_gateway_inflight_bytes", "Bytes of requests and of messages not stored yet."
    )
    messages_stored_total: Counter = counter(
        "hermes_gateway_messages_stored_total", "Messages stored for clients."
    )
    messages_fetched_total: Counter = counter(
        "hermes_gateway_messages_fetched_total", "Messages handed out to clients."
    )
    parked_fetches: Gauge = gauge("hermes_gateway_parked_fetches", "Fetches under way.")
    duplicates_total: Counter = counter(
        "hermes_gateway_duplicates_total", "Messages answered with the first answer to their id."
    )
    double_stores_total: Counter = counter(
        "hermes_gateway_double_stores_total",
        "Messages stored twice, because a request of the process before arrived after the new one "
        "had looked.",
    )
    ids: Gauge = gauge("hermes_gateway_ids", "messageIds remembered.")
    ids_unrecorded: Gauge = gauge(
        "hermes_gateway_ids_unrecorded", "messageIds that are not in the ids topic yet."
    )
    recovered_ids_total: Counter = counter(
        "hermes_gateway_recovered_ids_total",
        "messageIds read at start: from the ids topic, or from the topics themselves.",
        ("source",),
    )
    ready: Gauge = gauge("hermes_gateway_ready", "1 when messages are accepted, else 0.")
    process_cpu_seconds_total: Counter = counter(
        "hermes_gateway_process_cpu_seconds_total", "Processor time of the gateway."
    )
    process_resident_memory_bytes: Gauge = gauge(
        "hermes_gateway_process_resident_memory_bytes", "Resident memory of the gateway."
    )

    def all(self) -> Iterator[Metric[Any]]:
        """Every metric, in the table's order."""
        for field in dataclasses.fields(self):
            yield getattr(self, field.name)


GATEWAY_METRICS: Final[tuple[MetricSpec, ...]] = tuple(
    f.metadata["spec"] for f in dataclasses.fields(GatewayMetrics)
)
