"""The settings of the group coordinator.

Names and defaults are Kafka's where Kafka has the setting.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator

from broker.config.setting import Scope, Unit, setting
from broker.model import INT16_MAX, INT32_MAX, INT64_MAX


@dataclasses.dataclass(frozen=True, slots=True)
class GroupSettings:
    """One snapshot: what every group of the cluster is bound by."""

    group_min_session_timeout_ms: int = setting(
        "group.min.session.timeout.ms",
        6_000,
        "The shortest session timeout a member may ask for.",
        unit=Unit.MS,
        minimum=1,
        maximum=INT32_MAX,
        scope=Scope.CLUSTER,
        live=True,
    )
    group_max_session_timeout_ms: int = setting(
        "group.max.session.timeout.ms",
        1_800_000,
        "The longest session timeout a member may ask for.",
        unit=Unit.MS,
        minimum=1,
        maximum=INT32_MAX,
        scope=Scope.CLUSTER,
        live=True,
    )
    group_initial_rebalance_delay_ms: int = setting(
        "group.initial.rebalance.delay.ms",
        3_000,
        "How long the first rebalance of an empty group waits for more members.",
        unit=Unit.MS,
        minimum=0,
        maximum=INT32_MAX,
        scope=Scope.CLUSTER,
        live=True,
    )
    group_max_size: int = setting(
        "group.max.size",
        10_000,
        "How many members a group may have (Kafka sets no limit).",
        unit=Unit.COUNT,
        minimum=1,
        maximum=INT32_MAX,
        scope=Scope.CLUSTER,
        live=True,
    )
    hermes_groups_max: int = setting(
        "hermes.groups.max",
        100_000,
        "How many groups a node coordinates at most; a join or commit of one more is refused.",
        unit=Unit.COUNT,
        minimum=1,
        maximum=INT32_MAX,
        live=True,
    )
    offset_metadata_max_bytes: int = setting(
        "offset.metadata.max.bytes",
        4_096,
        "The longest text a client may attach to a committed offset.",
        unit=Unit.BYTES,
        minimum=0,
        maximum=INT16_MAX,
        scope=Scope.CLUSTER,
        live=True,
    )
    offsets_retention_minutes: int = setting(
        "offsets.retention.minutes",
        10_080,
        "Offsets of a group without members are forgotten this long after it lost its last one.",
        unit=Unit.MINUTES,
        minimum=1,
        maximum=INT32_MAX,
        scope=Scope.CLUSTER,
        live=True,
    )
    offsets_retention_check_interval_ms: int = setting(
        "offsets.retention.check.interval.ms",
        600_000,
        "How often expired offsets are looked for.",
        unit=Unit.MS,
        minimum=1,
        maximum=INT64_MAX,
        live=True,
    )
    offsets_topic_num_partitions: int = setting(
        "offsets.topic.num.partitions",
        50,
        "Partitions of the internal topic __consumer_offsets; read once, when the topic is "
        "created.",
        unit=Unit.COUNT,
        minimum=1,
        maximum=1_000,
        scope=Scope.CLUSTER,
    )
    offsets_topic_segment_bytes: int = setting(
        "offsets.topic.segment.bytes",
        4 << 20,
        "Segment size of the internal topic __consumer_offsets: small, so that it is cleaned and "
        "loaded quickly.",
        unit=Unit.BYTES,
        minimum=1024,
        maximum=INT32_MAX,
        scope=Scope.CLUSTER,
    )

    def rules(self) -> Iterator[str]:
        """What is wrong between settings of the coordinator."""
        if self.group_min_session_timeout_ms > self.group_max_session_timeout_ms:
            yield (
                f"group.min.session.timeout.ms ({self.group_min_session_timeout_ms}) must not be "
                f"above group.max.session.timeout.ms ({self.group_max_session_timeout_ms})"
            )
