"""Filters and tags of every template (no `load` needed): icons, numbers, lines, verdicts."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime
from functools import cache
from typing import Final

from django import template
from django.template import Context
from django.utils import timezone
from django.utils.html import format_html
from django.utils.safestring import SafeString, mark_safe

from hermes_console import words
from hermes_console.clusters import Cluster
from hermes_console.curl import curl
from hermes_console.icons import ICONS
from hermes_console.samples.read import LagPoint
from hermes_console.samples.snapshot import ClusterSnapshot, GroupSummary, Verdict
from hermes_console.storagealarms import storage_alarms

DAY_S: Final = 86_400
TIME_FORMS: Final = {
    "clock": "%H:%M:%S",
    "minute": "%Y-%m-%d %H:%M",
    "full": "%Y-%m-%d %H:%M:%S %Z",
}
SPARKLINE_WIDTH: Final = 120
SPARKLINE_HEIGHT: Final = 26
VERDICT_WORDS: Final = {
    Verdict.STALLED: "Stalled",
    Verdict.STOPPED: "Stopped",
    Verdict.REWOUND: "Rewound",
    Verdict.FALLING_BEHIND: "Falling behind",
    Verdict.UNKNOWN: "Unknown",
    Verdict.FINE: "Fine",
}

register = template.Library()
register.filter("number", words.number)
register.filter("rate", words.rate)
register.filter("signed_rate", words.signed_rate)
register.filter("signed_number", words.signed_number)
register.filter("size", words.size)
register.filter("duration", words.duration)


@register.simple_tag
@cache
def icon(name: str) -> SafeString:
    """An inline SVG; the text beside it carries the meaning."""
    strokes = mark_safe(ICONS[name])  # noqa: S308  our own table
    return format_html(
        '<svg class="icon" viewBox="0 0 16 16" aria-hidden="true" focusable="false">{}</svg>',
        strokes,
    )


@register.simple_tag
@cache
def verdict(value: Verdict) -> SafeString:
    """A badge: icon, word and colour."""
    return format_html(
        '<span class="badge badge-{}">{}{}</span>',
        value.value,
        icon(value.value),
        VERDICT_WORDS[value],
    )


UNKNOWN: Final = mark_safe('<span class="quiet">unknown</span>')
AT_LEAST: Final = mark_safe(
    '<abbr title="at least: the console has not watched for longer">≥</abbr> '
)


@register.simple_tag
def behind(seconds: float | None, is_at_least: bool) -> SafeString:  # noqa: FBT001  a template's
    """How long the oldest unread message waits. A tag, no included template: it stands in every row
    of tables that are rendered anew with each sample.
    """
    if seconds is None:
        return UNKNOWN
    return format_html("{}{}", AT_LEAST if is_at_least else "", words.duration(seconds))


@register.simple_tag
def drain(group: GroupSummary) -> SafeString:
    """When nothing waits any more at this pace."""
    if group.lag is None or group.slope_per_s is None:
        return UNKNOWN
    if group.drain_seconds is not None and group.drain_seconds >= 1:
        return format_html("{}", words.duration(group.drain_seconds))
    if group.keeps_up:
        word = "keeps up"
    else:
        word = "grows just now" if group.verdict is Verdict.FINE else "not at this pace"
    return format_html('<span class="quiet">{}</span>', word)


@register.filter
def clock(at_ms: int) -> SafeString:
    """The time of day in the page's time zone."""
    return _time(datetime.fromtimestamp(at_ms / 1000, UTC), "clock")


@register.simple_tag
def when(at: datetime | int | None) -> SafeString:
    """Date and time of a datetime or of milliseconds since 1970, in the page's time zone, which it
    names; as `3 min ago` for who prefers that.
    """
    if at is None:
        return format_html('<span class="quiet">{}</span>', "never")
    moment_ = datetime.fromtimestamp(at / 1000, UTC) if isinstance(at, int) else at
    return _time(moment_, "full")


def _time(at: datetime, form: str) -> SafeString:
    """`data-time` tells the page's script how to write it in the reader's zone."""
    local = at.astimezone(timezone.get_current_timezone())
    return format_html(
        '<time datetime="{}" data-time="{}">{}</time>',
        at.astimezone(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z"),
        form,
        local.strftime(TIME_FORMS[form]).strip(),
    )


@register.inclusion_tag("layout/api_call.html", takes_context=True)
def api_call(
    context: Context, method: str, path: str, body: str = "", *, if_match: bool = False
) -> dict[str, object]:
    """The page's call of the admin API as a line for a shell. `body` is JSON; `if_match` says that
    the call wants the ETag of its GET.
    """
    request = context.get("request")
    address = request.build_absolute_uri(path) if request is not None else path
    return {"call": curl(method, address, body, with_if_match=if_match), "method": method}


@register.inclusion_tag("live/storage.html")
def storage_notices(
    cluster: Cluster, snapshot: ClusterSnapshot | None, topic: str = ""
) -> dict[str, object]:
    """What is wrong with disks and logs; on a topic's page, of that topic."""
    return {"cluster": cluster, "alarms": storage_alarms(snapshot or None, topic or "")}


@register.simple_tag
def sparkline(points: Sequence[LagPoint], since_s: int, until_s: int) -> SafeString:
    """Lag over time as a small picture with a sentence for those who do not see it; a gap where
    nothing is known.
    """
    known = [(point.at_s, point.lag) for point in points if point.lag is not None]
    if len(known) < 2:
        return format_html('<span class="quiet">{}</span>', "no history yet")
    highest = max(lag for _, lag in known)
    coordinates = [
        (
            (at_s - since_s) / (until_s - since_s) * SPARKLINE_WIDTH,
            SPARKLINE_HEIGHT - 1.5 - (lag / highest if highest else 0) * (SPARKLINE_HEIGHT - 4),
        )
        for at_s, lag in known
    ]
    line = " ".join(f"{x:.1f},{y:.1f}" for x, y in coordinates)
    left, right = coordinates[0][0], coordinates[-1][0]
    area = f"{left:.1f},{SPARKLINE_HEIGHT} {line} {right:.1f},{SPARKLINE_HEIGHT}"
    return format_html(
        '<svg class="sparkline" viewBox="0 0 {} {}" role="img" aria-label="{}">'
        '<line x1="0" x2="{}" y1="{}" y2="{}"/>'
        '<polygon points="{}"/><polyline points="{}"/></svg>',
        SPARKLINE_WIDTH,
        SPARKLINE_HEIGHT,
        f"lag from {known[0][1]:,} to {known[-1][1]:,}, highest {highest:,}",
        SPARKLINE_WIDTH,
        SPARKLINE_HEIGHT - 0.5,
        SPARKLINE_HEIGHT - 0.5,
        area,
        line,
    )


@register.filter
def moment(at_s: int, span_seconds: int) -> SafeString:
    """The time of day of a point, with the date when the span is longer than a day."""
    at = datetime.fromtimestamp(at_s, UTC)
    return _time(at, "minute" if span_seconds > DAY_S else "clock")
