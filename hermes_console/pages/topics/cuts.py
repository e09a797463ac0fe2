"""The page that deletes records: choose, look at what goes, type the name."""

from __future__ import annotations

from django.contrib import messages
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.utils import timezone

from broker.client.blocking import BrokerRefusal
from hermes_console import words
from hermes_console.accounts.actor import actor_of
from hermes_console.accounts.rights import Right
from hermes_console.clusters import Cluster
from hermes_console.errors import Refused, sentence
from hermes_console.operations import topics
from hermes_console.operations.topics_impact import Cut, offsets_before_time, plan_cuts, total
from hermes_console.operations.topics_read import Topic
from hermes_console.pages.topics import services
from hermes_console.pages.topics.changes import on_topic
from hermes_console.pages.topics.forms import (
    CutForm,
    read_cut,
    read_offsets_text,
    write_offsets,
)
from hermes_console.pagetrouble import TROUBLES, known_trouble


@on_topic
def delete_records(request: HttpRequest, cluster: Cluster, topic: Topic) -> HttpResponse:
    if request.method != "POST":
        return _page(request, cluster, topic, CutForm())
    form = read_cut(request.POST.dict())
    if request.POST.get("step") == "delete":
        return _delete(request, cluster, topic, form)
    if form.problems:
        return _page(request, cluster, topic, form, status=422)
    try:
        cuts = plan_cuts(topic, _wanted(cluster, topic, form))
    except TROUBLES as error:
        return _page(request, cluster, topic, form, error=error)
    return _page(request, cluster, topic, form, cuts=cuts)


def _delete(request: HttpRequest, cluster: Cluster, topic: Topic, form: CutForm) -> HttpResponse:
    """Deletes exactly what the preview showed: its offsets come back with the form."""
    cuts: list[Cut] | None = None
    try:
        wanted = _previewed(request.POST.get("offsets", ""))
        cuts = plan_cuts(topic, wanted)
        answers = topics.delete_records(
            actor_of(request),
            cluster,
            topic.name,
            wanted,
            topic_id=request.POST.get("topic_id"),
            confirmation=request.POST.get("confirmation", ""),
        )
    except TROUBLES as error:
        return _page(request, cluster, topic, form, cuts=cuts, error=error)
    services.forget_topic(cluster, topic.name)
    _say_deleted(request, topic, cuts, answers)
    return redirect("topics:detail", cluster=cluster.name, topic=topic.name)


def _say_deleted(
    request: HttpRequest, topic: Topic, cuts: list[Cut], answers: dict[int, int | BrokerRefusal]
) -> None:
    """What was deleted, and each partition where it was not, with its reason."""
    done = [cut for cut in cuts if isinstance(answers.get(cut.partition), int)]
    if done:
        count = words.count(total(done), "record")
        about = "about " if topic.is_count_estimated else ""
        where = words.count(len(done), "partition")
        messages.success(request, f"Deleted {about}{count} from {where} of {topic.name}.")
    for partition, answer in sorted(answers.items()):
        if isinstance(answer, BrokerRefusal):
            why = sentence(str(answer))
            messages.error(request, f"Partition {partition}: nothing was deleted. {why}")


def _wanted(cluster: Cluster, topic: Topic, form: CutForm) -> dict[int, int]:
    if form.mode == "offset":
        return {int(form.partition): int(form.offset)}
    if form.mode == "time":
        return offsets_before_time(cluster, topic, form.at_ms(timezone.get_current_timezone()))
    return {one.view.partition: one.offsets.end for one in topic.partitions if one.offsets}


def _previewed(text: str) -> dict[int, int]:
    try:
        return read_offsets_text(text)
    except ValueError as error:
        raise Refused(422, "no-preview", "Look at what would be deleted first.") from error


def _page(
    request: HttpRequest,
    cluster: Cluster,
    topic: Topic,
    form: CutForm,
    *,
    cuts: list[Cut] | None = None,
    error: BaseException | None = None,
    status: int = 200,
) -> HttpResponse:
    trouble = known_trouble(error) if error is not None else None
    context = {
        "cluster": cluster,
        "topic": topic,
        "form": form,
        "cuts": cuts,
        "cut_count": total(cuts) if cuts else 0,
        "offsets": write_offsets({one.partition: one.before for one in cuts or ()}),
        "impact": services.impact_of(cluster, topic),
        "trouble": trouble,
        "may_write": actor_of(request).may(Right.TOPICS_WRITE, cluster),
    }
    status = trouble.status if trouble else status
    return render(request, "topics/delete_records.html", context, status=status)
