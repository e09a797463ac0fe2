"""Adding clusters: what answers, what does not, what must not be asked; and the live samplers."""

from __future__ import annotations

import socket
import socketserver
import ssl
import subprocess
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from django.test import Client
from django.urls import reverse

from broker.client.blocking import BlockingClient, ClientError
from hermes_console import connect, reach
from hermes_console.audit.models import AuditEvent
from hermes_console.clusters import CLUSTERS_MAX, Cluster, ClusterKind
from hermes_console.environment import BadEnvironment, parse_reaches
from hermes_console.operations import clusters_probe
from hermes_console.operations.clusters_probe import is_kafka_answer, probe
from hermes_console.reach import NotPermitted, Policy, plain_address
from tests.support.broker_process import BrokerProcess

pytestmark = [pytest.mark.django_db(databases="__all__"), pytest.mark.timeout(120)]
NEW = "/clusters/new"
FreePort = Callable[[], int]


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrokerProcess]:
    with BrokerProcess(tmp_path_factory.mktemp("broker")) as broker:
        yield broker


@contextmanager
def server(answer: Callable[[socket.socket], None]) -> Iterator[int]:
    """The port of a listener that does `answer` with each connection."""

    class Handler(socketserver.BaseRequestHandler):
        def handle(self) -> None:
            answer(self.request)

    class Threaded(socketserver.ThreadingTCPServer):
        daemon_threads = True
        block_on_close = False

    with Threaded(("127.0.0.1", 0), Handler) as listening:
        thread = threading.Thread(target=listening.serve_forever, daemon=True)
        thread.start()
        yield listening.server_address[1]
        listening.shutdown()


def add(client: Client, address: str, name: str = "second") -> tuple[int, str]:
    answer = client.post(NEW, {"name": name, "bootstrap_address": address})
    return answer.status_code, answer.content.decode()


def test_our_broker_is_recognised_and_shown(
    signed_in: Client, cluster: Cluster, broker: BrokerProcess
) -> None:
    status, _ = add(signed_in, f"127.0.0.1:{broker.kafka_port}")
    assert status == 302
    added = Cluster.objects.get(name="second")
    assert (added.kind, added.is_from_environment) == (ClusterKind.OURS, False)
    address = reverse("clusters:connection", kwargs={"cluster": "second"})
    page = signed_in.post(address).content.decode()
    assert "It answers: HermesMQ" in page
    assert "Create topics" in page
    assert "The cluster does not offer API" in page
    event = AuditEvent.objects.get(action="cluster.add")
    assert (event.outcome, event.after["kind"]) == ("done", "ours")


def test_one_of_several_addresses_is_enough(
    signed_in: Client, cluster: Cluster, broker: BrokerProcess, free_port: FreePort
) -> None:
    answer = signed_in.post(
        NEW,
        {
            "name": "second",
            "bootstrap_address": f"127.0.0.1:{free_port()}, 127.0.0.1:{broker.kafka_port}",
        },
        follow=True,
    )
    assert "Cannot connect to 127.0.0.1" in answer.content.decode()
    assert Cluster.objects.filter(name="second").exists()


def test_silence_ends_in_time_with_a_clear_sentence(
    signed_in: Client, cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(clusters_probe, "PROBE_S_MAX", 0.5)
    with server(lambda _connection: time.sleep(30)) as port:
        began = time.monotonic()
        status, page = add(signed_in, f"127.0.0.1:{port}")
        assert time.monotonic() - began < 20
    assert status == 422
    assert "does not answer within" in page
    assert f'value="127.0.0.1:{port}"' in page, "the form is kept"


@pytest.mark.parametrize(
    ("sent", "sentence"),
    [
        (b"HTTP/1.1 400 Bad Request\r\n\r\n", "answers in HTTP"),
        (b"-ERR unknown command\r\n", "does not speak Kafka"),
        (b"\x15\x03\x01\x00\x02\x02\x46", "expects TLS"),
        (b"\x7f\xff\xff\xff" + b"x" * 100, "does not speak Kafka"),
        (b"", "closes the connection without an answer"),
    ],
)
def test_what_is_not_kafka_is_named(
    signed_in: Client, cluster: Cluster, sent: bytes, sentence: str
) -> None:
    def answer(connection: socket.socket) -> None:
        connection.recv(1_024)
        connection.sendall(sent)

    with server(answer) as port:
        status, page = add(signed_in, f"127.0.0.1:{port}")
    assert status == 422
    assert sentence in page
    assert not Cluster.objects.filter(name="second").exists()


def test_tls_port_is_recognised(tmp_path: Path) -> None:
    key, certificate = tmp_path / "key", tmp_path / "certificate"
    subprocess.run(
        ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "1", "-subj",
         "/CN=x", "-keyout", key, "-out", certificate],
        check=True, capture_output=True,
    )  # fmt: skip
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate, key)

    def answer(connection: socket.socket) -> None:
        try:
            with context.wrap_socket(connection, server_side=True) as secured:
                secured.recv(1)
        except OSError:
            connection.close()

    with server(answer) as port:
        assert probe(f"127.0.0.1:{port}", None).code == "tls"


