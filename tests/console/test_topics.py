"""What an operator does to topics, on a real broker: list, create, grow, settings, delete, delete
records; and what is refused.
"""

from __future__ import annotations

import re
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from django.db import connections
from django.test import Client

from hermes_console.accounts.models import User
from hermes_console.accounts.rights import Role
from hermes_console.audit.models import AuditEvent, Outcome
from hermes_console.clusters import Cluster
from hermes_console.connect import client_for
from hermes_console.operations.topics_catalogue import forget_catalogue
from hermes_console.samples.snapshot import Storage
from hermes_console.samples.store import SampleStore
from tests.console.conftest import group, snapshot_of
from tests.console.kafka_world import World, new_name, running_cluster
from tests.console.topic_pages import API, PAGE, fields_in, point_at, send, text_of, words_of

pytestmark = [pytest.mark.django_db(databases="__all__"), pytest.mark.timeout(180)]
HOSTILE = (
    "<script>alert(1)</script>",
    "a\r\nSet-Cookie: x=1",
    "../../etc/passwd",
    "(a+)+$",
    "x" * 250,
    "..",
    "ünïcode",
    "a b",
)


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    with running_cluster(tmp_path_factory.mktemp("topics-broker")) as bootstrap:
        yield World(bootstrap)


@pytest.fixture
def local(cluster: Cluster, world: World) -> Cluster:
    return point_at(cluster, world.bootstrap)


@pytest.fixture
def viewer(local: Cluster) -> Client:
    client = Client()
    client.force_login(User.objects.create(username="vera", role=Role.VIEWER, password="!"))
    return client


def config_of(client: Client, topic: str) -> tuple[dict[str, dict[str, Any]], str]:
    answer = client.get(f"{API}/{topic}/config")
    assert answer.status_code == 200, answer.json()
    return {one["name"]: one for one in answer.json()["settings"]}, answer["ETag"]


# Delivery window


def test_topic_with_a_delivery_window_shows_what_consumers_do_not_see(
    signed_in: Client, local: Cluster, world: World
) -> None:
    topic = world.topic(2, records=3)
    client = client_for(local)
    if "delivery.delay.ms" not in client.topic_configs([topic])[topic]:
        assert "Delayed" not in words_of(signed_in.get(f"{PAGE}/{topic}/"))  # Apache Kafka
        return
    client.alter_topic_config(
        topic, {"message.timestamp.type": "LogAppendTime", "delivery.delay.ms": "3600000"}
    )
    world.produce(topic, 1, 5)
    page = words_of(signed_in.get(f"{PAGE}/{topic}/"))
    assert "shows a message after 1 h" in page
    assert "Delayed 5 not due yet" in page
    assert "Expired 0 still on disk" in page
    assert "Messages 6 visible to consumers" in page
    assert "Partition Start End Visible Delayed Expired Size" in page
    assert "0 0 3 3 5 0" in page
    document = signed_in.get(f"{API}/{topic}").json()
    assert document["delivery_window"] == {"expired": "0", "visible": "6", "delayed": "5"}
    assert document["partitions"][1]["delivery_window"]["delayed"] == "0"
    assert document["messages_in_per_second"] == pytest.approx(5 / 60)


def test_compacted_topic_tells_how_much_waits_for_compaction(
    signed_in: Client, local: Cluster, world: World
) -> None:
    topic, plain = world.topic(1, records=3), world.topic(1, records=3)
    client_for(local).alter_topic_config(topic, {"cleanup.policy": "compact"})
    shares = {topic: 0.375, plain: 0.5}
    SampleStore(local.pk).write(snapshot_of(storage=Storage(node_id=0, dirty_shares=shares)), {})
    assert "Uncompacted 38 % of closed segments" in words_of(signed_in.get(f"{PAGE}/{topic}/"))
    assert "Uncompacted" not in words_of(signed_in.get(f"{PAGE}/{plain}/"))
    SampleStore(local.pk).write(snapshot_of(sequence=8), {})  # no metrics: nobody tells
    assert "Uncompacted" not in words_of(signed_in.get(f"{PAGE}/{topic}/"))


def test_topic_without_a_delivery_window_has_no_such_numbers(
    signed_in: Client, local: Cluster, world: World
) -> None:
    topic = world.topic(1, records=3)
    assert "Delayed" not in words_of(signed_in.get(f"{PAGE}/{topic}/"))
    assert signed_in.get(f"{API}/{topic}").json()["delivery_window"] is None


