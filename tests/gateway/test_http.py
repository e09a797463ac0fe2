"""What clients can do to an HTTP server, and what becomes of it."""

from __future__ import annotations

import gzip
import json
import socket
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.gateway.gateway_process import GatewayProcess, wait_until

NewTopic = Callable[..., str]
PUT = b"PUT /api/v1/messages HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"


@pytest.fixture(scope="module")
def strict(bootstrap: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[GatewayProcess]:
    """Little time and room for clients."""
    with GatewayProcess(
        tmp_path_factory.mktemp("strict"),
        bootstrap,
        request_read_ms=1_000,
        connections_max=40,
        request_bytes_max=65_536,
        inflight_bytes_max=1_048_576,
    ) as process:
        yield process


def dial(gateway: GatewayProcess) -> socket.socket:
    return socket.create_connection(("127.0.0.1", gateway.port), timeout=30)


def talk(gateway: GatewayProcess, data: bytes) -> bytes:
    """Everything that comes until the gateway closes or has answered once."""
    with dial(gateway) as connection:
        connection.sendall(data)
        got = b""
        while True:
            try:
                part = connection.recv(65536)
            except ConnectionResetError:
                return got
            got += part
            head, found, body = got.partition(b"\r\n\r\n")
            size = head.lower().partition(b"content-length: ")[2].partition(b"\r")[0]
            if not part or (found and size and len(body) >= int(size)):
                return got


def status(answer: bytes) -> int:
    return int(answer.split(b" ", 2)[1])


def problem(answer: bytes) -> str:
    head, _, body = answer.partition(b"\r\n\r\n")
    assert b"application/problem+json" in head
    return str(json.loads(body)["code"])


def test_the_request_id_is_returned_and_logged(
    gateway: GatewayProcess, new_topic: NewTopic
) -> None:
    given = f"req-{time.time_ns()}"
    reply = gateway.call("GET", "/healthz", headers={"X-Request-Id": given})
    assert reply.headers["X-Request-Id"] == given
    refused = gateway.call("GET", "/nowhere", headers={"X-Request-Id": given})
    assert refused.headers["X-Request-Id"] == refused.json["requestId"] == given
    wait_until(lambda: gateway.log_path.read_text().count(given) == 2, what="two log lines")
    made = {gateway.call("GET", "/healthz").headers["X-Request-Id"] for _ in range(3)}
    assert len(made) == 3


@pytest.mark.parametrize("given", ["", "a b", "x" * 129, "a\tb", 'a"b', "é"])
def test_a_request_id_that_could_break_a_log_is_refused(
    gateway: GatewayProcess, given: str
) -> None:
    head = f"GET /healthz HTTP/1.1\r\nHost: localhost\r\nX-Request-Id: {given}\r\n\r\n"
    answer = talk(gateway, head.encode())
    assert (status(answer), problem(answer)) == (400, "INVALID_FIELD")


@pytest.mark.parametrize(
    ("method", "path", "expected", "code"),
    [
        ("GET", "/", 404, "NOT_FOUND"),
        ("GET", "/api/v1/messages/", 404, "NOT_FOUND"),
        ("GET", "/api/v1/../v1/messages", 404, "NOT_FOUND"),
        ("POST", "/api/v1/messages", 405, "METHOD_NOT_ALLOWED"),
        ("DELETE", "/metrics", 405, "METHOD_NOT_ALLOWED"),
        ("PATCH", "/healthz", 405, "METHOD_NOT_ALLOWED"),
        ("BREW", "/metrics", 400, "INVALID_REQUEST"),
    ],
)
def test_other_addresses_and_methods_are_problems(
    gateway: GatewayProcess, method: str, path: str, expected: int, code: str
) -> None:
    reply = gateway.call(method, path)
    assert (reply.status, reply.json["code"]) == (expected, code)
    if expected == 405:
        assert reply.headers["Allow"] in {"PUT", "GET"}


def test_head_is_get_without_a_body(gateway: GatewayProcess) -> None:
    reply = gateway.call("HEAD", "/healthz")
    assert (reply.status, reply.body) == (200, b"")


@pytest.mark.parametrize("given", [None, "text/plain", "application/jsonx", "multipart/form-data"])
def test_another_content_type_is_415(gateway: GatewayProcess, given: str | None) -> None:
    head = "" if given is None else f"Content-Type: {given}\r\n"
    start = f"PUT /api/v1/messages HTTP/1.1\r\nHost: localhost\r\n{head}"
    answer = talk(gateway, f"{start}Content-Length: 2\r\n\r\n{{}}".encode())
    assert (status(answer), problem(answer)) == (415, "UNSUPPORTED_MEDIA_TYPE")


def test_a_charset_is_fine(gateway: GatewayProcess, new_topic: NewTopic) -> None:
    reply = gateway.call(
        "PUT",
        "/api/v1/messages",
        {"topic": new_topic(), "body": None},
        headers={"Content-Type": "Application/JSON; charset=utf-8"},
    )
    assert reply.status == 200


@pytest.mark.parametrize("encoding", ["gzip", "deflate", "br", "zstd"])
def test_compressed_bodies_are_not_opened(gateway: GatewayProcess, encoding: str) -> None:
    bomb = gzip.compress(bytes(50 << 20))
    head = f"Content-Encoding: {encoding}\r\nContent-Length: {len(bomb)}\r\n\r\n"
    before = gateway.metric("hermes_gateway_process_cpu_seconds_total")
    answer = talk(gateway, PUT + head.encode() + bomb)
    assert (status(answer), problem(answer)) == (415, "UNSUPPORTED_MEDIA_TYPE")
    assert gateway.metric("hermes_gateway_process_cpu_seconds_total") - before < 0.5


@pytest.mark.parametrize(("encoding", "expected"), [("gzip, chunked", 415), ("Chunked", 200)])
def test_chunks_are_taken_and_no_other_coding_of_the_transfer(
    gateway: GatewayProcess, new_topic: NewTopic, encoding: str, expected: int
) -> None:
    body = json.dumps({"topic": new_topic(), "body": None}).encode()
    head = f"Transfer-Encoding: {encoding}\r\n\r\n{len(body):x}\r\n".encode()
    answer = talk(gateway, PUT + head + body + b"\r\n0\r\n\r\n")
    assert status(answer) == expected
    if expected == 415:
        assert problem(answer) == "UNSUPPORTED_MEDIA_TYPE"


@pytest.mark.parametrize(
    ("target", "expected"),
    [
        ("http://localhost:8080/api/v1/openapi.json", 200),
        ("http://[::1]/api/v1/openapi.json", 200),
        ("http://attacker.example/api/v1/openapi.json", 403),
        ("http://localhost@attacker.example/api/v1/openapi.json", 403),
    ],
)
def test_the_host_of_a_whole_address_counts_too(
    gateway: GatewayProcess, target: str, expected: int
) -> None:
    answer = talk(gateway, f"GET {target} HTTP/1.1\r\nHost: localhost\r\n\r\n".encode())
    assert status(answer) == expected
    if expected == 403:
        assert problem(answer) == "HOST_NOT_ALLOWED"


def test_a_gigabyte_is_refused_by_its_length_alone(strict: GatewayProcess) -> None:
    answer = talk(strict, PUT + b"Content-Length: 1073741824\r\n\r\n")
    assert (status(answer), problem(answer)) == (413, "BODY_TOO_LARGE")


def test_chunks_without_end_are_refused_at_the_limit(strict: GatewayProcess) -> None:
    with dial(strict) as connection:
        connection.sendall(PUT + b"Transfer-Encoding: chunked\r\n\r\n")
        got = b""
        for _ in range(40):
            try:
                connection.sendall(b"2000\r\n" + b" " * 0x2000 + b"\r\n")
            except OSError:
                break
        try:
            got = connection.recv(65536)
        except ConnectionResetError:
            return  # it closed while data was on its way
    assert not got or status(got) == 413


@pytest.mark.parametrize(
    "body",
    [b"zz\r\nabc\r\n0\r\n\r\n", b"-5\r\nabc\r\n0\r\n\r\n", b"ffffffffffffffffff\r\n"],
    ids=["no hex", "negative", "overflow"],
)
def test_bad_chunks_are_refused(strict: GatewayProcess, body: bytes) -> None:
    answer = talk(strict, PUT + b"Transfer-Encoding: chunked\r\n\r\n" + body)
    assert (status(answer), problem(answer)) == (400, "INVALID_REQUEST")


@pytest.mark.parametrize(
    "head",
    [
        PUT + b"Content-Length: 2\r\nContent-Length: 3\r\n\r\n{}",
        PUT + b"Content-Length: -1\r\n\r\n",
        PUT + b"Content-Length: 2\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
        b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03",
        b"GET\r\n\r\n",
        b"GET /healthz HTTP/9.9\r\nHost: localhost\r\n\r\n",
        b"GET /healthz HTTP/1.1\r\nHost x\r\n\r\n",
        b"GET /healthz HTTP/1.1\r\nHost: localhost\r\nA\x00: b\r\n\r\n",
    ],
    ids=["lengths", "negative", "smuggling", "tls", "short", "version", "colon", "nul"],
)
def test_what_is_no_http_is_refused_and_closed(strict: GatewayProcess, head: bytes) -> None:
    answer = talk(strict, head)
    assert (status(answer), problem(answer)) == (400, "INVALID_REQUEST")
    assert b"Connection: close" in answer


def test_a_huge_head_is_refused(strict: GatewayProcess) -> None:
    for head in (b"X: " + b"a" * 20_000 + b"\r\n", b"".join(b"X%d: a\r\n" % n for n in range(300))):
        answer = talk(strict, b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n" + head + b"\r\n")
        assert (status(answer), problem(answer)) == (431, "HEADERS_TOO_LARGE")


def test_heads_and_bodies_that_trickle_are_ended(strict: GatewayProcess) -> None:
    slow_head, slow_body = dial(strict), dial(strict)
    with slow_head, slow_body:
        slow_head.sendall(b"GET /healthz HTTP/1.1\r\n")
        slow_body.sendall(PUT + b"Content-Length: 100\r\n\r\n{")
        answers = [slow_head.recv(65536), slow_body.recv(65536)]
    assert [(status(answer), problem(answer)) for answer in answers] == [
        (408, "REQUEST_TIMEOUT"),
        (408, "REQUEST_TIMEOUT"),
    ]


def test_a_connection_without_a_request_is_ended(strict: GatewayProcess) -> None:
    """As many of them as there may be would keep everybody else out."""
    with dial(strict) as silent:
        answer = silent.recv(65536)
        assert (status(answer), problem(answer)) == (408, "REQUEST_TIMEOUT")
        assert silent.recv(1) == b""


def test_connections_beyond_the_limit_are_refused_and_others_served(
    strict: GatewayProcess,
) -> None:
    held: list[socket.socket] = []
    try:
        for _ in range(40):
            connection = dial(strict)
            held.append(connection)
            connection.sendall(b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n")
            assert status(connection.recv(65536)) == 200
        answer = talk(strict, b"")
        assert (status(answer), problem(answer)) == (503, "NOT_READY")
        held[0].sendall(b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n")
        assert status(held[0].recv(65536)) == 200
    finally:
        for connection in held:
            connection.close()
    wait_until(
        lambda: status(talk(strict, b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n")) == 200
    )


def test_who_does_not_read_is_closed(strict: GatewayProcess) -> None:
    """A client that asks again and again and reads nothing costs bounded memory and time."""
    with socket.socket() as connection:
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        connection.connect(("127.0.0.1", strict.port))
        connection.settimeout(0.2)
        asked = b"GET /api/v1/openapi.json HTTP/1.1\r\nHost: localhost\r\n\r\n" * 100
        end = time.monotonic() + 60
        closed = False
        while not closed and time.monotonic() < end:
            try:
                connection.sendall(asked)
            except TimeoutError:
                continue
            except OSError:
                closed = True
    assert closed
    assert strict.metric("hermes_gateway_connections_refused_total") >= 1


def test_expect_100_continue_is_met(gateway: GatewayProcess, new_topic: NewTopic) -> None:
    body = json.dumps({"topic": new_topic(), "body": None}).encode()
    with dial(gateway) as connection:
        head = f"Expect: 100-continue\r\nContent-Length: {len(body)}\r\n\r\n"
        connection.sendall(PUT + head.encode())
        assert connection.recv(100) == b"HTTP/1.1 100 Continue\r\n\r\n"
        connection.sendall(body)
        assert status(connection.recv(65536)) == 200


def test_two_requests_in_one_packet_get_two_answers(gateway: GatewayProcess) -> None:
    with dial(gateway) as connection:
        connection.sendall(b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n" * 2)
        got = b""
        while got.count(b"ok\n") < 2:
            part = connection.recv(65536)
            assert part
            got += part
    assert got.count(b"HTTP/1.1 200 OK") == 2


def test_metrics_are_prometheus_text(gateway: GatewayProcess) -> None:
    from prometheus_client.parser import text_string_to_metric_families

    reply = gateway.call("GET", "/metrics")
    names = {family.name for family in text_string_to_metric_families(reply.body.decode())}
    assert {"hermes_gateway_requests", "hermes_gateway_ids", "hermes_gateway_ready"} <= names


def test_wrong_settings_are_refused_with_a_sentence(tmp_path: Path) -> None:
    for change, sentence in (
        ({"bootstrap_servers": "nonsense"}, "expected host:port"),
        ({"inflight_bytes_max": 1_048_576}, "must be at least request.bytes.max"),
        ({"windw": 5}, "unknown setting"),
    ):
        gateway = GatewayProcess(tmp_path, "127.0.0.1:1", **change)
        gateway.start(waits=False)
        assert gateway.wait() == 2
        assert sentence in gateway.log_path.read_text()
