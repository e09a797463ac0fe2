"""The child's half of `ProcessWorker`: reads calls from a socket, answers each with (is_good,
result or exception).
"""

from __future__ import annotations

import os
import pickle
import signal
import socket
import sys
from contextlib import suppress
from typing import IO, Any, cast

from broker.runtime.worker import LENGTH


def main(descriptor: int, niceness: int) -> None:
    """Serves until the parent closes its end, or dies."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is the parent's business
    os.nice(niceness)
    with suppress(ConnectionError):
        _serve(descriptor)


def _serve(descriptor: int) -> None:
    with socket.socket(fileno=descriptor) as connection, _stream(connection) as stream:
        while True:
            head = stream.read(LENGTH.size)
            if len(head) < LENGTH.size:
                return
            content = stream.read(LENGTH.unpack(head)[0])
            _answer(stream, *_run(content))


def _stream(connection: socket.socket) -> IO[bytes]:
    return cast("IO[bytes]", connection.makefile("rwb"))


def _run(content: bytes) -> tuple[bool, Any]:
    try:
        function, arguments = pickle.loads(content)  # noqa: S301 - our own parent
        return True, function(*arguments)
    except Exception as error:  # noqa: BLE001 - every failure goes back to the caller
        return False, error


def _answer(stream: IO[bytes], is_good: bool, result: Any) -> None:  # noqa: FBT001 - the wire's order
    try:
        content = pickle.dumps((is_good, result))
        if not is_good:
            pickle.loads(content)  # noqa: S301 - our own; some exceptions travel one way only
    except Exception as error:  # noqa: BLE001 - what cannot travel is told as text
        content = pickle.dumps(
            (False, RuntimeError(f"{type(result).__name__} cannot be sent back: {error}"))
        )
    stream.write(LENGTH.pack(len(content)))
    stream.write(content)
    stream.flush()


if __name__ == "__main__":
    main(int(sys.argv[1]), int(sys.argv[2]))
