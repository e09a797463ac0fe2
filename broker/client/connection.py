"""One connection to one broker: requests are pipelined, answers come in the order of the requests.

Not here: which broker, which version, retries. Invariants: an answer belongs to the oldest request
without one; a wrong correlation id, a frame over the limit, an undecodable answer and a request
that waits for longer than its timeout each end the connection, and its end fails every request that
waits.
"""

from __future__ import annotations

import asyncio
import os
from collections import deque
from typing import Any, Final, NamedTuple

from broker.client.failure import ConnectionLost, TimedOut, Unsupported
from broker.ports import Buffer, Network, Transport
from broker.wire import frame
from broker.wire.api import CLIENT_APIS
from broker.wire.primitives import EncodeError, MalformedMessage

RECEIVE_BUFFER_BYTES: Final = 64 * 1024
TLS_ALERT: Final = 0x15
TLS_HANDSHAKE: Final = 0x16
TLS_MAJOR_VERSION: Final = 3
CORRELATION_ID_MAX: Final = 2**31 - 1


class _Waiting(NamedTuple):
    """A request without an answer yet. A plain answer (`is_raw`) is the frame's body, undecoded."""

    correlation_id: int
    api_key: int
    version: int
    is_raw: bool
    future: asyncio.Future[Any]


class Connection(asyncio.BufferedProtocol):
    """Implements `ports.StreamHandler`; made by `connect`."""

    def __init__(self, address: str, *, frame_bytes_max: int) -> None:
        self.address = address
        self._frame_bytes_max = frame_bytes_max
        self._transport: Transport | None = None
        self._is_closed = False
        self._waiting: deque[_Waiting] = deque()
        self._next_correlation_id = 1
        self._writable = asyncio.Event()
        self._writable.set()
        self._frames = _FrameReader(frame_bytes_max)

    @property
    def is_open(self) -> bool:
        return not self._is_closed and self._transport is not None

    async def request(
        self,
        api_key: int,
        version: int,
        client_id: str,
        message: Any,
        *,
        timeout_ms: int,
        is_raw: bool = False,
    ) -> Any:
        """The decoded answer, or its bytes after the size field (`is_raw`).

        Raises ConnectionLost or TimedOut; cancellation forgets the answer, the request may still be
        carried out.
        """
        future: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        try:
            async with asyncio.timeout(timeout_ms / 1000):
                await self._writable.wait()
                correlation_id = self._write(api_key, version, client_id, message)
                self._waiting.append(_Waiting(correlation_id, api_key, version, is_raw, future))
                return await future
        except TimeoutError:
            text = f"{self.address} did not answer {_name(api_key)} within {timeout_ms} ms"
            self._fail(ConnectionLost(text))
            raise TimedOut(text) from None

    async def send(self, api_key: int, version: int, client_id: str, message: Any) -> None:
        """Send what gets no answer (Produce with acks=0). Raises ConnectionLost."""
        await self._writable.wait()
        self._write(api_key, version, client_id, message)

    def close(self) -> None:
        """End the connection; every request that waits fails. Closing twice is fine."""
        self._fail(ConnectionLost(f"the connection to {self.address} was closed"))

    def _write(self, api_key: int, version: int, client_id: str, message: Any) -> int:
        if self._transport is None or self._is_closed:
            text = f"the connection to {self.address} is closed"
            raise ConnectionLost(text)
        correlation_id = self._next_correlation_id
        try:
            data = frame.encode_request(api_key, version, correlation_id, client_id, message)
        except EncodeError as error:
            raise Unsupported(str(error)) from error
        self._next_correlation_id = correlation_id % CORRELATION_ID_MAX + 1
        self._transport.write(data)
        return correlation_id

    def _fail(self, error: ConnectionLost) -> None:
        self._is_closed = True
        self._writable.set()
        if self._transport is not None:
            self._transport.abort()
        while self._waiting:
            future = self._waiting.popleft().future
            if not future.done():
                future.set_exception(error)

    def _answer(self, view: memoryview) -> None:
        if not self._waiting:
            text = "an answer that nobody asked for"
            raise MalformedMessage(text)
        waiting = self._waiting[0]
        correlation_id = frame.decode_correlation_id(view)
        if correlation_id != waiting.correlation_id:
            text = f"answer to request {correlation_id}, expected {waiting.correlation_id}"
            raise MalformedMessage(text)
        result: Any = view
        if not waiting.is_raw:
            _, result = frame.decode_response(waiting.api_key, waiting.version, view)
        self._waiting.popleft()
        if not waiting.future.done():
            waiting.future.set_result(result)

    def connection_made(self, transport: Any) -> None:
        self._transport = transport

    def get_buffer(self, sizehint: int) -> Buffer:
        return self._frames.get_buffer()

    def buffer_updated(self, nbytes: int) -> None:
        try:
            for view in self._frames.take(nbytes):
                self._answer(view)
        except MalformedMessage as error:
            self._fail(ConnectionLost(f"{self.address}: {error}"))

    def eof_received(self) -> bool | None:
        return False

    def connection_lost(self, exc: Exception | None) -> None:
        reason = f": {exc}" if exc else ""
        self._fail(ConnectionLost(f"the connection to {self.address} broke{reason}"))

    def pause_writing(self) -> None:
        self._writable.clear()

    def resume_writing(self) -> None:
        self._writable.set()


