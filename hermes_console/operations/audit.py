"""Reading the audit: which rows fit a filter, newest first, and the difference that a row made."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final, NamedTuple

from django.db.models import Q, QuerySet

from hermes_console.audit.models import AuditEvent
from hermes_console.spreadsheet import harmless

EXPORT_ROWS_MAX: Final = 100_000
EXPORT_STEP: Final = 1_000
COLUMNS: Final = (
    "id", "at", "actor", "via", "address", "action", "cluster", "target", "outcome", "reason",
    "before", "after", "request_id",
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class AuditFilter:
    """Empty fields fit everything. `text` is searched in targets, reasons and request ids."""

    actor: str = ""
    action: str = ""
    cluster: str = ""
    outcome: str = ""
    text: str = ""
    since: datetime | None = None
    until: datetime | None = None


class Change(NamedTuple):
    """A field that an act changed. None: it was not there."""

    name: str
    before: str | None
    after: str | None
    is_changed: bool


def select(wanted: AuditFilter) -> QuerySet[AuditEvent]:
    """The rows that fit, newest first."""
    found = AuditEvent.objects.order_by("-pk")
    exact = {"actor": wanted.actor, "cluster": wanted.cluster, "outcome": wanted.outcome}
    found = found.filter(**{name: value for name, value in exact.items() if value})
    if wanted.action:
        found = found.filter(Q(action=wanted.action) | Q(action__startswith=f"{wanted.action}."))
    if wanted.text:
        found = found.filter(
            Q(target__icontains=wanted.text)
            | Q(reason__icontains=wanted.text)
            | Q(request_id=wanted.text)
        )
    if wanted.since is not None:
        found = found.filter(at__gte=wanted.since)
    if wanted.until is not None:
        found = found.filter(at__lt=wanted.until)
    return found


def event_json(event: AuditEvent) -> dict[str, Any]:
    """A row as the API shows it."""
    return {
        "id": str(event.pk),
        "at": event.at.isoformat(timespec="milliseconds").replace("+00:00", "Z"),
        "actor": event.actor,
        "via": event.via,
        "address": event.address,
        "action": event.action,
        "right": event.right or None,
        "cluster": event.cluster or None,
        "target": event.target,
        "before": event.before,
        "after": event.after,
        "outcome": event.outcome,
        "reason": event.reason,
        "request_id": event.request_id,
    }


def changes(before: Any, after: Any) -> list[Change]:
    """Both sides field by field, in order of name; changed ones first."""
    old, new = _fields(before), _fields(after)
    rows = [
        Change(
            name,
            old.get(name),
            new.get(name),
            bool(old) and bool(new) and old.get(name) != new.get(name),
        )
        for name in sorted({*old, *new})
    ]
    return sorted(rows, key=lambda row: not row.is_changed)


def csv_rows(wanted: AuditFilter) -> Iterator[list[str]]:
    """The header and at most EXPORT_ROWS_MAX rows, newest first, read in steps."""
    yield list(COLUMNS)
    last: int | None = None
    for _ in range(EXPORT_ROWS_MAX // EXPORT_STEP):
        found = select(wanted)
        if last is not None:
            found = found.filter(pk__lt=last)
        step = list(found[:EXPORT_STEP])
        for event in step:
            row = event_json(event)
            yield [csv_cell(row[name]) for name in COLUMNS]
        if len(step) < EXPORT_STEP:
            return
        last = step[-1].pk


def csv_cell(value: Any) -> str:
    """A value as a cell that no spreadsheet takes for a formula; JSON for what is no text."""
    return harmless("" if value is None else value if isinstance(value, str) else json.dumps(value))


def _fields(value: Any, prefix: str = "") -> dict[str, str]:
    """`{"a": {"b": 1}}` as `{"a.b": "1"}`."""
    if value is None:
        return {}
    if not isinstance(value, dict):
        return {prefix or "value": value if isinstance(value, str) else json.dumps(value)}
    found: dict[str, str] = {}
    for name, inner in value.items():
        path = f"{prefix}.{name}" if prefix else str(name)
        if isinstance(inner, dict) and inner:
            found |= _fields(inner, path)
        else:
            found[path] = inner if isinstance(inner, str) else json.dumps(inner)
    return found
