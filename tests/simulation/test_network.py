"""The simulated network keeps TCP's promises, and no more."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from random import Random
from typing import Any

import pytest

from broker.simulator.loop import SimulatedLoop
from broker.simulator.network import Fabric, SimulatedNetwork


class Peer:
    """A stream handler that remembers what happened to it."""

    def __init__(self, room: int = 1_000) -> None:
        self.buffer = bytearray(room)
        self.received = bytearray()
        self.events: list[str] = []
        self.transport: Any = None

    def connection_made(self, transport: Any) -> None:
        self.transport = transport

    def get_buffer(self, sizehint: int) -> memoryview:
        return memoryview(self.buffer)

    def buffer_updated(self, nbytes: int) -> None:
        self.received += self.buffer[:nbytes]

    def eof_received(self) -> bool:
        self.events.append("eof")
        return False

    def connection_lost(self, exc: Exception | None) -> None:
        self.events.append(f"lost {type(exc).__name__ if exc else 'cleanly'}")

    def pause_writing(self) -> None:
        self.events.append("pause")

    def resume_writing(self) -> None:
        self.events.append("resume")


class Pair:
    """A client and a server process with one connection."""

    def __init__(self, loop: SimulatedLoop, seed: int) -> None:
        self.loop = loop
        self.fabric = Fabric(loop, Random(seed))
        self.client, self.server = loop.add_process("client"), loop.add_process("server")
        self.near, self.far = Peer(), Peer()

    async def open(self) -> Pair:
        network = SimulatedNetwork(self.fabric, self.server)
        await self.inside(self.server, network.listen("h", 9092, lambda: self.far))
        await self.connect()
        await asyncio.sleep(0.1)
        return self

    async def connect(self, timeout_ms: int = 1_000) -> None:
        network = SimulatedNetwork(self.fabric, self.client)
        await self.inside(
            self.client, network.connect("h", 9092, lambda: self.near, timeout_ms=timeout_ms)
        )

    async def inside(self, process: Any, work: Awaitable[Any]) -> Any:
        async def run() -> Any:
            return await work

        return await self.loop.spawn(process, run())


def scenario(test: Callable[[Pair], Awaitable[None]], seed: int = 3) -> None:
    loop = SimulatedLoop(Random(seed))

    async def main() -> None:
        await test(await Pair(loop, seed).open())

    loop.run_until_complete(main())
    loop.end()


@pytest.mark.parametrize("seed", range(10))
def test_bytes_arrive_once_and_in_order_whatever_the_chunks(seed: int) -> None:
    content = Random(seed).randbytes(700_000)

    async def test(pair: Pair) -> None:
        for first in range(0, len(content), 50_000):
            pair.near.transport.writelines([content[first : first + 50_000]])
        await asyncio.sleep(10)
        assert bytes(pair.far.received) == content
        assert pair.near.events == ["pause", "resume"]

    scenario(test, seed)


def test_writer_buffer_may_be_reused_at_once() -> None:
    async def test(pair: Pair) -> None:
        buffer = bytearray(b"first")
        pair.near.transport.write(memoryview(buffer))
        buffer[:] = b"other"
        await asyncio.sleep(1)
        assert bytes(pair.far.received) == b"first"

    scenario(test)


def test_reader_that_pauses_stops_the_writer() -> None:
    async def test(pair: Pair) -> None:
        pair.far.transport.pause_reading()
        pair.near.transport.write(bytes(1_000_000))
        await asyncio.sleep(5)
        assert pair.near.events == ["pause"]
        assert pair.near.transport.get_write_buffer_size() > 500_000
        pair.far.transport.resume_reading()
        await asyncio.sleep(5)
        assert len(pair.far.received) == 1_000_000
        assert pair.near.events == ["pause", "resume"]

    scenario(test)


def test_close_sends_everything_first() -> None:
    async def test(pair: Pair) -> None:
        pair.near.transport.write(bytes(600_000))
        pair.near.transport.close()
        await asyncio.sleep(5)
        assert len(pair.far.received) == 600_000
        assert pair.far.events == ["eof", "lost cleanly"]
        assert pair.near.events[-1] == "lost cleanly"
        assert pair.fabric.connections == []

    scenario(test)


def test_abort_resets_the_peer() -> None:
    async def test(pair: Pair) -> None:
        pair.near.transport.abort()
        await asyncio.sleep(1)
        assert pair.near.events == ["lost cleanly"]
        assert pair.far.events == ["lost ConnectionResetError"]

    scenario(test)


@pytest.mark.parametrize("seed", range(8))
def test_killed_process_is_noticed_by_its_peer_in_the_end(seed: int) -> None:
    async def test(pair: Pair) -> None:
        pair.loop.kill(pair.server)
        await asyncio.sleep(30)
        assert pair.near.events[-1] in {"lost cleanly", "lost ConnectionResetError"}
        assert pair.far.events == []
        with pytest.raises(ConnectionRefusedError):
            await pair.connect()

    scenario(test, seed)


def test_cut_direction_holds_bytes_until_it_heals() -> None:
    async def test(pair: Pair) -> None:
        pair.fabric.set_cut("client", "server", is_cut=True)
        pair.near.transport.write(b"to the server")
        pair.far.transport.write(b"to the client")
        await asyncio.sleep(60)
        assert bytes(pair.far.received) == b""
        assert bytes(pair.near.received) == b"to the client"
        with pytest.raises(TimeoutError):
            await pair.connect()
        pair.fabric.heal()
        await asyncio.sleep(1)
        assert bytes(pair.far.received) == b"to the server"

    scenario(test)


def test_refusing_link_refuses_and_taken_port_is_an_error() -> None:
    async def test(pair: Pair) -> None:
        pair.fabric.link("client", "server").refuses = True
        with pytest.raises(ConnectionRefusedError):
            await pair.connect()
        network = SimulatedNetwork(pair.fabric, pair.server)
        with pytest.raises(OSError, match="in use"):
            await pair.inside(pair.server, network.listen("h", 9092, Peer))

    scenario(test)


def test_reset_connection_is_lost_at_both_ends() -> None:
    async def test(pair: Pair) -> None:
        assert pair.fabric.reset_some(1.0) == 1
        await asyncio.sleep(1)
        assert pair.near.events == pair.far.events == ["lost ConnectionResetError"]

    scenario(test)
