"""What one look at a cluster returns, before anything is judged. Frozen shapes, no behaviour."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from broker.client.blocking import TopicPartition
from hermes_console.samples.snapshot import BrokerSnapshot, Storage

__all__ = [
    "ClusterObserved",
    "GroupObserved",
    "MemberObserved",
    "MetricsObserved",
    "OffsetRange",
    "TopicPartition",
]


class OffsetRange(NamedTuple):
    """The offsets that exist: [start, end)."""

    start: int
    end: int


@dataclass(frozen=True, slots=True)
class MemberObserved:
    """One member of a group and what it was assigned."""

    member_id: str
    instance_id: str
    client_id: str
    client_host: str
    assignment: tuple[TopicPartition, ...] = ()


@dataclass(frozen=True, slots=True)
class GroupObserved:
    """One group. `committed` was read before the cluster's `offsets`; a partition without a commit
    is not in it. `is_hidden`: it is of another `kind`, whose members cannot be asked for.
    """

    name: str
    state: str
    protocol: str
    members: tuple[MemberObserved, ...]
    committed: Mapping[TopicPartition, int]
    kind: str = ""
    is_hidden: bool = False


@dataclass(frozen=True, slots=True)
class MetricsObserved:
    """The broker's own numbers. Counters are totals since its start; None where the text has no
    such line.
    """

    records_in_total: float | None = None
    bytes_in_total: float | None = None
    records_out_total: float | None = None
    bytes_out_total: float | None = None
    disk_used_bytes: int | None = None
    disk_free_bytes: int | None = None
    log_bytes: int | None = None
    storage: Storage = field(default_factory=Storage)
    oldest_unread_seconds: Mapping[tuple[str, TopicPartition], float] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class ClusterObserved:
    """One look. `topic_ids` tells a recreated topic from the old one of that name ("" when the
    cluster has no ids).
    """

    at_ms: int
    cluster_id: str
    brokers: tuple[BrokerSnapshot, ...]
    topic_ids: Mapping[str, str]
    partition_count: int
    offsets: Mapping[TopicPartition, OffsetRange]
    groups: tuple[GroupObserved, ...]
    metrics: MetricsObserved | None = None
    metrics_trouble: str = ""
