"""The audit: a page of rows, one row, and the rows as CSV."""

from __future__ import annotations

import csv
from collections.abc import Iterator

from django.http import Http404, HttpRequest, HttpResponse, StreamingHttpResponse
from django.shortcuts import render
from django.urls import reverse
from django.utils import timezone
from django.views.decorators.http import require_safe

from hermes_console.accounts.gate import needs
from hermes_console.accounts.rights import Right
from hermes_console.audit.models import AuditEvent, Outcome
from hermes_console.clusters import Cluster
from hermes_console.operations.audit import changes, csv_rows, select
from hermes_console.pages.audit.query import AuditQuery, read_query

PAGE_SIZE = 50


@require_safe
@needs(Right.AUDIT_READ)
def audit_list(request: HttpRequest) -> HttpResponse:
    query = _query(request)
    found = select(query.filter)
    if query.before is not None:
        found = found.filter(pk__lt=query.before)
    rows = list(found[: PAGE_SIZE + 1])
    page = rows[:PAGE_SIZE]
    context = {
        "query": query,
        "rows": [(event, changes(event.before, event.after)) for event in page],
        "next": query.address(page[-1].pk) if len(rows) > PAGE_SIZE else None,
        "outcomes": Outcome.choices,
        "clusters": Cluster.objects.all(),
        "export": reverse("audit:export") + query.address(),
        "api": reverse("api:audit") + query.address().rstrip("?"),
    }
    return render(request, "audit/list.html", context)


@require_safe
@needs(Right.AUDIT_READ)
def audit_detail(request: HttpRequest, event: int) -> HttpResponse:
    found = AuditEvent.objects.filter(pk=event).first()
    if found is None:
        raise Http404("There is no such row in the audit.")
    context = {"event": found, "changes": changes(found.before, found.after)}
    return render(request, "audit/detail.html", context)


@require_safe
@needs(Right.AUDIT_READ)
def export(request: HttpRequest) -> StreamingHttpResponse:
    """The filtered rows as a file, written as they are read."""
    answer = StreamingHttpResponse(_lines(_query(request)), content_type="text/csv; charset=utf-8")
    answer["Content-Disposition"] = f'attachment; filename="audit-{timezone.now():%Y%m%d}.csv"'
    return answer


def _lines(query: AuditQuery) -> Iterator[str]:
    writer = csv.writer(_Echo())
    for row in csv_rows(query.filter):
        yield writer.writerow(row)


def _query(request: HttpRequest) -> AuditQuery:
    return read_query(request.GET.dict(), timezone.get_current_timezone())


class _Echo:
    """A file whose `write` gives back what the csv module wrote."""

    def write(self, text: str) -> str:
        return text
