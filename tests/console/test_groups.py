"""What an operator does to groups, on a real broker: reset, create, delete, undo, refusals."""

from __future__ import annotations

import html
import re
from collections.abc import Iterator
from contextlib import AbstractContextManager
from datetime import timedelta

import pytest
from django.test import Client
from django.utils import timezone

from hermes_console.accounts.models import User
from hermes_console.accounts.rights import Right, Role
from hermes_console.accounts.tokens import issue
from hermes_console.audit.models import AuditEvent, Outcome
from hermes_console.clusters import Cluster
from hermes_console.undo.lock import group_lock
from hermes_console.undo.models import GroupLock, OffsetChange
from tests.console.kafka_world import SETTINGS, World, new_name, running_cluster, wait_until
from tests.console.watched_proxy import DELETE_GROUPS, OFFSET_COMMIT, WatchedProxy
from tests.support.broker_process import BrokerProcess
from tests.support.ports import free_port

pytestmark = [pytest.mark.django_db(databases="__all__"), pytest.mark.timeout(180)]
API = "/api/admin/v1/clusters/local/groups"
PAGE = "/clusters/local/groups"


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    with running_cluster(tmp_path_factory.mktemp("groups-broker")) as bootstrap:
        yield World(bootstrap)


@pytest.fixture
def local(cluster: Cluster, world: World) -> Cluster:
    cluster.bootstrap_address = world.bootstrap
    cluster.save()
    return cluster


@pytest.fixture(scope="module")
def proxy(tmp_path_factory: pytest.TempPathFactory) -> Iterator[WatchedProxy]:
    """All that is said to a broker of its own goes through it."""
    with WatchedProxy() as proxy:
        settings = {**SETTINGS, "advertised.listeners": f"PLAINTEXT://127.0.0.1:{proxy.port}"}
        broker = BrokerProcess(tmp_path_factory.mktemp("proxied"), settings)
        broker.kafka_port = proxy.target_port = free_port()  # it prints the advertised one
        with broker:
            yield proxy


@pytest.fixture
def proxied(cluster: Cluster, proxy: WatchedProxy) -> World:
    cluster.bootstrap_address = f"127.0.0.1:{proxy.port}"
    cluster.save()
    return World(cluster.bootstrap_address)


@pytest.fixture
def viewer(client: Client, local: Cluster) -> Client:
    viewer = Client()
    viewer.force_login(User.objects.create(username="vera", role=Role.VIEWER, password="!"))
    return viewer


def send(client: Client, path: str, body: object, **headers: str) -> tuple[int, dict]:
    answer = client.post(f"{API}/{path}", body, content_type="application/json", headers=headers)
    return answer.status_code, answer.json()


def preview(client: Client, group: str, place: str, value: str = "", **more: object) -> dict:
    status, answer = send(
        client, f"{group}/offsets/reset", {"to": {"place": place, "value": value}, **more}
    )
    assert status == 200, answer
    return answer


def carry_out(
    client: Client, group: str, token: str, place: str, value: str = "", **more: object
) -> tuple[int, dict]:
    body = {"to": {"place": place, "value": value}, "dry_run": False, "token": token, **more}
    return send(client, f"{group}/offsets/reset", body)


def text_of(answer: object) -> str:
    return html.unescape(answer.content.decode())  # type: ignore[attr-defined]


def test_reset_does_what_its_preview_showed_and_undo_takes_it_back(
    signed_in: Client, local: Cluster, world: World
) -> None:
    topic, group = world.topic(), new_name("settlement")
    world.commit(group, topic, 80, 90)
    shown = preview(signed_in, group, "shift", "-30")
    assert [(m["before"], m["after"], m["read_again_count"]) for m in shown["moves"]] == [
        ("80", "50", "30"),
        ("90", "60", "30"),
    ]
    assert world.committed(group, topic) == {0: 80, 1: 90}
    status, done = carry_out(signed_in, group, shown["token"], "shift", "-30")
    assert status == 200, done
    assert world.committed(group, topic) == {0: 50, 1: 60}
    event = AuditEvent.objects.filter(action="group.reset").first()
    assert (event.outcome, event.before[f"{topic}-0"], event.after[f"{topic}-0"]) == (
        Outcome.DONE,
        "80",
        "50",
    )
    status, undone = send(signed_in, f"{group}/changes/{done['change']}/undo", {})
    assert status == 200, undone
    assert world.committed(group, topic) == {0: 80, 1: 90}
    status, again = send(signed_in, f"{group}/changes/{done['change']}/undo", {})
    assert (status, again["code"]) == (409, "undo-refused")
    assert "has undone this already" in again["detail"]


