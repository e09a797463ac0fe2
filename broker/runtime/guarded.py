"""Connections only to addresses that somebody permits: for clients of clusters that strangers name.

A name is resolved once, every address it has is judged, and the connection goes to a judged
address: a name that resolves differently the second time gains nothing. A cluster's own addresses
(its metadata) come through here like any other.
"""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Callable
from typing import Final

from broker.ports import StreamHandler, Transport
from broker.runtime.network import SystemNetwork

Permit = Callable[[str, str, int], None]
"""(name as it was given, IP address, port) -> nothing, or raises OSError that says why not. Must
not block.
"""
ADDRESSES_MAX: Final = 8
"""Of one name; more are not tried."""


class GuardedNetwork(SystemNetwork):
    """`connect` asks `permit` first."""

    def __init__(self, permit: Permit) -> None:
        self._permit = permit

    async def connect(
        self, host: str, port: int, handler: Callable[[], StreamHandler], *, timeout_ms: int
    ) -> tuple[Transport, StreamHandler]:
        """Raises OSError, also when any address of `host` is not permitted."""
        async with asyncio.timeout(timeout_ms / 1000):
            loop = asyncio.get_running_loop()
            found = await loop.getaddrinfo(host, port, type=socket.SOCK_STREAM)
            addresses = list(dict.fromkeys(str(row[4][0]) for row in found))[:ADDRESSES_MAX]
            for address in addresses:
                self._permit(host, address, port)
            failure: OSError | None = None
            for address in addresses:
                try:
                    return await super().connect(address, port, handler, timeout_ms=timeout_ms)
                except OSError as error:
                    failure = error
        raise failure or OSError(f"{host} has no address")
