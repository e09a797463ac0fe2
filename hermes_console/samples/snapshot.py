"""The shapes of what was observed and judged, and their JSON text for the database. Pure.

Numbers here are Python's (exact at any size); whoever sends one to a browser sends offsets and
counts as strings. `lag` None means unknown (nothing committed yet), never 0.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, Final, NamedTuple, Self

SNAPSHOT_FORMAT: Final = 1
encode: Final = json.JSONEncoder(separators=(",", ":")).encode
GROWTH_SHARE: Final = 0.05
GROWTH_S: Final = 10.0


class Verdict(StrEnum):
    """How a group does, worst first; `SEVERITY` orders them."""

    STALLED = "stalled"
    STOPPED = "stopped"
    REWOUND = "rewound"
    FALLING_BEHIND = "falling-behind"
    UNKNOWN = "unknown"
    FINE = "fine"


SEVERITY: Final = {verdict: rank for rank, verdict in enumerate(Verdict)}
NEEDS_ATTENTION: Final = frozenset(
    {Verdict.STALLED, Verdict.STOPPED, Verdict.REWOUND, Verdict.FALLING_BEHIND}
)


@dataclass(frozen=True, slots=True)
class BrokerSnapshot:
    """One node as the cluster's metadata names it."""

    id: int
    host: str
    port: int
    rack: str
    is_controller: bool


@dataclass(frozen=True, slots=True)
class Rates:
    """Per second, since the sample before; None where the broker's metrics do not say."""

    messages_in: float | None = None
    bytes_in: float | None = None
    messages_out: float | None = None
    bytes_out: float | None = None


@dataclass(frozen=True, slots=True)
class Disk:
    """Bytes; None where the broker's metrics do not say. `log_bytes` is what the topics' segments
    take.
    """

    used_bytes: int | None = None
    free_bytes: int | None = None
    log_bytes: int | None = None


class FlaggedPartition(NamedTuple):
    """A partition of which the broker says that something is wrong; `flag` is the key of a row of
    `storagealarms.PARTITION_FLAGS`.
    """

    flag: str
    topic: str
    partition: int


@dataclass(frozen=True, slots=True)
class Storage:
    """What the broker's metrics say about its disk and logs. Of very many flagged partitions the
    first are kept, and counted all.
    """

    node_id: int | None = None
    is_low: bool = False
    low_mark_bytes: int | None = None
    flagged: tuple[FlaggedPartition, ...] = ()
    flagged_counts: Mapping[str, int] = field(default_factory=dict)
    uncleanable_count: int = 0
    """Partitions of which compaction leaves a part as it is."""
    dirty_shares: Mapping[str, float] = field(default_factory=dict)
    """By topic: 0 to 1 of the closed segments of its worst partition wait for compaction. Only
    where some do.
    """


@dataclass(frozen=True, slots=True)
class PartitionSnapshot:
    """One partition as one group sees it."""

    topic: str
    partition: int
    log_start: int
    end: int
    committed: int | None
    lag: int | None
    lag_seconds: float | None
    is_at_least: bool
    verdict: Verdict
    member_id: str
    client_id: str
    client_host: str


@dataclass(frozen=True, slots=True)
class MemberSnapshot:
    """One member and how many partitions it reads."""

    member_id: str
    instance_id: str
    client_id: str
    client_host: str
    partition_count: int


@dataclass(frozen=True, slots=True)
class GroupSummary:
    """One row of the groups list. Rates are messages per second over a minute; None: not
    known yet.
    """

    name: str
    state: str
    protocol: str
    member_count: int
    partition_count: int
    unknown_count: int
    lag: int | None
    lag_seconds: float | None
    is_at_least: bool
    produced_per_s: float | None
    consumed_per_s: float | None
    drain_seconds: float | None
    verdict: Verdict
    reason: str
    topics: tuple[str, ...] = ()

    @property
    def slope_per_s(self) -> float | None:
        """By how many messages per second the lag grows (below 0: shrinks)."""
        if self.produced_per_s is None or self.consumed_per_s is None:
            return None
        return self.produced_per_s - self.consumed_per_s

    @property
    def keeps_up(self) -> bool:
        """Whether it is fine and its lag does not grow, not even for a moment's burst."""
        return self.verdict is Verdict.FINE and not is_growing(
            self.lag, self.produced_per_s, self.slope_per_s
        )


@dataclass(frozen=True, slots=True)
class Blocker:
    """One thing that keeps a group from reading: `kind` for programs, `text` what it is, `advice`
    what to do.
    """

    kind: str
    text: str
    advice: str


