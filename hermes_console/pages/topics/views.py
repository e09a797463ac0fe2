"""The topics list, one topic, the points of its chart."""

from __future__ import annotations

from django.http import HttpRequest, HttpResponse, JsonResponse
from django.shortcuts import render
from django.urls import reverse
from django.views.decorators.http import require_safe
from django.views.decorators.vary import vary_on_headers

from hermes_console.accounts.actor import actor_of
from hermes_console.accounts.rights import Right
from hermes_console.addresses import requested_cluster
from hermes_console.operations.topics_read import read_topic
from hermes_console.pages.topics import services
from hermes_console.pages.topics.query import read_query
from hermes_console.pagetrouble import TROUBLES, known_trouble, trouble_page
from hermes_console.samples.read import latest_cluster
from hermes_console.spans import requested_span


@require_safe
@vary_on_headers("HX-Request")
def topic_list(request: HttpRequest, cluster: str) -> HttpResponse:
    """The whole page; for htmx only the piece that a filter changes."""
    found = requested_cluster(cluster)
    query = read_query(request.GET.dict())
    context = services.list_context(found, latest_cluster(found.pk), query)
    context["may_write"] = actor_of(request).may(Right.TOPICS_WRITE, found)
    is_piece = bool(getattr(request, "htmx", False))
    return render(request, "topics/table.html" if is_piece else "topics/list.html", context)


@require_safe
def topic_detail(request: HttpRequest, cluster: str, topic: str) -> HttpResponse:
    """One topic; an unknown one is a 404 that says what may have happened."""
    found = requested_cluster(cluster)
    try:
        read = read_topic(found, topic)
    except TROUBLES as error:
        back = reverse("topics:list", kwargs={"cluster": found.name})
        return trouble_page(request, found, error, back=back, back_word="All topics")
    services.forget_topic(found, topic)
    context = services.detail_context(found, latest_cluster(found.pk), read, request.GET.dict())
    context["may_write"] = actor_of(request).may(Right.TOPICS_WRITE, found)
    return render(request, "topics/detail.html", context)


@require_safe
def rates(request: HttpRequest, cluster: str, topic: str) -> HttpResponse:
    """The chart's points; for htmx the same numbers as a table."""
    found = requested_cluster(cluster)
    span = requested_span(request.GET.dict())
    try:
        points = services.rate_points(found, services.recent_topic(found, topic), span)
    except TROUBLES as error:
        trouble = known_trouble(error)
        return JsonResponse({"points": [], "detail": trouble.detail}, status=trouble.status)
    if getattr(request, "htmx", False):
        return render(request, "topics/twin.html", {"points": points, "span": span})
    return JsonResponse({"points": services.chart_json(points)})
