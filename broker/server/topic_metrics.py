"""What is counted of one topic's data, bound once so that a request only adds."""

from __future__ import annotations

from broker.metrics import Metrics


class TopicMetrics:
    """The data metrics of one topic, bound once; those of reads and flushes are the broker's."""

    __slots__ = (
        "bytes_in",
        "bytes_out",
        "cold_read_bytes",
        "cold_reads",
        "flushes",
        "records_in",
        "records_out",
        "warm_read_bytes",
        "warm_reads",
    )

    def __init__(self, metrics: Metrics, topic: str) -> None:
        self.records_in = metrics.records_in_total.labels(topic=topic)
        self.bytes_in = metrics.bytes_in_total.labels(topic=topic)
        self.flushes = metrics.log_flush_duration_seconds.labels()
        self.records_out = metrics.records_out_total.labels(topic=topic)
        self.bytes_out = metrics.bytes_out_total.labels(topic=topic)
        self.warm_reads = metrics.fetch_reads_total.labels(source="page_cache")
        self.warm_read_bytes = metrics.fetch_read_bytes_total.labels(source="page_cache")
        self.cold_reads = metrics.fetch_reads_total.labels(source="device")
        self.cold_read_bytes = metrics.fetch_read_bytes_total.labels(source="device")
