"""Searches of a topic's messages: the form, one search with its progress, cancel, resume."""

from __future__ import annotations

from typing import Any, Final

from django.contrib import messages
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.urls import reverse
from django.utils import timezone
from django.utils.html import escape
from django.views.decorators.http import require_http_methods, require_POST, require_safe

from hermes_console.accounts.actor import actor_of
from hermes_console.accounts.rights import Right
from hermes_console.addresses import requested_cluster
from hermes_console.clusters import Cluster
from hermes_console.errors import Trouble
from hermes_console.operations import messages_search as acts
from hermes_console.pages.messages.forms import NEEDLE_ENCODINGS, SearchForm, read_search
from hermes_console.pages.messages.query import read_number
from hermes_console.pages.messages.services import Row, calendar_ms
from hermes_console.pagetrouble import TROUBLES, known_trouble, trouble_page
from hermes_console.payloads.view import line
from hermes_console.searches.criteria import Criteria
from hermes_console.searches.models import SearchJob

FOUND_CHANGED: Final = "found-changed"
WORDS: Final = {
    "value_contains": "value contains",
    "key_equals": "key is",
    "key_contains": "key contains",
    "header_name": "header",
    "header_equals": "is",
    "json_path": "JSON at",
    "json_equals": "is",
}


@require_http_methods(["GET", "HEAD", "POST"])
def search_list(request: HttpRequest, cluster: str, topic: str) -> HttpResponse:
    """GET shows the form and the newest searches, POST starts one."""
    found = requested_cluster(cluster)
    zone = timezone.get_current_timezone()
    if request.method != "POST":
        form = read_search(request.GET.dict(), zone)
        form.problems.clear()
        return _form_page(request, found, topic, form)
    form = read_search(request.POST.dict(), zone)
    if form.criteria is None:
        return _form_page(request, found, topic, form, status=400)
    try:
        job = acts.start_search(actor_of(request), found, topic, form.criteria)
    except TROUBLES as error:
        trouble = known_trouble(error)
        if trouble.status in {403, 404}:
            return _trouble(request, found, topic, error)
        return _form_page(request, found, topic, form, trouble=trouble, status=trouble.status)
    return redirect("messages:search", cluster=found.name, topic=topic, key=job.key)


@require_safe
def search(request: HttpRequest, cluster: str, topic: str, key: str) -> HttpResponse:
    """One search: how far it is, what it found."""
    found = requested_cluster(cluster)
    actor = actor_of(request)
    try:
        job = acts.get_search(actor, found, topic, key)
        context = _job_context(found, topic, job) | _found_context(request, found, job)
    except TROUBLES as error:
        return _trouble(request, found, topic, error)
    context["may_produce"] = actor.may(Right.PRODUCE, found)
    return render(request, "messages/search.html", context)


@require_safe
def progress(request: HttpRequest, cluster: str, topic: str, key: str) -> HttpResponse:
    """The piece that asks for itself while the search runs; it says when more was found."""
    found = requested_cluster(cluster)
    try:
        job = acts.get_search(actor_of(request), found, topic, key)
    except TROUBLES as error:
        detail = escape(known_trouble(error).detail)  # htmx puts it into the page
        return HttpResponse(detail, status=286)
    response = render(request, "messages/progress.html", _job_context(found, topic, job))
    seen = request.GET.get("seen", "")
    has_more = not seen.isdecimal() or int(seen[:9]) != job.hit_count
    is_shown = seen.isdecimal() and int(seen[:9]) >= acts.HITS_PAGE
    if (has_more and not is_shown) or not job.is_running:
        response["HX-Trigger"] = FOUND_CHANGED
    return response