class _FrameReader:
    """Cuts the byte stream into frames. Each frame gets memory of its own, so that its records may
    be kept.
    """

    def __init__(self, frame_bytes_max: int) -> None:
        self._frame_bytes_max = frame_bytes_max
        self._buffer = bytearray(RECEIVE_BUFFER_BYTES)
        self._end = 0  # bytes received into the buffer
        self._large: bytearray | None = None  # a frame that does not fit, without its size field

    def get_buffer(self) -> memoryview:
        target = self._buffer if self._large is None else self._large
        return memoryview(target)[self._end :]

    def take(self, received: int) -> list[memoryview]:
        """The frames that are complete now. Raises MalformedMessage for an impossible size."""
        self._end += received
        if self._large is not None:
            if self._end < len(self._large):
                return []
            whole, self._large, self._end = self._large, None, 0
            return [memoryview(whole)]
        frames: list[memoryview] = []
        position = 0
        while self._end - position >= frame.SIZE_BYTES:
            size = int.from_bytes(
                self._buffer[position : position + frame.SIZE_BYTES], "big", signed=True
            )
            if not 0 < size <= self._frame_bytes_max:
                field = bytes(self._buffer[position : position + frame.SIZE_BYTES])
                text = f"a frame of {size} bytes (limit {self._frame_bytes_max}): {_foreign(field)}"
                raise MalformedMessage(text)
            begin = position + frame.SIZE_BYTES
            if begin + size > self._end:
                if size + frame.SIZE_BYTES > RECEIVE_BUFFER_BYTES:
                    self._open_large(begin, size)
                    return frames
                break
            frames.append(memoryview(bytes(self._buffer[begin : begin + size])))
            position = begin + size
        left = self._buffer[position : self._end]
        self._buffer[: len(left)] = left
        self._end = len(left)
        return frames

    def _open_large(self, begin: int, size: int) -> None:
        have = self._buffer[begin : self._end]
        self._large = bytearray(size)
        self._large[: len(have)] = have
        self._end = len(have)


async def connect(
    network: Network, host: str, port: int, *, timeout_ms: int, frame_bytes_max: int
) -> Connection:
    """An open connection. Raises ConnectionLost."""
    address = f"{host}:{port}"
    try:
        _, handler = await network.connect(
            host,
            port,
            lambda: Connection(address, frame_bytes_max=frame_bytes_max),
            timeout_ms=timeout_ms,
        )
    except TimeoutError as error:
        text = f"cannot connect to {address}: no answer within {timeout_ms} ms"
        raise ConnectionLost(text) from error
    except OSError as error:
        text = f"cannot connect to {address}: {_reason(error)}"
        raise ConnectionLost(text) from error
    assert isinstance(handler, Connection), "the network returns the handler that it made"
    return handler


def _reason(error: OSError) -> str:
    """In the system's own words, such as "Connection refused"."""
    if error.errno is not None and error.errno > 0:
        return os.strerror(error.errno)
    return error.strerror or str(error) or type(error).__name__


def _foreign(size_field: bytes) -> str:
    """Whose answer begins with these four bytes in place of a size, as far as it can be told."""
    if size_field == b"HTTP":
        return "it answers in HTTP, it is no Kafka broker"
    if size_field[0] in (TLS_ALERT, TLS_HANDSHAKE) and size_field[1] == TLS_MAJOR_VERSION:
        return "it speaks TLS, which this client does not"
    return "it is no Kafka broker"


def _name(api_key: int) -> str:
    return CLIENT_APIS[api_key].name
