"""Carries out the thinning of history in the database, a slice at a time, and bounds the number of
rows.

Condensing keeps the highest value of each bucket: a peak in lag stays visible however coarse the
view. Every step can be repeated: buckets are inserted only where they are missing.
"""

from __future__ import annotations

from itertools import pairwise
from typing import Any, Final

from django.db.models import BigIntegerField, ExpressionWrapper, F, Max, Min

from hermes_console.samples.models import ClusterSample, GroupSample, Series
from hermes_console.samples.thinning import (
    LEVELS,
    Condensation,
    Level,
    oldest_kept_s,
    plan_condensation,
)

Condensed = type[GroupSample] | type[ClusterSample]
DELETE_ROWS_MAX: Final = 50_000
ROWS_MAX: Final = 4_000_000
"""Of one table; beyond it the oldest samples of the finest level go early."""
CONDENSED: Final[dict[Condensed, tuple[str, tuple[str, ...]]]] = {
    GroupSample: ("series_id", ("lag", "lag_seconds")),
    ClusterSample: (
        "cluster_id",
        (
            "messages_in_per_s",
            "messages_out_per_s",
            "bytes_in_per_s",
            "bytes_out_per_s",
            "disk_used_bytes",
        ),
    ),
}


def thin_slice(now_s: int, *, rows_max: int = ROWS_MAX) -> bool:
    """Condense and delete one bounded slice of every table. Whether more is left to do."""
    is_more = False
    for model in CONDENSED:
        for source, target in pairwise(LEVELS):
            is_more |= _condense_next(model, source, target, now_s)
        for level in LEVELS:
            is_more |= _delete_old(model, level.resolution_s, oldest_kept_s(level, now_s))
        is_more |= _delete_surplus(model, rows_max)
    Series.objects.filter(groupsample=None).delete()
    return is_more


def _condense_next(model: Condensed, source: Level, target: Level, now_s: int) -> bool:
    rows = model.objects
    first = rows.filter(resolution_s=source.resolution_s).aggregate(at=Min("at_s"))["at"]
    newest = rows.filter(resolution_s=target.resolution_s).aggregate(at=Max("at_s"))["at"]
    plan = plan_condensation(
        source,
        target,
        now_s=now_s,
        first_s=first,
        condensed_until_s=None if newest is None else newest + target.resolution_s,
    )
    if plan is None:
        return False
    _condense(model, plan)
    return not plan.is_last


def _condense(model: Condensed, plan: Condensation) -> None:
    owner, values = CONDENSED[model]
    size = plan.target.resolution_s
    bucket = ExpressionWrapper(F("at_s") - F("at_s") % size, output_field=BigIntegerField())
    aggregates: dict[str, Any] = {f"highest_{name}": Max(name) for name in values}
    rows = (
        model.objects.filter(
            resolution_s=plan.source.resolution_s, at_s__gte=plan.begin_s, at_s__lt=plan.end_s
        )
        .values(owner, bucket=bucket)
        .annotate(**aggregates)
        .order_by()
    )
    condensed: list[Any] = [
        model(
            **{owner: row[owner], "resolution_s": size, "at_s": row["bucket"]},
            **{name: row[f"highest_{name}"] for name in values},
        )
        for row in rows
    ]
    model.objects.bulk_create(condensed, ignore_conflicts=True)


def _delete_old(model: Condensed, resolution_s: int, before_s: int) -> bool:
    rows = model.objects.filter(resolution_s=resolution_s, at_s__lt=before_s)
    return _delete(
        model, list(rows.order_by("at_s").values_list("pk", flat=True)[:DELETE_ROWS_MAX])
    )


def _delete_surplus(model: Condensed, rows_max: int) -> bool:
    surplus = model.objects.count() - rows_max
    if surplus <= 0:
        return False
    oldest = model.objects.order_by("resolution_s", "at_s")
    return _delete(
        model, list(oldest.values_list("pk", flat=True)[: min(surplus, DELETE_ROWS_MAX)])
    )


def _delete(model: Condensed, keys: list[int]) -> bool:
    """Whether the slice was full, so that more may be left."""
    for start in range(0, len(keys), 500):
        model.objects.filter(pk__in=keys[start : start + 500]).delete()
    return len(keys) == DELETE_ROWS_MAX
