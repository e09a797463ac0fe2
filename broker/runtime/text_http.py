"""A few GET paths over HTTP/1.1 that answer with text, whole or piece by piece. For probes and
scrapes, not for the world: no bodies, no TLS, no compression.

It is small on purpose: an HTTP framework would be a third of a broker's start and of its memory
when idle. Every connection is bounded in number, in the bytes of a head and in time; a request with
a body is answered and its connection closed.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress
from typing import Final, NamedTuple, cast

from broker.ports import StreamHandler
from broker.runtime.network import SystemListener, SystemNetwork

CONNECTIONS_MAX: Final = 128
"""More are closed at once."""
HEAD_BYTES_MAX: Final = 16 << 10
KEEP_ALIVE_SECONDS: Final = 30.0
"""For the next head to be there in full."""
ANSWER_SECONDS_MAX: Final = 60.0
SHUTDOWN_SECONDS: Final = 1.0
PLAIN_TEXT: Final = "text/plain; charset=utf-8"
_HEAD_END: Final = b"\r\n\r\n"
_REASONS: Final = {
    200: "OK",
    400: "Bad Request",
    404: "Not Found",
    405: "Method Not Allowed",
    431: "Request Header Fields Too Large",
    503: "Service Unavailable",
}


class Request(NamedTuple):
    """What of a head counts. `is_last` closes the connection behind the answer."""

    method: str
    path: str
    is_last: bool
    is_chunked: bool


class Reply:
    """The answer to one request: `send` once, or `begin`, `write` as often as needed, `end`."""

    def __init__(self, request: Request, writer: asyncio.StreamWriter) -> None:
        self._request = request
        self._writer = writer

    async def send(self, status: int, text: str, *extra: str) -> None:
        """A whole text. `extra` are further header lines. Raises ConnectionError."""
        content = text.encode()
        self._head(status, PLAIN_TEXT, f"Content-Length: {len(content)}", *extra)
        if self._request.method != "HEAD":
            self._writer.write(content)
        await self._writer.drain()

    def begin(self, content_type: str) -> None:
        """A text with status 200 whose length is not known yet."""
        self._head(200, content_type, *self._chunked_line())

    async def write(self, text: str) -> None:
        """The next piece; returns when the peer reads. Raises ConnectionError."""
        content = text.encode()
        if not content or self._request.method == "HEAD":
            return
        if self._request.is_chunked:
            self._writer.writelines([f"{len(content):x}\r\n".encode(), content, b"\r\n"])
        else:
            self._writer.write(content)
        await self._writer.drain()

    async def end(self) -> None:
        """Raises ConnectionError."""
        if self._request.is_chunked and self._request.method != "HEAD":
            self._writer.write(b"0\r\n\r\n")
        await self._writer.drain()

    def _chunked_line(self) -> tuple[str, ...]:
        return ("Transfer-Encoding: chunked",) if self._request.is_chunked else ()

    def _head(self, status: int, content_type: str, *lines: str) -> None:
        every = [
            f"HTTP/1.1 {status} {_REASONS[status]}",
            f"Content-Type: {content_type}",
            *lines,
            f"Connection: {'close' if self._request.is_last else 'keep-alive'}",
        ]
        self._writer.write("\r\n".join([*every, "", ""]).encode("latin-1"))


Responder = Callable[[Reply], Awaitable[None]]


class TextHttpServer:
    """`await start(...)`, then it answers `paths` until `await stop()`. `make_room` gives back
    descriptors when there is none left for who asks.
    """

    def __init__(self, paths: Mapping[str, Responder], make_room: Callable[[], None]) -> None:
        self._paths = paths
        self._make_room = make_room
        self._listener: SystemListener | None = None
        self._tasks: set[asyncio.Task[None]] = set()
        self._idle: set[asyncio.Task[None]] = set()

    async def start(self, host: str, port: int) -> int:
        """The port that it listens on. Raises OSError."""
        self._listener = await SystemNetwork().listen(host, port, self._handler, self._make_room)
        return self._listener.port

    async def stop(self) -> None:
        """Answers that are under way have `SHUTDOWN_SECONDS` to end. Stopping twice is fine."""
        if self._listener is None:
            return
        listener, self._listener = self._listener, None
        await listener.close()
        for task in tuple(self._idle):
            task.cancel()
        if self._tasks:
            _, late = await asyncio.wait(tuple(self._tasks), timeout=SHUTDOWN_SECONDS)
            for task in late:
                task.cancel()
            if late:
                await asyncio.wait(late)

    def _handler(self) -> StreamHandler:
        reader = asyncio.StreamReader(limit=HEAD_BYTES_MAX)
        return cast("StreamHandler", asyncio.StreamReaderProtocol(reader, self._serve))

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None, "asyncio serves a connection in a task"
        try:
            if self._listener is None or len(self._tasks) >= CONNECTIONS_MAX:
                return
            self._tasks.add(task)
            with suppress(ConnectionError, TimeoutError, asyncio.CancelledError):
                while await self._serve_next(reader, writer, task):
                    pass
                writer.close()
                async with asyncio.timeout(ANSWER_SECONDS_MAX):  # it counts while bytes are left
                    await writer.wait_closed()
                return
            writer.transport.abort()  # the peer reads no more, or has no time left
        finally:
            self._tasks.discard(task)
            writer.close()

    async def _serve_next(
        self,
        reader: asyncio.StreamReader,
        writer: asyncio.StreamWriter,
        task: asyncio.Task[None],
    ) -> bool:
        """Whether another request may follow. Raises ConnectionError, TimeoutError."""
        self._idle.add(task)
        try:
            async with asyncio.timeout(KEEP_ALIVE_SECONDS):
                head = await reader.readuntil(_HEAD_END)
        except asyncio.IncompleteReadError:
            return False
        except asyncio.LimitOverrunError:
            head = None
        finally:
            self._idle.discard(task)
        async with asyncio.timeout(ANSWER_SECONDS_MAX):
            if head is None:
                await Reply(_UNREAD, writer).send(431, f"a head has {HEAD_BYTES_MAX} bytes\n")
                return False
            request = parse_head(head)
            await self._answer(request, writer)
        return request is not None and not request.is_last and self._listener is not None

    async def _answer(self, request: Request | None, writer: asyncio.StreamWriter) -> None:
        if request is None:
            await Reply(_UNREAD, writer).send(400, "this is no HTTP/1 request\n")
            return
        reply = Reply(request, writer)
        responder = self._paths.get(request.path)
        if responder is None:
            paths = " ".join(self._paths)
            await reply.send(404, f"there is nothing here; there are {paths}\n")
        elif request.method not in {"GET", "HEAD"}:
            await reply.send(405, "only GET and HEAD\n", "Allow: GET, HEAD")
        else:
            await responder(reply)


_UNREAD: Final = Request("GET", "", is_last=True, is_chunked=False)
"""Stands for a request that could not be understood."""


def parse_head(head: bytes) -> Request | None:
    """What a head asks for; None when it is not one of HTTP/1."""
    line, *lines = head.decode("latin-1").removesuffix("\r\n\r\n").split("\r\n")
    method, _, rest = line.partition(" ")
    target, _, version = rest.partition(" ")
    if not method.isalpha() or not target or version not in {"HTTP/1.0", "HTTP/1.1"}:
        return None
    fields: dict[str, str] = {}
    for text in lines:
        name, colon, value = text.partition(":")
        if not colon or not name or name != name.strip():
            return None
        fields[name.lower()] = value.strip().lower()
    has_body = "transfer-encoding" in fields or fields.get("content-length", "0") != "0"
    is_modern = version == "HTTP/1.1"
    asks_close = "close" in fields.get("connection", "")
    is_last = has_body or asks_close or not is_modern
    return Request(method, _path_of(target), is_last, is_modern)


def _path_of(target: str) -> str:
    path = target.partition("?")[0]
    if not path.startswith("/"):  # RFC 9112 section 3.2.2: the absolute form
        path = "/" + path.partition("://")[2].partition("/")[2]
    return path
