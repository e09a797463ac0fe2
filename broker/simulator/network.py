"""The simulated network: byte streams between processes, with everything that TCP lets happen.

`Fabric` is the network itself: who listens, which links are slow, cut (one way) or refuse, and
every live connection. `SimulatedNetwork` is one process's port to it. A stream keeps order and
bytes; it chooses its chunks at random, holds them while its link is cut, stops at a full window,
and ends in a FIN, a reset, or silence. A killed process sends nothing by itself: its peers see what
its operating system would send.
"""

from __future__ import annotations

import asyncio
import errno
import zlib
from collections.abc import Callable
from dataclasses import dataclass
from random import Random

from broker.ports import StreamHandler, Transport
from broker.simulator.loop import Process, SimulatedLoop, current_process
from broker.simulator.stream import Connection, SimulatedTransport


@dataclass(slots=True)
class Link:
    """One direction between two process names. `delay_*` in seconds."""

    delay_s_min: float = 0.0002
    delay_s_max: float = 0.002
    is_cut: bool = False
    refuses: bool = False


class Fabric:
    """The network of one world."""

    def __init__(self, loop: SimulatedLoop, random: Random) -> None:
        self.loop = loop
        self.random = random
        self.connections: list[Connection] = []
        self.bytes_delivered = 0
        self.reset_count = 0
        self._listeners: dict[int, SimulatedListener] = {}
        self._links: dict[tuple[str, str], Link] = {}
        self._next_client_port = 40_000
        self._waiting_for_link: dict[tuple[str, str], list[Callable[[], object]]] = {}

    def link(self, source: str, target: str) -> Link:
        """The direction from `source` to `target`; change it through `set_cut` or its fields."""
        return self._links.setdefault((source, target), Link())

    def delay_s(self, source: str, target: str) -> float:
        link = self.link(source, target)
        return link.delay_s_min + self.random.random() * (link.delay_s_max - link.delay_s_min)

    def when_open(self, source: str, target: str, action: Callable[[], object]) -> None:
        """Run `action` now, or when the cut of this direction ends."""
        if self.link(source, target).is_cut:
            self._waiting_for_link.setdefault((source, target), []).append(action)
        else:
            action()

    def set_cut(self, source: str, target: str, *, is_cut: bool) -> None:
        """While cut, nothing arrives in this direction; what was sent arrives afterwards, in
        order.
        """
        self.link(source, target).is_cut = is_cut
        if not is_cut:
            for action in self._waiting_for_link.pop((source, target), []):
                action()

    def heal(self) -> None:
        """Every link open and fast."""
        for (source, target), link in sorted(self._links.items()):
            link.refuses = False
            link.delay_s_min, link.delay_s_max = Link().delay_s_min, Link().delay_s_max
            self.set_cut(source, target, is_cut=False)

    def reset_some(self, fraction: float) -> int:
        """Reset that share of the connections, both ends. Returns how many."""
        chosen = [each for each in self.connections if self.random.random() < fraction]
        for connection in chosen:
            connection.reset()
        self.reset_count += len(chosen)
        return len(chosen)

    def listener(self, port: int) -> SimulatedListener | None:
        found = self._listeners.get(port)
        if found is not None and not found.process.is_alive:
            del self._listeners[port]
            return None
        return found

    def add_listener(self, listener: SimulatedListener) -> None:
        self._listeners[listener.port] = listener

    def remove_listener(self, listener: SimulatedListener) -> None:
        if self._listeners.get(listener.port) is listener:
            del self._listeners[listener.port]

    def free_port(self) -> int:
        self._next_client_port += 1
        return self._next_client_port

    def delivered(self, process: Process, chunk: bytes) -> None:
        self.bytes_delivered += len(chunk)
        self.loop.mix(process.number << 32 ^ zlib.crc32(chunk))

    def open_connection(
        self, client: Process, listener: SimulatedListener, handler: Callable[[], StreamHandler]
    ) -> tuple[SimulatedTransport, StreamHandler]:
        """The handshake is done: both ends exist; the server's handler hears of it first."""
        ports = (self.free_port(), listener.port)
        connection = Connection(self, client, listener.process, ports)
        self.connections.append(connection)
        server_end, client_end = connection.server_end, connection.client_end
        self.loop.call_in(listener.process, 0, listener.accept, server_end)
        client_handler = handler()
        client_end.attach(client_handler)
        return client_end, client_handler


class SimulatedListener:
    """Implements `ports.Listener`."""

    def __init__(
        self, fabric: Fabric, process: Process, port: int, handler: Callable[[], StreamHandler]
    ) -> None:
        self.process = process
        self._fabric = fabric
        self._port = port
        self._handler = handler

    @property
    def port(self) -> int:
        return self._port

    def accept(self, transport: SimulatedTransport) -> None:
        if self._fabric.listener(self._port) is self:
            transport.attach(self._handler())
        else:
            transport.abort()  # it was in the backlog when the listener closed

    async def close(self) -> None:
        self._fabric.remove_listener(self)


class SimulatedNetwork:
    """Implements `ports.Network` for one process. Host names are ignored: a port number is an
    address.
    """

    def __init__(self, fabric: Fabric, process: Process) -> None:
        self._fabric = fabric
        self._process = process

    async def listen(
        self, host: str, port: int, handler: Callable[[], StreamHandler]
    ) -> SimulatedListener:
        chosen = port or self._fabric.free_port()
        if self._fabric.listener(chosen) is not None:
            raise OSError(errno.EADDRINUSE, f"port {chosen} on {host} is in use")
        listener = SimulatedListener(self._fabric, self._process, chosen, handler)
        self._fabric.add_listener(listener)
        return listener

    async def connect(
        self, host: str, port: int, handler: Callable[[], StreamHandler], *, timeout_ms: int
    ) -> tuple[Transport, StreamHandler]:
        async with asyncio.timeout(timeout_ms / 1000):
            return await self._connect(port, handler)

    async def _connect(
        self, port: int, handler: Callable[[], StreamHandler]
    ) -> tuple[Transport, StreamHandler]:
        fabric, here = self._fabric, self._process
        assert current_process() is here, "a port is used by its own process only"
        found = fabric.listener(port)
        there = found.process.name if found is not None else "nowhere"
        await self._pass(here.name, there)
        listener = fabric.listener(port)
        await self._pass(there, here.name)
        if listener is None or fabric.link(here.name, there).refuses:
            raise ConnectionRefusedError(errno.ECONNREFUSED, f"nobody listens on port {port}")
        if fabric.listener(port) is not listener:
            raise ConnectionResetError(errno.ECONNRESET, f"the listener on port {port} went away")
        return fabric.open_connection(here, listener, handler)

    async def _pass(self, source: str, target: str) -> None:
        """One packet of the handshake."""
        await asyncio.sleep(self._fabric.delay_s(source, target))
        while self._fabric.link(source, target).is_cut:
            opened = asyncio.Event()
            self._fabric.when_open(source, target, opened.set)
            await opened.wait()
