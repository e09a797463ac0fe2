"""Pages that change groups: reset, create, undo, delete. A GET shows what would happen, a POST does
it; a refusal shows its reason and keeps the form.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final
from urllib.parse import urlencode

from django.contrib import messages
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.urls import reverse
from django.utils import timezone
from django.views.decorators.http import require_http_methods, require_safe

from broker.client.blocking import ClientError
from hermes_console import words
from hermes_console.accounts.actor import actor_of
from hermes_console.addresses import requested_cluster
from hermes_console.clusters import Cluster
from hermes_console.errors import Refused, trouble_of
from hermes_console.operations import groups
from hermes_console.operations.groups_plan import Move, read_moves
from hermes_console.operations.groups_read import (
    GroupNow,
    Preview,
    no_such_group,
    preview_create,
    preview_reset,
    read_group,
)
from hermes_console.operations.topics_catalogue import read_catalogue
from hermes_console.pages.groups.forms import (
    PLACE_WORDS,
    TOPICS_LISTED_MAX,
    WITH_VALUE,
    OffsetsForm,
    read_form,
)
from hermes_console.samples.read import latest_group

MOVES_SHOWN_MAX: Final = 200
page = require_http_methods(["GET", "HEAD", "POST"])


@page
def reset(request: HttpRequest, cluster: str, group: str) -> HttpResponse:
    """GET shows the form, and with `to` in its query the preview; POST resets with its token."""
    found, actor = requested_cluster(cluster), actor_of(request)
    groups.check_may_change(actor, found, group)
    zone = timezone.get_current_timezone()
    form = read_form(request.POST if request.method == "POST" else request.GET, zone)
    context: dict[str, Any] = {"cluster": found, "group_name": group, "form": form}
    try:
        if request.method == "POST" and form.is_good and form.target is not None:
            change = groups.reset_offsets(
                actor, found, group, form.selection, form.target, form.token
            )
            count = len(read_moves(change.moves))
            messages.success(
                request,
                f"{words.count(count, 'offset')} of {group} reset. The group's page can undo it.",
            )
            return _to_group(found, group)
    except (Refused, ClientError) as error:
        _tell(context, error)
    try:
        context |= _reset_context(found, group, form)
    except (Refused, ClientError) as error:
        _tell(context, error)
    return _answer(request, "groups/reset.html", context)


def _reset_context(cluster: Cluster, group: str, form: OffsetsForm) -> dict[str, Any]:
    preview = None
    if form.is_good and form.target is not None:
        preview = preview_reset(cluster, group, form.selection, form.target)
        now = preview.group
    else:
        now = read_group(cluster, group)
        if not now.exists:
            raise no_such_group(group)
    counts: dict[str, int] = {}
    for where in now.commits:
        counts[where.topic] = counts.get(where.topic, 0) + 1
    choices = [
        {
            "name": name,
            "count": counts[name],
            "is_chosen": (not form.is_filled and not form.topics) or name in form.topics,
            "partitions": form.topics.get(name, ""),
        }
        for name in sorted(counts)[:TOPICS_LISTED_MAX]
    ]
    return {
        "now": now,
        "choices": choices,
        "choices_more": max(0, len(counts) - TOPICS_LISTED_MAX),
        "places": _places(form),
        **_preview_context(preview),
    }


@require_safe
def state(request: HttpRequest, cluster: str, group: str) -> HttpResponse:
    """The piece of the reset's page that says whether members are still connected."""
    found = requested_cluster(cluster)
    context: dict[str, Any] = {
        "cluster": found,
        "group_name": group,
        "is_deletion": request.GET.get("before") == "delete",
    }
    try:
        context["now"] = read_group(found, group)
    except (Refused, ClientError) as error:
        _tell(context, error)
    return render(request, "groups/state.html", context)


@page
def create(request: HttpRequest, cluster: str) -> HttpResponse:
    """GET shows the form, and with `to` in its query the preview; POST creates."""
    found, actor = requested_cluster(cluster), actor_of(request)
    groups.check_may_change(actor, found, "")
    zone = timezone.get_current_timezone()
    fields = request.POST if request.method == "POST" else request.GET
    form = read_form(fields, zone, named=True)
    context: dict[str, Any] = {"cluster": found, "form": form}
    preview = None
    try:
        if form.is_good and form.target is not None:
            if request.method == "POST":
                groups.create_group(actor, found, form.name, form.selection, form.target)
                messages.success(request, f"Group {form.name} created.")
                return _to_group(found, form.name)
            preview = preview_create(found, form.name, form.selection, form.target)
    except (Refused, ClientError) as error:
        _tell(context, error)
    try:
        context |= _create_choices(found, form)
    except ClientError as error:
        _tell(context, error)
    context |= _preview_context(preview)
    return _answer(request, "groups/create.html", context)


def _create_choices(cluster: Cluster, form: OffsetsForm) -> dict[str, Any]:
    own = [entry for entry in read_catalogue(cluster).entries if not entry.is_internal]
    choices = [
        {
            "name": entry.name,
            "count": entry.partition_count,
            "is_chosen": entry.name in form.topics,
            "partitions": form.topics.get(entry.name, ""),
        }
        for entry in own[:TOPICS_LISTED_MAX]
    ]
    return {
        "choices": choices,
        "choices_more": max(0, len(own) - TOPICS_LISTED_MAX),
        "places": _places(form)[:-1],
    }


