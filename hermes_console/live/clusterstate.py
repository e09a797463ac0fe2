"""Turns looks at a cluster into snapshots: keeps what a verdict needs from earlier looks. Pure; one
owner, the sampler.

Memory is bounded by what exists: state of partitions, groups and topics that are gone is dropped at
the next look.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Final

from hermes_console.live.blockers import Rebalances, find_blockers
from hermes_console.live.endhistory import EndHistory
from hermes_console.live.groupjudge import judge_group
from hermes_console.live.observation import (
    ClusterObserved,
    GroupObserved,
    MemberObserved,
    MetricsObserved,
    TopicPartition,
)
from hermes_console.live.progress import (
    STALLED_AFTER_MS,
    Progress,
    advance,
    judge_partition,
    lag_of,
    stalled_after_ms,
)
from hermes_console.live.trend import Trend, TrendSample, drain_seconds
from hermes_console.samples.snapshot import (
    ClusterSnapshot,
    Disk,
    GroupDetail,
    GroupSummary,
    MemberSnapshot,
    PartitionSnapshot,
    Rates,
    Storage,
    Verdict,
)

LATE_SHARE: Final = 0.5
NOBODY: Final = MemberObserved("", "", "", "")


class ClusterState:
    """`absorb` every successful look, `miss` every failed one; both return the snapshot to show."""

    def __init__(self, last: ClusterSnapshot | None = None) -> None:
        self._snapshot = last or ClusterSnapshot(sequence=0, at_ms=0, reached_at_ms=0)
        self._ends: dict[TopicPartition, EndHistory] = {}
        self._groups: dict[str, GroupState] = {}
        self._topic_ids: Mapping[str, str] = {}
        self._metrics: tuple[int, MetricsObserved] | None = None

    def absorb(self, observed: ClusterObserved) -> tuple[ClusterSnapshot, list[GroupDetail]]:
        self._forget(observed)
        for partition, offsets in observed.offsets.items():
            history = self._ends.get(partition)
            if history is None:
                history = self._ends[partition] = EndHistory()
            history.add(observed.at_ms, offsets.end)
        by_topic: dict[str, list[TopicPartition]] = {}
        for partition in observed.offsets:
            by_topic.setdefault(partition.topic, []).append(partition)
        details = [
            self._group(group.name).absorb(group, observed, self._ends, by_topic)
            for group in observed.groups
        ]
        self._snapshot = ClusterSnapshot(
            sequence=self._snapshot.sequence + 1,
            at_ms=observed.at_ms,
            reached_at_ms=observed.at_ms,
            metrics_trouble=observed.metrics_trouble,
            cluster_id=observed.cluster_id,
            brokers=observed.brokers,
            topic_count=len(observed.topic_ids),
            partition_count=observed.partition_count,
            rates=self._rates(observed),
            disk=_disk(observed.metrics),
            storage=observed.metrics.storage if observed.metrics else Storage(),
            groups=tuple(detail.summary for detail in details),
        )
        return self._snapshot, details

    def _group(self, name: str) -> GroupState:
        found = self._groups.get(name)
        if found is None:
            found = self._groups[name] = GroupState()
        return found

    def miss(self, at_ms: int, trouble: str) -> ClusterSnapshot:
        """The last known data with its age, and why there is nothing newer."""
        self._metrics = None
        self._snapshot = replace(
            self._snapshot,
            sequence=self._snapshot.sequence + 1,
            at_ms=at_ms,
            trouble=trouble,
            rates=Rates(),
        )
        return self._snapshot

    def _forget(self, observed: ClusterObserved) -> None:
        recreated = {
            name
            for name, topic_id in observed.topic_ids.items()
            if self._topic_ids.get(name, topic_id) != topic_id
        }
        self._topic_ids = observed.topic_ids
        for partition in list(self._ends):
            if partition not in observed.offsets or partition.topic in recreated:
                del self._ends[partition]
        names = {group.name for group in observed.groups}
        for name in list(self._groups):
            if name not in names:
                del self._groups[name]
            elif recreated:
                self._groups[name].forget_topics(recreated)

    def _rates(self, observed: ClusterObserved) -> Rates:
        before, self._metrics = self._metrics, None
        if observed.metrics is None:
            return Rates()
        if before is not None and before[1] is observed.metrics:  # read once for several looks
            self._metrics = before
            return self._snapshot.rates
        self._metrics = (observed.at_ms, observed.metrics)
        if before is None or observed.at_ms <= before[0]:
            return Rates()
        seconds = (observed.at_ms - before[0]) / 1000
        old, new = before[1], observed.metrics
        return Rates(
            messages_in=_rate(old.records_in_total, new.records_in_total, seconds),
            bytes_in=_rate(old.bytes_in_total, new.bytes_in_total, seconds),
            messages_out=_rate(old.records_out_total, new.records_out_total, seconds),
            bytes_out=_rate(old.bytes_out_total, new.bytes_out_total, seconds),
        )


class GroupState:
    """What is remembered of one group between looks."""

    def __init__(self) -> None:
        self._progress: dict[TopicPartition, Progress] = {}
        self._shown: dict[TopicPartition, PartitionSnapshot] = {}
        self._trend = Trend()
        self._rebalances = Rebalances()
        self._stalled_after_ms = STALLED_AFTER_MS

    def forget_topics(self, topics: set[str]) -> None:
        for partition in [one for one in self._progress if one.topic in topics]:
            del self._progress[partition]
        self._shown.clear()

    def absorb(
        self,
        group: GroupObserved,
        observed: ClusterObserved,
        ends: Mapping[TopicPartition, EndHistory],
        by_topic: Mapping[str, Sequence[TopicPartition]],
    ) -> GroupDetail:
        """Its partitions: those with a commit or an owner, and all of the topics it reads."""
        at_ms = observed.at_ms
        owners = {one: member for member in group.members for one in member.assignment}
        known = {one: offset for one, offset in group.committed.items() if one in observed.offsets}
        self._progress = {
            one: advance(
                self._progress.get(one),
                committed,
                observed.offsets[one].end,
                at_ms,
                start=observed.offsets[one].start,
            )
            for one, committed in known.items()
        }
        self._stalled_after_ms = stalled_after_ms(self._progress.values(), at_ms)
        read = {one.topic for one in owners}
        wanted = sorted(known.keys() | {one for name in read for one in by_topic.get(name, ())})
        self._shown = {
            one: self._partition_again(one, group, owners.get(one, NOBODY), observed, ends)
            for one in wanted
        }
        partitions = tuple(self._shown.values())
        summary = self._summary(group, partitions, at_ms)
        self._rebalances.add(group, at_ms)
        return GroupDetail(
            summary,
            _with_shares(partitions, summary),
            tuple(_member(member) for member in sorted(group.members, key=lambda m: m.member_id)),
            find_blockers(group, partitions, self._rebalances, at_ms),
        )

    def _partition_again(
        self,
        one: TopicPartition,
        group: GroupObserved,
        owner: MemberObserved,
        observed: ClusterObserved,
        ends: Mapping[TopicPartition, EndHistory],
    ) -> PartitionSnapshot:
        """The last one while nothing waits and nothing moved, as in most partitions of a large
        cluster: whoever stores it sees by its identity that it did not change.
        """
        last = self._shown.get(one)
        if (
            last is not None
            and last.lag == 0
            and last.committed == group.committed.get(one)
            and (last.log_start, last.end) == observed.offsets[one]
            and last.member_id == owner.member_id
        ):
            return last
        return self._partition(one, group, owner, observed, ends)

    def _partition(
        self,
        one: TopicPartition,
        group: GroupObserved,
        owner: MemberObserved,
        observed: ClusterObserved,
        ends: Mapping[TopicPartition, EndHistory],
    ) -> PartitionSnapshot:
        offsets = observed.offsets[one]
        progress = self._progress.get(one)
        committed = None if progress is None else progress.committed
        lag = None if committed is None else lag_of(committed, offsets.end, offsets.start)
        unread = None if committed is None else max(committed, offsets.start)
        seconds, is_at_least = _lag_seconds(group.name, one, unread, lag, observed, ends)
        return PartitionSnapshot(
            topic=one.topic,
            partition=one.partition,
            log_start=offsets.start,
            end=offsets.end,
            committed=committed,
            lag=lag,
            lag_seconds=seconds,
            is_at_least=is_at_least,
            verdict=judge_partition(progress, observed.at_ms, self._stalled_after_ms),
            member_id=owner.member_id,
            client_id=owner.client_id,
            client_host=owner.client_host,
        )

    def _summary(
        self, group: GroupObserved, partitions: tuple[PartitionSnapshot, ...], at_ms: int
    ) -> GroupSummary:
        known = [one for one in partitions if one.lag is not None]
        lag = sum(one.lag or 0 for one in known) if known else None
        self._trend.add(
            TrendSample(
                at_ms,
                len(known),
                sum(one.committed or 0 for one in known),
                sum(one.end for one in known),
                lag or 0,
            )
        )
        rate = self._trend.rate() if known else None
        drain_s = drain_seconds(lag, rate)
        verdict, reason = judge_group(
            state=group.state,
            member_count=len(group.members),
            is_hidden=group.is_hidden,
            lag=lag,
            progress=self._progress,
            verdicts=_wanting(known),
            rate=rate,
            is_falling_behind=self._trend.is_falling_behind(),
            drain_s=drain_s,
            at_ms=at_ms,
        )
        slowest = max(
            (one for one in known if one.lag_seconds is not None),
            key=lambda one: one.lag_seconds or 0.0,
            default=None,
        )
        return GroupSummary(
            name=group.name,
            state=group.state,
            protocol=group.protocol,
            member_count=len(group.members),
            partition_count=len(partitions),
            unknown_count=len(partitions) - len(known),
            lag=lag,
            lag_seconds=None if slowest is None else slowest.lag_seconds,
            is_at_least=slowest is not None and slowest.is_at_least,
            produced_per_s=None if rate is None else rate.produced,
            consumed_per_s=None if rate is None else rate.consumed,
            drain_seconds=drain_s,
            verdict=verdict,
            reason=reason,
            topics=tuple(sorted({one.topic for one in partitions})),
        )


def _wanting(partitions: Iterable[PartitionSnapshot]) -> dict[TopicPartition, Verdict]:
    """The verdicts that say more than fine: most partitions of a large cluster are."""
    return {
        TopicPartition(one.topic, one.partition): one.verdict
        for one in partitions
        if one.verdict is not Verdict.FINE
    }


def _with_shares(
    partitions: tuple[PartitionSnapshot, ...], group: GroupSummary
) -> tuple[PartitionSnapshot, ...]:
    if group.verdict not in {Verdict.STOPPED, Verdict.FALLING_BEHIND}:
        return partitions
    return tuple(_with_share(one, group) for one in partitions)


def _with_share(one: PartitionSnapshot, group: GroupSummary) -> PartitionSnapshot:
    """The partition with its part in what the whole group is found to do.

    A stopped group has stopped on every partition where records wait; one that falls behind does so
    on those that are about as late as its latest.
    """
    if one.verdict is not Verdict.FINE or not one.lag:
        return one
    if group.verdict is Verdict.STOPPED:
        return replace(one, verdict=Verdict.STOPPED)
    is_late = (one.lag_seconds or 0.0) >= LATE_SHARE * (group.lag_seconds or 0.0)
    if group.verdict is Verdict.FALLING_BEHIND and is_late:
        return replace(one, verdict=Verdict.FALLING_BEHIND)
    return one


def _lag_seconds(
    group: str,
    one: TopicPartition,
    committed: int | None,
    lag: int | None,
    observed: ClusterObserved,
    ends: Mapping[TopicPartition, EndHistory],
) -> tuple[float | None, bool]:
    """How long the oldest unread record waits and whether that is only a lower bound.

    The broker's own answer (from timestamps) is taken when there is one; else the sampled ends
    tell.
    """
    if committed is None or lag is None:
        return None, False
    if lag == 0:
        return 0.0, False
    if observed.metrics is not None:
        told = observed.metrics.oldest_unread_seconds.get((group, one))
        if told is not None:
            return told, False
    produced = ends[one].produced_at(committed)
    if produced is None:
        return None, False
    return max(0.0, (observed.at_ms - produced.at_ms) / 1000), produced.is_at_least


def _member(member: MemberObserved) -> MemberSnapshot:
    return MemberSnapshot(
        member_id=member.member_id,
        instance_id=member.instance_id,
        client_id=member.client_id,
        client_host=member.client_host,
        partition_count=len(member.assignment),
    )


def _disk(metrics: MetricsObserved | None) -> Disk:
    if metrics is None:
        return Disk()
    return Disk(metrics.disk_used_bytes, metrics.disk_free_bytes, metrics.log_bytes)


def _rate(before: float | None, after: float | None, seconds: float) -> float | None:
    """None when a total is missing or went back (the broker started anew)."""
    if before is None or after is None or after < before:
        return None
    return (after - before) / seconds
