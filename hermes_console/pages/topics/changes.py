"""Pages that change topics: create, grow, settings, delete, delete records.

Each GET shows a form or what an act would hit; each POST acts, then redirects. A refused act shows
its form again, as it was typed, with the reason.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Any

from django.contrib import messages
from django.http import HttpRequest, HttpResponse
from django.http.response import HttpResponseBase
from django.shortcuts import redirect, render
from django.urls import reverse
from django.views.decorators.http import require_http_methods

from hermes_console import words
from hermes_console.accounts.actor import actor_of
from hermes_console.accounts.gate import needs_to_post
from hermes_console.accounts.rights import Right
from hermes_console.addresses import requested_cluster
from hermes_console.clusters import Cluster
from hermes_console.errors import Refused, Trouble
from hermes_console.operations import topics
from hermes_console.operations.topics_new import new_topic_settings
from hermes_console.operations.topics_read import Topic, read_topic
from hermes_console.pages.topics import services
from hermes_console.pages.topics.forms import (
    NewTopicForm,
    read_new_topic,
    read_partition_count,
)
from hermes_console.pagetrouble import TROUBLES, known_trouble, trouble_page
from hermes_console.settingfields import fields_of, wanted_values

View = Callable[..., HttpResponseBase]


def on_topic(view: Callable[[HttpRequest, Cluster, Topic], HttpResponse]) -> View:
    """Reads cluster and topic of the address for `view`; trouble on the way is a page of its own.
    For GET and POST alone, POST with the right to change topics.
    """

    @wraps(view)
    def on(request: HttpRequest, cluster: str, topic: str) -> HttpResponse:
        found = requested_cluster(cluster)
        back = reverse("topics:list", kwargs={"cluster": found.name})
        try:
            read = read_topic(found, topic)
        except TROUBLES as error:
            return trouble_page(request, found, error, back=back, back_word="All topics")
        return view(request, found, read)

    return require_http_methods(["GET", "HEAD", "POST"])(needs_to_post(Right.TOPICS_WRITE)(on))


@require_http_methods(["GET", "HEAD", "POST"])
@needs_to_post(Right.TOPICS_WRITE)
def create(request: HttpRequest, cluster: str) -> HttpResponse:
    found = requested_cluster(cluster)
    back = reverse("topics:list", kwargs={"cluster": found.name})
    try:
        settings = new_topic_settings(found)
    except TROUBLES as error:
        return trouble_page(request, found, error, back=back, back_word="All topics")
    form, trouble = NewTopicForm(), None
    posted = request.POST.dict() if request.method == "POST" else None
    if posted is not None:
        form = read_new_topic(posted)
        configs = wanted_values(settings, posted, is_new=True)
        trouble = None if form.problems else _create(request, found, form, configs)
        if not form.problems and trouble is None:
            messages.success(request, f"Topic {form.name} was created.")
            return redirect("topics:detail", cluster=found.name, topic=form.name)
    fields = fields_of(settings, posted, problem=trouble.detail if trouble else "", is_new=True)
    context = {
        "cluster": found,
        "form": form,
        "fields": fields,
        "trouble": trouble,
        "is_open": any(one.text or one.problem for one in fields),
        "may_write": actor_of(request).may(Right.TOPICS_WRITE, found),
    }
    return render(request, "topics/create.html", context, status=_status(trouble, form.problems))


def _create(
    request: HttpRequest, cluster: Cluster, form: NewTopicForm, configs: dict[str, str | None]
) -> Trouble | None:
    """None when it was created. A refusal that is about the name stands at its field."""
    try:
        topics.create_topic(
            actor_of(request),
            cluster,
            form.name,
            partition_count=form.partition_count,
            replication_factor=form.replication_factor,
            configs={name: value for name, value in configs.items() if value is not None},
        )
    except TROUBLES as error:
        trouble = known_trouble(error)
        field = {
            "topic-already-exists": "name",
            "invalid-topic-exception": "name",
            "invalid-partitions": "partitions",
            "invalid-replication-factor": "replicas",
        }.get(trouble.code)
        if field:
            form.problems[field] = trouble.detail
        return trouble
    return None


@on_topic
def grow(request: HttpRequest, cluster: Cluster, topic: Topic) -> HttpResponse:
    now = len(topic.partitions)
    context: dict[str, Any] = {"wanted": now + 1}
    if request.method == "POST":
        wanted = read_partition_count(request.POST.dict())
        context["wanted"] = request.POST.get("partitions", "")
        if wanted is None:
            context["problem"] = f"A whole number from {now + 1:,} to {topics.PARTITIONS_MAX:,}."
            return _form(request, cluster, topic, "topics/grow.html", context, 422)
        try:
            topics.grow_topic(
                actor_of(request),
                cluster,
                topic.name,
                wanted,
                topic_id=request.POST.get("topic_id"),
            )
        except TROUBLES as error:
            return _refused(request, cluster, topic, "topics/grow.html", context, error)
        messages.success(request, f"{topic.name} grew from {now:,} to {wanted:,} partitions.")
        return _to_topic(cluster, topic)
    return _form(request, cluster, topic, "topics/grow.html", context)


@on_topic
def settings(request: HttpRequest, cluster: Cluster, topic: Topic) -> HttpResponse:
    """Fields; a review of what would change, checked by the broker; then the change."""
    posted = request.POST.dict() if request.method == "POST" else None
    step = (posted or {}).get("step", "")
    context: dict[str, Any] = {"etag": topic.etag, "fields": fields_of(topic.settings, posted)}
    if posted is None or step == "edit":
        return _form(request, cluster, topic, "topics/settings.html", context)
    wanted = wanted_values(topic.settings, posted)
    try:
        if step == "save":
            changes = topics.change_settings(
                actor_of(request), cluster, topic.name, wanted, etag=posted.get("etag")
            )
            _say_changed(request, topic.name, topics.named(changes))
            return _to_topic(cluster, topic)
        _refuse_stale(topic, posted.get("etag"))
        context["changes"] = topics.check_settings(cluster, topic.name, wanted)
    except TROUBLES as error:
        trouble = known_trouble(error)
        context["fields"] = fields_of(topic.settings, posted, problem=trouble.detail)
        return _refused(request, cluster, topic, "topics/settings.html", context, error)
    return _form(request, cluster, topic, "topics/settings_review.html", context)


def _refuse_stale(topic: Topic, etag: str | None) -> None:
    if etag != topic.etag:
        raise topics.SettingsChanged(topic.name)


def _say_changed(request: HttpRequest, topic: str, names: str) -> None:
    if names:
        messages.success(request, f"Settings of {topic} were changed: {names}.")
    else:
        messages.info(request, f"Nothing was changed: {topic} has these settings already.")


@on_topic
def delete(request: HttpRequest, cluster: Cluster, topic: Topic) -> HttpResponse:
    context = {"impact": services.impact_of(cluster, topic)}
    if request.method == "POST":
        try:
            topics.delete_topic(
                actor_of(request),
                cluster,
                topic.name,
                topic_id=request.POST.get("topic_id"),
                confirmation=request.POST.get("confirmation", ""),
            )
        except TROUBLES as error:
            return _refused(request, cluster, topic, "topics/delete.html", context, error)
        services.forget_topic(cluster, topic.name)
        partitions = words.count(len(topic.partitions), "partition")
        messages.success(request, f"Topic {topic.name} was deleted, with {partitions}.")
        return redirect("topics:list", cluster=cluster.name)
    return _form(request, cluster, topic, "topics/delete.html", context)


def _form(
    request: HttpRequest,
    cluster: Cluster,
    topic: Topic,
    template: str,
    context: dict[str, Any],
    status: int = 200,
) -> HttpResponse:
    whole = {
        **context,
        "cluster": cluster,
        "topic": topic,
        "may_write": actor_of(request).may(Right.TOPICS_WRITE, cluster),
    }
    return render(request, template, whole, status=status)


def _refused(
    request: HttpRequest,
    cluster: Cluster,
    topic: Topic,
    template: str,
    context: dict[str, Any],
    error: BaseException,
) -> HttpResponse:
    """The form as it was typed, with the reason. What is true now is read again by the caller."""
    trouble = known_trouble(error)
    whole = {**context, "trouble": trouble}
    return _form(request, cluster, topic, template, whole, trouble.status)


def _to_topic(cluster: Cluster, topic: Topic) -> HttpResponse:
    services.forget_topic(cluster, topic.name)
    return redirect("topics:detail", cluster=cluster.name, topic=topic.name)


def _status(trouble: Trouble | None, problems: dict[str, str]) -> int:
    if trouble is not None:
        return trouble.status
    return Refused(422, "", "").status if problems else 200
