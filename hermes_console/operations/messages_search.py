"""Searches of a topic's messages, as acts: start, look, cancel, resume. The work itself is done by
the worker (`hermes_console.searches`).
"""

from __future__ import annotations

import secrets
import time
from collections.abc import Sequence
from typing import Final, NamedTuple

from django.db import transaction

from broker.client.batches import FetchedBatches
from broker.client.blocking import BlockingClient, TopicPartition
from hermes_console.accounts.actor import Actor
from hermes_console.accounts.rights import Right
from hermes_console.audit.record import audited, require
from hermes_console.clusters import Cluster
from hermes_console.connect import client_for
from hermes_console.errors import Refused
from hermes_console.fetching import fetch_from
from hermes_console.operations.messages import (
    TopicFacts,
    check_name,
    fetch_at,
    message_in,
    no_partition,
    topic_facts,
)
from hermes_console.operations.messages_rows import Message
from hermes_console.searches.criteria import BadCriteria, Criteria
from hermes_console.searches.models import SearchHit, SearchJob, State
from hermes_console.searches.scan import end_of
from hermes_console.searches.tasks import ask_for_slice

HITS_PER_RUN: Final = 500
HITS_MAX: Final = 10_000
HITS_PAGE: Final = 20
HIT_BYTES: Final = 64 * 1024
HITS_S_MAX: Final = 5.0
"""Of reading a page of them from the cluster; a slow one makes the page shorter."""
RUNNING_MAX: Final = 8
"""Searches in work at once, over all clusters: they share the worker."""
QUEUE_DOWN: Final = "It waits: the task queue cannot be reached. It begins when the queue is back."
KEPT_MAX: Final = 200
LISTED_MAX: Final = 20


class Hit(NamedTuple):
    """A found place; `message` is None when it is no longer there."""

    place: SearchHit
    message: Message | None


class HitPage(NamedTuple):
    """Hits in the order they were found; `next_after` is the key to go on behind, if any."""

    hits: list[Hit]
    next_after: int | None


def start_search(actor: Actor, cluster: Cluster, topic: str, criteria: Criteria) -> SearchJob:
    """A search in work. Raises NotAllowed, Refused, ClientError."""
    with audited(actor, Right.MESSAGES_READ, "search.start", cluster=cluster, target=topic) as act:
        try:
            criteria.checked()
        except BadCriteria as error:
            raise Refused(422, f"bad-{error.name.replace('_', '-')}", str(error)) from error
        act.before = criteria.to_json()
        if SearchJob.objects.filter(state=State.RUNNING).count() >= RUNNING_MAX:
            raise _too_many()
        client = client_for(cluster)
        facts = topic_facts(client, topic)
        starts, ends = _ranges(client, facts, criteria)
        now_ms = _now_ms()
        job = SearchJob(
            key=secrets.token_hex(12),
            cluster=cluster,
            topic=topic,
            topic_id=client.describe_topic(topic).topic_id.hex(),
            actor=actor.name,
            criteria=criteria.to_json(),
            starts={str(one): str(at) for one, at in starts.items()},
            positions={str(one): str(at) for one, at in starts.items()},
            ends={str(one): str(at) for one, at in ends.items()},
            hits_limit=HITS_PER_RUN,
            created_at_ms=now_ms,
            updated_at_ms=now_ms,
        )
        _save_if_few(job)
        act.after = criteria.to_json() | {
            "search": job.key,
            "offsets": str(job.total_records),
        }
        _ask_for_slice(job)
    _forget_old(cluster)
    return job


def get_search(actor: Actor, cluster: Cluster, topic: str, key: str) -> SearchJob:
    """Raises NotAllowed; Refused when there is none of that key, or it was forgotten."""
    require(actor, Right.MESSAGES_READ, cluster=cluster, target=topic)
    check_name(topic)
    job = SearchJob.objects.filter(cluster=cluster, topic=topic, key=key).first()
    if job is None:
        raise Refused(404, "no-such-search", f"There is no such search of {topic}: start it again.")
    return job


def list_searches(actor: Actor, cluster: Cluster, topic: str) -> list[SearchJob]:
    """The newest searches of the topic. Raises NotAllowed."""
    require(actor, Right.MESSAGES_READ, cluster=cluster, target=topic)
    check_name(topic)
    return list(SearchJob.objects.filter(cluster=cluster, topic=topic)[:LISTED_MAX])


def cancel_search(actor: Actor, cluster: Cluster, topic: str, key: str) -> SearchJob:
    """Stopped for now; what was found stays. Cancelling what does not run changes nothing."""
    job = get_search(actor, cluster, topic, key)
    with audited(actor, Right.MESSAGES_READ, "search.cancel", cluster=cluster, target=topic) as act:
        reason = f"Cancelled by {actor.name}."
        is_changed = SearchJob.objects.filter(pk=job.pk, state=State.RUNNING).update(
            state=State.CANCELLED,
            reason=reason[:1024],
            lease_until_ms=0,
            lease_owner="",
            updated_at_ms=_now_ms(),
        )
        job.refresh_from_db()
        act.after = {"search": key, "was_running": bool(is_changed), "state": job.state}
    return job


