"""Brokers, on a real one: what it holds, how it is set, changing what can be changed live; and what
Apache Kafka cannot tell.
"""

from __future__ import annotations

import os
import re
import socket
import subprocess
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from django.db import connections
from django.test import Client

from hermes_console import metricsaddress
from hermes_console.accounts.models import User
from hermes_console.accounts.rights import Role
from hermes_console.audit.models import AuditEvent, Outcome
from hermes_console.clusters import Cluster, ClusterKind
from hermes_console.metricsaddress import MetricsUnread, read_metrics_text
from hermes_console.operations.broker_metrics import (
    fetch_metrics,
    read_broker_metrics,
)
from hermes_console.operations.topics_catalogue import forget_catalogue
from hermes_console.undo.lock import broker_settings_lock
from tests.console.kafka_world import World, wait_until
from tests.console.topic_pages import fields_in, send, text_of, words_of
from tests.support.broker_process import BrokerProcess

pytestmark = [pytest.mark.django_db(databases="__all__"), pytest.mark.timeout(180)]
API = "/api/admin/v1/clusters/local/brokers"
PAGE = "/clusters/local/brokers"
LIVE = "log.retention.ms"


class Node:
    """A broker's addresses and id; `metrics` is "" for Apache Kafka."""

    def __init__(self, bootstrap: str, metrics: str, *, is_ours: bool) -> None:
        self.bootstrap, self.metrics, self.is_ours = bootstrap, metrics, is_ours


@pytest.fixture(scope="module")
def node(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Node]:
    foreign = os.environ.get("CONSOLE_TEST_BOOTSTRAP")
    if foreign:
        yield Node(foreign, "", is_ours=False)
        return
    directory: Path = tmp_path_factory.mktemp("brokers-broker")
    with BrokerProcess(directory, {"offsets.topic.num.partitions": 2}) as broker:
        yield Node(broker.bootstrap, f"{broker.metrics_url}/metrics", is_ours=True)


@pytest.fixture
def local(cluster: Cluster, node: Node) -> Cluster:
    cluster.bootstrap_address = node.bootstrap
    cluster.metrics_address = node.metrics
    cluster.kind = ClusterKind.OURS if node.is_ours else ClusterKind.KAFKA
    cluster.save()
    forget_catalogue(cluster)
    return cluster


def percent_by_df(path: str) -> int:
    command = ["df", "--output=pcent", path]
    told = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    return int(told.split()[-1].rstrip("%"))


def only_broker(client: Client) -> dict[str, Any]:
    found = client.get(API).json()
    assert found["gaps"] == []
    (broker,) = found["brokers"]
    return dict(broker)


def setting(client: Client, node_id: int, name: str) -> tuple[dict[str, Any], str]:
    answer = client.get(f"{API}/{node_id}/config")
    assert answer.status_code == 200
    found = {one["name"]: one for one in answer.json()["settings"]}
    return found[name], answer["ETag"]


def test_broker_tells_its_partitions_and_disk(
    signed_in: Client, local: Cluster, node: Node
) -> None:
    world = World(node.bootstrap)
    world.topic(4, 50)
    forget_catalogue(local)
    broker = only_broker(signed_in)
    assert broker["is_controller"]
    assert broker["leader_count"] >= 4
    (directory,) = broker["directories"]
    assert int(directory["log_bytes"]) > 0
    assert directory["replica_count"] >= 4
    assert 0 < int(directory["free_bytes"]) < int(directory["total_bytes"])
    page = words_of(signed_in.get(f"{PAGE}/"))
    shown = re.search(r"(\d+) % used", page)
    assert shown, page
    if node.is_ours:
        assert abs(int(shown[1]) - percent_by_df(directory["path"])) <= 1, "others write, too"
    assert f"Broker {broker['id']}" in page
    assert signed_in.get(f"{API}/{broker['id']}").json()["directories"]


def test_broker_page_shows_latency_of_ours_and_says_what_apache_kafka_does_not_tell(
    signed_in: Client, local: Cluster, node: Node
) -> None:
    World(node.bootstrap).topic(1, 50)
    broker_id = only_broker(signed_in)["id"]
    page = words_of(signed_in.get(f"{PAGE}/{broker_id}/"))
    if node.is_ours:
        assert "Produce" in page
        assert "Loop lag P99" in page
        assert "Compactions since the start 0 0 B removed" in page
        assert "Partitions left in part 0" in page
        metrics = fetch_metrics(local.metrics_address)
        produce = next(one for one in metrics.apis if one.api == "Produce")
        assert produce.request_count >= 1
        assert metrics.connections is not None
        wait_until(
            lambda: any(one.p99_ms is not None for one in fetch_metrics(node.metrics).apis),
            "the broker tells quantiles",
        )
    else:
        assert "This cluster has no metrics address" in page
        assert "JMX" in page
    assert "at once" in page
    assert "after a restart" in page
    assert LIVE in page