@require_safe
def found(request: HttpRequest, cluster: str, topic: str, key: str) -> HttpResponse:
    """The piece with the found messages."""
    where = requested_cluster(cluster)
    try:
        job = acts.get_search(actor_of(request), where, topic, key)
        context = _job_context(where, topic, job) | _found_context(request, where, job)
    except TROUBLES as error:
        trouble = known_trouble(error)
        return render(request, "messages/trouble.html", {"trouble": trouble}, status=200)
    return render(request, "messages/found.html", context)


@require_POST
def cancel(request: HttpRequest, cluster: str, topic: str, key: str) -> HttpResponse:
    where = requested_cluster(cluster)
    try:
        acts.cancel_search(actor_of(request), where, topic, key)
    except TROUBLES as error:
        return _trouble(request, where, topic, error)
    return redirect("messages:search", cluster=where.name, topic=topic, key=key)


@require_POST
def resume(request: HttpRequest, cluster: str, topic: str, key: str) -> HttpResponse:
    where = requested_cluster(cluster)
    try:
        acts.resume_search(actor_of(request), where, topic, key)
    except TROUBLES as error:
        trouble = known_trouble(error)
        if trouble.status in {403, 404}:
            return _trouble(request, where, topic, error)
        messages.error(request, trouble.detail)
    return redirect("messages:search", cluster=where.name, topic=topic, key=key)


def describe(criteria: Criteria) -> str:
    """The criteria as a sentence: `value contains “x”, key is “y”`."""
    values: dict[str, Any] = {name: getattr(criteria, name) for name in WORDS}
    parts = [
        f"{word} “{line(value) if isinstance(value, bytes) else value}”"
        for name, word in WORDS.items()
        if (value := values[name]) is not None
    ]
    if criteria.partitions:
        parts.append(f"in {len(criteria.partitions)} chosen partitions")
    return ", ".join(parts).replace(", is “", " is “")


def _job_context(cluster: Cluster, topic: str, job: SearchJob) -> dict[str, Any]:
    criteria = Criteria.from_json(job.criteria)
    left = job.total_records - job.passed_records
    speed = job.passed_records / job.busy_ms * 1000 if job.busy_ms and job.passed_records else None
    return {
        "cluster": cluster,
        "topic": topic,
        "job": job,
        "criteria": criteria,
        "looks_for": describe(criteria),
        "left_s": left / speed if speed and job.is_running else None,
    }


def _found_context(request: HttpRequest, cluster: Cluster, job: SearchJob) -> dict[str, Any]:
    text = request.GET.get("after", "")
    try:
        after = read_number(text) if text else 0
    except ValueError:
        after = 0
    page = acts.hits_of(actor_of(request), cluster, job, after=after)
    rows = [
        {
            "place": hit.place,
            "at_ms": calendar_ms(hit.place.timestamp_ms),
            "row": None
            if hit.message is None
            else Row(hit.message, line(hit.message.key), line(hit.message.value)),
        }
        for hit in page.hits
    ]
    return {"found": rows, "next_after": page.next_after, "after": after}


def _form_page(
    request: HttpRequest,
    cluster: Cluster,
    topic: str,
    form: SearchForm,
    *,
    trouble: Trouble | None = None,
    status: int = 200,
) -> HttpResponse:
    actor = actor_of(request)
    try:
        jobs = acts.list_searches(actor, cluster, topic)
    except TROUBLES as error:
        return _trouble(request, cluster, topic, error)
    context = {
        "cluster": cluster,
        "topic": topic,
        "form": form,
        "needle_encodings": NEEDLE_ENCODINGS,
        "jobs": [(job, describe(Criteria.from_json(job.criteria))) for job in jobs],
        "may_produce": actor.may(Right.PRODUCE, cluster),
        "trouble": trouble,
    }
    return render(request, "messages/searches.html", context, status=status)


def _trouble(
    request: HttpRequest, cluster: Cluster, topic: str, error: BaseException
) -> HttpResponse:
    back = reverse("messages:topics", kwargs={"cluster": cluster.name})
    return trouble_page(request, cluster, error, back=back, back_word="Choose a topic")
