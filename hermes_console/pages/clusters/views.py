"""The clusters that this console watches: the list, a new one, one cluster's connection."""

from __future__ import annotations

from django.contrib import messages
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.urls import reverse
from django.views.decorators.http import require_http_methods, require_safe

from hermes_console.accounts.actor import actor_of
from hermes_console.accounts.gate import needs
from hermes_console.accounts.rights import Right
from hermes_console.addresses import requested_cluster
from hermes_console.clusters import CLUSTERS_MAX, Cluster
from hermes_console.errors import Refused
from hermes_console.operations import clusters
from hermes_console.pages.clusters.forms import ClusterForm
from hermes_console.samples.read import latest_cluster

FORM_METHODS = ("GET", "HEAD", "POST")


@require_safe
def cluster_list(request: HttpRequest) -> HttpResponse:
    """All clusters with what the newest sample says of each."""
    found = list(Cluster.objects.order_by("name"))
    context = {
        "rows": [(cluster, latest_cluster(cluster.pk)) for cluster in found],
        "is_full": len(found) >= CLUSTERS_MAX,
        "clusters_max": CLUSTERS_MAX,
        "may_write": actor_of(request).may(Right.CLUSTERS_WRITE),
    }
    return render(request, "clusters/list.html", context)


@require_http_methods(FORM_METHODS)
@needs(Right.CLUSTERS_WRITE)
def add(request: HttpRequest) -> HttpResponse:
    """A refused address keeps the form and says what is wrong with it."""
    form = ClusterForm(request.POST or None)
    status = 422 if form.is_bound else 200
    if request.method == "POST" and form.is_valid():
        try:
            cluster, found = clusters.add_cluster(actor_of(request), **form.cleaned_data)
        except Refused as refusal:
            status = refusal.status
            form.add_error(_field_of(refusal), refusal.detail)
        else:
            messages.success(
                request, f"{cluster.name} is watched from now on: {cluster.get_kind_display()}."
            )
            for warning in found.warnings:
                messages.warning(request, warning)
            return redirect("clusters:connection", cluster=cluster.name)
    return render(request, "clusters/new.html", {"form": form}, status=status)


@require_http_methods(FORM_METHODS)
def connection(request: HttpRequest, cluster: str) -> HttpResponse:
    """The address; a POST asks the cluster what it is and can do."""
    row = requested_cluster(cluster)
    context: dict[str, object] = {
        "cluster": row,
        "snapshot": latest_cluster(row.pk),
        "may_write": actor_of(request).may(Right.CLUSTERS_WRITE),
    }
    status = 200
    if request.method == "POST":
        try:
            context["found"] = clusters.look_again(actor_of(request), row)
            row.refresh_from_db()
        except Refused as refusal:
            status = refusal.status
            context["trouble"] = refusal
    return render(request, "clusters/connection.html", context, status=status)


@require_http_methods(FORM_METHODS)
@needs(Right.CLUSTERS_WRITE)
def change(request: HttpRequest, cluster: str) -> HttpResponse:
    row = requested_cluster(cluster)
    initial = {"name": row.name, "bootstrap_address": row.bootstrap_address}
    form = ClusterForm(request.POST or None, initial=initial)
    status = 422 if form.is_bound else 200
    if request.method == "POST" and form.is_valid():
        try:
            changed = clusters.change_cluster(actor_of(request), row, **form.cleaned_data)
        except Refused as refusal:
            status = refusal.status
            form.add_error(_field_of(refusal), refusal.detail)
        else:
            messages.success(request, "The cluster is changed.")
            return redirect("clusters:connection", cluster=changed.name)
    context = {"form": form, "cluster": requested_cluster(cluster)}
    return render(request, "clusters/change.html", context, status=status)


@require_http_methods(FORM_METHODS)
@needs(Right.CLUSTERS_WRITE)
def remove(request: HttpRequest, cluster: str) -> HttpResponse:
    """What goes and what stays, and the name typed."""
    row = requested_cluster(cluster)
    trouble: Refused | None = None
    if request.method == "POST":
        try:
            if request.POST.get("confirmation") != row.name:
                raise Refused(422, "not-confirmed", f"Type exactly: {row.name}")
            clusters.remove_cluster(actor_of(request), row)
        except Refused as refusal:
            trouble = refusal
        else:
            messages.success(request, f"{cluster} is no longer watched. Nothing changed on it.")
            return redirect("clusters:list")
    context = {
        "cluster": row,
        "snapshot": latest_cluster(row.pk),
        "trouble": trouble,
        "may_write": True,
        "cancel": reverse("clusters:connection", kwargs={"cluster": row.name}),
    }
    return render(
        request, "clusters/remove.html", context, status=trouble.status if trouble else 200
    )


def _field_of(refusal: Refused) -> str | None:
    """The field that a refusal is about; None: the whole form."""
    if refusal.code in {"bad-cluster-name", "cluster-exists"}:
        return "name"
    if refusal.code.startswith(("address-", "bad-address", "cluster-")):
        return "bootstrap_address"
    return None