def test_reset_to_a_time_finds_the_first_record_at_or_after_it(
    signed_in: Client, local: Cluster, world: World
) -> None:
    topic, group = world.topic(), new_name("settlement")
    world.commit(group, topic, 0, 0)
    body = {"topics": [{"topic": topic, "partitions": [1]}]}
    shown = preview(signed_in, group, "time", "1040500", **body)
    assert [(m["partition"], m["after"], m["skipped_count"]) for m in shown["moves"]] == [
        (1, "41", "41")
    ]
    status, done = carry_out(signed_in, group, shown["token"], "time", "1040500", **body)
    assert status == 200, done
    assert world.committed(group, topic) == {0: 0, 1: 41}
    late = preview(signed_in, group, "time", "2050-01-01T00:00:00Z", **body)
    assert (late["moves"][0]["after"], late["moves"][0]["note"]) == (
        "100",
        "no record is that young: the end",
    )


def test_offsets_are_clamped_to_what_exists(
    signed_in: Client, local: Cluster, world: World
) -> None:
    topic, group = world.topic(), new_name("settlement")
    world.commit(group, topic, 10, 10)
    shown = preview(signed_in, group, "offset", str(2**62))
    assert [m["after"] for m in shown["moves"]] == ["100", "100"]
    assert "moved back to the end" in shown["moves"][0]["note"]


def test_reset_is_refused_when_offsets_moved_since_the_preview(
    signed_in: Client, local: Cluster, world: World
) -> None:
    topic, group = world.topic(), new_name("settlement")
    world.commit(group, topic, 80, 90)
    shown = preview(signed_in, group, "earliest")
    world.commit(group, topic, 80, 91)
    status, refused = carry_out(signed_in, group, shown["token"], "earliest")
    assert (status, refused["code"]) == (412, "preview-outdated")
    assert world.committed(group, topic) == {0: 80, 1: 91}
    event = AuditEvent.objects.filter(action="group.reset").first()
    assert (event.outcome, "changed since the preview" in event.reason) == (Outcome.REFUSED, True)


def test_reset_of_an_active_group_is_refused_with_its_members_and_works_when_they_left(
    signed_in: Client, local: Cluster, world: World
) -> None:
    topic, group = world.topic(), new_name("settlement")
    world.commit(group, topic, 80, 90)
    with world.member(group, topic, client_id="settler-7"):
        shown = preview(signed_in, group, "earliest")
        assert "settler-7@" in shown["why_refused"]
        status, refused = carry_out(signed_in, group, shown["token"], "earliest")
        assert (status, refused["code"]) == (409, "group-active")
        assert "Stop these clients" in refused["detail"]
        page = signed_in.get(f"{PAGE}/{group}/reset", {"to": "earliest", "topic": topic})
        assert "settler-7" in text_of(page)
        assert 'name="token"' in text_of(page)
        assert "Reset 2 offsets" not in text_of(page)
        piece = text_of(signed_in.get(f"{PAGE}/{group}/state"))
        assert 'hx-trigger="every 3s"' in piece
        assert "its offsets cannot be changed now" in piece
        for before in (f"{PAGE}/{group}/delete", f"{PAGE}/{group}/state?before=delete"):
            assert "it cannot be deleted now" in text_of(signed_in.get(before))
        for path in ("delete", f"offsets/{topic}/delete"):
            typed = {"typed_name": group if path == "delete" else topic}
            answer = signed_in.post(f"{PAGE}/{group}/{path}", typed)
            assert answer.status_code == 409
            assert "settler-7" in text_of(answer)
    assert world.committed(group, topic) == {0: 80, 1: 90}

    def is_empty() -> bool:
        return preview(signed_in, group, "earliest")["why_refused"] == ""

    wait_until(is_empty, "the group is empty")
    assert "hx-trigger" not in text_of(signed_in.get(f"{PAGE}/{group}/state"))
    status, _ = carry_out(signed_in, group, shown["token"], "earliest")
    assert status == 200
    assert world.committed(group, topic) == {0: 0, 1: 0}


