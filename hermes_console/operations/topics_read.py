"""What pages and API tell of topics beyond their metadata: sizes, offsets, rates, settings. Reads
only.

Each question is asked for the visible rows alone. One that a cluster cannot answer, or not now,
leaves its numbers unknown and a sentence in `gaps`; the others are shown.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, TypeVar

from broker.client.blocking import (
    EARLIEST,
    LATEST,
    NEWEST_TIMESTAMP,
    BrokerRefusal,
    ClientError,
    ConfigEntry,
    ErrorCode,
    LogDir,
    OffsetAtTime,
    PartitionView,
    TopicPartition,
    TopicView,
    WindowCounts,
    has_window,
)
from hermes_console.clusters import Cluster
from hermes_console.connect import client_for
from hermes_console.errors import Refused, trouble_of
from hermes_console.operations.configs import Setting, read_settings, settings_etag
from hermes_console.operations.topics_catalogue import TopicEntry, entry_of

RATE_WINDOW_S: Final = 60
PARTITIONS_ASKED_MAX: Final = 5_000
"""Partitions whose offsets or sizes are asked for at once; beyond it numbers are unknown."""
NAME_LENGTH_MAX: Final = 249
T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Offsets:
    """The offsets of a partition: [start, end)."""

    start: int
    end: int


@dataclass(frozen=True, slots=True)
class TopicNumbers:
    """What a list tells of one topic; None is unknown."""

    size_bytes: int | None
    in_per_s: float | None
    retention_ms: str | None
    retention_bytes: str | None
    cleanup_policy: str | None


@dataclass(frozen=True, slots=True)
class Partition:
    """One partition of the visible page; None is unknown. `size_bytes` is its leader's replica."""

    view: PartitionView
    offsets: Offsets | None
    size_bytes: int | None
    window: WindowCounts | None = None
    """Of a topic with a delivery window; None without one, or unknown."""

    @property
    def count(self) -> int | None:
        return None if self.offsets is None else self.offsets.end - self.offsets.start

    @property
    def is_under_replicated(self) -> bool:
        return len(self.view.in_sync_replicas) < len(self.view.replicas)


@dataclass(frozen=True, slots=True)
class Topic:
    """One topic. Sums are over all partitions; `count` is estimated where records can vanish
    between two offsets (`is_count_estimated`).
    """

    view: TopicView
    entry: TopicEntry
    settings: tuple[Setting, ...]
    partitions: tuple[Partition, ...]
    etag: str
    size_bytes: int | None
    count: int | None
    last_write_ms: int | None
    in_per_s: float | None
    gaps: tuple[str, ...] = ()
    is_windowed: bool = False

    @property
    def window(self) -> WindowCounts | None:
        """Over all partitions; None without a delivery window, or where one does not answer."""
        counts = [one.window for one in self.partitions if one.window is not None]
        if not self.is_windowed or len(counts) < len(self.partitions):
            return None
        return WindowCounts(
            sum(one.expired for one in counts),
            sum(one.visible for one in counts),
            sum(one.delayed for one in counts),
        )

    @property
    def name(self) -> str:
        return self.view.name

    @property
    def topic_id(self) -> str:
        """Hexadecimal; "" for clusters without ids."""
        return self.view.topic_id.hex() if any(self.view.topic_id) else ""

    def setting(self, name: str) -> str | None:
        return next((one.value for one in self.settings if one.name == name), None)

    @property
    def is_count_estimated(self) -> bool:
        return "compact" in (self.setting("cleanup.policy") or "")


@dataclass(slots=True)
class Gaps:
    """Collects why numbers are missing, each reason once."""

    sentences: list[str] = field(default_factory=list)

    def ask(self, what: str, work: Callable[[], T], otherwise: T) -> T:
        """The result of `work`; `otherwise` when the cluster does not give it."""
        try:
            return work()
        except ClientError as error:
            self.add(what, error)
            return otherwise

    def add(self, what: str, error: ClientError) -> None:
        trouble = trouble_of(error)
        sentence = f"{what}: {trouble.detail if trouble else error}"
        if sentence not in self.sentences:
            self.sentences.append(sentence)


def read_topic_view(cluster: Cluster, name: str) -> TopicView:
    """The topic as it is now. Raises Refused (404) when there is none of that name, ClientError."""
    if not 0 < len(name) <= NAME_LENGTH_MAX:
        raise no_such_topic(cluster, name)
    try:
        return client_for(cluster).describe_topic(name)
    except BrokerRefusal as error:
        if error.code in {
            ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
            ErrorCode.UNKNOWN_TOPIC_ID,
            ErrorCode.INVALID_TOPIC_EXCEPTION,
        }:
            raise no_such_topic(cluster, name) from error
        raise


