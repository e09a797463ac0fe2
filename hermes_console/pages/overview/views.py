"""The overview page and the points of its chart."""

from __future__ import annotations

from django.http import HttpRequest, HttpResponse, JsonResponse
from django.shortcuts import render
from django.views.decorators.http import require_safe

from hermes_console.addresses import requested_cluster
from hermes_console.pages.overview import services
from hermes_console.samples.read import latest_cluster
from hermes_console.spans import requested_span


@require_safe
def overview(request: HttpRequest, cluster: str) -> HttpResponse:
    found = requested_cluster(cluster)
    span = requested_span(request.GET.dict())
    context = services.overview_context(found, latest_cluster(found.pk), span)
    return render(request, "overview/overview.html", context)


@require_safe
def history(request: HttpRequest, cluster: str) -> HttpResponse:
    found = requested_cluster(cluster)
    span = requested_span(request.GET.dict())
    return JsonResponse({"points": services.throughput_points(found, span)})
