"""Who may call the gateway: no web page through somebody's browser."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.gateway.gateway_process import GatewayProcess, Reply

API = "/api/v1/openapi.json"


@pytest.fixture(scope="module")
def named(bootstrap: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[GatewayProcess]:
    """A gateway with names of its own."""
    names = "Queue.example,fd00::7"
    with GatewayProcess(
        tmp_path_factory.mktemp("named"), bootstrap, allowed_hosts=names
    ) as process:
        yield process


def ask(gateway: GatewayProcess, path: str, **headers: str) -> tuple[int, str | None]:
    """(status, the problem's code)."""
    reply: Reply = gateway.call("GET", path, headers=headers)
    return reply.status, reply.json["code"] if reply.status == 403 else None


@pytest.mark.parametrize(
    "host",
    [
        *("localhost", "LocalHost:8080", "127.0.0.1", "127.0.0.1:8080", "[::1]", "[::1]:8080"),
        *("queue.example", "QUEUE.example:443", "[fd00::7]:8080"),
    ],
)
def test_a_name_of_the_gateway_is_answered(named: GatewayProcess, host: str) -> None:
    assert ask(named, API, Host=host) == (200, None)


@pytest.mark.parametrize("path", [API, "/metrics", "/api/v1/messages/fetch?topic=a", "/nowhere"])
@pytest.mark.parametrize(
    "host",
    [
        *("attacker.example", "attacker.example:8080", "localhost.attacker.example", ""),
        *("queue.example.attacker.example", "10.0.0.1", "127.0.0.1:8080:80", "[::2]", "::1"),
    ],
)
def test_another_name_is_refused(named: GatewayProcess, path: str, host: str) -> None:
    reply = named.call("GET", path, headers={"Host": host})
    assert (reply.status, reply.json["code"]) == (403, "HOST_NOT_ALLOWED")
    assert "allowed.hosts" in reply.json["detail"]
    assert reply.headers["Content-Type"] == "application/problem+json"


def test_a_put_under_another_name_stores_nothing(named: GatewayProcess) -> None:
    sent = {"Host": "attacker.example"}
    reply = named.call("PUT", "/api/v1/messages", {"topic": "a", "body": ""}, headers=sent)
    assert (reply.status, reply.json["code"]) == (403, "HOST_NOT_ALLOWED")


@pytest.mark.parametrize("path", ["/healthz", "/readyz"])
def test_probes_need_no_name(named: GatewayProcess, path: str) -> None:
    assert ask(named, path, Host="10.1.2.3:8080") == (200, None)
    assert ask(named, path, Host="[fd00::1]:8080") == (200, None)
    assert ask(named, path, Host="") == (200, None)
    assert ask(named, path, Host="attacker.example") == (403, "HOST_NOT_ALLOWED")


@pytest.mark.parametrize(
    ("origin", "expected"),
    [
        ("http://localhost:8080", (200, None)),
        ("https://LOCALHOST:8080", (200, None)),
        ("http://localhost:3000", (403, "ORIGIN_NOT_ALLOWED")),
        ("http://attacker.example", (403, "ORIGIN_NOT_ALLOWED")),
        ("null", (403, "ORIGIN_NOT_ALLOWED")),
        ("", (403, "ORIGIN_NOT_ALLOWED")),
    ],
)
def test_a_page_of_another_origin_is_refused(
    named: GatewayProcess, origin: str, expected: tuple[int, str | None]
) -> None:
    assert ask(named, API, Host="localhost:8080", Origin=origin) == expected


@pytest.mark.parametrize("name", ["http://queue.example", "queue.example:80", "queue.example/a"])
def test_a_name_with_more_than_a_name_is_refused_at_the_start(
    bootstrap: str, tmp_path: Path, name: str
) -> None:
    process = GatewayProcess(tmp_path, bootstrap, allowed_hosts=name)
    process.start(waits=False)
    assert process.wait() == 2
    assert f"allowed.hosts: {name!r} must be a host name" in process.log_path.read_text()
