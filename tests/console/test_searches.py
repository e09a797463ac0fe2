"""Searches as jobs on a real broker: slices, cancel, resume, deliveries that come twice, what is
refused.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from django.db import connections
from django.test import Client

from hermes_console.accounts.models import User
from hermes_console.audit.models import AuditEvent
from hermes_console.celery import app
from hermes_console.clusters import Cluster
from hermes_console.operations import messages_search
from hermes_console.searches import slices
from hermes_console.searches.models import SearchHit, SearchJob, State
from tests.console.kafka_world import World, running_cluster
from tests.console.test_messages import API, PAGE, put, text_of

pytestmark = [
    pytest.mark.django_db(databases="__all__", transaction=True),
    pytest.mark.timeout(180),
]


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    with running_cluster(tmp_path_factory.mktemp("search-broker")) as bootstrap:
        yield World(bootstrap)


@pytest.fixture(autouse=True)
def queue_in_memory() -> Iterator[None]:
    """Tasks wait in a queue that no worker reads: the tests take the slices themselves."""
    before = app.conf.broker_url
    app.conf.broker_url = "memory://localhost"
    yield
    app.conf.broker_url = before


@pytest.fixture
def operator(cluster: Cluster, world: World, signed_in: Client) -> Client:
    cluster.bootstrap_address = world.bootstrap
    cluster.save()
    return signed_in


def start(client: Client, topic: str, **criteria: object) -> SearchJob:
    answer = client.post(
        f"{API}/{topic}/records/searches", json.dumps(criteria), content_type="application/json"
    )
    assert answer.status_code == 201, answer.content
    return SearchJob.objects.get(key=answer.json()["key"])


def run(job: SearchJob) -> SearchJob:
    """All slices that are left, those too that a failure put off."""
    for _ in range(100):
        number: int | None = job.slice_number
        while number is not None:
            number = slices.run_slice(job.key, number)
        job.refresh_from_db()
        if not job.is_running:
            break
        SearchJob.objects.filter(pk=job.pk).update(lease_until_ms=0)
    return job


def found(client: Client, job: SearchJob) -> list[tuple[int, int]]:
    answer = client.get(f"{API}/{job.topic}/records/searches/{job.key}/found", {"limit": 100})
    assert answer.status_code == 200, answer.content
    return [(one["partition"], int(one["offset"])) for one in answer.json()["found"]]


def test_a_search_finds_what_is_there_and_says_how_far_it_is(
    operator: Client, world: World
) -> None:
    topic = world.topic(partitions=3, records=50)
    put(
        world,
        topic,
        [(b"order-17", b'{"id": 9007199254740993, "to": "Berlin"}')],
        partition=2,
        headers=[("event", b"created")],
    )
    for criteria in (
        {"value_contains": {"content": "Berlin"}},
        {"key_equals": {"content": "order-17"}},
        {"key_contains": {"content": "der-1"}},
        {"header_name": "event", "header_equals": {"content": "created"}},
        {"json_path": "id", "json_equals": "9007199254740993"},
        {"value_contains": {"content": "Berlin"}, "partitions": [2]},
    ):
        job = run(start(operator, topic, **criteria))
        assert job.state == State.DONE, job.reason
        assert found(operator, job) == [(2, 50)], criteria
        assert job.percent == 100
        assert job.passed_records == (51 if "partitions" in criteria else 151)
    job = run(start(operator, topic, value_contains={"content": "Berlin"}, partitions=[0, 1]))
    assert found(operator, job) == []
    job = run(start(operator, topic, json_path="id", json_equals="9007199254740992"))
    assert found(operator, job) == []


def test_a_search_ends_where_the_topic_ended_when_it_began(operator: Client, world: World) -> None:
    topic = world.topic(partitions=1, records=10)
    job = start(operator, topic, key_equals={"content": "key"})
    world.produce(topic, 1, 10)
    assert len(found(operator, run(job))) == 10


def test_a_time_range_reads_only_what_is_in_it(operator: Client, world: World) -> None:
    topic = world.topic(partitions=2, records=100)
    job = run(
        start(
            operator,
            topic,
            key_equals={"content": "key"},
            since_ms=str(1_000_000 + 90_000),
            until_ms=str(1_000_000 + 95_000),
        )
    )
    assert sorted(found(operator, job)) == [(p, o) for p in range(2) for o in range(90, 95)]
    assert job.total_records == 10


def test_results_are_bounded_and_resuming_goes_on_behind_them(
    operator: Client, world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(messages_search, "HITS_PER_RUN", 30)
    topic = world.topic(partitions=2, records=40)
    job = run(start(operator, topic, key_equals={"content": "key"}))
    assert job.state == State.FULL
    assert job.hit_count == 30
    assert "as many as one run keeps" in job.reason
    for expected in (60, 80):
        answer = operator.post(f"{PAGE}/{topic}/searches/{job.key}/resume")
        assert answer.status_code == 302
        job.refresh_from_db()
        run(job)
        assert job.hit_count == expected
    assert job.state == State.DONE
    assert sorted(found(operator, job)) == [(p, o) for p in range(2) for o in range(40)]


def test_work_goes_on_slice_by_slice_from_where_it_was_saved(
    operator: Client, world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(slices, "SLICE_S", 0.0)
    topic = world.topic(partitions=2, records=20)
    job = start(operator, topic, key_equals={"content": "key"})
    assert slices.run_slice(job.key, 0) == 1, "its time is up before it began"
    monkeypatch.setattr(slices, "SLICE_S", 5.0)
    assert slices.run_slice(job.key, 1) is None
    job.refresh_from_db()
    assert job.state == State.DONE
    assert job.hit_count == 40


def test_a_slice_that_is_delivered_twice_is_done_once(operator: Client, world: World) -> None:
    topic = world.topic(partitions=2, records=200)
    job = start(operator, topic, key_equals={"content": "key"})
    barrier = threading.Barrier(4)

    def deliver() -> None:
        barrier.wait(20)
        slices.run_slice(job.key, 0)
        connections.close_all()

    threads = [threading.Thread(target=deliver) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert slices.run_slice(job.key, 0) is None, "and late, it is nothing"
    job.refresh_from_db()
    assert job.state == State.DONE
    assert job.hit_count == 400
    assert job.scanned_records == 400
    assert SearchHit.objects.filter(job=job).count() == 400


def test_a_worker_that_was_thought_dead_saves_nothing(
    operator: Client, world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    topic = world.topic(partitions=1, records=50)
    job = start(operator, topic, key_equals={"content": "key"})
    read = slices.fetch_from

    def fetch_late(*args: Any, **options: Any) -> Any:
        fetch = read(*args, **options)

        def late(*places: Any) -> Any:
            answer = fetch(*places)
            # Meanwhile the lease runs out and another worker does the slice.
            SearchJob.objects.filter(key=job.key).update(lease_until_ms=0)
            monkeypatch.setattr(slices, "fetch_from", read)
            if SearchJob.objects.get(key=job.key).state == State.RUNNING:
                slices.run_slice(job.key, 0)
            connections.close_all()
            return answer

        return late

    monkeypatch.setattr(slices, "fetch_from", fetch_late)
    assert slices.run_slice(job.key, 0) is None
    job.refresh_from_db()
    assert (job.state, job.hit_count, job.slice_number) == (State.DONE, 50, 1)
    assert SearchHit.objects.filter(job=job).count() == 50


def test_what_no_worker_took_is_asked_for_again_once(operator: Client, world: World) -> None:
    topic = world.topic(partitions=1, records=5)
    job = start(operator, topic, key_equals={"content": "key"})
    asked: list[tuple[str, int]] = []

    def enqueue(key: str, number: int) -> None:
        asked.append((key, number))

    assert slices.wake(enqueue, idle_ms=60_000) == 0, "it has just been asked for"
    SearchJob.objects.filter(pk=job.pk).update(updated_at_ms=1)
    assert slices.wake(enqueue, idle_ms=60_000) == 1
    assert slices.wake(enqueue, idle_ms=60_000) == 0
    assert asked == [(job.key, 0)]
    run(job)
    SearchJob.objects.filter(pk=job.pk).update(updated_at_ms=1)
    assert slices.wake(enqueue, idle_ms=0) == 0, "what is done is not asked for"


def test_cancelling_stops_the_slice_that_runs_and_keeps_what_was_found(
    operator: Client, world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    topic = world.topic(partitions=1, records=0)
    for _ in range(300):  # batches: each is fetched, and saved, by itself
        put(world, topic, [(b"key", bytes(2_000)) for _ in range(20)])
    monkeypatch.setattr(slices, "SAVE_EVERY_S", 0.0)
    monkeypatch.setattr(slices, "FETCH_BYTES", 1)
    monkeypatch.setattr(slices, "SLICE_S", 60.0)
    job = start(operator, topic, key_equals={"content": "nothing like it"})
    thread = threading.Thread(
        target=lambda: (slices.run_slice(job.key, 0), connections.close_all())
    )
    thread.start()
    while SearchJob.objects.get(key=job.key).scanned_records == 0:
        assert thread.is_alive()
    answer = operator.post(f"{PAGE}/{topic}/searches/{job.key}/cancel")
    assert answer.status_code == 302
    thread.join(10)
    assert not thread.is_alive(), "it stops at its next save"
    job.refresh_from_db()
    assert job.state == State.CANCELLED
    assert 0 < job.scanned_records < 6_000
    page = text_of(operator.get(f"{PAGE}/{topic}/searches/{job.key}/"))
    assert "Cancelled by admin." in page
    assert "Resume" in page
    monkeypatch.setattr(slices, "FETCH_BYTES", 1_000_000)
    operator.post(f"{PAGE}/{topic}/searches/{job.key}/resume")
    job.refresh_from_db()
    assert run(job).state == State.DONE
    assert job.scanned_records == 6_000, "nothing twice, nothing left out"


def test_a_topic_that_was_made_anew_ends_the_search(operator: Client, world: World) -> None:
    from confluent_kafka.admin import AdminClient, NewTopic

    topic = world.topic(partitions=1, records=5)
    job = start(operator, topic, key_equals={"content": "key"})
    admin = AdminClient({"bootstrap.servers": world.bootstrap})
    admin.delete_topics([topic])[topic].result(20)
    admin.create_topics([NewTopic(topic, 1, 1)])[topic].result(20)
    run(job)
    assert job.state == State.FAILED
    assert "made anew" in job.reason


def test_what_was_found_in_a_topic_that_was_made_anew_is_gone(
    operator: Client, world: World
) -> None:
    from confluent_kafka.admin import AdminClient, NewTopic

    topic = world.topic(partitions=1, records=5)
    job = run(start(operator, topic, key_equals={"content": "key"}))
    address = f"{API}/{topic}/records/searches/{job.key}/found"
    assert all(one["record"] for one in operator.get(address).json()["found"])
    admin = AdminClient({"bootstrap.servers": world.bootstrap})
    admin.delete_topics([topic])[topic].result(20)
    admin.create_topics([NewTopic(topic, 1, 1)])[topic].result(20)
    put(world, topic, [(b"other", b"nothing that was looked for")] * 5)
    found = operator.get(address).json()["found"]
    assert len(found) == 5
    assert not any(one["record"] for one in found)


def test_a_bug_of_ours_ends_the_search_and_is_not_woken_for_ever(
    operator: Client, world: World
) -> None:
    topic = world.topic(partitions=1, records=5)
    job = start(operator, topic, key_equals={"content": "key"})
    SearchJob.objects.filter(pk=job.pk).update(ends={"0": "no number"})
    with pytest.raises(ValueError, match="no number"):
        slices.run_slice(job.key, 0)
    job.refresh_from_db()
    assert job.state == State.FAILED
    assert "its log says why" in job.reason


def test_a_cluster_that_is_away_fails_the_search_with_the_reason(
    operator: Client,
    world: World,
    cluster: Cluster,
    free_port: Any,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    topic = world.topic(partitions=1, records=5)
    job = start(operator, topic, key_equals={"content": "key"})
    cluster.bootstrap_address = f"127.0.0.1:{free_port()}"
    cluster.save()
    monkeypatch.setattr(slices, "FAILURES_MAX", 2)
    assert slices.run_slice(job.key, 0) is None
    job.refresh_from_db()
    assert job.state == State.RUNNING, "it is tried again"
    SearchJob.objects.filter(pk=job.pk).update(lease_until_ms=0)
    assert slices.run_slice(job.key, job.slice_number) is None
    job.refresh_from_db()
    assert job.state == State.FAILED
    assert job.reason
    cluster.bootstrap_address = world.bootstrap
    cluster.save()
    operator.post(f"{PAGE}/{topic}/searches/{job.key}/resume")
    job.refresh_from_db()
    assert run(job).state == State.DONE
    assert job.hit_count == 5


def test_progress_asks_for_itself_only_while_the_search_runs(
    operator: Client, world: World
) -> None:
    topic = world.topic(partitions=1, records=5)
    job = start(operator, topic, key_equals={"content": "key"})
    address = f"{PAGE}/{topic}/searches/{job.key}"
    running = operator.get(f"{address}/progress?seen=0")
    assert 'hx-trigger="load delay:500ms"' in running.content.decode()
    assert "HX-Trigger" not in running
    run(job)
    done = operator.get(f"{address}/progress?seen=0")
    assert "hx-trigger" not in done.content.decode()
    assert done["HX-Trigger"] == "found-changed"
    assert "5 found" in text_of(operator.get(f"{address}/found"))


@pytest.mark.parametrize(
    ("fields", "says"),
    [
        ({}, "Say what to look for"),
        ({"value_contains": "zz", "value_as": "hex"}, "Not hex"),
        ({"json_path": "a..b", "json_equals": "1"}, "Not a path"),
        ({"key_equals": "k", "since": "soon"}, "Enter a time"),
        ({"key_equals": "k", "partitions": "1-x"}, "whole number"),
        ({"key_equals": "k", "partitions": "0-99999999"}, "Enter partitions as"),
        ({"key_equals": "k", "partitions": "9"}, "has no partition 9"),
    ],
)
def test_a_bad_search_is_refused_in_words(
    operator: Client, world: World, fields: dict[str, str], says: str
) -> None:
    topic = world.topic(partitions=1, records=0)
    answer = operator.post(f"{PAGE}/{topic}/searches/", fields)
    assert answer.status_code in {400, 404}
    assert says in text_of(answer)
    assert not SearchJob.objects.exists()


def test_searches_in_work_are_bounded(
    operator: Client, world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(messages_search, "RUNNING_MAX", 2)
    topic = world.topic(partitions=1, records=1)
    jobs = [start(operator, topic, key_equals={"content": "k"}) for _ in range(2)]
    answer = operator.post(f"{PAGE}/{topic}/searches/", {"key_equals": "k"})
    assert answer.status_code == 429
    assert "searches are in work" in text_of(answer)
    operator.post(f"{PAGE}/{topic}/searches/{jobs[0].key}/cancel")
    assert operator.post(f"{PAGE}/{topic}/searches/", {"key_equals": "k"}).status_code == 302


def test_searches_that_start_at_once_are_bounded_as_well(
    operator: Client, user: User, world: World
) -> None:
    topic = world.topic(partitions=1, records=1)

    def begin(client: Client) -> int:
        try:
            answer = client.post(
                f"{API}/{topic}/records/searches",
                json.dumps({"key_equals": {"content": "k"}}),
                content_type="application/json",
            )
        finally:
            connections.close_all()
        return int(answer.status_code)

    clients = [Client() for _ in range(messages_search.RUNNING_MAX * 2)]
    for client in clients:
        client.force_login(user)
    with ThreadPoolExecutor(len(clients)) as pool:
        statuses = list(pool.map(begin, clients))
    assert statuses.count(201) == messages_search.RUNNING_MAX
    assert statuses.count(429) == messages_search.RUNNING_MAX


def test_a_search_belongs_to_its_topic_and_cluster(
    operator: Client, world: World, cluster: Cluster
) -> None:
    topic, other = world.topic(partitions=1, records=1), world.topic(partitions=1, records=1)
    job = start(operator, topic, key_equals={"content": "k"})
    Cluster.objects.create(name="second", bootstrap_address=world.bootstrap)
    for path in (
        f"{PAGE}/{other}/searches/{job.key}/",
        f"/clusters/second/messages/{topic}/searches/{job.key}/",
        f"{API}/{other}/records/searches/{job.key}",
        f"{API}/{topic}/records/searches/unknown",
    ):
        assert operator.get(path).status_code == 404, path
    assert operator.post(f"{API}/{other}/records/searches/{job.key}/cancel").status_code == 404


def test_searches_are_audited(operator: Client, world: World) -> None:
    topic = world.topic(partitions=1, records=3)
    job = run(start(operator, topic, key_equals={"content": "key"}))
    found(operator, job)
    actions = dict(AuditEvent.objects.values_list("action", "after"))
    asked = AuditEvent.objects.get(action="search.start").before
    assert actions["search.start"] == asked | {"search": job.key, "offsets": "3"}, "nothing taken"
    assert actions["messages.read"]["messages"] == 3


def test_found_messages_that_are_gone_say_so(operator: Client, world: World) -> None:
    topic = world.topic(partitions=1, records=3)
    job = run(start(operator, topic, key_equals={"content": "key"}))
    SearchHit.objects.filter(job=job, offset=2).update(offset=77)
    page = text_of(operator.get(f"{PAGE}/{topic}/searches/{job.key}/"))
    assert "no longer there" in page


def test_a_viewer_may_search(cluster: Cluster, world: World, viewer: User) -> None:
    cluster.bootstrap_address = world.bootstrap
    cluster.save()
    client = Client()
    client.force_login(viewer)
    topic = world.topic(partitions=1, records=3)
    assert len(found(client, run(start(client, topic, key_equals={"content": "key"})))) == 3