def test_undo_is_refused_when_the_group_read_on_or_the_time_is_over(
    signed_in: Client, local: Cluster, world: World
) -> None:
    topic, group = world.topic(), new_name("settlement")
    world.commit(group, topic, 80, 90)
    token = preview(signed_in, group, "earliest")["token"]
    _, done = carry_out(signed_in, group, token, "earliest")
    OffsetChange.objects.update(expires_at=timezone.now() - timedelta(seconds=1))
    path = f"{group}/changes/{done['change']}/undo"
    status, refused = send(signed_in, path, {})
    assert (status, "that time is over" in refused["detail"]) == (409, True)
    OffsetChange.objects.update(expires_at=timezone.now() + timedelta(days=1))
    world.commit(group, topic, 5, 0)
    status, refused = send(signed_in, path, {"dry_run": True})
    assert (status, f"{topic}-0" in refused["why_refused"]) == (200, True)
    status, refused = send(signed_in, path, {})
    assert (status, refused["code"]) == (409, "undo-refused")
    assert world.committed(group, topic) == {0: 5, 1: 0}
    page = text_of(signed_in.get(f"{PAGE}/{group}/undo/{done['change']}"))
    assert "It cannot be undone" in page
    assert "Put these offsets back" not in page


def test_group_is_created_at_a_place_once_and_its_undo_leaves_no_offset(
    signed_in: Client, local: Cluster, world: World
) -> None:
    topic, group = world.topic(), new_name("new")
    body = {"name": group, "to": {"place": "latest"}, "topics": [{"topic": topic}]}
    answer = signed_in.post(
        API, body, content_type="application/json", headers={"Idempotency-Key": group}
    )
    assert answer.status_code == 201, answer.content
    assert world.committed(group, topic) == {0: 100, 1: 100}
    again = signed_in.post(
        API, body, content_type="application/json", headers={"Idempotency-Key": group}
    )
    assert (again.status_code, again.json()) == (201, answer.json())
    other = signed_in.post(API, body, content_type="application/json")
    assert (other.status_code, other.json()["code"]) == (409, "group-exists")
    status, _ = send(signed_in, f"{group}/changes/{answer.json()['change']}/undo", {})
    assert status == 200
    assert world.committed(group, topic) == {}


@pytest.mark.parametrize("name", ["", "  ", " a", "a\r\nSet-Cookie: x", "a\u2028b", "x" * 256])
def test_name_that_nobody_could_read_is_refused(
    name: str, signed_in: Client, local: Cluster, world: World
) -> None:
    body = {"name": name, "to": {"place": "latest"}, "topics": [{"topic": "orders"}]}
    answer = signed_in.post(API, body, content_type="application/json")
    assert answer.status_code == 400
    assert answer["Content-Type"] == "application/problem+json"
    form = {"name": name, "to": "latest", "topic": "orders"}
    page = signed_in.post(f"{PAGE}/create", form)
    assert page.status_code in {400, 422}
    assert "\n" not in page.headers.get("Location", "")


def test_name_that_is_html_is_shown_as_text(
    signed_in: Client, local: Cluster, world: World
) -> None:
    topic, group = world.topic(), f"<img src=x onerror=alert(1)>{new_name('x')}/../"
    form = {"name": group, "to": "earliest", "topic": topic}
    assert signed_in.post(f"{PAGE}/create", form).status_code == 302
    assert world.committed(group, topic) == {0: 0, 1: 0}
    shown = signed_in.post(f"{PAGE}/create", form)
    assert shown.status_code == 409
    assert b"<img src=x" not in shown.content
    assert "<img src=x" in text_of(shown)


