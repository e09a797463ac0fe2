"""The real network: echo, errors that name their cause, a listener that outlives descriptors."""

from __future__ import annotations

import asyncio
import os
import resource
import socket
from typing import Any

import pytest

from broker.runtime.network import SystemNetwork


class Echo(asyncio.BufferedProtocol):
    def __init__(self) -> None:
        self.buffer = bytearray(1024)
        self.received = bytearray()
        self.lost = asyncio.Event()
        self.heard = asyncio.Event()
        self.is_server = False

    def connection_made(self, transport: Any) -> None:
        self.transport = transport

    def get_buffer(self, sizehint: int) -> bytearray:
        return self.buffer

    def buffer_updated(self, nbytes: int) -> None:
        self.received += self.buffer[:nbytes]
        self.heard.set()
        if self.is_server:
            self.transport.writelines([b"<", self.buffer[:nbytes], b">"])

    def connection_lost(self, exc: Exception | None) -> None:
        self.lost.set()


def server_side() -> Echo:
    echo = Echo()
    echo.is_server = True
    return echo


async def test_bytes_go_both_ways_without_delay() -> None:
    network = SystemNetwork()
    listener = await network.listen("127.0.0.1", 0, server_side)
    transport, handler = await network.connect("127.0.0.1", listener.port, Echo, timeout_ms=5_000)
    assert isinstance(handler, Echo)
    found = transport.get_extra_info("socket").getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY)
    assert found != 0
    transport.write(b"hello")
    async with asyncio.timeout(5):
        while bytes(handler.received) != b"<hello>":
            handler.heard.clear()
            await handler.heard.wait()
    transport.close()
    await handler.lost.wait()
    await listener.close()


async def test_connections_outlive_their_listener() -> None:
    network = SystemNetwork()
    listener = await network.listen("127.0.0.1", 0, server_side)
    transport, handler = await network.connect("127.0.0.1", listener.port, Echo, timeout_ms=5_000)
    await asyncio.sleep(0.01)
    await listener.close()
    await listener.close()
    with pytest.raises(OSError):
        await network.connect("127.0.0.1", listener.port, Echo, timeout_ms=5_000)
    transport.write(b"x")
    assert isinstance(handler, Echo)
    async with asyncio.timeout(5):
        await handler.heard.wait()
    transport.abort()
    await handler.lost.wait()


async def test_taken_port_names_its_holder() -> None:
    network = SystemNetwork()
    with socket.create_server(("127.0.0.1", 0)) as holder:
        port = holder.getsockname()[1]
        with pytest.raises(OSError, match=rf"port {port} .*in use by process {os.getpid()} \("):
            await network.listen("127.0.0.1", port, server_side)


async def test_unknown_host_gives_one_sentence() -> None:
    with pytest.raises(OSError, match="host name is not known"):
        await SystemNetwork().listen("no-such-host.invalid", 0, server_side)


async def test_connect_gives_up_in_time() -> None:
    with socket.socket() as full:
        full.bind(("127.0.0.1", 0))
        full.listen(0)
        fillers = [socket.socket() for _ in range(4)]
        for filler in fillers:
            filler.setblocking(False)
            filler.connect_ex(full.getsockname())
        with pytest.raises(TimeoutError):
            await SystemNetwork().connect("127.0.0.1", full.getsockname()[1], Echo, timeout_ms=100)
        for filler in fillers:
            filler.close()


async def test_listener_at_the_descriptor_limit_sheds_without_spinning_and_recovers() -> None:
    network = SystemNetwork()
    accepted: list[Echo] = []

    def remember() -> Echo:
        accepted.append(server_side())
        return accepted[-1]

    listener = await network.listen("127.0.0.1", 0, remember)
    clients = [socket.socket() for _ in range(50)]
    limits = resource.getrlimit(resource.RLIMIT_NOFILE)
    hogs: list[int] = []
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(c.fileno() for c in clients) + 20, limits[1]))
    try:
        hogs += _every_descriptor()
        before = os.times()
        for client in clients:
            client.setblocking(False)
            client.connect_ex(("127.0.0.1", listener.port))
        await asyncio.sleep(0.5)
        after = os.times()
        assert after.user + after.system - before.user - before.system < 0.25
        assert accepted == []
        assert clients[-1].recv(1) == b""  # turned away, not left in silence
    finally:
        for hog in hogs:
            os.close(hog)
        resource.setrlimit(resource.RLIMIT_NOFILE, limits)
        for client in clients:
            client.close()
    transport, _handler = await network.connect("127.0.0.1", listener.port, Echo, timeout_ms=5_000)
    async with asyncio.timeout(10):
        while not accepted:  # accepting may rest for a moment
            await asyncio.sleep(0.01)
    transport.abort()
    await listener.close()
    await asyncio.sleep(0.01)


async def test_a_listener_that_can_make_room_takes_whoever_comes_as_soon_as_there_is_some() -> None:
    hogs: list[int] = []
    welcomed: list[Echo] = []

    def make_room() -> None:
        if len(hogs) > 1:  # one stays: the second client has to wait
            os.close(hogs.pop())

    def remember() -> Echo:
        welcomed.append(server_side())
        return welcomed[-1]

    listener = await SystemNetwork().listen("127.0.0.1", 0, remember, make_room)
    clients = [socket.socket() for _ in range(2)]
    limits = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(c.fileno() for c in clients) + 20, limits[1]))
    try:
        everything = _every_descriptor()
        hogs += everything[-2:]
        for client in clients:
            client.connect(("127.0.0.1", listener.port))
        await asyncio.sleep(0.2)
        assert len(welcomed) == 1
        os.close(hogs.pop())
        async with asyncio.timeout(10):
            while len(welcomed) < 2:
                await asyncio.sleep(0.01)
        for client in clients:
            client.setblocking(False)
            with pytest.raises(BlockingIOError):
                client.recv(1)  # it may stay
    finally:
        for hog in {*hogs, *everything[:-2]}:
            os.close(hog)
        resource.setrlimit(resource.RLIMIT_NOFILE, limits)
        for client in clients:
            client.close()
    await listener.close()
    await asyncio.sleep(0.01)


def _every_descriptor() -> list[int]:
    """Open what is left to open."""
    hogs: list[int] = []
    try:
        while True:
            hogs.append(os.open(os.devnull, os.O_RDONLY))
    except OSError:
        return hogs
