"""The groups list, one group, and the points of its chart."""

from __future__ import annotations

from django.http import Http404, HttpRequest, HttpResponse, JsonResponse
from django.shortcuts import render
from django.views.decorators.http import require_safe
from django.views.decorators.vary import vary_on_headers

from hermes_console.accounts.actor import actor_of
from hermes_console.accounts.rights import Right
from hermes_console.addresses import requested_cluster
from hermes_console.operations.groups import act_words, recent_changes
from hermes_console.pages.groups import services
from hermes_console.pages.groups.query import read_query
from hermes_console.samples.read import latest_cluster, latest_group
from hermes_console.spans import requested_span


@require_safe
@vary_on_headers("HX-Request")
def group_list(request: HttpRequest, cluster: str) -> HttpResponse:
    """The whole page; for htmx only the piece that a filter changes."""
    found = requested_cluster(cluster)
    query = read_query(request.GET.dict())
    context = services.list_context(found, latest_cluster(found.pk), query)
    is_piece = bool(getattr(request, "htmx", False))
    context["may_write"] = actor_of(request).may(Right.GROUPS_WRITE, found)
    return render(request, "groups/table.html" if is_piece else "groups/list.html", context)


@require_safe
def group_detail(request: HttpRequest, cluster: str, group: str) -> HttpResponse:
    """One group; an unknown one is a 404 that says what may have happened."""
    found = requested_cluster(cluster)
    detail = latest_group(found.pk, group)
    snapshot = latest_cluster(found.pk)
    if detail is None or snapshot is None:
        context = {
            "cluster": found,
            "group_name": group,
            "snapshot": snapshot,
            "changes": recent_changes(found, group),
        }
        return render(request, "groups/missing.html", context, status=404)
    context = services.detail_context(found, snapshot, detail, request.GET.dict())
    context["changes"] = [(change, act_words(change)) for change in recent_changes(found, group)]
    context["may_write"] = actor_of(request).may(Right.GROUPS_WRITE, found)
    return render(request, "groups/detail.html", context)


@require_safe
def history(request: HttpRequest, cluster: str, group: str) -> HttpResponse:
    found = requested_cluster(cluster)
    if latest_group(found.pk, group) is None:
        raise Http404("no such group")
    span = requested_span(request.GET.dict())
    return JsonResponse({"points": services.lag_points(found, group, span)})