def test_deleted_group_comes_back_by_undo(signed_in: Client, local: Cluster, world: World) -> None:
    topic, group = world.topic(), new_name("settlement")
    world.commit(group, topic, 80, 90)
    page = text_of(signed_in.get(f"{PAGE}/{group}/delete"))
    assert "2</strong> committed offsets in <strong>1</strong> topic" in page
    wrong = signed_in.post(f"{PAGE}/{group}/delete", {"typed_name": "settlement"})
    assert wrong.status_code == 422
    assert world.committed(group, topic) == {0: 80, 1: 90}
    right = signed_in.post(f"{PAGE}/{group}/delete", {"typed_name": group})
    assert right.status_code == 302, text_of(right)
    assert world.committed(group, topic) == {}
    missing = signed_in.get(f"{PAGE}/{group}/")
    (address,) = re.findall(r'href="([^"]*/undo/\d+)"', missing.content.decode())
    assert "80" in text_of(signed_in.get(address))
    assert signed_in.post(address).status_code == 302
    assert world.committed(group, topic) == {0: 80, 1: 90}


def test_offsets_of_one_topic_are_deleted_and_come_back_by_undo(
    signed_in: Client, local: Cluster, world: World
) -> None:
    first, second, group = world.topic(), world.topic(), new_name("settlement")
    world.commit(group, first, 1, 2)
    world.commit(group, second, 3, 4)
    answer = signed_in.get(f"{API}/{group}/offsets")
    address = f"{API}/{group}/offsets/topics/{first}"
    assert signed_in.delete(address).status_code == 428
    assert signed_in.delete(address, headers={"If-Match": '"other"'}).status_code == 412
    done = signed_in.delete(address, headers={"If-Match": answer["ETag"]})
    assert done.status_code == 200, done.content
    assert (world.committed(group, first), world.committed(group, second)) == ({}, {0: 3, 1: 4})
    status, _ = send(signed_in, f"{group}/changes/{done.json()['change']}/undo", {})
    assert status == 200
    assert world.committed(group, first) == {0: 1, 1: 2}


def test_offsets_of_a_topic_are_deleted_before_a_sample_has_shown_the_group(
    signed_in: Client, local: Cluster, world: World
) -> None:
    topic, group = world.topic(), new_name("settlement")
    world.commit(group, topic, 1, 2)
    page = f"{PAGE}/{group}/offsets/{topic}/delete"
    done = signed_in.post(page, {"typed_name": topic}, follow=True)
    assert done.status_code == 200, done.redirect_chain
    assert f"in topic {topic} deleted" in text_of(done)
    assert world.committed(group, topic) == {}


def test_offsets_are_reset_before_a_sample_has_shown_the_group(
    signed_in: Client, local: Cluster, world: World
) -> None:
    topic, group = world.topic(), new_name("settlement")
    world.commit(group, topic, 80, 90)
    query = {"to": "offset", "offset": "70", "topic": topic, f"partitions:{topic}": "0"}
    page = text_of(signed_in.get(f"{PAGE}/{group}/reset", query))
    (token,) = re.findall(r'name="token" value="(\w+)"', page)
    done = signed_in.post(f"{PAGE}/{group}/reset", {**query, "token": token}, follow=True)
    assert done.status_code == 200, done.redirect_chain
    assert f"1 offset of {group} reset" in text_of(done)


def test_reset_page_previews_by_get_and_acts_by_post_alone(
    signed_in: Client, local: Cluster, world: World
) -> None:
    topic, group = world.topic(), new_name("settlement")
    world.commit(group, topic, 80, 90)
    query = {"to": "offset", "offset": "70", "topic": topic, f"partitions:{topic}": "0"}
    page = text_of(signed_in.get(f"{PAGE}/{group}/reset", query))
    assert "Reset 1 offset<" in page
    assert world.committed(group, topic) == {0: 80, 1: 90}
    (token,) = re.findall(r'name="token" value="(\w+)"', page)
    stale = signed_in.post(f"{PAGE}/{group}/reset", {**query, "token": "0" * 32})
    assert stale.status_code == 412
    assert "Look at the new preview" in text_of(stale)
    done = signed_in.post(f"{PAGE}/{group}/reset", {**query, "token": token})
    assert done.status_code == 302
    assert world.committed(group, topic) == {0: 70, 1: 90}
    bad = signed_in.get(f"{PAGE}/{group}/reset", {"to": "offset", "offset": "-3", "topic": topic})
    assert bad.status_code == 422
    assert "Give an offset, 0 or more." in text_of(bad)
    assert 'value="-3"' in text_of(bad)