@dataclass(frozen=True, slots=True)
class GroupDetail:
    """A group with its partitions, its members and what blocks it."""

    summary: GroupSummary
    partitions: tuple[PartitionSnapshot, ...]
    members: tuple[MemberSnapshot, ...]
    blockers: tuple[Blocker, ...] = ()

    def to_text(self) -> str:
        return detail_text(self)[0]

    @classmethod
    def from_text(cls, text: str) -> Self:
        fields = json.loads(text)
        return cls(
            summary=_summary(fields["summary"]),
            partitions=tuple(
                PartitionSnapshot(**{**one, "verdict": Verdict(one["verdict"])})
                for one in fields["partitions"]
            ),
            members=tuple(MemberSnapshot(**member) for member in fields["members"]),
            blockers=tuple(Blocker(**blocker) for blocker in fields.get("blockers", ())),
        )


@dataclass(frozen=True, slots=True)
class ClusterSnapshot:
    """A cluster at `at_ms`. After a failed sample everything but `sequence`, `at_ms` and `trouble`
    is the last known, from `reached_at_ms` (0: never reached).
    """

    sequence: int
    at_ms: int
    reached_at_ms: int
    trouble: str = ""
    metrics_trouble: str = ""
    cluster_id: str = ""
    brokers: tuple[BrokerSnapshot, ...] = ()
    topic_count: int = 0
    partition_count: int = 0
    rates: Rates = field(default_factory=Rates)
    disk: Disk = field(default_factory=Disk)
    storage: Storage = field(default_factory=Storage)
    groups: tuple[GroupSummary, ...] = ()

    def to_text(self) -> str:
        fields = {
            "format": SNAPSHOT_FORMAT,
            **_shallow(self),
            "brokers": [_shallow(broker) for broker in self.brokers],
            "rates": _shallow(self.rates),
            "disk": _shallow(self.disk),
            "storage": _shallow(self.storage),
            "groups": [_shallow(group) for group in self.groups],
        }
        return encode(fields)

    @classmethod
    def from_text(cls, text: str) -> Self:
        fields = json.loads(text)
        del fields["format"]
        return cls(
            **{
                **fields,
                "brokers": tuple(BrokerSnapshot(**broker) for broker in fields["brokers"]),
                "rates": Rates(**fields["rates"]),
                "disk": Disk(**fields["disk"]),
                "storage": _storage(fields.get("storage", {})),
                "groups": tuple(_summary(group) for group in fields["groups"]),
            }
        )


def detail_text(
    detail: GroupDetail, before: tuple[GroupDetail, list[str]] | None = None
) -> tuple[str, list[str]]:
    """The detail's JSON text and that of each of its partitions. With `before`, the same group's
    last detail and texts, the text of a partition that is the same object is taken over.
    """
    if before is not None and len(before[0].partitions) == len(detail.partitions):
        parts = [
            old_text if new is old else encode(_shallow(new))
            for new, old, old_text in zip(
                detail.partitions, before[0].partitions, before[1], strict=True
            )
        ]
    else:
        parts = [encode(_shallow(partition)) for partition in detail.partitions]
    rest = encode(
        {
            "format": SNAPSHOT_FORMAT,
            "summary": _shallow(detail.summary),
            "members": [_shallow(member) for member in detail.members],
            "blockers": [_shallow(blocker) for blocker in detail.blockers],
        }
    )
    return f'{rest[:-1]},"partitions":[{",".join(parts)}]}}', parts


def is_growing(lag: int | None, produced_per_s: float | None, slope_per_s: float | None) -> bool:
    """Whether a lag grows by more than GROWTH_SHARE of what arrives and has done so for about
    GROWTH_S: more than periodic commits explain.
    """
    if lag is None or produced_per_s is None or slope_per_s is None:
        return False
    return slope_per_s > GROWTH_SHARE * produced_per_s and lag > GROWTH_S * slope_per_s


def by_attention(groups: tuple[GroupSummary, ...]) -> list[GroupSummary]:
    """Groups, those that need attention most first: by verdict, then by lag in seconds, then by
    lag, then by name.
    """
    return sorted(
        groups,
        key=lambda group: (
            SEVERITY[group.verdict],
            -(group.lag_seconds or 0.0),
            -(group.lag or 0),
            group.name,
        ),
    )


def _shallow(shape: Any) -> dict[str, Any]:
    """The fields of a frozen shape as they are; `dataclasses.asdict` copies each at ten times the
    cost, and there are thousands a second.
    """
    return {name: getattr(shape, name) for name in shape.__slots__}


def _storage(fields: dict[str, Any]) -> Storage:
    flagged = tuple(FlaggedPartition(*one) for one in fields.get("flagged", ()))
    return Storage(**{**fields, "flagged": flagged})


def _summary(fields: dict[str, Any]) -> GroupSummary:
    return GroupSummary(
        **{**fields, "verdict": Verdict(fields["verdict"]), "topics": tuple(fields["topics"])}
    )
