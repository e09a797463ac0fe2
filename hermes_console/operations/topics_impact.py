"""What an act on a topic would hit, looked up before it is confirmed: readers, records, keys."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from broker.client.blocking import TopicPartition
from hermes_console.clusters import Cluster
from hermes_console.connect import client_for
from hermes_console.errors import Refused
from hermes_console.names import is_storable
from hermes_console.operations.topics_read import Topic
from hermes_console.samples.models import GroupLatest
from hermes_console.samples.snapshot import (
    SEVERITY,
    ClusterSnapshot,
    GroupDetail,
    GroupSummary,
    Verdict,
)

READERS_MAX: Final = 200
"""Groups whose lag on one topic is looked up; of others only the name is known."""


@dataclass(frozen=True, slots=True)
class Reader:
    """A group that reads a topic, as last sampled. `lag` is on this topic alone; None: unknown."""

    name: str
    state: str
    verdict: Verdict
    lag: int | None
    lag_seconds: float | None
    is_at_least: bool
    member_count: int


@dataclass(frozen=True, slots=True)
class Cut:
    """Records that would be deleted from one partition: those of [start, before)."""

    partition: int
    start: int
    before: int
    end: int

    @property
    def count(self) -> int:
        return self.before - self.start


def read_readers(
    cluster: Cluster, topics: Collection[str], snapshot: ClusterSnapshot | None
) -> dict[str, list[Reader]]:
    """Topic → the groups that read it, the most troubled first. Lag and members are those on this
    topic; where they are not looked up (READERS_MAX) the lag is unknown.
    """
    wanted = set(topics)
    groups = [one for one in (snapshot.groups if snapshot else ()) if wanted & set(one.topics)]
    names = [one.name for one in groups if is_storable(one.name)][:READERS_MAX]
    details = {
        row.name: GroupDetail.from_text(row.payload)
        for row in GroupLatest.objects.filter(cluster_id=cluster.pk, name__in=names)
    }
    found: dict[str, list[Reader]] = {topic: [] for topic in topics}
    for group in groups:
        for topic in wanted & set(group.topics):
            found[topic].append(_reader(group, topic, details.get(group.name)))
    for readers in found.values():
        readers.sort(key=lambda one: (SEVERITY[one.verdict], -(one.lag or 0), one.name))
    return found


def _reader(group: GroupSummary, topic: str, detail: GroupDetail | None) -> Reader:
    parts = [one for one in (detail.partitions if detail else ()) if one.topic == topic]
    lags = [one.lag for one in parts if one.lag is not None]
    slowest = max(
        (one for one in parts if one.lag_seconds is not None),
        key=lambda one: one.lag_seconds or 0.0,
        default=None,
    )
    return Reader(
        name=group.name,
        state=group.state,
        verdict=group.verdict,
        lag=sum(lags) if lags else None,
        lag_seconds=slowest.lag_seconds if slowest else None,
        is_at_least=bool(slowest and slowest.is_at_least),
        member_count=len({one.member_id for one in parts if one.member_id}),
    )


def plan_cuts(topic: Topic, wanted: Mapping[int, int]) -> list[Cut]:
    """What deleting the records below the offsets in `wanted` takes away. Raises Refused for an
    offset or partition that does not exist.
    """
    known = {one.view.partition: one for one in topic.partitions}
    cuts = []
    for partition, before in sorted(wanted.items()):
        one = known.get(partition)
        if one is None:
            last = len(topic.partitions) - 1
            raise Refused(
                422, "unknown-partition", f"There is no partition {partition}, only 0 to {last}."
            )
        if one.offsets is None:
            raise Refused(
                503,
                "offsets-unknown",
                f"Partition {partition} does not answer: its offsets are unknown.",
            )
        start, end = one.offsets.start, one.offsets.end
        if not 0 <= before <= end:
            raise Refused(
                422,
                "offset-out-of-range",
                f"Partition {partition} holds the offsets {start:,} to {end:,} (the end); "
                f"{before:,} is not among them.",
            )
        cuts.append(Cut(partition, start, max(start, before), end))
    return cuts


def offsets_before_time(cluster: Cluster, topic: Topic, at_ms: int) -> dict[int, int]:
    """Per partition the first offset whose record is not older than `at_ms`, its end where all are.

    Raises ClientError.
    """
    asked = [TopicPartition(topic.name, one.view.partition) for one in topic.partitions]
    found = client_for(cluster).offsets(dict.fromkeys(asked, at_ms))
    ends = {one.view.partition: one.offsets.end for one in topic.partitions if one.offsets}
    return {
        one.partition: answer.offset if answer.offset >= 0 else ends[one.partition]
        for one, answer in found.items()
        if one.partition in ends
    }


def total(cuts: Sequence[Cut]) -> int:
    """How many records all cuts take away (estimated for compacted topics)."""
    return sum(one.count for one in cuts)