# Create


def test_created_topic_has_its_partitions_and_settings_and_is_audited(
    signed_in: Client, local: Cluster
) -> None:
    name = new_name("created")
    posted = {"name": name, "partitions": "3", "value.retention.ms": "3600000"}
    answer = signed_in.post(f"{PAGE}/new", posted)
    assert answer.status_code == 302, words_of(answer)
    assert answer["Location"] == f"{PAGE}/{name}/"
    page = words_of(signed_in.get(answer["Location"]))
    assert f"Topic {name} was created" in page
    assert "Keeps 1 h" in page
    read = signed_in.get(f"{API}/{name}").json()
    assert len(read["partitions"]) == 3
    settings, _ = config_of(signed_in, name)
    assert settings["retention.ms"]["value"] == "3600000"
    assert settings["retention.ms"]["comes_from"] == "topic"
    assert settings["segment.bytes"]["comes_from"] != "topic"
    assert settings["retention.ms"]["documentation"]
    event = AuditEvent.objects.get(action="topic.create", target=name)
    assert (event.actor, event.outcome) == ("admin", Outcome.DONE)
    assert event.after["configs"] == {"retention.ms": "3600000"}


def test_refused_topic_keeps_the_form_and_says_why(signed_in: Client, local: Cluster) -> None:
    name = new_name("twice.a")
    assert signed_in.post(f"{PAGE}/new", {"name": name}).status_code == 302
    again = signed_in.post(f"{PAGE}/new", {"name": name, "partitions": "7"})
    assert again.status_code == 409
    assert "exists" in words_of(again)
    assert 'value="7"' in text_of(again)
    collides = signed_in.post(f"{PAGE}/new", {"name": name.replace(".", "_")})
    assert collides.status_code in {409, 422}
    assert "collide" in words_of(collides)
    assert name in words_of(collides)
    bad = signed_in.post(
        f"{PAGE}/new",
        {"name": new_name("bad"), "value.retention.ms": "soon", "value.segment.ms": "5000"},
    )
    assert bad.status_code == 422
    page = text_of(bad)
    assert 'value="soon"' in page
    assert 'value="5000"' in page
    assert page.count("field-error") == 1, "the reason stands at the field"
    assert AuditEvent.objects.filter(action="topic.create", outcome=Outcome.FAILED).count() == 3


@pytest.mark.parametrize("name", HOSTILE)
def test_hostile_name_is_refused_and_shown_as_text(
    signed_in: Client, local: Cluster, name: str
) -> None:
    answer = signed_in.post(f"{PAGE}/new", {"name": name})
    assert answer.status_code == 422
    assert "<script>alert" not in answer.content.decode()
    assert "name" in words_of(answer)
    refused = send(signed_in, "POST", API, {"name": name})
    assert refused.status_code in {400, 422}, refused.content
    assert refused["Content-Type"] == "application/problem+json"
    search = signed_in.get(f"{PAGE}/", {"q": name})
    assert search.status_code == 200
    assert "<script>alert" not in search.content.decode()
    assert "Set-Cookie" not in search


def test_dry_run_creates_nothing_and_a_key_creates_once(signed_in: Client, local: Cluster) -> None:
    name = new_name("keyed")
    body = {"name": name, "partitions": 2}
    assert send(signed_in, "POST", API, {**body, "dry_run": True}).status_code == 200
    assert signed_in.get(f"{API}/{name}").status_code == 404
    key = {"Idempotency-Key": name}
    first = send(signed_in, "POST", API, body, **key)
    assert first.status_code == 201
    assert first["Location"] == f"{API}/{name}"
    second = send(signed_in, "POST", API, body, **key)
    assert (second.status_code, second.json()) == (201, first.json())
    assert second["Idempotency-Replayed"] == "true"
    assert AuditEvent.objects.filter(action="topic.create", target=name).count() == 1
    assert send(signed_in, "POST", API, body).status_code == 409


# Grow


