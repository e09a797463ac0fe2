"""Every topic of a cluster by name, kept for a moment: lists filter and order it, then ask for more
about the visible rows only.

A list of 5,000 topics costs the broker and this process a few hundred milliseconds, so it is read
once per CATALOGUE_S_MAX and process, and anew after every act of this process (`forget`).
"""

from __future__ import annotations

import logging
import threading
import time
from collections import Counter, OrderedDict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from broker.client.blocking import BlockingClient, ClientError, TopicView
from hermes_console.clusters import Cluster
from hermes_console.connect import client_for
from hermes_console.samples.snapshot import NEEDS_ATTENTION, ClusterSnapshot, GroupSummary

CATALOGUE_S_MAX: Final = 5.0
CATALOGUES_MAX: Final = 32
INTERNAL_PREFIX: Final = "__"

_kept: OrderedDict[tuple[int, str], Catalogue] = OrderedDict()
_reading: set[tuple[int, str]] = set()
_lock = threading.Lock()
log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class TopicEntry:
    """What the metadata alone tells of a topic."""

    name: str
    topic_id: bytes
    is_internal: bool
    partition_count: int
    replication_factor: int
    leaderless_count: int
    under_replicated_count: int

    @property
    def trouble(self) -> str:
        """What is wrong with its partitions, "" when nothing is."""
        parts = []
        if self.leaderless_count:
            parts.append(f"{_partitions(self.leaderless_count)} without a leader")
        if self.under_replicated_count:
            parts.append(f"{_partitions(self.under_replicated_count)} not fully replicated")
        return ", ".join(parts)


@dataclass(frozen=True, slots=True)
class Catalogue:
    """All topics by name, as of `at_s` (of the monotonic clock). `leaders` and `replicas`: how many
    each broker has, by its id.
    """

    at_s: float
    entries: tuple[TopicEntry, ...]
    leaders: Mapping[int, int]
    replicas: Mapping[int, int]


class Show(StrEnum):
    """Which topics a list shows."""

    OWN = ""
    INTERNAL = "internal"
    ALL = "all"
    ATTENTION = "attention"


class Sort(StrEnum):
    """How a list is ordered; `size` needs the sizes of all topics."""

    NAME = "name"
    PARTITIONS = "partitions"
    SIZE = "size"


def read_catalogue(cluster: Cluster, *, age_s_max: float = CATALOGUE_S_MAX) -> Catalogue:
    """Not older than `age_s_max`. Raises ClientError."""
    key = (cluster.pk, cluster.bootstrap_address)
    with _lock:
        known = _kept.get(key)
    if known is not None and time.monotonic() - known.at_s <= age_s_max:
        return known
    return _read(client_for(cluster), key)


def _read(client: BlockingClient, key: tuple[int, str]) -> Catalogue:
    topics = client.list_topics(with_internal=True)
    found = make_catalogue(time.monotonic(), topics)
    with _lock:
        _kept[key] = found
        _kept.move_to_end(key)
        while len(_kept) > CATALOGUES_MAX:
            _kept.popitem(last=False)
    return found


def known_catalogue(cluster: Cluster, *, age_s_max: float) -> Catalogue | None:
    """What is known already, without waiting; when that is older than `age_s_max`, a thread of its
    own reads it anew for the next caller. None before the first one is read.
    """
    key = (cluster.pk, cluster.bootstrap_address)
    with _lock:
        known = _kept.get(key)
        is_due = known is None or time.monotonic() - known.at_s > age_s_max
        if not is_due or key in _reading:
            return known
    client = client_for(cluster)  # here: a thread's own connection to the database would stay open
    with _lock:
        if key in _reading or len(_reading) >= CATALOGUES_MAX:
            return known
        _reading.add(key)
    threading.Thread(
        target=_read_aside,
        args=(client, key, cluster.name),
        name=f"catalogue-{cluster.name}",
        daemon=True,
    ).start()
    return known


def _read_aside(client: BlockingClient, key: tuple[int, str], name: str) -> None:
    try:
        _read(client, key)
    except ClientError:
        log.info("the topics of cluster %s could not be read", name)
    finally:
        with _lock:
            _reading.discard(key)


def make_catalogue(at_s: float, topics: Iterable[TopicView]) -> Catalogue:
    leaders: Counter[int] = Counter()
    replicas: Counter[int] = Counter()
    entries = []
    for topic in topics:
        entries.append(entry_of(topic))
        for partition in topic.partitions:
            leaders[partition.leader] += 1
            replicas.update(partition.replicas)
    return Catalogue(at_s, tuple(entries), leaders, replicas)


def forget_catalogue(cluster: Cluster) -> None:
    """After an act of ours: the next list shows it."""
    with _lock:
        _kept.pop((cluster.pk, cluster.bootstrap_address), None)


def is_internal(topic: TopicView) -> bool:
    """Whether the topic belongs to the cluster or to a part of the platform, such as the gateway:
    these names begin with two underscores.
    """
    return topic.is_internal or topic.name.startswith(INTERNAL_PREFIX)


def entry_of(topic: TopicView) -> TopicEntry:
    partitions = topic.partitions
    return TopicEntry(
        name=topic.name,
        topic_id=topic.topic_id,
        is_internal=is_internal(topic),
        partition_count=len(partitions),
        replication_factor=max((len(one.replicas) for one in partitions), default=0),
        leaderless_count=sum(one.leader < 0 for one in partitions),
        under_replicated_count=sum(
            one.leader >= 0 and len(one.in_sync_replicas) < len(one.replicas) for one in partitions
        ),
    )


def readers_by_topic(snapshot: ClusterSnapshot | None) -> dict[str, list[GroupSummary]]:
    """Topic → the groups that read it, as last sampled."""
    found: dict[str, list[GroupSummary]] = {}
    for group in snapshot.groups if snapshot else ():
        for topic in group.topics:
            found.setdefault(topic, []).append(group)
    return found


def select_topics(
    entries: Iterable[TopicEntry],
    *,
    search: str = "",
    show: Show = Show.OWN,
    readers: Mapping[str, list[GroupSummary]],
) -> list[TopicEntry]:
    """The entries that fit, in order of name. `search` is a part of the name, never a pattern."""
    wanted = search.casefold()
    return [
        entry
        for entry in entries
        if wanted in entry.name.casefold() and _is_shown(entry, show, readers.get(entry.name, ()))
    ]


def _is_shown(entry: TopicEntry, show: Show, readers: Iterable[GroupSummary]) -> bool:
    if show is Show.OWN:
        return not entry.is_internal
    if show is Show.INTERNAL:
        return entry.is_internal
    if show is Show.ATTENTION:
        return bool(entry.trouble) or any(group.verdict in NEEDS_ATTENTION for group in readers)
    return True


def _partitions(count: int) -> str:
    return "1 partition" if count == 1 else f"{count:,} partitions"
