"""What the pages of topics show: the same context for a page and for its live pieces.

The list is filtered, ordered and paged on names first; the cluster is asked about the visible rows
alone, at most every ROWS_S for the same rows however many watch.
"""

from __future__ import annotations

import hashlib
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from django.core.cache import cache
from django.core.paginator import Paginator
from django.template.loader import render_to_string

from hermes_console.clusters import Cluster
from hermes_console.content import LiveContent
from hermes_console.errors import Trouble
from hermes_console.operations.configs import retention_in_words, window_in_words
from hermes_console.operations.topics_catalogue import (
    Show,
    Sort,
    TopicEntry,
    read_catalogue,
    readers_by_topic,
    select_topics,
)
from hermes_console.operations.topics_impact import Reader, read_readers
from hermes_console.operations.topics_rates import RatePoint, count_points, read_rate_history
from hermes_console.operations.topics_read import (
    Gaps,
    Topic,
    TopicNumbers,
    read_numbers,
    read_sizes,
    read_topic,
    sum_by_topic,
)
from hermes_console.pages.topics.query import (
    PAGE_SIZE,
    SHOW_CHOICES,
    TopicsQuery,
    read_query,
)
from hermes_console.pagetrouble import TROUBLES, known_trouble
from hermes_console.samples.read import latest_cluster
from hermes_console.samples.snapshot import ClusterSnapshot
from hermes_console.spans import SPANS, Line, Span, chart_lines, chart_points, requested_span

ROWS_S: Final = 5
KNOWN_DOWN_MS: Final = 15_000
TOPIC_S: Final = 3
SIZES_S: Final = 30
RATES_S: Final = 15
PARTITIONS_PER_PAGE: Final = 100
READERS_SHOWN_MAX: Final = 2
CHART_LINES: Final = chart_lines(Line("Messages in", "/s"))
LIST_PIECES: Final = {"live-banner": "live/banner.html", "live-topics": "topics/table.html"}
DETAIL_PIECES: Final = {
    "live-banner": "live/banner.html",
    "live-tiles": "topics/tiles.html",
    "live-partitions": "topics/partitions.html",
    "live-readers": "topics/readers.html",
}


@dataclass(frozen=True, slots=True)
class Row:
    """A visible row of the list."""

    entry: TopicEntry
    numbers: TopicNumbers
    readers: tuple[Reader, ...]
    readers_more: int

    @property
    def retention(self) -> str:
        numbers = self.numbers
        if numbers.cleanup_policy is None:
            return "unknown"
        return retention_in_words(
            numbers.retention_ms, numbers.retention_bytes, numbers.cleanup_policy
        )