def no_such_topic(cluster: Cluster, name: str) -> Refused:
    return Refused(
        404,
        "topic-not-found",
        f"There is no topic {name!r} in cluster {cluster.name}. It may have been deleted.",
    )


def read_topic(cluster: Cluster, name: str) -> Topic:
    """One topic with all its partitions. Raises Refused (404), ClientError."""
    client, gaps = client_for(cluster), Gaps()
    view = read_topic_view(cluster, name)
    settings = read_topic_settings(cluster, name)
    wanted = [TopicPartition(name, one.partition) for one in view.partitions]
    is_windowed = has_window({one.name: one.value for one in settings})
    offsets = read_offsets(cluster, wanted, gaps)
    windows = read_windows(cluster, wanted, gaps) if is_windowed else {}
    sizes = read_sizes(cluster, [name], gaps)
    newest: dict[TopicPartition, OffsetAtTime] = gaps.ask(
        "The last write is unknown",
        lambda: client.offsets(
            dict.fromkeys(wanted[:PARTITIONS_ASKED_MAX], NEWEST_TIMESTAMP),
            is_whole_log=is_windowed,
        ),
        {},
    )
    times = [one.timestamp_ms for one in newest.values() if one.timestamp_ms >= 0]
    partitions = tuple(
        Partition(
            one,
            offsets.get(TopicPartition(name, one.partition)),
            _leader_size(sizes, TopicPartition(name, one.partition), one.leader),
            windows.get(TopicPartition(name, one.partition)),
        )
        for one in sorted(view.partitions)
    )
    return Topic(
        view=view,
        entry=entry_of(view),
        settings=tuple(settings),
        partitions=partitions,
        etag=settings_etag(view.topic_id, settings),
        size_bytes=sum_by_topic(sizes).get(name, 0) if sizes is not None else None,
        count=_sum_counts(partitions),
        last_write_ms=max(times, default=None),
        in_per_s=read_rates(cluster, {name: wanted}, offsets, gaps, is_whole_log=is_windowed).get(
            name
        ),
        gaps=tuple(gaps.sentences),
        is_windowed=is_windowed,
    )


def read_topic_settings(cluster: Cluster, name: str) -> list[Setting]:
    """Raises Refused (404) when the topic is gone, ClientError."""
    try:
        entries = client_for(cluster).topic_configs([name])[name]
    except BrokerRefusal as error:
        if error.code is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
            raise no_such_topic(cluster, name) from error
        raise
    return read_settings(entries.values())


def read_numbers(
    cluster: Cluster, entries: Sequence[TopicEntry], gaps: Gaps
) -> dict[str, TopicNumbers]:
    """Sizes, rates and retention of the visible rows; why some are missing is added to `gaps`."""
    names = [one.name for one in entries]
    if not names:
        return {}
    sizes = read_sizes(cluster, names, gaps)
    wanted = partitions_within_budget(entries)
    asked = [one for partitions in wanted.values() for one in partitions]
    ends: dict[TopicPartition, OffsetAtTime] = gaps.ask(
        "Rates are unknown",
        lambda: client_for(cluster).offsets(dict.fromkeys(asked, LATEST)),
        {},
    )
    offsets = {one: Offsets(0, found.offset) for one, found in ends.items()}
    configs = _read_configs(cluster, names, gaps)
    rates: dict[str, float] = {}
    for is_windowed in (False, True):
        some = {
            name: partitions
            for name, partitions in wanted.items()
            if _is_windowed(configs, name) is is_windowed
        }
        if some:
            rates |= read_rates(cluster, some, offsets, gaps, is_whole_log=is_windowed)
    totals = sum_by_topic(sizes or {})
    return {
        name: TopicNumbers(
            size_bytes=totals.get(name, 0) if sizes is not None else None,
            in_per_s=rates.get(name),
            retention_ms=_value(configs, name, "retention.ms"),
            retention_bytes=_value(configs, name, "retention.bytes"),
            cleanup_policy=_value(configs, name, "cleanup.policy"),
        )
        for name in names
    }


def partitions_within_budget(entries: Iterable[TopicEntry]) -> dict[str, list[TopicPartition]]:
    """The partitions of as many topics as PARTITIONS_ASKED_MAX allows, in their order."""
    found: dict[str, list[TopicPartition]] = {}
    count = 0
    for entry in entries:
        count += entry.partition_count
        if count > PARTITIONS_ASKED_MAX:
            break
        found[entry.name] = [TopicPartition(entry.name, i) for i in range(entry.partition_count)]
    return found


def read_offsets(
    cluster: Cluster, wanted: Sequence[TopicPartition], gaps: Gaps
) -> dict[TopicPartition, Offsets]:
    """Start and end of each partition that answers."""
    client = client_for(cluster)
    asked = list(wanted[:PARTITIONS_ASKED_MAX])

    def ask() -> dict[TopicPartition, Offsets]:
        starts = client.offsets(dict.fromkeys(asked, EARLIEST))
        ends = client.offsets(dict.fromkeys(asked, LATEST))
        return {
            one: Offsets(starts[one].offset, max(starts[one].offset, end.offset))
            for one, end in ends.items()
            if one in starts
        }

    return gaps.ask("Offsets are unknown", ask, {})


