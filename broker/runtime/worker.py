"""One child process for CPU work, so that no Python thread competes with the event loop for the
GIL.

Started at the first call, at low priority, fed one call at a time over a socket pair
(length-prefixed pickles). A call that is cancelled, or a child that dies, ends the child; the next
call starts a new one. The child ends by itself when its parent is gone.
"""

from __future__ import annotations

import asyncio
import os
import pickle
import socket
import struct
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final, TypeVar

from broker.ports import WorkerFault

T = TypeVar("T")
CALLS_WAITING_MAX: Final = 1_000
"""Calls that may stand in line; one more is refused."""
PACKAGE_ROOT: Final = Path(__file__).resolve().parents[2]
"""Where the child finds this package, wherever it was started."""
REQUESTS_NICENESS: Final = 5
UPKEEP_NICENESS: Final = 10
"""The event loop goes first, then what clients wait for."""
LENGTH: Final = struct.Struct(">Q")


class ProcessWorker:
    """Implements `ports.Worker`."""

    def __init__(self, niceness: int = UPKEEP_NICENESS) -> None:
        self._niceness = niceness
        self._turn = asyncio.Lock()
        self._waiting_count = 0
        self._child: subprocess.Popen[bytes] | None = None
        self._socket: socket.socket | None = None
        self._is_closed = False

    async def call(self, function: Callable[..., T], *arguments: Any) -> T:
        """Raises what `function` raises, or WorkerFault. Cancellation kills the child: its work is
        lost, nothing else.
        """
        if self._is_closed or self._waiting_count >= CALLS_WAITING_MAX:
            msg = (
                "the worker is closed"
                if self._is_closed
                else f"{CALLS_WAITING_MAX} calls wait for the worker already"
            )
            raise WorkerFault(msg)
        self._waiting_count += 1
        try:
            async with self._turn:
                return await self._call(function, arguments)
        finally:
            self._waiting_count -= 1

    def close(self) -> None:
        """Kill the child; a call in flight gets WorkerFault. Never waits for work."""
        self._is_closed = True
        if not self._turn.locked():
            self._kill()
        elif self._child is not None:
            self._child.kill()  # the call sees the end of its socket and cleans up

    async def _call(self, function: Callable[..., T], arguments: tuple[Any, ...]) -> T:
        is_answered = False
        try:
            connection = self._started()
            await _send(connection, pickle.dumps((function, arguments)))
            is_good, result = pickle.loads(await _receive(connection))  # noqa: S301 - our own child
            is_answered = True
        except (OSError, EOFError) as error:
            name = getattr(function, "__qualname__", repr(function))
            msg = f"the worker process ended while it ran {name}"
            raise WorkerFault(msg) from error
        finally:
            if not is_answered:
                self._kill()
        if not is_good:
            raise result
        return result  # type: ignore[no-any-return]

    def _started(self) -> socket.socket:
        if self._is_closed:
            raise EOFError
        if self._socket is None:
            self._socket, theirs = socket.socketpair()
            self._socket.setblocking(False)  # noqa: FBT003 - the name says it
            with theirs:
                self._child = _start_child(theirs, self._niceness)
        return self._socket

    def _kill(self) -> None:
        if self._socket is not None:
            self._socket.close()
            self._socket = None
        if self._child is not None:
            self._child.kill()
            self._child.wait()  # a killed child that computes is reaped at once
            self._child = None


def _start_child(theirs: socket.socket, niceness: int) -> subprocess.Popen[bytes]:
    command = [sys.executable, "-m", "broker.runtime.worker_child"]
    command += [str(theirs.fileno()), str(niceness)]
    search = [str(PACKAGE_ROOT), *filter(None, [os.environ.get("PYTHONPATH")])]
    return subprocess.Popen(
        command,
        pass_fds=[theirs.fileno()],
        env={**os.environ, "PYTHONPATH": os.pathsep.join(search)},
        stdin=subprocess.DEVNULL,
        start_new_session=True,
    )


async def _send(connection: socket.socket, content: bytes) -> None:
    loop = asyncio.get_running_loop()
    await loop.sock_sendall(connection, LENGTH.pack(len(content)))
    await loop.sock_sendall(connection, content)


async def _receive(connection: socket.socket) -> bytearray:
    (length,) = LENGTH.unpack(await _receive_exactly(connection, LENGTH.size))
    return await _receive_exactly(connection, length)


async def _receive_exactly(connection: socket.socket, size: int) -> bytearray:
    loop = asyncio.get_running_loop()
    content = bytearray(size)
    done = 0
    with memoryview(content) as view:
        while done < size:
            read = await loop.sock_recv_into(connection, view[done:])
            if read == 0:
                raise EOFError
            done += read
    return content