def test_time_in_the_form_is_in_the_readers_zone(
    signed_in: Client, local: Cluster, world: World
) -> None:
    topic, group = world.topic(), new_name("settlement")
    world.commit(group, topic, 0, 0)
    signed_in.cookies["hermes_zone"] = "Asia/Tokyo"
    query = {"to": "time", "time": "1970-01-01T09:17:20", "topic": topic}
    page = text_of(signed_in.get(f"{PAGE}/{group}/reset", query))
    assert "in Asia/Tokyo" in page
    assert '<td class="num">40</td>' in page


def test_counts_of_a_compacted_topic_are_called_estimates(
    signed_in: Client, local: Cluster, world: World
) -> None:
    topic, group = world.topic(config={"cleanup.policy": "compact"}), new_name("settlement")
    world.commit(group, topic, 80, 90)
    assert all(move["is_estimated"] for move in preview(signed_in, group, "earliest")["moves"])
    page = text_of(signed_in.get(f"{PAGE}/{group}/reset", {"to": "earliest", "topic": topic}))
    assert f"Counts of {topic} are estimated" in page


def test_viewer_is_refused_with_the_reason_everywhere(
    viewer: Client, signed_in: Client, world: World
) -> None:
    topic, group = world.topic(), new_name("settlement")
    world.commit(group, topic, 80, 90)
    for path in ("reset", "delete", "undo/1", f"offsets/{topic}/delete"):
        for method in (viewer.get, viewer.post):
            assert method(f"{PAGE}/{group}/{path}").status_code == 403
    assert viewer.get(f"{PAGE}/create").status_code == 403
    status, refused = carry_out(viewer, group, "0" * 32, "earliest")
    assert (status, "vera is a viewer" in refused["detail"]) == (403, True)
    deleted = viewer.delete(f"{API}/{group}", headers={"If-Match": "*"})
    assert deleted.status_code == 403
    assert world.committed(group, topic) == {0: 80, 1: 90}
    refusals = AuditEvent.objects.filter(actor="vera", outcome=Outcome.REFUSED)
    assert refusals.filter(right="groups:write").count() >= 4
    assert viewer.get(f"{API}/{group}/offsets").status_code == 200


def test_unknown_names_are_not_found_and_say_so(
    signed_in: Client, local: Cluster, world: World
) -> None:
    topic, group = world.topic(), new_name("settlement")
    body = {"to": {"place": "earliest"}}
    status, unknown = send(signed_in, f"{group}/offsets/reset", body)
    assert (status, unknown["code"]) == (404, "unknown-group")
    for path in ("reset", "delete"):
        assert signed_in.get(f"{PAGE}/{group}/{path}").status_code == 404
    assert signed_in.get(f"{PAGE}/{group}/undo/999999").status_code == 404
    assert signed_in.get(f"{API}/{group}/offsets").status_code == 404
    assert signed_in.get(f"{API}/{group}").status_code == 404
    world.commit(group, topic, 1, 1)
    for topics, code in (
        ([{"topic": "no-such-topic"}], "unknown-topic"),
        ([{"topic": topic, "partitions": [7]}], "unknown-partition"),
    ):
        status, refused = send(signed_in, f"{group}/offsets/reset", {**body, "topics": topics})
        assert (status, refused["code"]) == (404, code)
    assert signed_in.get("/api/admin/v1/clusters/nowhere/groups").status_code == 404


def test_two_changes_of_one_group_do_not_run_at_once(
    signed_in: Client, local: Cluster, world: World
) -> None:
    topic, group = world.topic(), new_name("settlement")
    world.commit(group, topic, 80, 90)
    token = preview(signed_in, group, "earliest")["token"]
    with group_lock(local.pk, group) as is_mine:
        assert is_mine
        status, refused = carry_out(signed_in, group, token, "earliest")
        assert (status, refused["code"]) == (409, "group-busy")
    assert carry_out(signed_in, group, token, "earliest")[0] == 200


