"""What the overview shows: the same context for the page and for its live pieces.

The tiles' rates are averages over SMOOTH_S: clients fetch in batches, so that a single second is
0 or thousands by chance. The chart shows every second as it was.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from typing import Any, Final

from django.template.loader import render_to_string

from hermes_console.clusters import Cluster
from hermes_console.content import LiveContent
from hermes_console.operations.topics_catalogue import TopicEntry, known_catalogue
from hermes_console.samples.read import ThroughputPoint, cluster_history
from hermes_console.samples.snapshot import (
    NEEDS_ATTENTION,
    ClusterSnapshot,
    Disk,
    Rates,
    by_attention,
)
from hermes_console.spans import SPANS, Line, Span, chart_lines, chart_points, requested_span
from hermes_console.words import used_percent

ATTENTION_ROWS_MAX: Final = 8
SMOOTH_S: Final = 10
CATALOGUE_S_MAX: Final = 30.0
"""How old the topics' state may be here: the topics page itself looks more often."""
DISK_SCARCE_SHARE: Final = 0.1
CHART_POINTS: Final = 900
"""About as many points as the chart is pixels wide."""
CHART_LINES: Final = chart_lines(Line("Messages in", "/s"), Line("Messages out", "/s"))
LIVE_PIECES: Final = {
    "live-banner": "live/banner.html",
    "live-tiles": "overview/tiles.html",
    "live-attention": "overview/attention.html",
    "live-brokers": "overview/brokers.html",
    "live-twin": "overview/twin.html",
}


def overview_context(
    cluster: Cluster, snapshot: ClusterSnapshot | None, span: Span
) -> dict[str, Any]:
    """Everything the page's templates name. Without a snapshot the page says that it waits."""
    ordered = by_attention(snapshot.groups) if snapshot else []
    ailing = [group for group in ordered if group.verdict in NEEDS_ATTENTION]
    topics = ailing_topics(cluster, snapshot)
    return {
        "cluster": cluster,
        "snapshot": snapshot,
        "rates": smooth_rates(cluster, snapshot) if snapshot else Rates(),
        "smooth_s": SMOOTH_S,
        "ailing_topics": topics[:ATTENTION_ROWS_MAX],
        "ailing_topics_more": max(0, len(topics) - ATTENTION_ROWS_MAX),
        "span": span,
        "spans": SPANS,
        "series": CHART_LINES,
        "attention": ailing[:ATTENTION_ROWS_MAX],
        "attention_more": max(0, len(ailing) - ATTENTION_ROWS_MAX),
        "ailing_count": len(ailing),
        "disk_share": disk_share(snapshot.disk) if snapshot else None,
        "is_disk_scarce": is_disk_scarce(snapshot.disk) if snapshot else False,
        "twin": _history(cluster, span, span.step_s),
    }


def render_live(
    cluster: Cluster, snapshot: ClusterSnapshot, parameters: Mapping[str, str]
) -> LiveContent:
    """The page's pieces and the newest point of its chart."""
    context = overview_context(cluster, snapshot, requested_span(parameters))
    html = {key: render_to_string(template, context) for key, template in LIVE_PIECES.items()}
    row = (snapshot.at_ms // 1000, snapshot.rates.messages_in, snapshot.rates.messages_out)
    return LiveContent(html, {"points": chart_points([row])})


def throughput_points(cluster: Cluster, span: Span) -> list[list[Any]]:
    """[at_s, messages in/s, messages out/s], oldest first."""
    rows = _history(cluster, span, step_s=max(1, span.seconds // CHART_POINTS))
    return chart_points([(row.at_s, row.messages_in_per_s, row.messages_out_per_s) for row in rows])


def smooth_rates(cluster: Cluster, snapshot: ClusterSnapshot) -> Rates:
    """Averages of what was sampled in the SMOOTH_S before the snapshot; None where nothing was."""
    if snapshot.trouble:
        return Rates()
    until_s = snapshot.at_ms // 1000 + 1
    rows = cluster_history(cluster.pk, since_s=until_s - SMOOTH_S, until_s=until_s, step_s=1)
    return Rates(
        messages_in=_mean([row.messages_in_per_s for row in rows]),
        bytes_in=_mean([row.bytes_in_per_s for row in rows]),
        messages_out=_mean([row.messages_out_per_s for row in rows]),
        bytes_out=_mean([row.bytes_out_per_s for row in rows]),
    )


def ailing_topics(cluster: Cluster, snapshot: ClusterSnapshot | None) -> list[TopicEntry]:
    """Topics with partitions that have no leader or lack replicas; [] while that is not known: the
    page never waits for it.
    """
    if snapshot is None or snapshot.trouble:
        return []
    known = known_catalogue(cluster, age_s_max=CATALOGUE_S_MAX)
    return [one for one in known.entries if one.trouble] if known else []


def _mean(values: Sequence[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return sum(known) / len(known) if known else None


def disk_share(disk: Disk) -> int | None:
    """Percent of the file system in use, 0 to 100; None when unknown."""
    return used_percent(disk.used_bytes, disk.free_bytes)


def is_disk_scarce(disk: Disk) -> bool:
    share = disk_share(disk)
    return share is not None and share > 100 * (1 - DISK_SCARCE_SHARE)


def _history(cluster: Cluster, span: Span, step_s: int) -> list[ThroughputPoint]:
    until_s = int(time.time()) + 1
    return cluster_history(
        cluster.pk, since_s=until_s - span.seconds, until_s=until_s, step_s=step_s
    )