def test_closed_port_and_unknown_host_are_named(
    signed_in: Client, cluster: Cluster, free_port: FreePort
) -> None:
    assert "Cannot connect" in add(signed_in, f"127.0.0.1:{free_port()}")[1]
    assert "cannot be resolved" in add(signed_in, "no-such-host.invalid:9092")[1]


@pytest.mark.parametrize(
    "address",
    ["", "host", "host:", ":9092", "host:0", "host:70000", "host:9092\r\nX: y", "a b:9092",
     "http://host:9092", "::1:9092", "host:9092,", "user@host:9092", "ho\0st:9092",
     ",".join(f"h{n}:9092" for n in range(9))],
)  # fmt: skip
def test_odd_addresses_are_refused_without_a_connection(
    signed_in: Client, cluster: Cluster, address: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(clusters_probe, "PROBE_S_MAX", 0.2)
    status, page = add(signed_in, address)
    assert status == 422
    assert "field-error" in page
    assert not Cluster.objects.filter(name="second").exists()


@pytest.mark.parametrize("name", ["", "A", "a b", "a\r\nb", "../x", "ü", "x" * 64, "<b>"])
def test_odd_names_are_refused(signed_in: Client, cluster: Cluster, name: str) -> None:
    status, _ = add(signed_in, "127.0.0.1:9", name)
    assert status == 422
    assert Cluster.objects.count() == 1


POLICY = Policy(
    own_ports={8000, 9404},
    own_services={("10.1.1.1", 5433)},
    is_local=lambda address: address in {"127.0.0.1", "::1", "192.168.7.7"},
)


@pytest.mark.parametrize(
    ("address", "port"),
    [
        ("169.254.169.254", 80), ("169.254.169.254", 9092), ("::ffff:169.254.169.254", 9092),
        ("64:ff9b::a9fe:a9fe", 9092), ("fd00:ec2::254", 9092), ("100.100.100.200", 9092),
        ("169.254.1.1", 9092), ("fe80::1", 9092), ("0.0.0.0", 9092), ("::", 9092),
        ("224.0.0.1", 9092), ("255.255.255.255", 9092), ("127.0.0.1", 8000), ("::1", 9404),
        ("::ffff:127.0.0.1", 8000), ("192.168.7.7", 8000), ("10.1.1.1", 5433),
        ("127.0.0.1", 6379), ("8.8.8.8", 53), ("127.0.0.1", 22), ("10.0.0.1", 5432),
    ],
)  # fmt: skip
def test_own_services_and_metadata_are_not_connected_to(address: str, port: int) -> None:
    with pytest.raises(NotPermitted, match="the console does not connect to"):
        POLICY.permit("name", address, port)


@pytest.mark.parametrize(
    ("address", "port"),
    [("127.0.0.1", 9092), ("10.0.0.1", 9092), ("8.8.8.8", 8000), ("2001:db8::1", 19092)],
)
def test_brokers_are_connected_to(address: str, port: int) -> None:
    POLICY.permit("name", address, port)


def test_allow_and_deny_lists() -> None:
    allow = parse_reaches("X", "10.0.0.0/8,127.0.0.1:6379,[::1]:9092")
    deny = parse_reaches("X", "10.9.0.0/16")
    policy = Policy(allow=allow, deny=deny, is_local=lambda _address: True)
    policy.permit("a", "10.1.1.1", 9092)
    policy.permit("a", "127.0.0.1", 6379)
    policy.permit("a", "::1", 9092)
    for address, port in (("10.9.1.1", 9092), ("127.0.0.1", 9092), ("8.8.8.8", 9092),
                          ("10.1.1.1", 22), ("169.254.169.254", 9092)):  # fmt: skip
        with pytest.raises(NotPermitted):
            policy.permit("a", address, port)
    for bad in ("host", "10.0.0.0/8:0", "1.2.3", "[::1"):
        with pytest.raises(BadEnvironment, match="X has"):
            parse_reaches("X", bad)


def test_page_refuses_metadata_and_the_consoles_own_port(
    signed_in: Client, cluster: Cluster, free_port: FreePort
) -> None:
    own = free_port()
    connect.note_own_port(own)
    for address in ("169.254.169.254:9092", f"127.0.0.1:{own}", f"localhost:{own}", "0:9092",
                    f"2130706433:{own}", "127.0.0.1:5432"):  # fmt: skip
        status, page = add(signed_in, address)
        assert status == 422, address
        assert "The console does not connect to" in page, address
    assert AuditEvent.objects.filter(action="cluster.add", outcome="refused").count() == 6


def test_address_that_a_foreign_cluster_advertises_is_judged_too(
    signed_in: Client, cluster: Cluster, tmp_path: Path, free_port: FreePort
) -> None:
    port = free_port()
    advertised = {"advertised.listeners": "PLAINTEXT://169.254.169.254:9092"}
    liar = BrokerProcess(tmp_path, settings=advertised)
    liar.kafka_port = port
    with liar:
        bootstrap = f"127.0.0.1:{port}"
        status, page = add(signed_in, bootstrap)
        assert status == 422
        assert "a cloud&#x27;s metadata service" in page
        with (
            connect.new_client(bootstrap, is_trusted=False, timeout_ms=3_000) as client,
            pytest.raises(ClientError, match="metadata service"),
        ):
            client.broker_configs(client.describe_cluster().nodes[0].node_id)


def test_name_that_resolves_otherwise_later_is_judged_at_each_connection(
    broker: BrokerProcess, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: list[tuple[str, str, int]] = []
    policy = Policy(is_local=lambda _address: False)

    def permit(name: str, address: str, port: int) -> None:
        seen.append((name, address, port))
        policy.permit(name, address, port)

    bootstrap = f"localhost:{broker.kafka_port}"
    with BlockingClient(bootstrap, timeout_ms=5_000, permit=permit) as client:
        node = client.describe_cluster().nodes[0]
        client.broker_configs(node.node_id)
    assert {name for name, _, _ in seen} == {"localhost", node.host}
    assert all(reach.ip_address(address) for _, address, _ in seen)


@pytest.mark.parametrize(
    ("text", "plain"),
    [("::ffff:1.2.3.4", "1.2.3.4"), ("2002:0102:0304::", "1.2.3.4"), ("fe80::1%eth0", "fe80::1")],
)
def test_hidden_addresses_are_seen(text: str, plain: str) -> None:
    assert str(plain_address(text)) == plain


def test_at_most_so_many_clusters(
    signed_in: Client, cluster: Cluster, broker: BrokerProcess
) -> None:
    Cluster.objects.bulk_create(
        Cluster(name=f"c-{n}", bootstrap_address="127.0.0.1:9") for n in range(CLUSTERS_MAX - 1)
    )
    status, page = add(signed_in, f"127.0.0.1:{broker.kafka_port}")
    assert status == 409
    assert "at most 32 clusters" in page


def test_rename_move_and_remove(
    signed_in: Client, cluster: Cluster, broker: BrokerProcess, free_port: FreePort
) -> None:
    address = f"127.0.0.1:{broker.kafka_port}"
    add(signed_in, address)
    change = reverse("clusters:change", kwargs={"cluster": "second"})
    dead = {"name": "second", "bootstrap_address": f"127.0.0.1:{free_port()}"}
    assert signed_in.post(change, dead).status_code == 422
    renamed = {"name": "third", "bootstrap_address": address}
    assert signed_in.post(change, renamed).status_code == 302
    remove = reverse("clusters:remove", kwargs={"cluster": "third"})
    assert signed_in.post(remove, {"confirmation": "second"}).status_code == 422
    assert signed_in.post(remove, {"confirmation": "third"}).status_code == 302
    assert list(Cluster.objects.values_list("name", flat=True)) == ["local"]
    event = AuditEvent.objects.get(action="cluster.change", outcome="done")
    assert (event.before["name"], event.after["name"]) == ("second", "third")


def test_cluster_of_the_environment_stays(signed_in: Client, cluster: Cluster) -> None:
    remove = reverse("clusters:remove", kwargs={"cluster": "local"})
    answer = signed_in.post(remove, {"confirmation": "local"})
    assert answer.status_code == 409
    assert "HERMES_BOOTSTRAP" in answer.content.decode()


def test_random_bytes_are_no_kafka_answer() -> None:
    assert not is_kafka_answer(b"")
    assert not is_kafka_answer(b"HTTP/1.1 400 Bad")
    assert is_kafka_answer(b"\0\0\0\x1a" + b"HEMQ" + b"\0\0" + b"\0" * 8)


def test_nobody_waits_long_for_a_cluster_that_the_sampler_cannot_reach(
    cluster: Cluster, store_groups: Callable[..., object], free_port: FreePort
) -> None:
    cluster.bootstrap_address = f"127.0.0.1:{free_port()}"
    cluster.save()
    patient = connect.client_for(cluster)
    store_groups(trouble="the broker is away")
    hasty = connect.client_for(cluster)
    assert hasty is not patient
    started_s = time.monotonic()
    with pytest.raises(ClientError):
        hasty.describe_cluster()
    assert time.monotonic() - started_s < connect.CALL_MS_MAX / 1000
    store_groups(sequence=8)
    assert connect.client_for(cluster) is patient
    connect.forget(cluster)


def test_cluster_that_is_watched_already_is_refused_under_another_name(
    signed_in: Client, cluster: Cluster, broker: BrokerProcess
) -> None:
    assert add(signed_in, f"127.0.0.1:{broker.kafka_port}")[0] == 302
    answer = signed_in.post(
        reverse("clusters:new"),
        {"name": "third", "bootstrap_address": f"localhost:{broker.kafka_port}"},
    )
    assert answer.status_code == 409
    assert "Cluster second at" in answer.content.decode()
    assert "is this very cluster" in answer.content.decode()
    assert not Cluster.objects.filter(name="third").exists()


def test_cluster_whose_id_the_sampler_knows_is_not_added_again(
    signed_in: Client,
    cluster: Cluster,
    broker: BrokerProcess,
    store_groups: Callable[..., object],
) -> None:
    client = connect.new_client(f"127.0.0.1:{broker.kafka_port}", is_trusted=True)
    store_groups(cluster_id=client.describe_cluster().cluster_id)
    client.close()
    status, page = add(signed_in, f"127.0.0.1:{broker.kafka_port}")
    assert status == 409
    assert "Cluster local at" in page


def test_change_of_a_cluster_that_changed_meanwhile_is_refused_at_the_act(
    signed_in: Client, cluster: Cluster
) -> None:
    other = Cluster.objects.create(name="other", bootstrap_address="127.0.0.1:1")
    path = reverse("api:cluster", kwargs={"cluster": "other"})
    etag = signed_in.get(path)["ETag"]
    Cluster.objects.filter(pk=other.pk).update(bootstrap_address="127.0.0.1:2")
    for method, data in (("patch", '{"name": "mine"}'), ("delete", "")):
        answer = getattr(signed_in, method)(
            path, data, content_type="application/json", headers={"If-Match": etag}
        )
        assert answer.status_code == 412, method
    assert Cluster.objects.get(pk=other.pk).name == "other"
    event = AuditEvent.objects.filter(action="cluster.remove").get()
    assert event.outcome == "refused", "the version is compared inside the recorded act"
