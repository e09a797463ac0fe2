"""What a partition's log needs to know of its topic's settings; the shell derives it and may
replace it live.

Not here: parsing or documentation of settings (broker/config). Sizes in bytes, spans in
milliseconds, -1 = no limit.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from broker.model import INT64_MAX
from broker.records.batch import BatchRules

DELETE: Final = "delete"
COMPACT: Final = "compact"
CREATE_TIME: Final = "CreateTime"
LOG_APPEND_TIME: Final = "LogAppendTime"
NO_LIMIT: Final = -1

INDEX_ENTRIES_MAX: Final = 16_384
"""Per segment: a bigger segment gets a sparser index, so that memory stays bounded."""

_WEEK_MS: Final = 7 * 24 * 3600 * 1000
_DAY_MS: Final = 24 * 3600 * 1000


@dataclass(frozen=True, slots=True)
class LogConfig:
    """Kafka's topic settings of these names. `cleanup_policy` holds "delete", "compact" or both."""

    segment_bytes: int = 1024 * 1024 * 1024
    segment_ms: int = _WEEK_MS
    retention_ms: int = _WEEK_MS
    retention_bytes: int = NO_LIMIT
    index_interval_bytes: int = 4096
    max_message_bytes: int = 1024 * 1024 + 12
    cleanup_policy: frozenset[str] = frozenset({DELETE})
    delete_retention_ms: int = _DAY_MS
    min_cleanable_dirty_ratio: float = 0.5
    min_compaction_lag_ms: int = 0
    max_compaction_lag_ms: int = INT64_MAX
    message_timestamp_type: str = CREATE_TIME
    message_timestamp_before_max_ms: int = INT64_MAX
    message_timestamp_after_max_ms: int = 3600 * 1000
    producer_id_expiration_ms: int = _DAY_MS

    @property
    def is_compacted(self) -> bool:
        """True when the cleaner keeps only the newest value of each key."""
        return COMPACT in self.cleanup_policy

    @property
    def is_deleted(self) -> bool:
        """True when retention deletes old segments."""
        return DELETE in self.cleanup_policy

    @property
    def roll_ms(self) -> int:
        """After how long a segment is closed: only what is closed can be cleaned."""
        return (
            min(self.segment_ms, self.max_compaction_lag_ms)
            if self.is_compacted
            else self.segment_ms
        )

    @property
    def index_spacing_bytes(self) -> int:
        """Bytes between index entries."""
        return max(self.index_interval_bytes, self.segment_bytes // INDEX_ENTRIES_MAX)

    def batch_rules(self) -> BatchRules:
        """The part that a batch is validated against."""
        return BatchRules(
            self.max_message_bytes,
            self.message_timestamp_type == LOG_APPEND_TIME,
            self.message_timestamp_before_max_ms,
            self.message_timestamp_after_max_ms,
        )
