"""The HTTP server below the API: aiohttp's protocol with limits on what a client may keep waiting.

Not here: routes, JSON. aiohttp parses requests; ours are the number of connections, the time for a
request's head, the time for reading an answer, and problems instead of texts for what is no HTTP.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from http import HTTPStatus
from typing import Any, Final, cast

import structlog
from aiohttp import web
from aiohttp.http_exceptions import LineTooLong
from aiohttp.web_protocol import RequestHandler

from broker.gateway.problem import CONTENT_TYPE, Problem
from broker.metrics import GatewayMetrics

HEADERS_MAX: Final = 128
LINE_BYTES_MAX: Final = 8_190
KEEP_ALIVE_S: Final = 75.0
LINGER_S: Final = 2.0
SWEEP_S: Final = 0.5
SERVER_NAME: Final = "HermesMQ"
_STATUS_LINES: Final = {status.value: f"{status.value} {status.phrase}" for status in HTTPStatus}

Handler = Callable[[web.BaseRequest], Awaitable[Any]]

_log = structlog.get_logger("hermes.gateway")


class Answer:
    """A whole answer, written in one piece: the head that every answer needs, and nothing looked
    up. aiohttp's protocol asks of a response what is public here; its own costs three times as
    much.
    """

    __slots__ = ("_body", "_head", "_must_close", "keep_alive", "status")

    def __init__(self, status: int, head: str, body: bytes) -> None:
        self.status = status
        self.keep_alive = True
        self._head = head
        self._body = body
        self._must_close = False

    def force_close(self) -> None:
        """The connection ends with this answer."""
        self._must_close = True

    async def prepare(self, request: web.BaseRequest) -> None:
        """Write it. Raises ConnectionError when the client has left."""
        protocol = request.protocol
        self.keep_alive = (
            not self._must_close and bool(request.keep_alive) and not protocol._force_close  # noqa: SLF001
        )
        connection = "" if self.keep_alive else "Connection: close\r\n"
        text = (
            f"HTTP/1.1 {_STATUS_LINES[self.status]}\r\n{self._head}"
            f"Content-Length: {len(self._body)}\r\n{connection}Server: {SERVER_NAME}\r\n\r\n"
        )
        body = b"" if request.method == "HEAD" else self._body
        transport = protocol.transport
        if transport is None or transport.is_closing():
            raise ConnectionResetError("the client left")
        transport.write(text.encode("latin-1") + body)
        if protocol.writing_paused:
            await protocol._drain_helper()  # noqa: SLF001 - as aiohttp's own writer does

    async def write_eof(self) -> None:
        """It is written already."""


class GatewayProtocol(RequestHandler):
    """One client's connection."""

    def __init__(self, server: GatewayServer, **options: Any) -> None:
        super().__init__(server, **options)
        self._gateway = server
        self.waiting_since: float | None = None
        """Since when a head is missing or incomplete, or an answer is not read."""
        self.waits_for = ""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        if len(self._gateway.protocols) >= self._gateway.connections_max:
            self._gateway.refuse(cast("asyncio.Transport", transport))
            self._force_close = True
            return
        self._gateway.protocols[self] = None
        self._gateway.metrics.connections.set(len(self._gateway.protocols))
        super().connection_made(transport)
        self.waiting_since, self.waits_for = self._loop.time(), "head"

    def connection_lost(self, exc: BaseException | None) -> None:
        if self in self._gateway.protocols:
            del self._gateway.protocols[self]
            self._gateway.metrics.connections.set(len(self._gateway.protocols))
            super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        super().data_received(data)
        if self._messages or self._request_in_progress:
            if self.waits_for == "head":
                self.waiting_since, self.waits_for = None, ""
        elif self.waiting_since is None and data and not self._force_close:
            self.waiting_since, self.waits_for = self._loop.time(), "head"

    def pause_writing(self) -> None:
        super().pause_writing()
        self.waiting_since, self.waits_for = self._loop.time(), "reader"

    def resume_writing(self) -> None:
        super().resume_writing()
        self.waiting_since, self.waits_for = None, ""

    def handle_error(
        self,
        request: web.BaseRequest,
        status: int = 500,
        exc: BaseException | None = None,
        message: str | None = None,
    ) -> Any:
        """What is no HTTP, as a problem; the connection closes."""
        if status == 400:
            is_long = isinstance(exc, LineTooLong) or "Too many headers" in str(exc)
            code = "HEADERS_TOO_LARGE" if is_long else "INVALID_REQUEST"
            advice = (
                f"a line may have {LINE_BYTES_MAX} bytes, a head {HEADERS_MAX} lines"
                if is_long
                else "what was sent is no valid HTTP/1.1 request"
            )
            problem = Problem(code, advice)
        else:
            _log.error("a request failed", exc_info=exc)
            problem = Problem("INTERNAL_ERROR", "the gateway failed; its log says why")
        self._gateway.metrics.problems_total.add(1, code=problem.kind.code)
        answer = Answer(problem.kind.status, problem_head(problem, "-"), problem.body("-"))
        answer.force_close()
        return answer

    def end_waiting(self) -> None:
        """The client took too long: say so if it can hear it, and close."""
        reason = f"slow {self.waits_for}"
        self._gateway.metrics.connections_refused_total.add(1, reason=reason)
        if self.transport is None:
            return
        if self.waits_for == "head":
            problem = Problem("REQUEST_TIMEOUT", "the request's head did not arrive in time")
            self.transport.write(plain_answer(problem))
            self.force_close()
        else:
            self.transport.abort()