def test_live_setting_is_reviewed_saved_for_all_brokers_and_taken_back(
    signed_in: Client, local: Cluster
) -> None:
    broker_id = only_broker(signed_in)["id"]
    before, etag = setting(signed_in, broker_id, LIVE)
    path = f"{API}/{broker_id}/config"
    dry = send(
        signed_in,
        "PATCH",
        f"{path}?scope=cluster&dry_run=true",
        {LIVE: "86400000"},
        **{"If-Match": etag},
    )
    assert dry.status_code == 200, dry.json()
    assert setting(signed_in, broker_id, LIVE)[0] == before
    done = send(
        signed_in, "PATCH", f"{path}?scope=cluster", {LIVE: "86400000"}, **{"If-Match": etag}
    )
    assert done.status_code == 200, done.json()
    wait_until(
        lambda: setting(signed_in, broker_id, LIVE)[0]["comes_from"] == "cluster", "it is set"
    )
    assert setting(signed_in, broker_id, LIVE)[0]["value"] == "86400000"
    stale = send(
        signed_in, "PATCH", f"{path}?scope=cluster", {LIVE: "1000000"}, **{"If-Match": etag}
    )
    assert stale.status_code == 412
    _, fresh = setting(signed_in, broker_id, LIVE)
    back = send(signed_in, "PATCH", f"{path}?scope=cluster", {LIVE: None}, **{"If-Match": fresh})
    assert back.status_code == 200, back.json()
    wait_until(lambda: setting(signed_in, broker_id, LIVE)[0] == before, "it is as it was")
    event = AuditEvent.objects.filter(action="broker.configure").last()
    assert event is not None
    assert (event.target, event.after) == ("all brokers", {LIVE: "86400000"})


def test_setting_of_one_broker_is_taken_away_in_the_form(signed_in: Client, local: Cluster) -> None:
    broker_id = only_broker(signed_in)["id"]
    path = f"{API}/{broker_id}/config"
    _, etag = setting(signed_in, broker_id, LIVE)
    done = send(signed_in, "PATCH", f"{path}?scope=broker", {LIVE: "7200000"}, **{"If-Match": etag})
    assert done.status_code == 200, done.json()
    wait_until(
        lambda: setting(signed_in, broker_id, LIVE)[0]["comes_from"] == "broker", "it is set"
    )
    form = signed_in.get(f"{PAGE}/{broker_id}/settings")
    assert "Take this value away" in words_of(form)
    etag_field = text_of(form).split('name="etag" value="')[1].split('"')[0]
    review = signed_in.post(
        f"{PAGE}/{broker_id}/settings",
        {"step": "review", "scope": "broker", "etag": etag_field, f"reset.{LIVE}": "on"},
    )
    assert f"broker {broker_id} alone" in words_of(review), words_of(review)
    saved = signed_in.post(
        f"{PAGE}/{broker_id}/settings", {**fields_in(review), "step": "save", "scope": "broker"}
    )
    assert saved.status_code == 302, words_of(saved)
    wait_until(
        lambda: setting(signed_in, broker_id, LIVE)[0]["comes_from"] != "broker", "it is gone"
    )


def test_setting_that_needs_a_restart_and_bad_values_are_refused_with_the_reason(
    signed_in: Client, local: Cluster
) -> None:
    broker_id = only_broker(signed_in)["id"]
    path = f"{API}/{broker_id}/config"
    match = {"If-Match": "*"}
    restart = send(signed_in, "PATCH", path, {"node.id": "7"}, **match)
    assert restart.status_code == 422
    assert "restart" in restart.json()["detail"]
    bad = send(signed_in, "PATCH", path, {LIVE: "soon"}, **match)
    assert bad.status_code in {400, 422}
    assert send(signed_in, "PATCH", f"{path}?scope=all", {LIVE: "1"}, **match).status_code == 400
    assert send(signed_in, "PATCH", path, {LIVE: "1"}).status_code == 428


def test_unknown_broker_is_a_404(signed_in: Client, local: Cluster) -> None:
    for path in (f"{PAGE}/4711/", f"{PAGE}/4711/settings", f"{API}/4711", f"{API}/4711/config"):
        answer = signed_in.get(path)
        assert answer.status_code == 404, path
        assert "There is no broker 4711" in answer.content.decode()
    assert signed_in.get(f"{API}/99999999999999999999").status_code == 404


