"""From effective settings to what a partition's log needs to know."""

from __future__ import annotations

from broker.config.broker import BrokerSettings
from broker.config.topic import TopicSettings
from broker.log.config import COMPACT, LogConfig
from broker.records.batch import BatchRules
from broker.records.intake import Intake, stored_codec
from broker.records.rules import RecordRules


def log_config(topic: TopicSettings, broker: BrokerSettings) -> LogConfig:
    """The log's snapshot of a topic's settings."""
    return LogConfig(
        segment_bytes=topic.segment_bytes,
        segment_ms=topic.segment_ms,
        retention_ms=topic.retention_ms,
        retention_bytes=topic.retention_bytes,
        index_interval_bytes=topic.index_interval_bytes,
        max_message_bytes=topic.max_message_bytes,
        cleanup_policy=frozenset(topic.cleanup_policy),
        delete_retention_ms=topic.delete_retention_ms,
        min_cleanable_dirty_ratio=topic.min_cleanable_dirty_ratio,
        min_compaction_lag_ms=topic.min_compaction_lag_ms,
        max_compaction_lag_ms=topic.max_compaction_lag_ms,
        message_timestamp_type=topic.message_timestamp_type,
        message_timestamp_before_max_ms=topic.message_timestamp_before_max_ms,
        message_timestamp_after_max_ms=topic.message_timestamp_after_max_ms,
        producer_id_expiration_ms=broker.producer_id_expiration_ms,
    )


def intake_of(topic: TopicSettings, batch_rules: BatchRules) -> Intake | None:
    """What is done with the inside of the topic's batches; None: they are not opened."""
    codec = stored_codec(topic.compression_type)
    records = None
    if topic.record_validation == "full":
        records = RecordRules(
            record_bytes_max=topic.max_record_bytes,
            headers_max=topic.max_record_headers,
            header_bytes_max=topic.max_record_header_bytes,
            is_key_required=COMPACT in topic.cleanup_policy,
        )
    return None if records is None and codec is None else Intake(batch_rules, records, codec)