def test_growing_warns_that_keys_move_and_refuses_to_shrink(
    signed_in: Client, local: Cluster, world: World
) -> None:
    topic = world.topic(2, 0)
    page = words_of(signed_in.get(f"{PAGE}/{topic}/grow"))
    assert "Keys move." in page
    for wanted in ("2", "1", "0", "-1", "many", "10001", "9" * 30):
        answer = signed_in.post(f"{PAGE}/{topic}/grow", {"partitions": wanted})
        assert answer.status_code == 422, wanted
    assert len(signed_in.get(f"{API}/{topic}").json()["partitions"]) == 2
    assert signed_in.post(f"{PAGE}/{topic}/grow", {"partitions": "5"}).status_code == 302
    assert len(signed_in.get(f"{API}/{topic}").json()["partitions"]) == 5
    grown = send(signed_in, "POST", f"{API}/{topic}/partitions", {"count": 6})
    assert (grown.status_code, grown.json()["partition_count"]) == (200, 6)


# Settings


def test_settings_are_reviewed_before_they_are_saved_and_can_be_taken_back(
    signed_in: Client, local: Cluster, world: World
) -> None:
    topic = world.topic(1, 0)
    address = f"{PAGE}/{topic}/settings"
    etag = re.search(r'name="etag" value="([^"]+)"', signed_in.get(address).content.decode())
    assert etag
    review = signed_in.post(
        address, {"step": "review", "etag": etag[1], "value.retention.ms": "86400000"}
    )
    assert review.status_code == 200, words_of(review)
    assert "86400000 1 d" in words_of(review)
    settings, before = config_of(signed_in, topic)
    assert settings["retention.ms"]["comes_from"] != "topic", "a review changes nothing"
    saved = signed_in.post(address, {**fields_in(review), "step": "save"})
    assert saved.status_code == 302, words_of(saved)
    settings, after = config_of(signed_in, topic)
    assert settings["retention.ms"]["value"] == "86400000"
    assert before != after
    event = AuditEvent.objects.get(action="topic.configure", target=topic)
    assert set(event.after) == {"retention.ms"}, "only what was changed is written"
    review = signed_in.post(
        address,
        {
            "step": "review",
            "etag": re.search(r'name="etag" value="([^"]+)"', text_of(signed_in.get(address)))[1],  # type: ignore[index]
            "reset.retention.ms": "on",
        },
    )
    assert "inherited" in words_of(review)
    assert signed_in.post(address, {**fields_in(review), "step": "save"}).status_code == 302
    settings, _ = config_of(signed_in, topic)
    assert settings["retention.ms"]["comes_from"] != "topic"


def test_settings_that_somebody_else_changed_meanwhile_are_not_overwritten(
    signed_in: Client, local: Cluster, world: World
) -> None:
    topic = world.topic(1, 0)
    address = f"{PAGE}/{topic}/settings"
    etag = re.search(r'name="etag" value="([^"]+)"', text_of(signed_in.get(address)))
    assert etag
    _, if_match = config_of(signed_in, topic)
    client_for(local).alter_topic_config(topic, {"segment.ms": "7200000"})
    for step in ("review", "save"):
        answer = signed_in.post(
            address, {"step": step, "etag": etag[1], "value.retention.ms": "1000000"}
        )
        assert answer.status_code == 412
        assert "changed by somebody else" in words_of(answer)
        assert 'value="1000000"' in text_of(answer), "what was typed is kept"
    stale = {"If-Match": if_match}
    patched = send(signed_in, "PATCH", f"{API}/{topic}/config", {"retention.ms": "1"}, **stale)
    assert patched.status_code == 412
    without = send(signed_in, "PATCH", f"{API}/{topic}/config", {"retention.ms": "1000"})
    assert without.status_code == 428
    settings, fresh = config_of(signed_in, topic)
    assert settings["retention.ms"]["comes_from"] != "topic"
    good = send(
        signed_in,
        "PATCH",
        f"{API}/{topic}/config",
        {"retention.ms": "1000000", "segment.ms": None},
        **{"If-Match": fresh},
    )
    assert good.status_code == 200, good.json()
    assert {one["name"]: one["after"] for one in good.json()["changes"]} == {
        "retention.ms": "1000000",
        "segment.ms": None,
    }