def test_viewer_may_look_and_not_change(local: Cluster) -> None:
    viewer = Client()
    viewer.force_login(User.objects.create(username="vera", role=Role.VIEWER, password="!"))
    broker_id = only_broker(viewer)["id"]
    assert "Edit live settings" not in words_of(viewer.get(f"{PAGE}/{broker_id}/"))
    posted = {"step": "save", "scope": "cluster", f"value.{LIVE}": "1000000"}
    answer = viewer.post(f"{PAGE}/{broker_id}/settings", posted)
    assert answer.status_code == 403
    assert "vera is a viewer" in words_of(answer)
    reviewed = viewer.post(f"{PAGE}/{broker_id}/settings", {**posted, "step": "review"})
    assert reviewed.status_code == 403, "nor have the broker check a change"
    patched = send(viewer, "PATCH", f"{API}/{broker_id}/config", {LIVE: "1"}, **{"If-Match": "*"})
    assert patched.status_code == 403
    assert AuditEvent.objects.filter(actor="vera", outcome=Outcome.REFUSED).count() == 3


def test_metrics_that_drip_in_hold_nobody_for_ever(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(metricsaddress, "WHOLE_S_MAX", 0.3)
    stopped = threading.Event()

    def drip(listener: socket.socket) -> None:
        connection, _ = listener.accept()
        with connection:
            connection.recv(4_096)
            connection.sendall(b"HTTP/1.0 200 OK\r\n\r\n")
            while not stopped.wait(0.02):
                connection.sendall(b"a 1\n")

    with socket.create_server(("127.0.0.1", 0)) as listener:
        thread = threading.Thread(target=drip, args=(listener,), daemon=True)
        thread.start()
        try:
            with pytest.raises(MetricsUnread, match="did not end"):
                read_metrics_text(f"http://127.0.0.1:{listener.getsockname()[1]}/metrics")
        finally:
            stopped.set()
            thread.join(10)


def test_metrics_of_something_else_are_unknown_not_zero(free_port: Any) -> None:
    assert read_broker_metrics("").connections is None
    assert read_broker_metrics("go_goroutines 12\n").apis == ()
    with pytest.raises(MetricsUnread, match="cannot be read"):
        read_broker_metrics('hermes_requests_total{api="Fetch" 1\n')
    with pytest.raises(MetricsUnread, match="Tried http"):
        fetch_metrics(f"http://127.0.0.1:{free_port()}/metrics")


@pytest.mark.django_db(databases="__all__", transaction=True)
def test_of_editors_who_saw_the_same_broker_settings_one_changes_them(
    user: User, local: Cluster
) -> None:
    clients = [Client() for _ in range(4)]
    for client in clients:
        client.force_login(user)
    broker_id = only_broker(clients[0])["id"]
    _, if_match = setting(clients[0], broker_id, LIVE)
    together = threading.Barrier(len(clients))

    def edit(number: int) -> int:
        together.wait()
        try:
            answer = send(
                clients[number],
                "PATCH",
                f"{API}/{broker_id}/config",
                {LIVE: str(2_000_000 + number)},
                **{"If-Match": if_match},
            )
        finally:
            connections.close_all()
        return int(answer.status_code)

    with ThreadPoolExecutor(len(clients)) as pool:
        statuses = sorted(pool.map(edit, range(len(clients))))
    assert statuses[0] == 200
    assert set(statuses[1:]) <= {409, 412}
    _, if_match = setting(clients[0], broker_id, LIVE)
    taken_away = {LIVE: None}
    send(clients[0], "PATCH", f"{API}/{broker_id}/config", taken_away, **{"If-Match": if_match})


def test_broker_settings_are_changed_by_one_at_a_time(signed_in: Client, local: Cluster) -> None:
    broker_id = only_broker(signed_in)["id"]
    path = f"{API}/{broker_id}/config"
    with broker_settings_lock(local.pk) as lease:
        assert lease
        busy = send(signed_in, "PATCH", path, {LIVE: "2000000"}, **{"If-Match": "*"})
        assert (busy.status_code, busy.json()["code"]) == (409, "broker-busy")
    _, etag = setting(signed_in, broker_id, LIVE)
    stale = send(signed_in, "PATCH", path, {LIVE: "2000000"}, **{"If-Match": '"other"'})
    assert stale.status_code == 412
    assert setting(signed_in, broker_id, LIVE)[1] == etag