def resume_search(actor: Actor, cluster: Cluster, topic: str, key: str) -> SearchJob:
    """Goes on where it stopped. Raises Refused when it runs, is done, or has found all it may."""
    job = get_search(actor, cluster, topic, key)
    with audited(actor, Right.MESSAGES_READ, "search.resume", cluster=cluster, target=topic) as act:
        if not job.is_resumable:
            raise Refused(
                409,
                "not-resumable",
                f"The search is {job.get_state_display().lower()}: there is nothing to resume.",
            )
        if job.hit_count >= HITS_MAX:
            raise Refused(
                409, "too-many-hits", f"It found {HITS_MAX:,} messages. Narrow the search."
            )
        if SearchJob.objects.filter(state=State.RUNNING).count() >= RUNNING_MAX:
            raise _too_many()
        limit = max(job.hits_limit, min(HITS_MAX, job.hit_count + HITS_PER_RUN))
        number = job.slice_number + 1
        is_changed = SearchJob.objects.filter(
            pk=job.pk, state=job.state, slice_number=job.slice_number
        ).update(
            state=State.RUNNING,
            reason="",
            failures=0,
            hits_limit=limit,
            slice_number=number,
            lease_until_ms=0,
            lease_owner="",
            updated_at_ms=_now_ms(),
        )
        if not is_changed:
            raise Refused(409, "changed-meanwhile", "Somebody resumed it already.")
        act.after = {"search": key, "slice": number}
        job.refresh_from_db()
        _ask_for_slice(job)
    return job


def hits_of(
    actor: Actor,
    cluster: Cluster,
    job: SearchJob,
    *,
    after: int = 0,
    limit: int = HITS_PAGE,
) -> HitPage:
    """Found messages behind the hit `after`, read from the cluster now: `limit` of them, or as many
    as could be read in HITS_S_MAX. Of a topic that was made anew since there are none. Raises
    NotAllowed, ClientError.
    """
    with audited(
        actor, Right.MESSAGES_READ, "messages.read", cluster=cluster, target=job.topic
    ) as act:
        places = list(job.hits.filter(pk__gt=after).order_by("pk")[: limit + 1])
        found, read_count = _messages_at(client_for(cluster), job, places[:limit])
        shown = places[:read_count]
        hits = [Hit(place, found.get((place.partition, place.offset))) for place in shown]
        act.after = {
            "search": job.key,
            "messages": len(found),
            "places": [f"{place.partition}:{place.offset}" for place in shown],
        }
    return HitPage(hits, shown[-1].pk if len(places) > len(shown) else None)


def _messages_at(
    client: BlockingClient, job: SearchJob, places: Sequence[SearchHit]
) -> tuple[dict[tuple[int, int], Message], int]:
    """What is still there, and how many of the places were looked at: all, or those for which
    HITS_S_MAX sufficed, the first one at least. Neighbours come with one fetch.
    """
    found: dict[tuple[int, int], Message] = {}
    if places and client.describe_topic(job.topic).topic_id.hex() != job.topic_id:
        return found, len(places)  # at these places are other messages now
    fetch = fetch_from(client, job.topic)
    end_s = time.monotonic() + HITS_S_MAX
    partition, begin, end = -1, 0, 0
    answer: FetchedBatches | None = None
    for index, place in enumerate(places):
        if place.partition != partition or not begin <= place.offset < end:
            if index and time.monotonic() >= end_s:
                return found, index
            partition, begin = place.partition, place.offset
            answer = fetch_at(fetch, partition, begin, partition_bytes=HIT_BYTES)
            end = begin if answer is None else end_of(answer, begin)
        message = None if answer is None else message_in(answer, partition, place.offset)
        if message is not None:
            found[place.partition, place.offset] = message
    return found, len(places)


def _ranges(
    client: BlockingClient, facts: TopicFacts, criteria: Criteria
) -> tuple[dict[int, int], dict[int, int]]:
    """Per partition where to begin and to end. Raises Refused for partitions that are not there."""
    for number in criteria.partitions:
        if not 0 <= number < facts.partition_count:
            raise no_partition(facts.name, number, facts.partition_count)
    wanted = set(criteria.partitions) or set(facts.ranges)
    ranges = {number: pair for number, pair in sorted(facts.ranges.items()) if number in wanted}
    starts = {number: start for number, (start, _) in ranges.items()}
    ends = {number: end for number, (_, end) in ranges.items()}
    for at_ms, into in ((criteria.since_ms, starts), (criteria.until_ms, ends)):
        if at_ms is None:
            continue
        places = {TopicPartition(facts.name, number): at_ms for number in ranges}
        for where, found in client.offsets(places).items():
            low, high = ranges[where.partition]
            into[where.partition] = min(max(low, found.offset if found.offset >= 0 else high), high)
    return starts, {number: max(end, starts[number]) for number, end in ends.items()}


def _save_if_few(job: SearchJob) -> None:
    """The new search, unless others that began meanwhile took the last place. Raises Refused."""
    with transaction.atomic():
        list(Cluster.objects.select_for_update().values_list("pk"))  # one at a time
        if SearchJob.objects.filter(state=State.RUNNING).count() >= RUNNING_MAX:
            raise _too_many()
        job.save()


def _ask_for_slice(job: SearchJob) -> None:
    """Have the search's next slice done; when the queue is down, the search says that it waits."""
    if ask_for_slice(job.key, job.slice_number):
        return
    SearchJob.objects.filter(
        pk=job.pk, slice_number=job.slice_number, state=State.RUNNING, lease_owner=""
    ).update(reason=QUEUE_DOWN)
    job.refresh_from_db()


def _forget_old(cluster: Cluster) -> None:
    """Keep the newest searches at rest."""
    at_rest = SearchJob.objects.filter(cluster=cluster).exclude(state=State.RUNNING)
    old = list(at_rest.order_by("-pk").values_list("pk", flat=True)[KEPT_MAX:][:KEPT_MAX])
    if old:
        SearchJob.objects.filter(pk__in=old).delete()


def _too_many() -> Refused:
    return Refused(
        429,
        "too-many-searches",
        f"{RUNNING_MAX} searches are in work. Wait for one, or cancel one.",
    )


def _now_ms() -> int:
    return time.time_ns() // 1_000_000
