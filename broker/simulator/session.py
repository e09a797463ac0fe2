"""What every simulated client has: a connection that comes back, and requests in any version.

On top of the real client's `Connection`; retries and what an error means are the caller's
business, because the history must say exactly what was asked and what was told.
"""

from __future__ import annotations

import asyncio
from typing import Any, Final

from broker.client.connection import Connection, connect
from broker.client.failure import ClientError
from broker.simulator.world import BROKER_PORT, Node
from broker.wire.api import APIS

FRAME_BYTES_MAX: Final = 100 << 20
CONNECT_TIMEOUT_MS: Final = 3_000
REQUEST_TIMEOUT_MS: Final = 6_000
BACKOFF_S_MAX: Final = 0.4

_API_OF: Final = {api.request_type: api for api in APIS.values()}


class Session:
    """One node's conversation with the broker. Requests asked at once are pipelined in order."""

    def __init__(self, node: Node) -> None:
        self.node = node
        self._connection: Connection | None = None
        self._connecting = asyncio.Lock()

    async def ask(self, request: Any, version: int, *, timeout_ms: int = REQUEST_TIMEOUT_MS) -> Any:
        """The answer. Raises ClientError: then nobody knows whether it was carried out."""
        connection = await self.open()
        key = _API_OF[type(request)].key
        return await connection.request(
            key, version, self.node.name, request, timeout_ms=timeout_ms
        )

    async def tell(self, request: Any, version: int) -> None:
        """Send what gets no answer. Raises ClientError."""
        connection = await self.open()
        await connection.send(_API_OF[type(request)].key, version, self.node.name, request)

    async def ask_any_version(self, request: Any) -> Any:
        """As `ask`, in a version that the broker advertises, drawn anew each time."""
        api = _API_OF[type(request)]
        return await self.ask(
            request, self.node.random.randint(max(api.min_version, api.codec_from), api.max_version)
        )

    async def open(self) -> Connection:
        """The connection, made when there is none. Raises ClientError."""
        async with self._connecting:
            if self._connection is None or not self._connection.is_open:
                self._connection = await connect(
                    self.node.network,
                    "127.0.0.1",
                    BROKER_PORT,
                    timeout_ms=CONNECT_TIMEOUT_MS,
                    frame_bytes_max=FRAME_BYTES_MAX,
                )
            return self._connection

    def close(self) -> None:
        if self._connection is not None:
            self._connection.close()

    async def back_off(self) -> None:
        await asyncio.sleep(0.02 + self.node.random.random() * BACKOFF_S_MAX)


__all__ = ["ClientError", "Session"]