@pytest.mark.django_db(databases="__all__", transaction=True)
def test_of_editors_who_saw_the_same_settings_one_changes_them(
    user: User, local: Cluster, world: World
) -> None:
    topic = world.topic(1, 0)
    clients = [Client() for _ in range(6)]
    for client in clients:
        client.force_login(user)
    _, if_match = config_of(clients[0], topic)
    together = threading.Barrier(len(clients))

    def edit(number: int) -> int:
        together.wait()
        try:
            answer = send(
                clients[number],
                "PATCH",
                f"{API}/{topic}/config",
                {"retention.ms": str(1_000_000 + number)},
                **{"If-Match": if_match},
            )
        finally:
            connections.close_all()
        return int(answer.status_code)

    with ThreadPoolExecutor(len(clients)) as pool:
        statuses = sorted(pool.map(edit, range(len(clients))))
    assert statuses[0] == 200
    assert set(statuses[1:]) <= {409, 412}


def test_bad_setting_is_refused_by_the_broker_before_anything_is_saved(
    signed_in: Client, local: Cluster, world: World
) -> None:
    topic = world.topic(1, 0)
    address = f"{PAGE}/{topic}/settings"
    etag = re.search(r'name="etag" value="([^"]+)"', text_of(signed_in.get(address)))
    assert etag
    answer = signed_in.post(
        address, {"step": "review", "etag": etag[1], "value.max.message.bytes": "-5"}
    )
    assert answer.status_code == 422
    assert "max.message.bytes" in words_of(answer)
    assert 'value="-5"' in text_of(answer)
    for body in ({}, [], {"retention.ms": 5}, {"no.such.setting": "1"}, {"": "1"}):
        refused = send(signed_in, "PATCH", f"{API}/{topic}/config", body, **{"If-Match": "*"})
        assert refused.status_code in {400, 422}, (body, refused.content)


# Delete


def test_delete_shows_what_is_lost_and_wants_the_name(
    signed_in: Client, local: Cluster, world: World
) -> None:
    topic = world.topic(2, 30)
    SampleStore(local.pk).write(snapshot_of(group("payments", topics=(topic,))), [])
    page = words_of(signed_in.get(f"{PAGE}/{topic}/delete"))
    assert re.search(r"2 partitions with 60 messages", page), page
    assert "1 group reads it" in page
    assert "payments" in page
    for typed in ("", topic[:-1], topic.upper(), f" {topic}"):
        answer = signed_in.post(f"{PAGE}/{topic}/delete", {"confirmation": typed})
        assert answer.status_code == 422, typed
        assert "Nothing was changed" in words_of(answer)
    assert signed_in.get(f"{API}/{topic}").status_code == 200
    gone = signed_in.post(f"{PAGE}/{topic}/delete", {"confirmation": topic})
    assert gone["Location"] == f"{PAGE}/"
    wait_for_404(signed_in, topic)
    missing = signed_in.get(f"{PAGE}/{topic}/")
    assert missing.status_code == 404
    assert "may have been deleted" in words_of(missing)
    assert AuditEvent.objects.filter(action="topic.delete", outcome=Outcome.REFUSED).count() == 4
    assert AuditEvent.objects.filter(action="topic.delete", outcome=Outcome.DONE).count() == 1


def wait_for_404(client: Client, topic: str) -> None:
    end = time.monotonic() + 20
    while client.get(f"{API}/{topic}").status_code != 404:
        assert time.monotonic() < end
        time.sleep(0.1)


def test_topic_created_anew_since_the_page_was_opened_is_not_deleted(
    signed_in: Client, local: Cluster, world: World
) -> None:
    topic = world.topic(1, 0)
    seen = signed_in.get(f"{API}/{topic}").json()["topic_id"]
    client_for(local).delete_topics([topic])
    wait_for_404(signed_in, topic)
    client_for(local).create_topic(topic, partition_count=1)
    answer = signed_in.post(f"{PAGE}/{topic}/delete", {"confirmation": topic, "topic_id": seen})
    assert answer.status_code == 409
    assert "created anew" in words_of(answer)
    assert signed_in.get(f"{API}/{topic}").status_code == 200
    assert send(signed_in, "DELETE", f"{API}/{topic}?topic_id={seen}").status_code == 409
    assert send(signed_in, "DELETE", f"{API}/{topic}").status_code == 204


# Delete records


