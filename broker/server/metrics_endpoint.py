"""GET /metrics, /healthz and /readyz of one broker, over HTTP. The only place that knows aiohttp.

| path     | 200                         | 503                                             |
|----------|-----------------------------|-------------------------------------------------|
| /healthz | the event loop runs         | never: no answer means that it does not         |
| /readyz  | clients are served          | the reasons why not, one a line                 |
| /metrics | the text format, in pieces  | `SCRAPES_MAX` scrapes are under way             |

A scrape lets the loop go on after every `STEP_MS` of work, whatever the number of partitions.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import TYPE_CHECKING, Final

import structlog
from aiohttp import web

from broker.runtime.exposition import CONTENT_TYPE, head_lines, sample_line, stored_lines
from broker.runtime.port_holder import describe_holder
from broker.server.computed_metrics import COMPUTED, software_version
from broker.server.groups.shard import ShardState
from broker.server.lag import LagReader
from broker.server.startup import StartupError

if TYPE_CHECKING:
    from broker.server.node import Broker

SCRAPES_MAX: Final = 4
SCRAPE_MS_MAX: Final = 60_000
STEP_MS: Final = 1.0
PIECE_BYTES: Final = 64 << 10
SHUTDOWN_SECONDS: Final = 1.0
KEEP_ALIVE_SECONDS: Final = 30.0
BACKLOG: Final = 1
"""asyncio takes so many connections at once, and without descriptors tries each of them again and
again: one is one attempt a second.
"""

_log = structlog.get_logger("hermes.metrics")


class MetricsEndpoint:
    """`await start()` before the broker starts, so that /readyz can say what is missing."""

    def __init__(self, broker: Broker) -> None:
        self._broker = broker
        self._lag = LagReader(broker)
        self._runner: web.AppRunner | None = None
        self._scrape_count = 0
        self.port = 0

    async def start(self) -> None:
        """Listen, unless hermes.metrics.port is -1. Raises StartupError when the port is taken."""
        settings = self._broker.settings
        if settings.hermes_metrics_port < 0:
            return
        software_version()
        app = web.Application(client_max_size=1024)
        app.router.add_get("/metrics", self._metrics)
        app.router.add_get("/healthz", self._healthz)
        app.router.add_get("/readyz", self._readyz)
        self._runner = web.AppRunner(
            app,
            access_log=None,
            keepalive_timeout=KEEP_ALIVE_SECONDS,
            shutdown_timeout=SHUTDOWN_SECONDS,
            handle_signals=False,
        )
        await self._runner.setup()
        host, port = settings.hermes_metrics_host, settings.hermes_metrics_port
        try:
            await web.TCPSite(self._runner, host, port, backlog=BACKLOG).start()
        except OSError as error:
            await self.stop()
            holder = describe_holder(port)
            reason = f"{holder} listens there" if holder else error.strerror or str(error)
            raise StartupError(
                f"cannot serve metrics on {host}:{port}: {reason}; stop it or choose another port "
                "with --metrics-port"
            ) from error
        self.port = int(self._runner.addresses[0][1])
        _log.info("metrics", address=f"http://{host}:{self.port}/metrics")

    async def stop(self) -> None:
        """Stopping twice, or before `start`, is fine."""
        if self._runner is not None:
            await self._runner.cleanup()
            self._runner = None

    async def _healthz(self, request: web.Request) -> web.Response:
        return web.Response(text="ok\n")

    async def _readyz(self, request: web.Request) -> web.Response:
        reasons = not_ready_reasons(self._broker)
        if reasons:
            return web.Response(status=503, text="".join(f"{reason}\n" for reason in reasons))
        return web.Response(text="ready\n")

    async def _metrics(self, request: web.Request) -> web.StreamResponse:
        if self._scrape_count >= SCRAPES_MAX:
            return web.Response(status=503, text=f"{SCRAPES_MAX} scrapes are under way\n")
        self._scrape_count += 1
        try:
            async with asyncio.timeout(SCRAPE_MS_MAX / 1000):
                return await self._scrape(request)
        finally:
            self._scrape_count -= 1

    async def _scrape(self, request: web.Request) -> web.StreamResponse:
        response = web.StreamResponse(headers={"Content-Type": CONTENT_TYPE})
        await response.prepare(request)
        piece: list[str] = []
        size = 0
        async for text in scrape(self._broker, self._lag):
            piece.append(text)
            size += len(text)
            if size >= PIECE_BYTES:
                await response.write("".join(piece).encode())
                piece.clear()
                size = 0
        await response.write("".join(piece).encode())
        await response.write_eof()
        return response


async def scrape(broker: Broker, lag: LagReader) -> AsyncIterator[str]:
    """Every metric as text, a sample or a child at a time; the loop goes on after `STEP_MS`."""
    clock = broker.clock
    step_end_ms = clock.monotonic_ms() + STEP_MS
    async for text in _texts(broker, lag):
        yield text
        if clock.monotonic_ms() >= step_end_ms:
            await asyncio.sleep(0)
            step_end_ms = clock.monotonic_ms() + STEP_MS


def not_ready_reasons(broker: Broker) -> list[str]:
    """Why clients are not served yet; nothing when they are."""
    reasons = []
    if not broker.is_ready:
        reasons.append("the broker is starting or stopping")
    loading = sum(shard.state is ShardState.LOADING for shard in broker.groups.shards())
    if loading:
        reasons.append(f"{loading} partitions of the offsets topic are being loaded")
    return reasons


async def _texts(broker: Broker, lag: LagReader) -> AsyncIterator[str]:
    for metric in broker.metrics.all():
        spec = metric.spec
        yield head_lines(spec)
        if not spec.is_computed:
            for text in stored_lines(metric):
                yield text
            continue
        async for texts, value in COMPUTED[spec.name](broker, lag):
            yield sample_line(spec.name, zip(spec.labels, texts, strict=True), value)
