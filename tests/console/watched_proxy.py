"""A TCP proxy that knows where a Kafka request begins: it keeps back an answer, or lets something
happen just before one or before its request.
"""

from __future__ import annotations

import contextlib
import socket
import struct
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Final

OFFSET_COMMIT: Final = 8
DELETE_GROUPS: Final = 42
JOIN_S: Final = 20
Happening = Callable[[], None]


class WatchedProxy:
    """Listens on `port` and passes on to `target_port`, which may be set after the start."""

    def __init__(self) -> None:
        self.target_port = 0
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._listener.getsockname()[1]
        self._silent: int | None = None
        self._before_request: dict[int, Happening] = {}
        self._before_answer: dict[int, Happening] = {}
        self._sockets: list[socket.socket] = []
        self._threads: list[threading.Thread] = []

    def __enter__(self) -> WatchedProxy:
        self._accepting = threading.Thread(target=self._accept, daemon=True)
        self._accepting.start()
        return self

    def __exit__(self, *_exception: object) -> None:
        _end(self._listener)
        self._accepting.join(JOIN_S)
        for one in self._sockets:
            _end(one)
        for thread in self._threads:
            thread.join(JOIN_S)

    @contextmanager
    def no_answer_to(self, api_key: int) -> Iterator[None]:
        """Requests of this kind are carried out; their answers are never seen."""
        self._silent = api_key
        try:
            yield
        finally:
            self._silent = None

    @contextmanager
    def before_request(self, api_key: int, happening: Happening) -> Iterator[None]:
        """Once, before the next request of this kind reaches the broker."""
        self._before_request[api_key] = happening
        yield
        assert api_key not in self._before_request, "no such request came"

    @contextmanager
    def before_answer_to(self, api_key: int, happening: Happening) -> Iterator[None]:
        """Once, between the broker's answer to the next such request and its arrival."""
        self._before_answer[api_key] = happening
        yield
        assert api_key not in self._before_answer, "no such request came"

    def _accept(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                near, _ = self._listener.accept()
                self._sockets.append(near)
                try:
                    far = socket.create_connection(("127.0.0.1", self.target_port))
                except OSError:  # the broker is gone
                    _end(near)
                    continue
                self._sockets.append(far)
                self._start(near, far)

    def _start(self, near: socket.socket, far: socket.socket) -> None:
        held: dict[int, Happening | None] = {}
        for work, source, target in (
            (self._pass_requests, near, far),
            (self._pass_answers, far, near),
        ):
            thread = threading.Thread(target=work, args=(source, target, held), daemon=True)
            self._threads.append(thread)
            thread.start()

    def _pass_requests(
        self, near: socket.socket, far: socket.socket, held: dict[int, Happening | None]
    ) -> None:
        for frame in _frames(near, far):
            api_key, _, correlation_id = struct.unpack_from(">hhi", frame, 4)
            happening = self._before_request.pop(api_key, None)
            if happening is not None:
                happening()
            if api_key == self._silent:
                held[correlation_id] = None
            elif api_key in self._before_answer:
                held[correlation_id] = self._before_answer.pop(api_key)
            _send(far, frame)

    def _pass_answers(
        self, far: socket.socket, near: socket.socket, held: dict[int, Happening | None]
    ) -> None:
        for frame in _frames(far, near):
            (correlation_id,) = struct.unpack_from(">i", frame, 4)
            if correlation_id in held:
                happening = held.pop(correlation_id)
                if happening is None:
                    continue
                happening()
            _send(near, frame)


def _frames(source: socket.socket, target: socket.socket) -> Iterator[bytes]:
    """Whole frames with their length, until one side is gone; then the other goes as well."""
    with contextlib.suppress(OSError), source.makefile("rb") as stream:
        while len(head := stream.read(4)) == 4:
            yield head + stream.read(struct.unpack(">i", head)[0])
    with contextlib.suppress(OSError):
        target.shutdown(socket.SHUT_RDWR)


def _end(one: socket.socket) -> None:
    with contextlib.suppress(OSError):
        one.shutdown(socket.SHUT_RDWR)
    one.close()


def _send(target: socket.socket, frame: bytes) -> None:
    with contextlib.suppress(OSError):
        target.sendall(frame)