class GatewayServer(web.Server):
    """Makes the protocols; `await sweep()` ends what waits for too long."""

    def __init__(
        self,
        handler: Handler,
        metrics: GatewayMetrics,
        *,
        connections_max: int,
        read_ms: int,
        body_bytes_max: int,
    ) -> None:
        def make_request(*parts: Any) -> web.BaseRequest:
            message, payload, protocol, writer, task = parts
            return web.BaseRequest(
                message, payload, protocol, writer, task, loop, client_max_size=body_bytes_max
            )

        loop = asyncio.get_running_loop()
        super().__init__(handler, request_factory=make_request, handler_cancellation=True)
        self.metrics = metrics
        self.connections_max = connections_max
        self.protocols: dict[GatewayProtocol, None] = {}
        self._read_s = read_ms / 1000

    def __call__(self) -> RequestHandler:
        return GatewayProtocol(
            self,
            loop=asyncio.get_running_loop(),
            keepalive_timeout=KEEP_ALIVE_S,
            lingering_time=LINGER_S,
            max_headers=HEADERS_MAX,
            max_line_size=LINE_BYTES_MAX,
            max_field_size=LINE_BYTES_MAX,
            auto_decompress=False,
            access_log=None,
        )

    def refuse(self, transport: asyncio.Transport) -> None:
        """Answer 503 to a connection that is one too many, and close it."""
        self.metrics.connections_refused_total.add(1, reason="too many")
        detail = f"{self.connections_max} connections are open (connections.max)"
        transport.write(plain_answer(Problem("NOT_READY", detail)))
        transport.close()

    async def sweep(self) -> None:
        """Until cancelled."""
        loop = asyncio.get_running_loop()
        while True:
            await asyncio.sleep(SWEEP_S)
            oldest = loop.time() - self._read_s
            for protocol in list(self.protocols):
                if protocol.waiting_since is not None and protocol.waiting_since < oldest:
                    protocol.end_waiting()


def problem_head(problem: Problem, request_id: str) -> str:
    """The header lines of a problem."""
    lines = [f"Content-Type: {CONTENT_TYPE}\r\n", f"X-Request-Id: {request_id}\r\n"]
    if problem.retry_after_s is not None:
        lines.append(f"Retry-After: {problem.retry_after_s}\r\n")
    lines += [f"{name}: {value}\r\n" for name, value in problem.headers.items()]
    return "".join(lines)


def plain_answer(problem: Problem) -> bytes:
    """A whole answer to who sent no whole request."""
    body = problem.body("-")
    head = f"HTTP/1.1 {problem.kind.status} {problem.kind.title}\r\n{problem_head(problem, '-')}"
    return f"{head}Content-Length: {len(body)}\r\nConnection: close\r\n\r\n".encode() + body