def list_context(
    cluster: Cluster, snapshot: ClusterSnapshot | None, query: TopicsQuery
) -> dict[str, Any]:
    """Everything the list's templates name; when the cluster does not answer, why."""
    base = {
        "cluster": cluster,
        "snapshot": snapshot,
        "query": query,
        "show_choices": SHOW_CHOICES,
    }
    gaps = Gaps()
    if snapshot is not None and is_known_down(snapshot, time.time_ns() // 1_000_000):
        return {**base, "trouble": Trouble(503, "cluster-unreachable", snapshot.trouble)}
    try:
        entries = read_catalogue(cluster).entries
    except TROUBLES as error:
        return {**base, "trouble": known_trouble(error)}
    found = select_topics(
        entries, search=query.search, show=query.show, readers=readers_by_topic(snapshot)
    )
    page = Paginator(_ordered(cluster, found, query.sort, gaps), PAGE_SIZE).get_page(query.page)
    visible = list(page.object_list)
    numbers, sentences = _numbers(cluster, visible)
    readers = read_readers(cluster, [one.name for one in visible], snapshot)
    return {
        **base,
        "page": page,
        "rows": [_row(one, numbers[one.name], readers[one.name]) for one in visible],
        "gaps": [*gaps.sentences, *sentences],
        "topic_count": sum(not one.is_internal for one in entries),
        "found_count": len(found),
        "is_internal_shown": query.show in {Show.INTERNAL, Show.ALL, Show.ATTENTION},
        "addresses": {
            **{sort.value: query.address(sort=sort) for sort in Sort},
            "previous": query.address(page=page.number - 1),
            "next": query.address(page=page.number + 1),
        },
    }


def detail_context(
    cluster: Cluster,
    snapshot: ClusterSnapshot | None,
    topic: Topic,
    parameters: Mapping[str, str],
) -> dict[str, Any]:
    """One topic. Partitions are paged: a topic may have thousands."""
    span = requested_span(parameters)
    page = Paginator(topic.partitions, PARTITIONS_PER_PAGE).get_page(parameters.get("page"))
    readers = read_readers(cluster, [topic.name], snapshot)[topic.name]
    return {
        "cluster": cluster,
        "snapshot": snapshot,
        "topic": topic,
        "retention": retention_in_words(
            topic.setting("retention.ms"),
            topic.setting("retention.bytes"),
            topic.setting("cleanup.policy") or "",
        ),
        "window_words": window_in_words(
            topic.setting("delivery.delay.ms"), topic.setting("delivery.ttl.ms")
        ),
        "dirty_percent": _dirty_percent(snapshot, topic),
        "partitions": page,
        "readers": readers,
        "span": span,
        "spans": SPANS,
        "series": CHART_LINES,
        "has_chart": count_points(len(topic.partitions)) > 0,
    }


def _dirty_percent(snapshot: ClusterSnapshot | None, topic: Topic) -> int | None:
    """How much of the closed segments of its worst partition waits for compaction; None for a
    topic that is not compacted, and where nobody tells.
    """
    is_told = snapshot is not None and snapshot.storage.node_id is not None
    if snapshot is None or not is_told or "compact" not in (topic.setting("cleanup.policy") or ""):
        return None
    return round(snapshot.storage.dirty_shares.get(topic.name, 0.0) * 100)


def is_known_down(snapshot: ClusterSnapshot, now_ms: int) -> bool:
    """Whether the sampler found a moment ago that the cluster does not answer: then nobody waits
    for another call to fail.
    """
    return bool(snapshot.trouble) and now_ms - snapshot.at_ms <= KNOWN_DOWN_MS


def render_live_list(
    cluster: Cluster, snapshot: ClusterSnapshot, parameters: Mapping[str, str]
) -> LiveContent:
    context = list_context(cluster, snapshot, read_query(parameters))
    return LiveContent({key: render_to_string(name, context) for key, name in LIST_PIECES.items()})


def render_live_topic(
    cluster: Cluster, snapshot: ClusterSnapshot, parameters: Mapping[str, str]
) -> LiveContent:
    """A topic that went away, or a cluster that does not answer, leaves the banner alone: the last
    numbers stay on the page.
    """
    try:
        topic = recent_topic(cluster, parameters.get("topic", ""))
    except TROUBLES as error:
        gone = {"cluster": cluster, "snapshot": snapshot, "trouble": known_trouble(error)}
        return LiveContent({"live-banner": render_to_string("topics/gone.html", gone)})
    context = detail_context(cluster, snapshot, topic, parameters)
    return LiveContent(
        {key: render_to_string(name, context) for key, name in DETAIL_PIECES.items()}
    )


@dataclass(frozen=True, slots=True)
class Impact:
    """Who reads a topic, as last sampled; `is_known` is False before the first sample."""

    readers: tuple[Reader, ...]
    member_count: int
    is_known: bool

    @property
    def active_count(self) -> int:
        return sum(one.member_count > 0 for one in self.readers)


def impact_of(cluster: Cluster, topic: Topic) -> Impact:
    snapshot = latest_cluster(cluster.pk)
    readers = read_readers(cluster, [topic.name], snapshot)[topic.name]
    return Impact(
        tuple(readers),
        sum(one.member_count for one in readers),
        is_known=snapshot is not None and not snapshot.trouble,
    )


def recent_topic(cluster: Cluster, name: str) -> Topic:
    """Not older than TOPIC_S. Raises Refused (404), ClientError."""
    key = _key("topic", cluster, name)
    found: Topic | None = cache.get(key)
    if found is None:
        found = read_topic(cluster, name)
        cache.set(key, found, TOPIC_S)
    return found


def forget_topic(cluster: Cluster, name: str) -> None:
    """After an act of ours: the next page shows it."""
    cache.delete(_key("topic", cluster, name))


def rate_points(cluster: Cluster, topic: Topic, span: Span) -> list[RatePoint]:
    """The points of the chart, at most RATES_S old. Raises ClientError."""
    key = _key("rates", cluster, f"{topic.topic_id} {topic.name} {span.key}")
    found: list[RatePoint] | None = cache.get(key)
    if found is None:
        found = read_rate_history(
            cluster,
            topic.name,
            len(topic.partitions),
            span_s=span.seconds,
            now_s=int(time.time()),
            is_whole_log=topic.is_windowed,
        )
        cache.set(key, found, RATES_S)
    return found


def chart_json(points: Sequence[RatePoint]) -> list[list[Any]]:
    """[at_s, messages per second], oldest first."""
    return chart_points([(one.at_s, one.per_s) for one in points])


def _ordered(cluster: Cluster, found: list[TopicEntry], sort: Sort, gaps: Gaps) -> list[TopicEntry]:
    if sort is Sort.PARTITIONS:
        return sorted(found, key=lambda one: (-one.partition_count, one.name))
    if sort is Sort.SIZE:
        sizes = _all_sizes(cluster, gaps)
        return sorted(found, key=lambda one: (-sizes.get(one.name, 0), one.name))
    return found


def _all_sizes(cluster: Cluster, gaps: Gaps) -> dict[str, int]:
    """Bytes of every topic, at most SIZES_S old: the one order that needs more than names."""
    key = _key("sizes", cluster, "")
    found: dict[str, int] | None = cache.get(key)
    if found is None:
        found = sum_by_topic(read_sizes(cluster, None, gaps) or {})
        cache.set(key, found, SIZES_S)
    return found


def _numbers(
    cluster: Cluster, visible: list[TopicEntry]
) -> tuple[dict[str, TopicNumbers], list[str]]:
    names = " ".join(f"{one.name}:{one.topic_id.hex()}:{one.partition_count}" for one in visible)
    key = _key("topic-rows", cluster, names)
    found: tuple[dict[str, TopicNumbers], list[str]] | None = cache.get(key)
    if found is None:
        gaps = Gaps()
        found = read_numbers(cluster, visible, gaps), gaps.sentences
        cache.set(key, found, ROWS_S)
    return found


def _row(entry: TopicEntry, numbers: TopicNumbers, readers: list[Reader]) -> Row:
    return Row(
        entry,
        numbers,
        tuple(readers[:READERS_SHOWN_MAX]),
        max(0, len(readers) - READERS_SHOWN_MAX),
    )


def _key(kind: str, cluster: Cluster, text: str) -> str:
    digest = hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:32]
    return f"{kind}:{cluster.pk}:{digest}"
