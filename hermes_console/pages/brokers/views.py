"""The brokers of a cluster, one of them, and its settings that can be changed while it runs."""

from __future__ import annotations

from typing import Any

from django.contrib import messages
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.urls import reverse
from django.views.decorators.http import require_http_methods, require_safe

from hermes_console.accounts.actor import actor_of
from hermes_console.accounts.gate import needs_to_post
from hermes_console.accounts.rights import Right
from hermes_console.addresses import requested_cluster
from hermes_console.clusters import Cluster
from hermes_console.errors import Refused
from hermes_console.operations import brokers
from hermes_console.operations.brokers import Scope
from hermes_console.operations.configs import Setting
from hermes_console.pagetrouble import TROUBLES, known_trouble, trouble_page
from hermes_console.samples.read import latest_cluster
from hermes_console.samples.snapshot import Rates
from hermes_console.settingfields import fields_of, wanted_values


@require_safe
def broker_list(request: HttpRequest, cluster: str) -> HttpResponse:
    found = requested_cluster(cluster)
    context: dict[str, Any] = {"cluster": found, "snapshot": latest_cluster(found.pk)}
    try:
        context["found"] = brokers.read_brokers(found)
    except TROUBLES as error:
        context["trouble"] = known_trouble(error)
    return render(request, "brokers/list.html", context)


@require_safe
def broker_detail(request: HttpRequest, cluster: str, node: int) -> HttpResponse:
    """One broker; what it does not tell is said where it would stand."""
    found = requested_cluster(cluster)
    try:
        broker, gaps = brokers.read_broker(found, node)
    except TROUBLES as error:
        return _trouble(request, found, error)
    context: dict[str, Any] = {
        "cluster": found,
        "broker": broker,
        "gaps": gaps,
        "may_write": actor_of(request).may(Right.CLUSTERS_WRITE, found),
    }
    try:
        context["settings"] = brokers.read_broker_settings(found, node)
    except TROUBLES as error:
        context["settings_trouble"] = known_trouble(error).detail
    context["metrics"], context["metrics_trouble"] = brokers.read_broker_metrics_of(found)
    snapshot = latest_cluster(found.pk)
    context["snapshot"] = snapshot
    context["rates"] = snapshot.rates if snapshot else Rates()
    return render(request, "brokers/detail.html", context)


@require_http_methods(["GET", "HEAD", "POST"])
@needs_to_post(Right.CLUSTERS_WRITE)
def settings(request: HttpRequest, cluster: str, node: int) -> HttpResponse:
    """Fields; a review of what would change, checked by the broker; then the change."""
    found = requested_cluster(cluster)
    try:
        known = brokers.read_broker_settings(found, node)
    except TROUBLES as error:
        return _trouble(request, found, error)
    posted = request.POST.dict() if request.method == "POST" else {}
    scope = Scope.BROKER if posted.get("scope") == Scope.BROKER.value else Scope.CLUSTER
    live = [one for one in known if not one.is_read_only]
    context: dict[str, Any] = {
        "cluster": found,
        "node": node,
        "scope": scope.value,
        "etag": brokers.broker_settings_etag(known),
        "fields": fields_of(live, posted or None),
        "may_write": actor_of(request).may(Right.CLUSTERS_WRITE, found),
    }
    if not posted or posted.get("step") == "edit":
        return render(request, "brokers/settings.html", context)
    try:
        done = _review_or_save(request, found, node, scope, known, posted, context)
    except TROUBLES as error:
        trouble = known_trouble(error)
        context |= {
            "trouble": trouble,
            "fields": fields_of(live, posted, problem=trouble.detail),
            "is_review": False,
        }
        return render(request, "brokers/settings.html", context, status=trouble.status)
    return done


def _review_or_save(
    request: HttpRequest,
    cluster: Cluster,
    node: int,
    scope: Scope,
    known: list[Setting],
    posted: dict[str, str],
    context: dict[str, Any],
) -> HttpResponse:
    wanted = wanted_values(known, posted)
    if posted.get("step") == "save":
        changes = brokers.change_broker_settings(
            actor_of(request), cluster, node, wanted, scope=scope, etag=posted.get("etag")
        )
        whom = f"broker {node}" if scope is Scope.BROKER else "all brokers"
        if changes:
            names = ", ".join(one.name for one in changes)
            messages.success(request, f"Settings of {whom} were changed: {names}.")
        else:
            messages.info(request, f"Nothing was changed: {whom} had these settings already.")
        return redirect("brokers:detail", cluster=cluster.name, node=node)
    if posted.get("etag") != context["etag"]:
        raise Refused(
            412,
            "settings-changed",
            "The settings were changed by somebody else since you read them. "
            "Look at them as they are now, then decide again.",
        )
    context["changes"] = brokers.check_broker_settings(cluster, node, wanted, scope=scope)
    context["is_review"] = True
    return render(request, "brokers/settings.html", context)


def _trouble(request: HttpRequest, cluster: Cluster, error: BaseException) -> HttpResponse:
    back = reverse("brokers:list", kwargs={"cluster": cluster.name})
    return trouble_page(request, cluster, error, back=back, back_word="All brokers")