def test_records_are_deleted_as_the_preview_showed(
    signed_in: Client, local: Cluster, world: World
) -> None:
    topic = world.topic(2, 40)
    address = f"{PAGE}/{topic}/delete-records"
    preview = signed_in.post(
        address, {"step": "preview", "mode": "time", "time": "1970-01-01T00:16:50"}
    )
    assert "20 records would be deleted" in words_of(preview), words_of(preview)
    world.produce(topic, 2, 5)
    form = preview.content.decode().split('aria-label="Delete these records"')[1]
    fields = dict(re.findall(r'name="([a-z_]+)" value="([^"]*)"', form.split("</form>")[0]))
    wrong = signed_in.post(address, {**fields, "confirmation": "orders"})
    assert wrong.status_code == 422
    assert "20 records would be deleted" in words_of(wrong), "the preview stays"
    done = signed_in.post(address, {**fields, "confirmation": topic})
    assert done.status_code == 302, words_of(done)
    rows = signed_in.get(f"{API}/{topic}").json()["partitions"]
    assert [(one["start_offset"], one["end_offset"]) for one in rows] == [("10", "45")] * 2
    assert "Deleted 20 records from 2 partitions" in words_of(signed_in.get(done["Location"]))


def test_records_before_an_offset_and_what_is_out_of_range(
    signed_in: Client, local: Cluster, world: World
) -> None:
    topic = world.topic(1, 40)
    records = f"{API}/{topic}/records"
    dry = send(signed_in, "DELETE", records, {"before_offsets": {"0": "15"}, "dry_run": True})
    assert dry.json()["partitions"][0]["count"] == "15"
    assert signed_in.get(f"{API}/{topic}").json()["partitions"][0]["start_offset"] == "0"
    done = send(signed_in, "DELETE", records, {"before_offsets": {"0": "15"}})
    assert done.json()["partitions"][0]["new_start_offset"] == "15"
    assert signed_in.get(f"{API}/{topic}").json()["message_count"] == "25"
    for body in (
        {"before_offsets": {"0": "41"}},
        {"before_offsets": {"0": "-1"}},
        {"before_offsets": {"9": "1"}},
        {"before_offsets": {"x": "1"}},
        {"before_offsets": {}},
        {"before_offsets": {"0": "9" * 19}},
        {},
        {"before_offsets": {"0": "1"}, "before_time_ms": "1"},
    ):
        refused = send(signed_in, "DELETE", records, body)
        assert refused.status_code in {400, 422}, (body, refused.content)
    page = signed_in.post(
        f"{PAGE}/{topic}/delete-records",
        {"step": "preview", "mode": "offset", "partition": "0", "offset": "99"},
    )
    assert page.status_code == 422
    assert "15 to 40" in words_of(page)
    forged = signed_in.post(
        f"{PAGE}/{topic}/delete-records",
        {"step": "delete", "offsets": "0:1 <x>:2", "confirmation": topic},
    )
    assert forged.status_code == 422


# Rights, addresses, outages


def test_viewer_looks_but_every_act_is_refused_and_audited(
    viewer: Client, local: Cluster, world: World
) -> None:
    topic = world.topic(1, 10)
    assert "Create a topic" not in words_of(viewer.get(f"{PAGE}/"))
    assert "Delete topic" not in words_of(viewer.get(f"{PAGE}/{topic}/"))
    acts = [
        ("new", {"name": new_name("no")}),
        (f"{topic}/grow", {"partitions": "4"}),
        (f"{topic}/settings", {"step": "review", "value.retention.ms": "1000"}),
        (f"{topic}/settings", {"step": "save", "value.retention.ms": "1000"}),
        (f"{topic}/delete", {"confirmation": topic}),
        (f"{topic}/delete-records", {"step": "delete", "offsets": "0:5", "confirmation": topic}),
    ]
    for path, body in acts:
        answer = viewer.post(f"{PAGE}/{path}", body)
        assert answer.status_code == 403, path
        assert "may not create, change and delete topics" in words_of(answer), path
        assert "operator" in words_of(answer)
    calls = [
        send(viewer, "POST", API, {"name": new_name("no")}),
        send(viewer, "DELETE", f"{API}/{topic}"),
        send(viewer, "POST", f"{API}/{topic}/partitions", {"count": 4}),
        send(viewer, "PATCH", f"{API}/{topic}/config", {"retention.ms": "1"}),
        send(viewer, "DELETE", f"{API}/{topic}/records", {"before_offsets": {"0": "5"}}),
    ]
    assert [one.status_code for one in calls] == [403] * 5
    assert AuditEvent.objects.filter(actor="vera", outcome=Outcome.REFUSED).count() == 11
    read = viewer.get(f"{API}/{topic}").json()
    assert (read["message_count"], len(read["partitions"])) == ("10", 1)


