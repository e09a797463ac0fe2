"""The cluster in a page's address: `/clusters/<name>/…`, and the way there from `/`."""

from __future__ import annotations

from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404, redirect
from django.views.decorators.http import require_safe

from hermes_console.clusters import Cluster, default_cluster


@require_safe
def home(_request: HttpRequest) -> HttpResponse:
    """To the overview of the default cluster."""
    cluster = default_cluster()
    if cluster is None:
        raise Http404("no cluster is entered; run: manage.py prepare")
    return redirect("overview:overview", cluster=cluster.name)


def requested_cluster(name: str) -> Cluster:
    """The cluster of the address; a 404 for unknown ones. Rights per cluster belong here."""
    return get_object_or_404(Cluster, name=name)
