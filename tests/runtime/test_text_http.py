"""The small HTTP server behind /metrics, asked by raw sockets and by urllib."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import AsyncIterator

import pytest

from broker.runtime import text_http
from broker.runtime.text_http import Reply, Request, TextHttpServer, parse_head

LATE_S = 20


async def hello(reply: Reply) -> None:
    await reply.send(200, "hé\n")


async def pieces(reply: Reply) -> None:
    reply.begin("text/plain; version=7")
    for piece in ("one ", "", "two ", "three\n"):
        await reply.write(piece)
    await reply.end()


@pytest.fixture
async def port() -> AsyncIterator[int]:
    server = TextHttpServer({"/hello": hello, "/pieces": pieces}, make_room=lambda: None)
    yield await server.start("127.0.0.1", 0)
    await server.stop()


async def exchange(port: int, content: bytes) -> bytes:
    """Everything that the server says until it closes."""
    async with asyncio.timeout(LATE_S):
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(content)
        answer = await reader.read()
        writer.close()
    return answer


def ask(path: str, *lines: str, method: str = "GET", version: str = "1.1") -> bytes:
    return "\r\n".join([f"{method} {path} HTTP/{version}", "Host: x", *lines, "", ""]).encode()


CLOSE = "Connection: close"


async def test_several_requests_of_one_connection_are_answered_in_order(port: int) -> None:
    answer = await exchange(port, ask("/hello") + ask("/pieces?a=b") + ask("/hello", CLOSE))
    hello_answer = (
        b"HTTP/1.1 200 OK\r\nContent-Type: text/plain; charset=utf-8\r\nContent-Length: 4\r\n"
        b"Connection: %b\r\n\r\nh\xc3\xa9\n"
    )
    chunked = (
        b"HTTP/1.1 200 OK\r\nContent-Type: text/plain; version=7\r\nTransfer-Encoding: chunked\r\n"
        b"Connection: keep-alive\r\n\r\n4\r\none \r\n4\r\ntwo \r\n6\r\nthree\n\r\n0\r\n\r\n"
    )
    assert answer == hello_answer % b"keep-alive" + chunked + hello_answer % b"close"


async def test_an_old_client_gets_a_text_without_chunks_that_ends_with_the_connection(
    port: int,
) -> None:
    head, _, body = (await exchange(port, ask("/pieces", version="1.0"))).partition(b"\r\n\r\n")
    assert b"chunked" not in head
    assert body == b"one two three\n"


@pytest.mark.parametrize("path", ["/hello", "/pieces"])
async def test_head_gets_a_head_alone(port: int, path: str) -> None:
    answer = await exchange(port, ask(path, CLOSE, method="HEAD"))
    assert answer.startswith(b"HTTP/1.1 200 OK\r\n")
    assert answer.endswith(b"\r\n\r\n")
    assert answer.count(b"\r\n\r\n") == 1


@pytest.mark.parametrize(
    ("content", "status"),
    [
        (ask("/nothing", CLOSE), b"404"),
        (ask("/hello", CLOSE, method="POST"), b"405"),
        (ask("http://x:1/hello?q", CLOSE), b"200"),
        (ask("/hello", "Content-Length: 3") + b"abc" + ask("/hello"), b"200"),
        (b"\x16\x03\x01\x00\r\n\r\n", b"400"),
        (b"GET /hello HTTP/2.0\r\n\r\n", b"400"),
        (ask("/hello", "no colon"), b"400"),
        (ask("/hello", f"X: {'x' * text_http.HEAD_BYTES_MAX}"), b"431"),
    ],
)
async def test_what_is_wrong_with_a_request_is_its_status_and_its_connection_ends(
    port: int, content: bytes, status: bytes
) -> None:
    answer = await exchange(port, content)
    assert answer.startswith(b"HTTP/1.1 " + status)
    assert answer.count(b"HTTP/1.1") == 1, "a body is never taken for the next request"


async def test_a_half_head_is_dropped_in_time(port: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(text_http, "KEEP_ALIVE_SECONDS", 0.05)
    assert await _closed(port, b"GET /hello HT") == b""


async def test_connections_above_the_bound_are_closed_at_once(
    port: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(text_http, "CONNECTIONS_MAX", 1)
    async with asyncio.timeout(LATE_S):
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(ask("/hello"))
        assert await reader.readline() == b"HTTP/1.1 200 OK\r\n"
        other, other_writer = await asyncio.open_connection("127.0.0.1", port)
        assert await other.read() == b""
        other_writer.close()
        writer.write(ask("/hello", CLOSE))
        assert (await reader.read()).count(b"HTTP/1.1 200 OK") == 1
        writer.close()


async def test_a_stop_ends_what_waits_and_what_is_answered(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(text_http, "SHUTDOWN_SECONDS", 0.05)
    asked = asyncio.Event()

    async def never(reply: Reply) -> None:
        asked.set()
        await asyncio.Event().wait()

    server = TextHttpServer({"/never": never}, make_room=lambda: None)
    port = await server.start("127.0.0.1", 0)
    async with asyncio.timeout(LATE_S), asyncio.TaskGroup() as group:
        answers = [group.create_task(_closed(port, content)) for content in (b"", ask("/never"))]
        await asked.wait()
        await server.stop()
        await server.stop()
    assert [task.result() for task in answers] == [b"", b""]
    with pytest.raises(ConnectionRefusedError):
        await asyncio.open_connection("127.0.0.1", port)


async def _closed(port: int, content: bytes) -> bytes:
    try:
        return await exchange(port, content)
    except ConnectionResetError:
        return b""


def test_a_head_says_whether_its_connection_may_go_on() -> None:
    assert parse_head(ask("/a")) == Request("GET", "/a", is_last=False, is_chunked=True)
    assert parse_head(ask("/a", "connection: Close")) == Request(
        "GET", "/a", is_last=True, is_chunked=True
    )
    assert parse_head(ask("/a", "Transfer-Encoding: chunked")) == Request(
        "GET", "/a", is_last=True, is_chunked=True
    )
    assert parse_head(b"GET /a HTTP/1.0\r\n\r\n") == Request(
        "GET", "/a", is_last=True, is_chunked=False
    )


async def much(reply: Reply) -> None:
    """Less than makes `drain` wait, more than the socket takes."""
    taken = reply._writer.transport.get_extra_info("socket")
    taken.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 4096)
    await reply.send(200, "x" * 60_000)


async def ask_and_read_nothing(port: int, lazy: socket.socket) -> None:
    lazy.setblocking(False)
    lazy.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
    loop = asyncio.get_running_loop()
    await loop.sock_connect(lazy, ("127.0.0.1", port))
    await loop.sock_sendall(lazy, ask("/much", CLOSE))


async def send_until_refused(lazy: socket.socket) -> None:
    while True:
        lazy.send(b"x")
        await asyncio.sleep(0.01)


async def test_a_connection_counts_until_its_answer_has_left(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(text_http, "CONNECTIONS_MAX", 1)
    server = TextHttpServer({"/much": much}, make_room=lambda: None)
    port = await server.start("127.0.0.1", 0)
    try:
        async with asyncio.timeout(LATE_S):
            with socket.socket() as lazy:
                await ask_and_read_nothing(port, lazy)
                while not server._tasks:
                    await asyncio.sleep(0.01)
                assert await exchange(port, b"") == b""
            while server._tasks:  # it hung up
                await asyncio.sleep(0.01)
    finally:
        await server.stop()


async def test_an_answer_that_nobody_takes_is_given_up_in_time(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(text_http, "ANSWER_SECONDS_MAX", 0.2)
    server = TextHttpServer({"/much": much}, make_room=lambda: None)
    port = await server.start("127.0.0.1", 0)
    try:
        async with asyncio.timeout(LATE_S):
            with socket.socket() as lazy:
                await ask_and_read_nothing(port, lazy)
                with pytest.raises(ConnectionError):  # an abort, for bytes were left
                    await send_until_refused(lazy)
    finally:
        await server.stop()
