"""What the command palette offers: pages, clusters, topics and groups whose name holds what was
typed, best first. JSON for the page's script; a search, never a pattern.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Final, NamedTuple

from django.http import HttpRequest, JsonResponse
from django.urls import reverse
from django.views.decorators.http import require_safe

from broker.client.blocking import ClientError
from hermes_console.accounts.actor import Actor, actor_of
from hermes_console.accounts.rights import Right
from hermes_console.clusters import CLUSTERS_MAX, Cluster, default_cluster
from hermes_console.navigation import ADMINISTRATION, PAGES
from hermes_console.operations.topics_catalogue import read_catalogue
from hermes_console.samples.read import latest_cluster
from hermes_console.samples.snapshot import ClusterSnapshot

QUERY_LENGTH_MAX: Final = 255
ROWS_PER_KIND_MAX: Final = 8


class Entry(NamedTuple):
    """A row: what it is, how it is called, where it leads."""

    kind: str
    title: str
    address: str


@require_safe
def palette(request: HttpRequest) -> JsonResponse:
    """`q` and `cluster` in the query. A cluster that does not answer has no topics here, and says
    so in `note`.
    """
    wanted = request.GET.get("q", "").strip()[:QUERY_LENGTH_MAX]
    name = request.GET.get("cluster", "").replace("\0", "")
    cluster = Cluster.objects.filter(name=name).first() or default_cluster()
    found: list[Entry] = []
    note = ""
    if cluster is not None:
        snapshot = latest_cluster(cluster.pk)
        found += best(_pages(cluster, actor_of(request)), wanted)
        found += best(_clusters(), wanted)
        found += best(_groups(cluster, snapshot), wanted)
        try:
            if snapshot is None or snapshot.trouble:
                raise ClientError  # it would only be waited for once more
            found += best(_topics(cluster), wanted)
        except ClientError:
            note = f"Topics of {cluster.name} cannot be searched: the cluster does not answer."
    return JsonResponse({"entries": [entry._asdict() for entry in found], "note": note})


def best(entries: Iterable[Entry], wanted: str) -> list[Entry]:
    """At most ROWS_PER_KIND_MAX: those that begin with what is wanted, then those that hold it."""
    needle = wanted.casefold()
    first: list[Entry] = []
    second: list[Entry] = []
    for entry in entries:
        title = entry.title.casefold()
        if title.startswith(needle):
            first.append(entry)
            if len(first) == ROWS_PER_KIND_MAX:
                return first
        elif needle in title and len(second) < ROWS_PER_KIND_MAX:
            second.append(entry)
    return [*first, *second][:ROWS_PER_KIND_MAX]


def _pages(cluster: Cluster, actor: Actor) -> Iterator[Entry]:
    """Those that the menu shows to the actor, and the forms that a page leads to."""
    for page in PAGES:
        yield Entry("page", page.title, reverse(page.start, kwargs={"cluster": cluster.name}))
    for page in ADMINISTRATION:
        if page.right is None or actor.may(page.right):
            yield Entry("page", page.title, reverse(page.start))
    if actor.may(Right.TOPICS_WRITE):
        yield Entry("page", "Create a topic", reverse("topics:create", args=[cluster.name]))
    if actor.may(Right.GROUPS_WRITE):
        yield Entry("page", "Create a group", reverse("groups:create", args=[cluster.name]))
    yield Entry("page", "Admin API", reverse("api:reference"))
    yield Entry("page", "Profile, password and tokens", reverse("accounts:profile"))
    yield Entry("page", "Times and time zone", reverse("times"))


def _clusters() -> Iterator[Entry]:
    for cluster in Cluster.objects.all()[:CLUSTERS_MAX]:
        address = reverse(PAGES[0].start, kwargs={"cluster": cluster.name})
        yield Entry("cluster", cluster.name, address)


def _groups(cluster: Cluster, snapshot: ClusterSnapshot | None) -> Iterator[Entry]:
    for group in sorted(snapshot.groups, key=lambda one: one.name) if snapshot else ():
        yield Entry("group", group.name, reverse("groups:detail", args=[cluster.name, group.name]))


def _topics(cluster: Cluster) -> Iterator[Entry]:
    """Raises ClientError."""
    for topic in read_catalogue(cluster).entries:
        if not topic.is_internal:
            yield Entry(
                "topic", topic.name, reverse("topics:detail", args=[cluster.name, topic.name])
            )
