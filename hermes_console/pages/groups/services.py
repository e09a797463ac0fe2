"""What the pages of groups show: the same context for a page and for its live pieces."""

from __future__ import annotations

import hashlib
import time
from collections.abc import Mapping
from typing import Any, Final

from django.core.cache import cache
from django.core.paginator import Page, Paginator
from django.template.loader import render_to_string

from hermes_console.clusters import Cluster
from hermes_console.content import LiveContent
from hermes_console.pages.groups.query import (
    PAGE_SIZE,
    SHOW_CHOICES,
    GroupsQuery,
    read_query,
    select_groups,
)
from hermes_console.samples.read import (
    LagPoint,
    group_history,
    latest_group,
    sparklines,
)
from hermes_console.samples.snapshot import ClusterSnapshot, GroupDetail, GroupSummary
from hermes_console.spans import SPANS, Line, Span, chart_lines, chart_points, requested_span

SPARKLINE_SPAN_S: Final = 900
SPARKLINE_STEP_S: Final = 15
TWIN_EVERY_S: Final = 15
PARTITIONS_PER_PAGE: Final = 100
MEMBERS_SHOWN_MAX: Final = 200
CHART_LINES: Final = chart_lines(
    Line("Messages waiting", ""), Line("Seconds behind", " s", axis="right")
)
LIST_PIECES: Final = {"live-banner": "live/banner.html", "live-groups": "groups/table.html"}
DETAIL_PIECES: Final = {
    "live-banner": "live/banner.html",
    "live-verdict": "groups/verdict.html",
    "live-blockers": "groups/blockers.html",
    "live-tiles": "groups/tiles.html",
    "live-partitions": "groups/partitions.html",
    "live-members": "groups/members.html",
}


def list_context(
    cluster: Cluster, snapshot: ClusterSnapshot | None, query: GroupsQuery
) -> dict[str, Any]:
    """Filter and order all groups, then look up the history of the visible ones only."""
    groups = snapshot.groups if snapshot else ()
    found = select_groups(groups, query)
    page = Paginator(found, PAGE_SIZE).get_page(query.page)
    until_s = (int(time.time()) // SPARKLINE_STEP_S + 1) * SPARKLINE_STEP_S
    return {
        "cluster": cluster,
        "snapshot": snapshot,
        "query": query,
        "show_choices": SHOW_CHOICES,
        "page": page,
        "rows": _with_sparklines(cluster, page, until_s),
        "group_count": len(groups),
        "found_count": len(found),
        "since_s": until_s - SPARKLINE_SPAN_S,
        "until_s": until_s,
        "addresses": {
            "name": query.address(sort="name"),
            "lag": query.address(sort="lag"),
            "behind": query.address(sort="behind"),
            "attention": query.address(sort="attention"),
            "previous": query.address(page=page.number - 1),
            "next": query.address(page=page.number + 1),
        },
    }


def detail_context(
    cluster: Cluster, snapshot: ClusterSnapshot, detail: GroupDetail, parameters: Mapping[str, str]
) -> dict[str, Any]:
    """One group. Partitions are paged: a group may read thousands."""
    context = _live_context(cluster, snapshot, detail, parameters)
    span: Span = context["span"]
    return {
        **context,
        "spans": SPANS,
        "series": CHART_LINES,
        "twin": _history(cluster, detail.summary.name, span, span.step_s),
    }


def _live_context(
    cluster: Cluster, snapshot: ClusterSnapshot, detail: GroupDetail, parameters: Mapping[str, str]
) -> dict[str, Any]:
    """What changes with every sample; the table beside the chart changes less often."""
    return {
        "cluster": cluster,
        "snapshot": snapshot,
        "group": detail.summary,
        "blockers": detail.blockers,
        "partitions": Paginator(detail.partitions, PARTITIONS_PER_PAGE).get_page(
            parameters.get("page")
        ),
        "members": detail.members[:MEMBERS_SHOWN_MAX],
        "members_more": max(0, len(detail.members) - MEMBERS_SHOWN_MAX),
        "span": requested_span(parameters),
    }


def render_live_list(
    cluster: Cluster, snapshot: ClusterSnapshot, parameters: Mapping[str, str]
) -> LiveContent:
    context = list_context(cluster, snapshot, read_query(parameters))
    return LiveContent({key: render_to_string(name, context) for key, name in LIST_PIECES.items()})


def render_live_group(
    cluster: Cluster, snapshot: ClusterSnapshot, parameters: Mapping[str, str]
) -> LiveContent:
    """A group that went away leaves the banner alone: its last numbers stay on the page."""
    detail = latest_group(cluster.pk, parameters.get("group", ""))
    if detail is None:
        gone = {"cluster": cluster, "snapshot": snapshot, "is_gone": True}
        return LiveContent({"live-banner": render_to_string("live/banner.html", gone)})
    context = _live_context(cluster, snapshot, detail, parameters)
    html: dict[str, str] = {
        key: render_to_string(name, context) for key, name in DETAIL_PIECES.items()
    }
    html["live-twin"] = _twin_html(cluster, detail.summary.name, context)
    if snapshot.trouble:
        return LiveContent(html)
    point = (snapshot.at_ms // 1000, detail.summary.lag, detail.summary.lag_seconds)
    return LiveContent(html, {"points": chart_points([point])})


def lag_points(cluster: Cluster, group: str, span: Span) -> list[list[Any]]:
    """[at_s, lag, seconds behind], oldest first."""
    return chart_points(_history(cluster, group, span, None))


def _twin_html(cluster: Cluster, group: str, context: Mapping[str, Any]) -> str:
    """The table beside the chart, made once per TWIN_EVERY_S for all who watch the group."""
    span: Span = context["span"]
    digest = hashlib.sha256(group.encode("utf-8", "surrogatepass")).hexdigest()
    key = f"twin:{cluster.pk}:{digest}:{span.key}:{int(time.time()) // TWIN_EVERY_S}"
    found: str | None = cache.get(key)
    if found is None:
        twin = _history(cluster, group, span, span.step_s)
        found = render_to_string("groups/twin.html", {**context, "twin": twin})
        cache.set(key, found, TWIN_EVERY_S)
    return found


def _history(cluster: Cluster, group: str, span: Span, step_s: int | None) -> list[LagPoint]:
    until_s = int(time.time()) + 1
    return group_history(
        cluster.pk, group, since_s=until_s - span.seconds, until_s=until_s, step_s=step_s
    )


def _with_sparklines(
    cluster: Cluster, page: Page[GroupSummary], until_s: int
) -> list[tuple[GroupSummary, list[LagPoint]]]:
    """The visible rows with their last quarter of an hour, looked up once per step for all viewers
    of the same rows.
    """
    names = [group.name for group in page.object_list]
    key = f"sparklines:{cluster.pk}:{until_s}:{hash(tuple(names))}"
    found = cache.get(key)
    if found is None:
        found = sparklines(
            cluster.pk,
            names,
            since_s=until_s - SPARKLINE_SPAN_S,
            until_s=until_s,
            step_s=SPARKLINE_STEP_S,
        )
        cache.set(key, found, SPARKLINE_STEP_S)
    return [(group, found.get(group.name, [])) for group in page.object_list]