def read_windows(
    cluster: Cluster, wanted: Sequence[TopicPartition], gaps: Gaps
) -> dict[TopicPartition, WindowCounts]:
    """Of each partition that answers, for a topic with a delivery window."""
    asked = list(wanted[:PARTITIONS_ASKED_MAX])
    return gaps.ask(
        "Delayed and expired messages are unknown",
        lambda: client_for(cluster).count_window(asked),
        {},
    )


def read_rates(
    cluster: Cluster,
    wanted: Mapping[str, Sequence[TopicPartition]],
    offsets: Mapping[TopicPartition, Offsets],
    gaps: Gaps,
    *,
    is_whole_log: bool = False,
) -> dict[str, float]:
    """Per topic the messages per second that came in during the last RATE_WINDOW_S, by their
    timestamps: what lies between the first offset of that time and the end. A topic of which a
    partition does not answer is missing. `is_whole_log` counts what a delivery window hides, too.
    """
    since_ms = int(time.time() - RATE_WINDOW_S) * 1000
    client = client_for(cluster)
    asked = [one for partitions in wanted.values() for one in partitions if one in offsets]
    asked = asked[:PARTITIONS_ASKED_MAX]
    found: dict[TopicPartition, OffsetAtTime] = gaps.ask(
        "Rates are unknown",
        lambda: client.offsets(dict.fromkeys(asked, since_ms), is_whole_log=is_whole_log),
        {},
    )
    ends = {one: offsets[one].end for one in asked}
    if is_whole_log:
        latest: dict[TopicPartition, OffsetAtTime] = gaps.ask(
            "Rates are unknown",
            lambda: client.offsets(dict.fromkeys(asked, LATEST), is_whole_log=True),
            {},
        )
        ends |= {one: answer.offset for one, answer in latest.items()}
    rates = {}
    for name, partitions in wanted.items():
        if any(one not in found for one in partitions):
            continue
        came = sum(
            max(0, ends[one] - found[one].offset) for one in partitions if found[one].offset >= 0
        )
        rates[name] = came / RATE_WINDOW_S
    return rates


def read_sizes(
    cluster: Cluster, names: Sequence[str] | None, gaps: Gaps
) -> dict[int, dict[TopicPartition, int]] | None:
    """Broker → replica → bytes (None for `names`: of all topics). None when no broker tells."""
    found: dict[int, list[LogDir] | BrokerRefusal] = gaps.ask(
        "Sizes are unknown", lambda: client_for(cluster).describe_log_dirs(topics=names), {}
    )
    sizes: dict[int, dict[TopicPartition, int]] = {}
    for node_id, directories in found.items():
        if isinstance(directories, BrokerRefusal):
            gaps.add("Sizes are incomplete", directories)
            continue
        for directory in directories:
            if directory.error is not None:
                gaps.add("Sizes are incomplete", directory.error)
            sizes.setdefault(node_id, {}).update(
                {one: replica.size_bytes for one, replica in directory.replicas.items()}
            )
    return sizes or None


def sum_by_topic(sizes: Mapping[int, Mapping[TopicPartition, int]]) -> dict[str, int]:
    """Bytes by topic, all replicas."""
    totals: dict[str, int] = {}
    for replicas in sizes.values():
        for one, size_bytes in replicas.items():
            totals[one.topic] = totals.get(one.topic, 0) + size_bytes
    return totals


def _read_configs(
    cluster: Cluster, names: Sequence[str], gaps: Gaps
) -> dict[str, dict[str, ConfigEntry]]:
    """A topic that was deleted a moment ago refuses the whole question: then nothing is told."""
    return gaps.ask("Retention is unknown", lambda: client_for(cluster).topic_configs(names), {})


def _is_windowed(configs: Mapping[str, Mapping[str, ConfigEntry]], name: str) -> bool:
    return has_window({key: entry.value for key, entry in configs.get(name, {}).items()})


def _value(configs: Mapping[str, Mapping[str, ConfigEntry]], name: str, key: str) -> str | None:
    entry = configs.get(name, {}).get(key)
    return entry.value if entry else None


def _leader_size(
    sizes: Mapping[int, Mapping[TopicPartition, int]] | None, one: TopicPartition, leader: int
) -> int | None:
    return (sizes or {}).get(leader, {}).get(one)


def _sum_counts(partitions: Iterable[Partition]) -> int | None:
    """None when a partition's offsets are unknown."""
    counts = [one.count for one in partitions]
    return None if None in counts else sum(count or 0 for count in counts)
