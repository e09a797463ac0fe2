"""Browsing a topic's messages, one message, producing one, export and raw download."""

from __future__ import annotations

from django.contrib import messages
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.urls import reverse
from django.utils import timezone
from django.views.decorators.http import require_http_methods, require_safe
from django.views.decorators.vary import vary_on_headers

from hermes_console.accounts.actor import actor_of
from hermes_console.accounts.rights import Right
from hermes_console.addresses import requested_cluster
from hermes_console.clusters import Cluster
from hermes_console.operations import messages as reading
from hermes_console.operations.messages_export import EXPORT_RECORDS_MAX, Format, export
from hermes_console.operations.messages_produce import produce_one
from hermes_console.operations.messages_raw import raw_part
from hermes_console.pages.messages import services
from hermes_console.pages.messages.forms import ProduceForm, read_produce
from hermes_console.pages.messages.query import read_browse
from hermes_console.pagetrouble import TROUBLES, known_trouble, trouble_page


@require_safe
@vary_on_headers("HX-Request")
def choose_topic(request: HttpRequest, cluster: str) -> HttpResponse:
    """The topics, to choose one; for htmx only the list that a filter changes."""
    found = requested_cluster(cluster)
    try:
        context = services.topics_context(found, request.GET.dict())
    except TROUBLES as error:
        return _trouble(request, found, error)
    is_piece = bool(getattr(request, "htmx", False))
    template = "messages/topic_table.html" if is_piece else "messages/topics.html"
    return render(request, template, context)


@require_safe
def browse_topic(request: HttpRequest, cluster: str, topic: str) -> HttpResponse:
    """A page of messages. What is entered wrongly is said beside its field, and nothing is read."""
    found = requested_cluster(cluster)
    form = read_browse(request.GET.dict(), timezone.get_current_timezone())
    actor = actor_of(request)
    context = services.browse_context(found, topic, form, actor)
    status = 200
    if form.problems:
        status = 400
    else:
        try:
            page = reading.browse(actor, found, topic, form.query)
        except TROUBLES as error:
            trouble = known_trouble(error)
            if trouble.status in {403, 404}:
                return _trouble(request, found, error)
            context["trouble"], status = trouble, trouble.status
        else:
            context |= services.page_context(page, form)
    return render(request, "messages/browse.html", context, status=status)


@require_safe
def one_message(
    request: HttpRequest, cluster: str, topic: str, partition: int, offset: int
) -> HttpResponse:
    found = requested_cluster(cluster)
    try:
        read = reading.read_one(actor_of(request), found, topic, partition, offset)
    except TROUBLES as error:
        return _trouble(request, found, error, topic)
    context = services.message_context(found, read, partition, offset, request.GET.get("view", ""))
    return render(
        request, "messages/one.html", context, status=200 if read.message is not None else 404
    )


@require_safe
def raw(
    request: HttpRequest, cluster: str, topic: str, partition: int, offset: int, part: str
) -> HttpResponse:
    """A part's bytes as a file, which no browser opens."""
    found = requested_cluster(cluster)
    try:
        file = raw_part(actor_of(request), found, topic, partition, offset, part)
    except TROUBLES as error:
        return _trouble(request, found, error, topic)
    return services.download(file.name, "application/octet-stream", file.content)


@require_safe
def export_topic(request: HttpRequest, cluster: str, topic: str) -> HttpResponse:
    """What `browse_topic` would show, as a file."""
    found = requested_cluster(cluster)
    parameters = {**request.GET.dict(), "cursor": ""}
    form = read_browse(parameters, timezone.get_current_timezone())
    if form.problems or parameters.get("format") not in set(Format):
        context = services.browse_context(found, topic, form, actor_of(request))
        return render(request, "messages/browse.html", context, status=400)
    query = services.with_records(form.query, EXPORT_RECORDS_MAX)
    try:
        file = export(actor_of(request), found, topic, query, Format(parameters["format"]))
    except TROUBLES as error:
        return _trouble(request, found, error, topic)
    return services.download(file.name, file.content_type, file.content)


@require_http_methods(["GET", "HEAD", "POST"])
def produce(request: HttpRequest, cluster: str, topic: str) -> HttpResponse:
    """GET shows the form, POST stores the message and shows it where it is."""
    found = requested_cluster(cluster)
    actor = actor_of(request)
    if request.method != "POST":
        form = read_produce(request.GET.dict(), timezone.get_current_timezone())
        form.problems.clear()
        return _produce_page(request, found, topic, form)
    form = read_produce(request.POST.dict(), timezone.get_current_timezone())
    if form.message is None and actor.may(Right.PRODUCE, found):
        return _produce_page(request, found, topic, form, status=400)
    try:
        stored = produce_one(actor, found, topic, form.message or services.EMPTY_MESSAGE)
    except TROUBLES as error:
        trouble = known_trouble(error)
        if trouble.status == 403:
            return _trouble(request, found, error, topic)
        return _produce_page(request, found, topic, form, trouble=trouble, status=trouble.status)
    if stored.offset < 0:
        messages.success(request, f"Stored in partition {stored.partition}.")
        return redirect("messages:browse", cluster=found.name, topic=topic)
    messages.success(
        request, f"Stored in partition {stored.partition} at offset {stored.offset:,}."
    )
    return redirect(
        "messages:one",
        cluster=found.name,
        topic=topic,
        partition=stored.partition,
        offset=stored.offset,
    )


def _produce_page(
    request: HttpRequest,
    cluster: Cluster,
    topic: str,
    form: ProduceForm,
    *,
    trouble: object = None,
    status: int = 200,
) -> HttpResponse:
    try:
        context = services.produce_context(cluster, topic, form, actor_of(request))
    except TROUBLES as error:
        return _trouble(request, cluster, error, topic)
    return render(request, "messages/produce.html", {**context, "trouble": trouble}, status=status)


def _trouble(
    request: HttpRequest, cluster: Cluster, error: BaseException, topic: str = ""
) -> HttpResponse:
    """The reason as a page; the way back is the topic's messages, or the list of topics."""
    back = reverse("messages:topics", kwargs={"cluster": cluster.name})
    if topic:
        back = reverse("messages:browse", kwargs={"cluster": cluster.name, "topic": topic})
    word = f"Messages of {topic}" if topic else "Choose a topic"
    return trouble_page(request, cluster, error, back=back, back_word=word)
