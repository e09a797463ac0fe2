"""A TCP proxy that breaks connections after so many bytes, before what it passed on is answered."""

from __future__ import annotations

import asyncio
import contextlib
from typing import Any

from broker.client.cluster import Cluster, Node


class FlakyProxy:
    """Listens on `port`; every connection to the broker dies after about `break_after_bytes`."""

    def __init__(self, target_port: int, *, break_after_bytes: int) -> None:
        self.broken_count = 0
        self.port = 0
        self._target_port = target_port
        self._budget = break_after_bytes
        self._server: asyncio.Server | None = None

    async def __aenter__(self) -> FlakyProxy:
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", 0)
        self.port = self._server.sockets[0].getsockname()[1]
        return self

    async def __aexit__(self, *_exception: object) -> None:
        assert self._server is not None
        self._server.close()

    def redirect(self, cluster: Cluster) -> None:
        """Make the cluster's metadata lead through the proxy, now and later."""
        keep = cluster._keep

        def keep_and_redirect(answer: Any, *, is_complete: bool) -> None:
            keep(answer, is_complete=is_complete)
            cluster.nodes = {
                node_id: Node(node_id, "127.0.0.1", self.port) for node_id in cluster.nodes
            }

        cluster._keep = keep_and_redirect  # type: ignore[method-assign]
        cluster.nodes = {
            node_id: Node(node_id, "127.0.0.1", self.port) for node_id in cluster.nodes
        }

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(ConnectionError, OSError):
            up_reader, up_writer = await asyncio.open_connection("127.0.0.1", self._target_port)
            answers = asyncio.ensure_future(self._pass(up_reader, writer, None))
            await self._pass(reader, up_writer, self._budget)
            writer.transport.abort()  # before what was passed on last is answered
            self.broken_count += 1
            await asyncio.sleep(0.01)
            answers.cancel()
            up_writer.close()

    async def _pass(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, budget: int | None
    ) -> None:
        with contextlib.suppress(ConnectionError, asyncio.CancelledError):
            while budget is None or budget > 0:
                data = await reader.read(4096)
                if not data:
                    return
                if budget is not None:
                    budget -= len(data)
                writer.write(data)
                await writer.drain()
