"""TCP through asyncio: connections, and a listener of our own that stays alive when descriptors run
out.

asyncio's own accept loop retries a whole backlog of accepts when the process is out of
descriptors, and then is deaf for a second. This one asks for room, where its caller has some to
make, and else lets clients wait for it. Where there is none to make, a descriptor is held in
reserve: it is given up to accept and close the connection at once (the client sees a reset instead
of silence), and taken back. Without the reserve, accepting pauses. It never spins.
"""

from __future__ import annotations

import asyncio
import errno
import os
import socket
from collections.abc import Callable
from typing import Any, Final, cast

import structlog

from broker.ports import StreamHandler, Transport
from broker.runtime.port_holder import describe_holder

BACKLOG: Final = 512
"""Connections that the kernel keeps ready for us."""
ACCEPTS_PER_TURN_MAX: Final = 32
"""Then the loop serves the others. So many at most are being welcomed, too: those that will be
turned away do not take every descriptor for a moment.
"""
ACCEPT_PAUSE_S: Final = 0.2
"""How long accepting rests when there is no descriptor at all."""
WARNING_INTERVAL_S: Final = 10.0

_NO_DESCRIPTOR: Final = frozenset({errno.EMFILE, errno.ENFILE})
_PEER_WENT_AWAY: Final = frozenset(
    {
        errno.ECONNABORTED,
        errno.EPROTO,
        errno.EPERM,
        errno.ENETDOWN,
        errno.EHOSTUNREACH,
        errno.ENETUNREACH,
        errno.ETIMEDOUT,
    }
)
_log = structlog.get_logger("hermes.network")


class SystemNetwork:
    """Implements `ports.Network`."""

    async def listen(
        self,
        host: str,
        port: int,
        handler: Callable[[], StreamHandler],
        make_room: Callable[[], None] | None = None,
    ) -> SystemListener:
        """`host` "" is every IPv4 interface. `make_room` gives back descriptors that nobody uses
        now: it is called when a client cannot be accepted without, and if that does not help the
        client waits; without `make_room` it is turned away. Raises OSError with one sentence.
        """
        loop = asyncio.get_running_loop()
        family, address = await _resolve(loop, host or "0.0.0.0", port)  # noqa: S104 - the caller asked for it
        listening = socket.socket(family, socket.SOCK_STREAM)
        try:
            listening.setblocking(False)  # noqa: FBT003 - the name says it
            listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            listening.bind(address)
            listening.listen(BACKLOG)
        except OSError as error:
            listening.close()
            raise OSError(error.errno, _explain_bind(host, port, error)) from error
        return SystemListener(loop, listening, handler, make_room)

    async def connect(
        self, host: str, port: int, handler: Callable[[], StreamHandler], *, timeout_ms: int
    ) -> tuple[Transport, StreamHandler]:
        loop = asyncio.get_running_loop()
        async with asyncio.timeout(timeout_ms / 1000):
            transport, protocol = await loop.create_connection(
                _protocol_factory(handler), host, port
            )
        _set_no_delay(transport)
        return cast("Transport", transport), cast("StreamHandler", protocol)