def test_cluster_that_does_not_answer_is_told_and_the_form_is_kept(
    signed_in: Client, cluster: Cluster
) -> None:
    cluster.bootstrap_address = "127.0.0.1:1"
    cluster.save()
    page = signed_in.get(f"{PAGE}/create", {"name": "new", "to": "earliest", "topic": "orders"})
    assert page.status_code in {502, 504}
    assert 'value="new"' in text_of(page)
    assert "Traceback" not in text_of(page)


@pytest.mark.parametrize("api_key", [OFFSET_COMMIT, DELETE_GROUPS])
def test_change_without_an_answer_can_be_undone(
    api_key: int, signed_in: Client, proxy: WatchedProxy, proxied: World
) -> None:
    topic, group = proxied.topic(), new_name("settlement")
    proxied.commit(group, topic, 80, 90)
    token = preview(signed_in, group, "earliest")["token"]
    with proxy.no_answer_to(api_key):
        if api_key == DELETE_GROUPS:
            answer = signed_in.delete(f"{API}/{group}", headers={"If-Match": "*"})
            status, lost = answer.status_code, answer.json()
        else:
            status, lost = carry_out(signed_in, group, token, "earliest")
    assert (status, lost["code"]) == (504, "cluster-timeout"), lost
    after = {} if api_key == DELETE_GROUPS else {0: 0, 1: 0}
    assert proxied.committed(group, topic) == after, "the broker did what was asked"
    (change,) = signed_in.get(f"{API}/{group}/changes").json()["changes"]
    assert change["is_unsure"] is True
    page = text_of(signed_in.get(f"{PAGE}/{group}/undo/{change['id']}"))
    assert "whether it was done is not known" in page
    status, undone = send(signed_in, f"{group}/changes/{change['id']}/undo", {})
    assert status == 200, undone
    assert proxied.committed(group, topic) == {0: 80, 1: 90}


def test_undo_without_an_answer_can_be_looked_at_again(
    signed_in: Client, proxy: WatchedProxy, proxied: World
) -> None:
    topic, group = proxied.topic(), new_name("settlement")
    proxied.commit(group, topic, 80, 90)
    token = preview(signed_in, group, "earliest")["token"]
    _, done = carry_out(signed_in, group, token, "earliest")
    path = f"{group}/changes/{done['change']}/undo"
    with proxy.no_answer_to(OFFSET_COMMIT):
        assert send(signed_in, path, {})[0] == 504
    assert proxied.committed(group, topic) == {0: 80, 1: 90}
    status, again = send(signed_in, path, {})
    assert (status, "every offset is what it was" in again["detail"]) == (409, True)
    proxied.commit(group, topic, 0, 90)
    assert send(signed_in, path, {})[0] == 200
    assert proxied.committed(group, topic) == {0: 80, 1: 90}


def test_change_that_somebody_else_met_keeps_its_undo_and_its_checks(
    signed_in: Client, proxy: WatchedProxy, proxied: World
) -> None:
    topic, group = proxied.topic(), new_name("settlement")
    proxied.commit(group, topic, 80, 90)
    token = preview(signed_in, group, "earliest")["token"]
    with proxy.before_answer_to(OFFSET_COMMIT, lambda: proxied.commit(group, topic, 5)):
        status, met = carry_out(signed_in, group, token, "earliest")
    assert (status, "stands elsewhere now" in met["detail"]) == (502, True)
    (change,) = signed_in.get(f"{API}/{group}/changes").json()["changes"]
    path = f"{group}/changes/{change['id']}/undo"
    status, refused = send(signed_in, path, {})
    assert (status, f"{topic}-0" in refused["detail"]) == (409, True)
    assert proxied.committed(group, topic) == {0: 5, 1: 0}
    proxied.commit(group, topic, 0)
    assert send(signed_in, path, {})[0] == 200
    assert proxied.committed(group, topic) == {0: 80, 1: 90}


