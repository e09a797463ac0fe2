"""GET /metrics, /healthz and /readyz of one broker, over HTTP.

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

from broker.runtime.exposition import CONTENT_TYPE, head_lines, sample_line, stored_lines
from broker.runtime.port_holder import describe_holder
from broker.runtime.text_http import Reply, TextHttpServer
from broker.server.computed_metrics import COMPUTED
from broker.server.groups.shard import ShardState
from broker.server.lag import LagReader
from broker.server.startup import StartupError

if TYPE_CHECKING:
    from broker.server.node import Broker

SCRAPES_MAX: Final = 4
STEP_MS: Final = 1.0
PIECE_BYTES: Final = 64 << 10

_log = structlog.get_logger("hermes.metrics")


class MetricsEndpoint:
    """`await start()` before the broker starts, so that /readyz can say what is missing."""

    def __init__(self, broker: Broker) -> None:
        self._broker = broker
        self._lag = LagReader(broker)
        self._server = TextHttpServer(
            {"/metrics": self._metrics, "/healthz": self._healthz, "/readyz": self._readyz},
            make_room=broker.partitions.close_idle_files,
        )
        self._scrape_count = 0
        self.port = 0

    async def start(self) -> None:
        """Listen, unless hermes.metrics.port is -1. Raises StartupError when the port is taken."""
        settings = self._broker.settings
        if settings.hermes_metrics_port < 0:
            return
        host, port = settings.hermes_metrics_host, settings.hermes_metrics_port
        try:
            self.port = await self._server.start(host, port)
        except OSError as error:
            holder = describe_holder(port)
            reason = f"{holder} listens there" if holder else error.strerror or str(error)
            raise StartupError(
                f"cannot serve metrics on {host}:{port}: {reason}; stop it or choose another port "
                "with --metrics-port"
            ) from error
        _log.info("metrics", address=f"http://{host}:{self.port}/metrics")

    async def stop(self) -> None:
        """Stopping twice, or before `start`, is fine."""
        await self._server.stop()

    async def _healthz(self, reply: Reply) -> None:
        await reply.send(200, "ok\n")

    async def _readyz(self, reply: Reply) -> None:
        reasons = not_ready_reasons(self._broker)
        if reasons:
            await reply.send(503, "".join(f"{reason}\n" for reason in reasons))
        else:
            await reply.send(200, "ready\n")

    async def _metrics(self, reply: Reply) -> None:
        if self._scrape_count >= SCRAPES_MAX:
            await reply.send(503, f"{SCRAPES_MAX} scrapes are under way\n")
            return
        self._scrape_count += 1
        try:
            await self._scrape(reply)
        finally:
            self._scrape_count -= 1

    async def _scrape(self, reply: Reply) -> None:
        reply.begin(CONTENT_TYPE)
        piece: list[str] = []
        size = 0
        async for text in scrape(self._broker, self._lag):
            piece.append(text)
            size += len(text)
            if size >= PIECE_BYTES:
                await reply.write("".join(piece))
                piece.clear()
                size = 0
        await reply.write("".join(piece))
        await reply.end()


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
