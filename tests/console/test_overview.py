"""The overview's own rules: rates that do not jump with batches, topics that need attention, and a
page that never waits for the cluster.
"""

from __future__ import annotations

import re
import time
from collections.abc import Callable

import pytest
from django.template.loader import render_to_string
from django.test import Client

from broker.client.blocking import ErrorCode, PartitionView, TopicView
from hermes_console.clusters import Cluster
from hermes_console.operations import topics_catalogue
from hermes_console.operations.topics_catalogue import (
    Show,
    make_catalogue,
    select_topics,
)
from hermes_console.operations.topics_read import Partition
from hermes_console.pages.overview.services import smooth_rates
from hermes_console.samples.models import ClusterSample
from hermes_console.samples.snapshot import ClusterSnapshot, Rates, Verdict
from tests.console.conftest import group

pytestmark = pytest.mark.django_db(databases="__all__")
OVERVIEW = "/clusters/local/"


def topic(name: str, *partitions: tuple[int, int, int], is_internal: bool = False) -> TopicView:
    """Each partition as (leader, replicas, of them in sync)."""
    views = tuple(
        PartitionView(
            index, leader, 0, tuple(range(replicas)), tuple(range(in_sync)), ErrorCode.NONE
        )
        for index, (leader, replicas, in_sync) in enumerate(partitions)
    )
    return TopicView(name, b"\1" * 16, is_internal, views)


@pytest.fixture
def known(cluster: Cluster) -> Callable[..., None]:
    """Makes these topics the cluster's, as if they had just been read."""

    def know(*topics: TopicView) -> None:
        key = (cluster.pk, cluster.bootstrap_address)
        topics_catalogue._kept[key] = make_catalogue(time.monotonic(), topics)

    return know


def test_rates_are_the_average_of_ten_seconds(
    cluster: Cluster, store_groups: Callable[..., ClusterSnapshot]
) -> None:
    snapshot = store_groups(group("app"), rates=Rates(0.0, 0.0, 0.0, 0.0))
    now_s = snapshot.at_ms // 1000
    for age, out in ((1, 4_000.0), (2, 0.0), (3, None), (11, 9_999.0)):
        ClusterSample.objects.create(
            cluster_id=cluster.pk,
            resolution_s=1,
            at_s=now_s - age,
            messages_out_per_s=out,
            messages_in_per_s=100.0,
        )
    rates = smooth_rates(cluster, snapshot)
    assert rates.messages_out == pytest.approx(4_000 / 3), "three known seconds, one of them now"
    assert rates.messages_in == pytest.approx(300 / 4)


def test_rates_of_a_cluster_that_does_not_answer_are_unknown(
    signed_in: Client, cluster: Cluster, store_groups: Callable[..., ClusterSnapshot]
) -> None:
    snapshot = store_groups(group("app"))
    assert smooth_rates(cluster, snapshot).messages_in == 100.0
    down = store_groups(group("app"), trouble="refused", sequence=8)
    assert smooth_rates(cluster, down) == Rates()


def test_topics_without_a_leader_are_listed_with_a_way_to_them(
    signed_in: Client,
    known: Callable[..., None],
    store_groups: Callable[..., ClusterSnapshot],
) -> None:
    store_groups(group("late", verdict=Verdict.FALLING_BEHIND, topics=("orders",)))
    known(topic("fine", (0, 1, 1)), topic("broken", (-1, 1, 0), (0, 3, 2)))
    page = signed_in.get(OVERVIEW).content.decode()
    assert "1 partition without a leader, 1 partition not fully replicated" in page
    assert 'href="/clusters/local/topics/broken/"' in page
    assert 'href="/clusters/local/topics/fine/"' not in page
    assert 'href="/clusters/local/topics/orders/"' in page, "the late group's topic"


def test_overview_does_not_wait_for_a_cluster_that_is_silent(
    signed_in: Client, store_groups: Callable[..., ClusterSnapshot]
) -> None:
    """Nothing listens at the cluster's address: a call to it takes ten seconds to fail."""
    store_groups(group("app"))
    began_s = time.monotonic()
    assert signed_in.get(OVERVIEW).status_code == 200
    assert time.monotonic() - began_s < 8


def test_topics_that_need_attention_are_broken_or_read_by_a_troubled_group() -> None:
    entries = make_catalogue(
        0.0,
        [
            topic("a-broken", (-1, 1, 0)),
            topic("b-read", (0, 1, 1)),
            topic("c-fine", (0, 1, 1)),
            topic("__d", (0, 1, 1), is_internal=True),
        ],
    ).entries
    readers = {
        "b-read": [group("late", verdict=Verdict.STOPPED)],
        "c-fine": [group("calm", verdict=Verdict.FINE)],
    }

    def names(show: Show, search: str = "") -> list[str]:
        found = select_topics(entries, search=search, show=show, readers=readers)
        return [one.name for one in found]

    assert names(Show.ATTENTION) == ["a-broken", "b-read"]
    assert names(Show.OWN) == ["a-broken", "b-read", "c-fine"]
    assert names(Show.INTERNAL) == ["__d"]
    assert len(names(Show.ALL)) == 4
    assert names(Show.ALL, "FINE") == ["c-fine"]
    assert names(Show.ALL, ".*") == [], "a part of the name, never a pattern"


def test_cluster_without_a_topic_says_how_one_comes_to_be(
    signed_in: Client, known: Callable[..., None]
) -> None:
    known(topic("__internal", (0, 1, 1), is_internal=True))
    page = signed_in.get("/clusters/local/topics/").content.decode()
    assert "No topic yet" in page
    assert "hermes topics create orders" in page
    assert 'href="/clusters/local/topics/new"' in page
    filtered = signed_in.get("/clusters/local/topics/", {"q": "x"}).content.decode()
    assert "No topic fits" in filtered


def test_brokers_are_told_how_many_partitions_they_lead() -> None:
    found = make_catalogue(0.0, [topic("t", (0, 2, 2), (1, 2, 2), (0, 1, 1))])
    assert dict(found.leaders) == {0: 2, 1: 1}
    assert dict(found.replicas) == {0: 3, 1: 2}


def test_partition_that_does_not_answer_is_unknown_not_zero() -> None:
    view = topic("t", (-1, 2, 1)).partitions[0]
    html = render_to_string(
        "topics/partitions.html",
        {"partitions": [Partition(view, None, None)], "topic": {"is_count_estimated": True}},
    )
    words = re.sub(r"\s+", " ", re.sub(r"<[^>]+>", " ", html))
    assert "0 unknown unknown unknown unknown none 0 of 0, 1" in words