def test_change_that_the_broker_refused_leaves_nothing_to_undo(
    signed_in: Client, proxy: WatchedProxy, proxied: World
) -> None:
    topic, group = proxied.topic(), new_name("settlement")
    proxied.commit(group, topic, 80, 90)
    token = preview(signed_in, group, "earliest")["token"]
    members: list[AbstractContextManager[object]] = []

    def join() -> None:
        members.append(proxied.member(group, topic))
        members[0].__enter__()

    with proxy.before_request(OFFSET_COMMIT, join):
        status, refused = carry_out(signed_in, group, token, "earliest")
    members[0].__exit__(None, None, None)
    assert (status, "joined group" in refused["detail"]) == (409, True), refused
    assert proxied.committed(group, topic) == {0: 80, 1: 90}
    assert signed_in.get(f"{API}/{group}/changes").json()["changes"] == []


def test_stored_answer_is_for_the_credential_that_got_it(
    user: User, local: Cluster, world: World
) -> None:
    other = Cluster.objects.create(name="other", bootstrap_address="127.0.0.1:1")
    topic, group = world.topic(), new_name("new")
    body = {"name": group, "to": {"place": "latest"}, "topics": [{"topic": topic}]}

    def post(clusters: list[Cluster] | None, secret: str = "") -> tuple[str, int, dict]:
        if not secret:
            _, secret = issue(
                user,
                name="test",
                rights=[Right.VIEW, Right.GROUPS_WRITE],
                clusters=clusters,
                lifetime=timedelta(days=1),
            )
        headers = {"Authorization": f"Bearer {secret}", "Idempotency-Key": "k"}
        answer = Client().post(API, body, content_type="application/json", headers=headers)
        return secret, answer.status_code, answer.json()

    secret, status, made = post(None)
    assert status == 201, made
    assert post(None, secret) == (secret, 201, made), "the same token: the stored answer"
    _, status, refused = post([other])
    assert (status, "no cluster named 'local'" in refused["detail"]) == (404, True), refused
    browser = Client()
    browser.force_login(user)
    answer = browser.post(
        API, body, content_type="application/json", headers={"Idempotency-Key": "k"}
    )
    assert (answer.status_code, answer.json()["code"]) == (409, "group-exists")


def test_act_under_a_lock_that_ran_out_meanwhile_changes_nothing(
    signed_in: Client, local: Cluster, world: World
) -> None:
    topic, group = world.topic(), new_name("settlement")
    world.commit(group, topic, 80, 90)
    with group_lock(local.pk, group) as lease:
        assert lease.hold_on()
        GroupLock.objects.update(expires_at=timezone.now())
        assert not lease.hold_on(), "right before the change, it is asked again"
    token = preview(signed_in, group, "earliest")["token"]
    assert carry_out(signed_in, group, token, "earliest")[0] == 200, "an ended lock hinders nobody"


def test_lock_that_somebody_else_took_over_is_not_given_back(local: Cluster) -> None:
    with group_lock(local.pk, "g") as slow:
        assert slow
        GroupLock.objects.update(expires_at=timezone.now())
        with group_lock(local.pk, "g") as fast:
            assert fast
            assert not slow.hold_on()
            assert fast.hold_on()
            slow.give_back()
            assert fast.hold_on()


@pytest.mark.parametrize(
    ("extra", "told"),
    [
        ({"shift": "-5"}, "You chose an offset, but filled in a shift too"),
        ({"time": "2026-01-01"}, "You chose an offset, but filled in a time too"),
        ({"partitions:other": "0"}, "Partitions of other are filled in, but other is not chosen"),
    ],
)
def test_form_that_contradicts_itself_is_refused(
    signed_in: Client, local: Cluster, world: World, extra: dict[str, str], told: str
) -> None:
    topic, group = world.topic(), new_name("settlement")
    world.commit(group, topic, 80, 90)
    query = {"to": "offset", "offset": "70", "topic": topic, **extra}
    answer = signed_in.get(f"{PAGE}/{group}/reset", query)
    assert answer.status_code == 422
    assert told in text_of(answer)