class SystemListener:
    """Implements `ports.Listener`."""

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        listening: socket.socket,
        handler: Callable[[], StreamHandler],
        make_room: Callable[[], None] | None = None,
    ) -> None:
        self._loop = loop
        self._socket = listening
        self._handler = handler
        self._make_room = make_room
        self._port = int(listening.getsockname()[1])
        self._reserve = _open_reserve() if make_room is None else None
        self._pause: asyncio.TimerHandle | None = None
        self._welcoming: set[asyncio.Task[None]] = set()
        self._warned_at_s = -WARNING_INTERVAL_S
        self._is_closed = False
        loop.add_reader(listening.fileno(), self._accept_ready)

    @property
    def port(self) -> int:
        return self._port

    async def close(self) -> None:
        """Closing twice is fine."""
        if self._is_closed:
            return
        self._is_closed = True
        if self._pause is not None:
            self._pause.cancel()
        self._loop.remove_reader(self._socket.fileno())
        self._socket.close()
        self._give_up_reserve()
        if self._welcoming:
            await asyncio.wait(self._welcoming)

    def _accept_ready(self) -> None:
        for _ in range(ACCEPTS_PER_TURN_MAX - len(self._welcoming)):
            try:
                accepted, _address = self._socket.accept()
            except (BlockingIOError, InterruptedError):
                return
            except OSError as error:
                if error.errno in _PEER_WENT_AWAY:
                    continue
                self._on_accept_error(error)
                return
            self._welcome(accepted)

    def _welcome(self, accepted: socket.socket) -> None:
        accepted.setblocking(False)  # noqa: FBT003 - the name says it
        task = self._loop.create_task(self._start(accepted), name="network/accept")
        self._welcoming.add(task)
        task.add_done_callback(self._welcoming.discard)

    async def _start(self, accepted: socket.socket) -> None:
        try:
            transport, _protocol = await self._loop.connect_accepted_socket(
                _protocol_factory(self._handler), accepted
            )
            if not transport.is_closing():  # the handler may have refused it
                _set_no_delay(transport)
        except Exception as error:  # noqa: BLE001 - one connection's failure must not touch the listener
            accepted.close()
            _log.error("a connection could not be started", port=self._port, exc_info=error)

    def _on_accept_error(self, error: OSError) -> None:
        is_short = error.errno in _NO_DESCRIPTOR
        if is_short and self._make_room is not None and self._accept_with_room(self._make_room):
            return
        self._warn(error)
        if is_short and self._make_room is None and self._reserve is not None:
            self._shed()
            return
        self._loop.remove_reader(self._socket.fileno())
        self._pause = self._loop.call_later(ACCEPT_PAUSE_S, self._resume)

    def _accept_with_room(self, make_room: Callable[[], None]) -> bool:
        """Whether one more could be accepted, or had gone; the loop calls again for the others."""
        make_room()
        try:
            accepted, _address = self._socket.accept()
        except (BlockingIOError, InterruptedError):
            return True
        except OSError:
            return False
        self._welcome(accepted)
        return True

    def _shed(self) -> None:
        """Accept with the reserved descriptor and hang up; the loop calls again while others
        wait.
        """
        self._give_up_reserve()
        try:
            accepted, _address = self._socket.accept()
            accepted.close()
        except OSError:
            return
        finally:
            self._reserve = _open_reserve()

    def _resume(self) -> None:
        self._pause = None
        if self._reserve is None and self._make_room is None:
            self._reserve = _open_reserve()
        self._loop.add_reader(self._socket.fileno(), self._accept_ready)

    def _give_up_reserve(self) -> None:
        if self._reserve is not None:
            os.close(self._reserve)
            self._reserve = None

    def _warn(self, error: OSError) -> None:
        now_s = self._loop.time()
        if now_s - self._warned_at_s < WARNING_INTERVAL_S:
            return
        self._warned_at_s = now_s
        hint = (
            "raise the limit on open files (ulimit -n)"
            if error.errno in _NO_DESCRIPTOR
            else "free some memory"
        )
        _log.error("connections are turned away", port=self._port, reason=error.strerror, hint=hint)


def _open_reserve() -> int | None:
    try:
        return os.open(os.devnull, os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return None


def _protocol_factory(handler: Callable[[], StreamHandler]) -> Callable[[], asyncio.BaseProtocol]:
    """A handler has asyncio's callbacks; asyncio looks for `get_buffer` by its class."""
    return cast("Callable[[], asyncio.BaseProtocol]", handler)


def _set_no_delay(transport: Any) -> None:
    connected = transport.get_extra_info("socket")
    if connected is not None and connected.family in (socket.AF_INET, socket.AF_INET6):
        connected.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)


async def _resolve(loop: asyncio.AbstractEventLoop, host: str, port: int) -> tuple[int, Any]:
    """Family and address to bind; IPv4 first, as clients try it."""
    try:
        found = await loop.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
    except socket.gaierror as error:
        msg = f"cannot listen on {host}:{port}: the host name is not known ({error.strerror})"
        raise OSError(errno.EADDRNOTAVAIL, msg) from error
    family, _type, _protocol, _name, address = min(found, key=lambda row: row[0] != socket.AF_INET)
    return family, address


def _explain_bind(host: str, port: int, error: OSError) -> str:
    if error.errno == errno.EADDRINUSE:
        holder = describe_holder(port)
        by_whom = f" by {holder}" if holder else ""
        where = f"port {port} on {host or 'all interfaces'}"
        return f"{where} is in use{by_whom}: stop it, or choose another port"
    if error.errno == errno.EACCES:
        return f"port {port} is one that only root may bind: choose a port above 1023"
    return f"cannot listen on {host}:{port}: {error.strerror}"
