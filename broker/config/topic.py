"""The settings of a topic. Names, types and defaults are Kafka's where Kafka has the setting.

`broker_name` is the cluster-wide default of the setting in the broker's table; `durability` and
`record.validation` are ours and fixed by the requirements.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from typing import Final

from broker.config.setting import Alias, Mirror, Scope, Unit, setting
from broker.model import INT32_MAX, INT64_MAX

FSYNC: Final = "fsync"
REPLICATED: Final = "replicated"

_TOPIC = Scope.TOPIC
_HOUR_MS = 3_600_000
_DAY_MS = 24 * _HOUR_MS


def _check_cleanup_policy(value: tuple[str, ...]) -> str | None:
    return None if value else "must name at least one of delete, compact"


def _check_ttl(value: int) -> str | None:
    return "must be -1 (no limit) or at least 1 ms, found 0" if value == 0 else None


def _check_flush_messages(value: int) -> str | None:
    if value in (1, INT64_MAX):
        return None
    return (
        f"must be 1 (each record is synced before it is acknowledged, as durability=fsync) or "
        f"{INT64_MAX} (durability=replicated), found {value}: a sync now and then would promise "
        "nothing about a record that was acknowledged in between"
    )


def _check_flush_ms(value: int) -> str | None:
    if value == INT64_MAX:
        return None
    return (
        f"must be {INT64_MAX}, found {value}: there are no timed syncs; set durability=fsync "
        "(flush.messages=1), which syncs before it acknowledges"
    )


@dataclasses.dataclass(frozen=True, slots=True)
class TopicSettings:
    """One snapshot of a topic's effective settings."""

    retention_ms: int = setting(
        "retention.ms",
        7 * _DAY_MS,
        "How long a closed segment is kept after its last append, by the broker's clock; -1 "
        "keeps it for ever.",
        unit=Unit.MS,
        minimum=-1,
        maximum=INT64_MAX,
        scope=_TOPIC,
        live=True,
        broker_name="log.retention.ms",
        aliases=(Alias("log.retention.minutes", 60_000), Alias("log.retention.hours", _HOUR_MS)),
    )
    retention_bytes: int = setting(
        "retention.bytes",
        -1,
        "How many bytes of a partition are kept; the oldest closed segments beyond it are "
        "deleted. -1 sets no limit.",
        unit=Unit.BYTES,
        minimum=-1,
        maximum=INT64_MAX,
        scope=_TOPIC,
        live=True,
        broker_name="log.retention.bytes",
    )
    segment_bytes: int = setting(
        "segment.bytes",
        1 << 30,
        "A segment is closed before it would grow beyond this size.",
        unit=Unit.BYTES,
        minimum=1024,
        maximum=INT32_MAX,
        scope=_TOPIC,
        live=True,
        broker_name="log.segment.bytes",
    )
    segment_ms: int = setting(
        "segment.ms",
        7 * _DAY_MS,
        "A segment is closed this long after its first append, by the broker's clock.",
        unit=Unit.MS,
        minimum=1,
        maximum=INT64_MAX,
        scope=_TOPIC,
        live=True,
        broker_name="log.roll.ms",
        aliases=(Alias("log.roll.hours", _HOUR_MS),),
    )
    index_interval_bytes: int = setting(
        "index.interval.bytes",
        4096,
        "An index entry is written for about this many bytes of log.",
        unit=Unit.BYTES,
        minimum=0,
        maximum=INT32_MAX,
        scope=_TOPIC,
        live=True,
        broker_name="log.index.interval.bytes",
    )
    cleanup_policy: tuple[str, ...] = setting(
        "cleanup.policy",
        ("delete",),
        "What happens to old records: delete drops whole segments by age and size, compact keeps "
        "the newest record "
        "of each key; both may be given.",
        choices=("delete", "compact"),
        scope=_TOPIC,
        live=True,
        broker_name="log.cleanup.policy",
        check=_check_cleanup_policy,
    )
    compression_type: str = setting(
        "compression.type",
        "producer",
        "The codec of stored batches. producer keeps what was sent; any other packs anew what "
        "comes in another codec, big batches in the worker process. A batch may unpack to 2 MiB or "
        "100 times its size, at most 64 MiB; max.message.bytes holds for what was sent and for "
        "what is stored.",
        choices=("producer", "uncompressed", "gzip", "snappy", "lz4", "zstd"),
        scope=_TOPIC,
        live=True,
        broker_name="compression.type",
    )
    max_message_bytes: int = setting(
        "max.message.bytes",
        1_048_588,
        "The largest record batch accepted, as sent (compressed), its header included.",
        unit=Unit.BYTES,
        minimum=0,
        maximum=INT32_MAX,
        scope=_TOPIC,
        live=True,
        broker_name="message.max.bytes",
    )
    message_timestamp_type: str = setting(
        "message.timestamp.type",
        "CreateTime",
        "Whose clock a record's timestamp shows: the producer's (CreateTime) or the broker's "
        "(LogAppendTime).",
        choices=("CreateTime", "LogAppendTime"),
        scope=_TOPIC,
        live=True,
        broker_name="log.message.timestamp.type",
    )
    message_timestamp_before_max_ms: int = setting(
        "message.timestamp.before.max.ms",
        INT64_MAX,
        "How far a CreateTime timestamp may lie before the broker's clock; older ones are refused.",
        unit=Unit.MS,
        minimum=0,
        maximum=INT64_MAX,
        scope=_TOPIC,
        live=True,
        broker_name="log.message.timestamp.before.max.ms",
    )
    message_timestamp_after_max_ms: int = setting(
        "message.timestamp.after.max.ms",
        _HOUR_MS,
        "How far a CreateTime timestamp may lie after the broker's clock; later ones are refused.",
        unit=Unit.MS,
        minimum=0,
        maximum=INT64_MAX,
        scope=_TOPIC,
        live=True,
        broker_name="log.message.timestamp.after.max.ms",
    )
    min_insync_replicas: int = setting(
        "min.insync.replicas",
        1,
        "How many replicas must be in sync for a write with acks=all to be accepted. A single "
        "node has one replica.",
        unit=Unit.COUNT,
        minimum=1,
        maximum=INT32_MAX,
        scope=_TOPIC,
        live=True,
        broker_name="min.insync.replicas",
    )
    unclean_leader_election_enable: bool = setting(
        "unclean.leader.election.enable",
        False,
        "Whether a replica that is not in sync may lead, losing records. false is the only value "
        "yet.",
        choices=("false",),
        scope=_TOPIC,
        live=True,
        broker_name="unclean.leader.election.enable",
    )
    file_delete_delay_ms: int = setting(
        "file.delete.delay.ms",
        60_000,
        "Kept for tools that set it. Files of a deleted segment go at once: a read that has begun "
        "keeps its descriptor, so there is nothing to wait for.",
        unit=Unit.MS,
        minimum=0,
        maximum=INT64_MAX,
        scope=_TOPIC,
        live=True,
        broker_name="log.segment.delete.delay.ms",
    )
    delete_retention_ms: int = setting(
        "delete.retention.ms",
        _DAY_MS,
        "How long the cleaner keeps a tombstone after the cleaning that first met it, so that slow "
        "consumers learn of the deletion; likewise the marker of a transaction after its records.",
        unit=Unit.MS,
        minimum=0,
        maximum=INT64_MAX,
        scope=_TOPIC,
        live=True,
        broker_name="log.cleaner.delete.retention.ms",
    )
    min_cleanable_dirty_ratio: float = setting(
        "min.cleanable.dirty.ratio",
        0.5,
        "The cleaner starts when this share of a compacted partition's closed segments has not "
        "been cleaned yet.",
        unit=Unit.RATIO,
        minimum=0.0,
        maximum=1.0,
        scope=_TOPIC,
        live=True,
        broker_name="log.cleaner.min.cleanable.ratio",
    )
    min_compaction_lag_ms: int = setting(
        "min.compaction.lag.ms",
        0,
        "A closed segment is not compacted before its last append is this old, by the broker's "
        "clock: consumers that are less behind see every record.",
        unit=Unit.MS,
        minimum=0,
        maximum=INT64_MAX,
        scope=_TOPIC,
        live=True,
        broker_name="log.cleaner.min.compaction.lag.ms",
    )
    max_compaction_lag_ms: int = setting(
        "max.compaction.lag.ms",
        INT64_MAX,
        "A record waits no longer than this for the cleaner, by the broker's clock, whatever the "
        "dirty ratio; the segment that is written to is closed for it.",
        unit=Unit.MS,
        minimum=1,
        maximum=INT64_MAX,
        scope=_TOPIC,
        live=True,
        broker_name="log.cleaner.max.compaction.lag.ms",
    )
    durability: str = setting(
        "durability",
        FSYNC,
        "When a record counts as stored, is visible and acknowledged. fsync: when every in-sync "
        "replica has synced it to its disk, many records by one sync; a power cut of all of them "
        "loses nothing. replicated: when every one has written it to its operating system (as "
        "Kafka does); a power cut of all of them may lose the last records.",
        choices=(FSYNC, REPLICATED),
        scope=_TOPIC,
        live=True,
        broker_name="hermes.durability",
    )
    flush_messages: int = setting(
        "flush.messages",
        1,
        "Kafka's word for durability, for Kafka's tools: 1 is durability=fsync and "
        f"{INT64_MAX} is durability=replicated. To set one is to set both; nothing else is "
        "accepted.",
        unit=Unit.COUNT,
        minimum=1,
        maximum=INT64_MAX,
        scope=_TOPIC,
        live=True,
        broker_name="log.flush.interval.messages",
        check=_check_flush_messages,
        mirror=Mirror("durability", {FSYNC: "1", REPLICATED: str(INT64_MAX)}),
    )
    flush_ms: int = setting(
        "flush.ms",
        INT64_MAX,
        "Kept for tools that show it. There are no timed syncs: durability=fsync syncs before it "
        "acknowledges, so no record waits for one, and durability=replicated leaves it to the "
        "operating system.",
        unit=Unit.MS,
        minimum=0,
        maximum=INT64_MAX,
        scope=_TOPIC,
        live=True,
        broker_name="log.flush.interval.ms",
        check=_check_flush_ms,
    )
    record_validation: str = setting(
        "record.validation",
        "header",
        "How closely a batch is checked. header: its header, size and checksum. full: it is opened "
        "and every record in it is checked too: its form, its place, its timestamp, the limits "
        "max.record.bytes, max.record.headers and max.record.header.bytes, and its key where "
        "cleanup.policy has compact. A batch with one bad record is refused whole.",
        choices=("header", "full"),
        scope=_TOPIC,
        live=True,
        broker_name="hermes.record.validation",
    )
    max_record_bytes: int = setting(
        "max.record.bytes",
        1 << 20,
        "With record.validation=full: the largest record accepted, unpacked, with its key and "
        "headers.",
        unit=Unit.BYTES,
        minimum=0,
        maximum=INT32_MAX,
        scope=_TOPIC,
        live=True,
        broker_name="hermes.max.record.bytes",
    )
    max_record_headers: int = setting(
        "max.record.headers",
        100,
        "With record.validation=full: how many headers a record may have.",
        unit=Unit.COUNT,
        minimum=0,
        maximum=INT32_MAX,
        scope=_TOPIC,
        live=True,
        broker_name="hermes.max.record.headers",
    )
    max_record_header_bytes: int = setting(
        "max.record.header.bytes",
        64 << 10,
        "With record.validation=full: how many bytes the keys and values of a record's headers may "
        "have together.",
        unit=Unit.BYTES,
        minimum=0,
        maximum=INT32_MAX,
        scope=_TOPIC,
        live=True,
        broker_name="hermes.max.record.header.bytes",
    )
    delivery_delay_ms: int = setting(
        "delivery.delay.ms",
        0,
        "How long after its append a record is held back from consumers, by the broker's clock. "
        "Needs message.timestamp.type=LogAppendTime and cleanup.policy=delete, and must be below "
        "delivery.ttl.ms and retention.ms.",
        unit=Unit.MS,
        minimum=0,
        maximum=INT64_MAX,
        scope=_TOPIC,
        live=True,
        broker_name="hermes.delivery.delay.ms",
    )
    delivery_ttl_ms: int = setting(
        "delivery.ttl.ms",
        -1,
        "How long after its append a record is delivered, by the broker's clock; older ones are "
        "passed over, also while they are still on disk (retention is a setting of its own). -1 "
        "sets no limit. Needs message.timestamp.type=LogAppendTime and cleanup.policy=delete.",
        unit=Unit.MS,
        minimum=-1,
        maximum=INT64_MAX,
        scope=_TOPIC,
        live=True,
        broker_name="hermes.delivery.ttl.ms",
        check=_check_ttl,
    )

    def rules(self) -> Iterator[str]:
        """What is wrong between settings of a topic, also when they are the broker's defaults."""
        if self.min_compaction_lag_ms > self.max_compaction_lag_ms:
            yield (
                f"min.compaction.lag.ms ({self.min_compaction_lag_ms}) must not be above "
                f"max.compaction.lag.ms ({self.max_compaction_lag_ms})"
            )
        yield from self._delivery_problems()

    def _delivery_problems(self) -> Iterator[str]:
        named = []
        if self.delivery_delay_ms > 0:
            named.append(f"delivery.delay.ms={self.delivery_delay_ms}")
        if self.delivery_ttl_ms >= 0:
            named.append(f"delivery.ttl.ms={self.delivery_ttl_ms}")
        for name in named:
            if self.message_timestamp_type != "LogAppendTime":
                yield (
                    f"{name} needs message.timestamp.type=LogAppendTime, found "
                    f"{self.message_timestamp_type}: set both in one change, or clear the former "
                    "first"
                )
            if self.cleanup_policy != ("delete",):
                yield (
                    f"{name} needs cleanup.policy=delete, found {','.join(self.cleanup_policy)}: "
                    "a compacted topic has no delivery window"
                )
        if self.delivery_delay_ms > 0 and 0 <= self.delivery_ttl_ms <= self.delivery_delay_ms:
            yield (
                f"delivery.ttl.ms ({self.delivery_ttl_ms}) must be above delivery.delay.ms "
                f"({self.delivery_delay_ms}): records would expire before they are due"
            )
        if self.delivery_delay_ms > 0 and 0 <= self.retention_ms <= self.delivery_delay_ms:
            yield (
                f"retention.ms ({self.retention_ms}) must be above delivery.delay.ms "
                f"({self.delivery_delay_ms}): records would be deleted before they are due"
            )

    @property
    def needs_sync(self) -> bool:
        """Whether a record counts as stored only once it is synced."""
        return self.durability == FSYNC
