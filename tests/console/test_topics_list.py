"""The list of topics on a real broker: filters, order, pages, what a row tells, what it costs."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import pytest
from confluent_kafka import Producer
from django.core.cache import cache
from django.test import Client

from hermes_console.clusters import Cluster
from hermes_console.connect import client_for
from hermes_console.operations.topics_catalogue import forget_catalogue
from hermes_console.samples.snapshot import GroupDetail, MemberSnapshot
from hermes_console.samples.store import SampleStore
from tests.console.conftest import group, partition, snapshot_of
from tests.console.kafka_world import World, new_name, running_cluster
from tests.console.topic_pages import API, PAGE, point_at, text_of, words_of

pytestmark = [pytest.mark.django_db(databases="__all__"), pytest.mark.timeout(180)]


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    with running_cluster(tmp_path_factory.mktemp("topics-broker")) as bootstrap:
        yield World(bootstrap)


@pytest.fixture
def local(cluster: Cluster, world: World) -> Cluster:
    return point_at(cluster, world.bootstrap)


def test_list_is_filtered_ordered_and_paged_on_the_server(
    signed_in: Client, local: Cluster, world: World
) -> None:
    prefix = new_name("many")
    client = client_for(local)
    for number in range(60):
        client.create_topic(f"{prefix}-{number:02}", partition_count=1 + (number == 7))
    forget_catalogue(local)
    page = text_of(signed_in.get(f"{PAGE}/", {"q": prefix.upper()}))
    assert f"{prefix}-49" in page
    assert f"{prefix}-50" not in page
    assert "page 1 of 2" in page
    second = text_of(signed_in.get(f"{PAGE}/", {"q": prefix, "page": "2"}))
    assert f"{prefix}-59" in second
    ordered = text_of(signed_in.get(f"{PAGE}/", {"q": prefix, "sort": "partitions"}))
    assert re.search(r'<tr data-key="([^"]+)"', ordered)[1] == f"{prefix}-07"  # type: ignore[index]
    first = signed_in.get(API, {"q": prefix, "limit": "25"}).json()
    names = [one["name"] for one in first["topics"]]
    rest = signed_in.get(API, {"q": prefix, "limit": "200", "cursor": first["next_cursor"]}).json()
    names += [one["name"] for one in rest["topics"]]
    assert names == [f"{prefix}-{number:02}" for number in range(60)]
    assert rest["next_cursor"] is None
    assert signed_in.get(API, {"cursor": "!"}).status_code == 400
    assert signed_in.get(f"{PAGE}/", {"q": prefix, "page": "9" * 5_000}).status_code == 200
    piece = signed_in.get(f"{PAGE}/", {"q": prefix}, headers={"HX-Request": "true"})
    assert "<html" not in piece.content.decode()


def test_row_shows_size_rate_retention_and_readers_with_their_lag(
    signed_in: Client, local: Cluster, world: World
) -> None:
    topic = world.topic(2, 50, config={"retention.ms": "7200000", "retention.bytes": "1048576"})
    producer_now(world, topic, 120)
    SampleStore(local.pk).write(
        snapshot_of(group("settlement", lag=18_230, topics=(topic,))), details_of(topic, 18_230)
    )
    row = signed_in.get(API, {"q": topic}).json()["topics"][0]
    assert int(row["size_bytes"]) > 1_000
    assert row["messages_in_per_second"] == pytest.approx(2.0)
    assert row["groups"] == [
        {
            "name": "settlement",
            "state": "Stable",
            "verdict": "fine",
            "lag": "18230",
            "lag_seconds": 1823.0,
            "member_count": 1,
        }
    ]
    page = words_of(signed_in.get(f"{PAGE}/", {"q": topic}))
    assert "2 h or 1.0 MiB a partition" in page
    assert "settlement lag 18,230" in page


def producer_now(world: World, topic: str, count: int) -> None:
    client_settings = {"bootstrap.servers": world.bootstrap}
    producer = Producer(client_settings)
    for number in range(count):
        producer.produce(topic, b"%d" % number, partition=0)
    assert producer.flush(30) == 0


def details_of(topic: str, lag: int) -> list[Any]:
    return [
        GroupDetail(
            group("settlement", lag=lag, topics=(topic,)),
            (partition(0, lag=lag, topic=topic),),
            (MemberSnapshot("m-1", "", "app", "10.0.0.1", 1),),
        )
    ]


def test_list_asks_the_cluster_about_visible_rows_only(
    signed_in: Client, local: Cluster, world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    cache.clear()
    client = client_for(local)
    asked: list[int] = []
    configs, offsets = client.topic_configs, client.offsets
    monkeypatch.setattr(
        client, "topic_configs", lambda names: asked.append(len(list(names))) or configs(names)
    )
    monkeypatch.setattr(
        client,
        "offsets",
        lambda wanted, **how: (
            asked.append(len({one.topic for one in wanted})) or offsets(wanted, **how)
        ),
    )
    for number in range(60):
        client.create_topic(new_name(f"visible-{number}"), partition_count=1)
    forget_catalogue(local)
    assert signed_in.get(f"{PAGE}/").status_code == 200
    assert asked
    assert max(asked) <= 50
    calls = len(asked)
    assert signed_in.get(f"{PAGE}/").status_code == 200
    assert len(asked) == calls, "a second viewer of the same rows asks nothing"


def test_rates_come_from_the_log_itself(signed_in: Client, local: Cluster, world: World) -> None:
    topic = world.topic(1, 0)
    producer_now(world, topic, 300)
    points = signed_in.get(f"{PAGE}/{topic}/rates", {"span": "15m"}).json()["points"]
    assert len(points) == 30
    assert sum(float(value) for _, value in points[:-2]) == 0
    assert sum(float(value) * 30 for _, value in points) == pytest.approx(300, rel=0.02)
    twin = signed_in.get(f"{PAGE}/{topic}/rates", headers={"HX-Request": "true"})
    assert words_of(twin).count(":") >= 30


def test_what_the_platform_keeps_in_the_cluster_is_not_among_the_own_topics(
    signed_in: Client, local: Cluster, world: World
) -> None:
    name = f"__{new_name('kept-by-a-gateway')}"
    producer_now(world, name, 1)
    forget_catalogue(local)
    assert name not in text_of(signed_in.get(f"{PAGE}/"))
    assert name in text_of(signed_in.get(f"{PAGE}/", {"show": "internal"}))