def test_nothing_changes_by_get(signed_in: Client, local: Cluster, world: World) -> None:
    topic = world.topic(1, 10)
    queries = {
        "grow": {"partitions": "9"},
        "settings": {"step": "save", "value.retention.ms": "1000"},
        "delete": {"confirmation": topic},
        "delete-records": {"step": "delete", "offsets": "0:5", "confirmation": topic},
    }
    for path, query in queries.items():
        assert signed_in.get(f"{PAGE}/{topic}/{path}", query).status_code == 200
    assert signed_in.get(f"{PAGE}/new", {"name": f"{topic}-x"}).status_code == 200
    read = signed_in.get(f"{API}/{topic}").json()
    assert (read["message_count"], len(read["partitions"])) == ("10", 1)
    assert signed_in.get(f"{API}/{topic}-x").status_code == 404
    assert not AuditEvent.objects.exists()


def test_acts_need_the_csrf_token(local: Cluster, user: User, world: World) -> None:
    topic = world.topic(1, 0)
    strict = Client(enforce_csrf_checks=True)
    strict.force_login(user)
    answer = strict.post(f"{PAGE}/{topic}/delete", {"confirmation": topic})
    assert answer.status_code == 403
    assert send(strict, "DELETE", f"{API}/{topic}").status_code == 403
    assert strict.get(f"{API}/{topic}").status_code == 200


def test_unknown_topic_is_a_404_everywhere(signed_in: Client, local: Cluster) -> None:
    for path in ("", "grow", "settings", "delete", "delete-records"):
        answer = signed_in.get(f"{PAGE}/nope/{path}")
        assert answer.status_code == 404, path
        assert "There is no topic 'nope'" in words_of(answer)
    assert signed_in.get(f"{PAGE}/nope/rates").status_code == 404
    for method, path, body in (
        ("GET", "", None),
        ("DELETE", "", None),
        ("GET", "/config", None),
        ("POST", "/partitions", {"count": 3}),
        ("DELETE", "/records", {"before_offsets": {"0": "1"}}),
    ):
        answer = send(signed_in, method, f"{API}/nope{path}", body)
        assert answer.status_code == 404, path
        assert answer["Content-Type"] == "application/problem+json"


def test_internal_topic_is_shown_and_never_changed(
    signed_in: Client, local: Cluster, world: World
) -> None:
    topic = world.topic(1, 5)
    world.commit(new_name("committer"), topic, 3)
    forget_catalogue(local)
    name = "__consumer_offsets"
    assert name not in text_of(signed_in.get(f"{PAGE}/"))
    assert name in text_of(signed_in.get(f"{PAGE}/", {"show": "internal"}))
    page = words_of(signed_in.get(f"{PAGE}/{name}/"))
    assert "looked at here, never changed" in page
    assert "Delete topic" not in page
    answer = signed_in.post(f"{PAGE}/{name}/delete", {"confirmation": name})
    assert answer.status_code == 409
    assert "belongs to the platform itself" in words_of(answer)
    for method, path, body in (
        ("DELETE", "", None),
        ("POST", "/partitions", {"count": 99}),
        ("DELETE", "/records", {"before_offsets": {"0": "0"}}),
    ):
        assert send(signed_in, method, f"{API}/{name}{path}", body).status_code == 409
    patched = send(
        signed_in, "PATCH", f"{API}/{name}/config", {"retention.ms": "1"}, **{"If-Match": "*"}
    )
    assert patched.status_code == 409


def test_cluster_that_does_not_answer_is_said_not_an_error(
    signed_in: Client, cluster: Cluster, free_port: Any
) -> None:
    from hermes_console import connect

    cluster.bootstrap_address = f"127.0.0.1:{free_port()}"
    cluster.save()
    quick = connect.new_client(cluster.bootstrap_address, timeout_ms=700, is_trusted=True)
    connect._clients[cluster.pk, cluster.bootstrap_address, connect.CALL_MS_MAX] = quick
    page = signed_in.get(f"{PAGE}/")
    assert page.status_code == 200
    assert "The topics are not known now" in words_of(page)
    assert signed_in.get(f"{PAGE}/orders/").status_code in {502, 504}
    assert signed_in.get(API).status_code in {502, 504}
