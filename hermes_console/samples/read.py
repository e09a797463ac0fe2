"""What pages, API and live sockets know about a cluster: the latest snapshots and the history.
Reads only.

The newest cluster snapshot is decoded once per sequence number and process, however many viewers
there are.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Sequence
from typing import Final, NamedTuple

from django.db.models import BigIntegerField, ExpressionWrapper, F, Max
from django.db.models.expressions import CombinedExpression

from hermes_console.names import is_storable
from hermes_console.samples.models import ClusterLatest, ClusterSample, GroupLatest, GroupSample
from hermes_console.samples.snapshot import ClusterSnapshot, GroupDetail
from hermes_console.samples.thinning import level_for

DECODED_MAX: Final = 64
POINTS_MAX: Final = 1_000

_decoded: OrderedDict[int, tuple[int, ClusterSnapshot]] = OrderedDict()
_decoded_lock = threading.Lock()


class LagPoint(NamedTuple):
    """A group's lag at a time; None is unknown."""

    at_s: int
    lag: int | None
    lag_seconds: float | None


class ThroughputPoint(NamedTuple):
    """A cluster's rates at a time; None is unknown."""

    at_s: int
    messages_in_per_s: float | None
    messages_out_per_s: float | None
    bytes_in_per_s: float | None
    bytes_out_per_s: float | None


def latest_cluster(cluster_id: int) -> ClusterSnapshot | None:
    """The newest snapshot; None before the first sample."""
    rows = ClusterLatest.objects.filter(cluster_id=cluster_id)
    sequence = rows.values_list("sequence", flat=True).first()
    if sequence is None:
        return None
    with _decoded_lock:
        known = _decoded.get(cluster_id)
    if known is not None and known[0] == sequence:
        return known[1]
    row = rows.get()
    snapshot = ClusterSnapshot.from_text(row.payload)
    with _decoded_lock:
        _decoded[cluster_id] = (row.sequence, snapshot)
        while len(_decoded) > DECODED_MAX:
            _decoded.popitem(last=False)
    return snapshot


def latest_group(cluster_id: int, name: str) -> GroupDetail | None:
    """One group with its partitions and members; None when there is no such group."""
    if not is_storable(name):
        return None
    row = GroupLatest.objects.filter(cluster_id=cluster_id, name=name).first()
    return None if row is None else GroupDetail.from_text(row.payload)


def group_history(
    cluster_id: int, name: str, *, since_s: int, until_s: int, step_s: int | None = None
) -> list[LagPoint]:
    """Lag in [since_s, until_s), oldest first, highest per `step_s` (None: so that at most
    POINTS_MAX points are left).
    """
    step_s = step_s or _step(until_s - since_s)
    rows = (
        GroupSample.objects.filter(
            series__cluster_id=cluster_id,
            series__group=name,
            resolution_s=level_for(until_s - since_s).resolution_s,
            at_s__gte=since_s,
            at_s__lt=until_s,
        )
        .values(bucket=_bucket(step_s))
        .annotate(highest=Max("lag"), longest=Max("lag_seconds"))
        .order_by("bucket")
    )
    return [LagPoint(row["bucket"], row["highest"], row["longest"]) for row in rows]


def sparklines(
    cluster_id: int, names: Sequence[str], *, since_s: int, until_s: int, step_s: int
) -> dict[str, list[LagPoint]]:
    """Lag of each named group, highest per `step_s`; a group without samples is missing."""
    rows = (
        GroupSample.objects.filter(
            series__cluster_id=cluster_id,
            series__group__in=[name for name in names if is_storable(name)],
            resolution_s=level_for(until_s - since_s).resolution_s,
            at_s__gte=since_s,
            at_s__lt=until_s,
        )
        .values("series__group", bucket=_bucket(step_s))
        .annotate(highest=Max("lag"))
        .order_by("series__group", "bucket")
    )
    found: dict[str, list[LagPoint]] = {}
    for row in rows:
        found.setdefault(row["series__group"], []).append(
            LagPoint(row["bucket"], row["highest"], None)
        )
    return found


def cluster_history(
    cluster_id: int, *, since_s: int, until_s: int, step_s: int
) -> list[ThroughputPoint]:
    """Rates in [since_s, until_s), oldest first, highest per `step_s`."""
    rows = (
        ClusterSample.objects.filter(
            cluster_id=cluster_id,
            resolution_s=level_for(until_s - since_s).resolution_s,
            at_s__gte=since_s,
            at_s__lt=until_s,
        )
        .values(bucket=_bucket(step_s))
        .annotate(
            messages_in=Max("messages_in_per_s"),
            messages_out=Max("messages_out_per_s"),
            bytes_in=Max("bytes_in_per_s"),
            bytes_out=Max("bytes_out_per_s"),
        )
        .order_by("bucket")
    )
    return [
        ThroughputPoint(
            row["bucket"],
            row["messages_in"],
            row["messages_out"],
            row["bytes_in"],
            row["bytes_out"],
        )
        for row in rows
    ]


def _step(span_s: int) -> int:
    """Seconds per point: a whole number of samples of the level, so that POINTS_MAX is kept."""
    resolution_s = level_for(span_s).resolution_s
    return resolution_s * max(1, -(-span_s // (resolution_s * POINTS_MAX)))


def _bucket(step_s: int) -> ExpressionWrapper[CombinedExpression]:
    return ExpressionWrapper(F("at_s") - F("at_s") % step_s, output_field=BigIntegerField())