def _to_group(cluster: Cluster, group: str) -> HttpResponse:
    """To the group's page, or to the list while no sample has shown the group yet."""
    if latest_group(cluster.pk, group) is not None:
        return redirect("groups:detail", cluster=cluster.name, group=group)
    address = reverse("groups:list", kwargs={"cluster": cluster.name})
    return redirect(f"{address}?{urlencode({'q': group})}")


@page
def undo(request: HttpRequest, cluster: str, group: str, change: int) -> HttpResponse:
    """GET shows what goes back, POST does it."""
    found, actor = requested_cluster(cluster), actor_of(request)
    groups.check_may_change(actor, found, group)
    context: dict[str, Any] = {"cluster": found, "group_name": group}
    try:
        if request.method == "POST":
            groups.undo_change(actor, found, group, change)
            messages.success(request, f"Undone: the offsets of {group} are what they were.")
            return _to_group(found, group)
    except (Refused, ClientError) as error:
        _tell(context, error)
    try:
        preview = groups.preview_undo(found, group, change)
        context |= {
            "change": preview.change,
            "act_word": groups.act_words(preview.change),
            "why_refused": preview.why_refused,
            **_moves_context(preview.moves),
        }
    except (Refused, ClientError) as error:
        _tell(context, error)
    return _answer(request, "groups/undo.html", context)


@page
def delete(request: HttpRequest, cluster: str, group: str) -> HttpResponse:
    """GET shows what would be lost, POST deletes when the name is typed."""
    return _delete(request, cluster, group, None)


@page
def delete_offsets(request: HttpRequest, cluster: str, group: str, topic: str) -> HttpResponse:
    """As `delete`, for the commits in one topic."""
    return _delete(request, cluster, group, topic)


def _delete(request: HttpRequest, cluster: str, group: str, topic: str | None) -> HttpResponse:
    found, actor = requested_cluster(cluster), actor_of(request)
    groups.check_may_change(actor, found, group)
    context: dict[str, Any] = {"cluster": found, "group_name": group, "topic": topic}
    typed = request.POST.get("typed_name", "")
    try:
        if request.method == "POST" and topic is None:
            groups.delete_group(actor, found, group, typed)
            messages.success(request, f"Group {group} deleted.")
            return redirect("groups:list", cluster=found.name)
        if request.method == "POST" and topic is not None:
            groups.delete_topic_offsets(actor, found, group, topic, typed)
            messages.success(request, f"Offsets of {group} in topic {topic} deleted.")
            return _to_group(found, group)
    except (Refused, ClientError) as error:
        _tell(context, error)
    try:
        now = read_group(found, group)
        if not now.exists:
            raise no_such_group(group)
        context |= _loss_context(found, now, topic)
    except (Refused, ClientError) as error:
        _tell(context, error)
    return _answer(request, "groups/delete.html", context)


def _loss_context(cluster: Cluster, now: GroupNow, topic: str | None) -> dict[str, Any]:
    """What a deletion takes away: topics, commits, and how much had been read and waits."""
    lost = {where: at for where, at in now.commits.items() if topic in {None, where.topic}}
    detail = latest_group(cluster.pk, now.name)
    return {
        "now": now,
        "lost_count": len(lost),
        "lost_topics": sorted({where.topic for where in lost}),
        "topics": sorted({where.topic for where in now.commits}),
        "summary": detail.summary if detail else None,
        "undo_days": groups.UNDO_FOR.days,
    }


def _places(form: OffsetsForm) -> list[dict[str, Any]]:
    return [
        {
            "value": str(place),
            "title": title,
            "text": text,
            "is_chosen": form.to == place,
            "has_value": place in WITH_VALUE,
            "typed": form.values.get(place, ""),
        }
        for place, title, text in PLACE_WORDS
    ]


def _preview_context(preview: Preview | None) -> dict[str, Any]:
    if preview is None:
        return {"preview": None}
    return {
        "preview": preview,
        "why_refused": preview.why_refused,
        "totals": preview.totals,
        "estimated": sorted(preview.estimated),
        **_moves_context(preview.moves),
    }


def _moves_context(moves: tuple[Move, ...]) -> dict[str, Any]:
    """Those that change something first."""
    ordered = sorted(moves, key=lambda move: (not move.is_change, move.topic, move.partition))
    return {
        "moves": ordered[:MOVES_SHOWN_MAX],
        "moves_more": max(0, len(moves) - MOVES_SHOWN_MAX),
    }


def _tell(context: dict[str, Any], error: Exception) -> None:
    """Puts the first refusal on the page, with the status of the answer."""
    trouble = trouble_of(error)
    assert trouble is not None, "only what trouble_of knows is caught"
    context.setdefault("trouble", trouble)


def _answer(request: HttpRequest, template: str, context: Mapping[str, Any]) -> HttpResponse:
    trouble = context.get("trouble")
    form = context.get("form")
    is_wrong = isinstance(form, OffsetsForm) and bool(form.errors)
    status = trouble.status if trouble is not None else 422 if is_wrong else 200
    return render(request, template, {"now": None, "preview": None, **context}, status=status)
