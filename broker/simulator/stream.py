"""One simulated connection: two transports and the two directions between them.

| end of a direction | what the reader sees                                  | caused by         |
|--------------------|-------------------------------------------------------|-------------------|
| FIN                | `eof_received` after every byte, then the end         | close, or a kill  |
| reset              | `connection_lost(ConnectionResetError)`, bytes lost   | abort, or a kill  |
| silence            | nothing, until it gives up or the link opens          | a kill, or a cut  |
"""

from __future__ import annotations

import errno
from collections import deque
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Final

from broker.ports import Buffer, StreamHandler
from broker.simulator.loop import Process

if TYPE_CHECKING:
    from broker.simulator.network import Fabric

WINDOW_BYTES_MIN: Final = 4 << 10
WINDOW_BYTES_MAX: Final = 256 << 10
"""What the two kernels hold of one direction; each connection draws its own."""
WRITE_BUFFER_HIGH: Final = 64 << 10
"""asyncio's default limit of the writer's own buffer."""
SILENCE_SHARE: Final = 0.25
FIN_SHARE: Final = 0.4
"""What a peer sees of a killed process: this share nothing for a while, this share a FIN, the
rest a reset.
"""
SILENCE_S_MAX: Final = 20.0


class Connection:
    """Both ends and both directions."""

    def __init__(
        self, fabric: Fabric, client: Process, server: Process, ports: tuple[int, int]
    ) -> None:
        self.fabric = fabric
        self.client_end = SimulatedTransport(self, client, ports[0], ports[1])
        self.server_end = SimulatedTransport(self, server, ports[1], ports[0])
        self._forward = Direction(fabric, self.client_end, self.server_end)
        self._backward = Direction(fabric, self.server_end, self.client_end)
        self.client_end.connect_directions(self._forward, self._backward)
        self.server_end.connect_directions(self._backward, self._forward)
        client.on_killed.append(self.client_end.on_killed)
        server.on_killed.append(self.server_end.on_killed)

    def reset(self) -> None:
        """A middlebox forgot the connection: both ends hear of it at once, bytes under way are
        lost.
        """
        self.client_end.on_reset()
        self.server_end.on_reset()

    def forget_when_over(self) -> None:
        if self.client_end.is_over and self.server_end.is_over:
            connections = self.fabric.connections
            if self in connections:
                connections.remove(self)
            for end in (self.client_end, self.server_end):
                if end.process.is_alive:
                    end.process.on_killed.remove(end.on_killed)


class Direction:
    """The bytes from `source` to `target`: the writer's buffer, then at most a window under
    way or unread.
    """

    def __init__(
        self, fabric: Fabric, source: SimulatedTransport, target: SimulatedTransport
    ) -> None:
        self._fabric = fabric
        self._random = fabric.random
        self._source = source
        self._target = target
        self._window_bytes = self._random.randint(WINDOW_BYTES_MIN, WINDOW_BYTES_MAX)
        self._buffer: deque[bytes] = deque()
        self.buffered_bytes = 0
        self._under_way_bytes = 0
        self._arrival_s = 0.0
        self._is_finishing = False
        self._is_finished = False
        self._is_broken = False

    def write(self, chunk: bytes) -> None:
        self._buffer.append(chunk)
        self.buffered_bytes += len(chunk)
        self._pump()

    def finish(self) -> None:
        """A FIN follows the last byte."""
        self._is_finishing = True
        self._pump()

    def drop_buffer(self) -> None:
        """The writing process is gone; what its kernel has still goes out."""
        self._buffer.clear()
        self.buffered_bytes = 0

    def break_off(self) -> None:
        """Nothing arrives any more."""
        self.drop_buffer()
        self._is_broken = True

    def send_reset(self, delay_s: float = 0.0) -> None:
        """The reader hears of the end in its own time; data under way is lost."""
        self.break_off()
        self._schedule(delay_s, self._target.on_reset)

    def consumed(self, size: int) -> None:
        """The reader took bytes from its kernel: the window opens."""
        self._under_way_bytes -= size
        if self._source.process.is_alive:
            self._pump()

    def _pump(self) -> None:
        while self._buffer and self._under_way_bytes < self._window_bytes and not self._is_broken:
            self._send(self._take())
        if self._is_finishing and not self._buffer and not self._is_finished:
            self._is_finished = True
            self._schedule(0.0, self._deliver_end)
        self._source.on_buffer(self.buffered_bytes)

    def _take(self) -> bytes:
        """The next chunk on the wire: usually what was written at once, sometimes any part of
        it.
        """
        chunk = self._buffer.popleft()
        room = self._window_bytes - self._under_way_bytes
        size = min(len(chunk), room)
        if size > 1 and self._random.random() < 0.2:
            size = self._random.randint(1, size)
        if size < len(chunk):
            self._buffer.appendleft(chunk[size:])
        self.buffered_bytes -= size
        return chunk[:size]

    def _send(self, chunk: bytes) -> None:
        self._under_way_bytes += len(chunk)
        self._schedule(0.0, self._deliver, chunk)

    def _schedule(self, extra_s: float, action: Any, *arguments: Any) -> None:
        """In order after everything sent before, when the link is open."""
        loop = self._fabric.loop
        source, target = self._source.process, self._target.process
        arrival_s = loop.time() + extra_s + self._fabric.delay_s(source.name, target.name)
        self._arrival_s = max(self._arrival_s, arrival_s)

        def arrive() -> None:
            self._fabric.when_open(
                source.name, target.name, lambda: loop.call_in(target, 0, action, *arguments)
            )

        loop.call_in(loop.harness, self._arrival_s - loop.time(), arrive)

    def _deliver(self, chunk: bytes) -> None:
        if self._is_broken:
            return
        self._target.on_chunk(chunk)

    def _deliver_end(self) -> None:
        if not self._is_broken:
            self._target.on_end()


class SimulatedTransport:
    """Implements `ports.Transport` for one end."""

    def __init__(self, connection: Connection, process: Process, port: int, peer_port: int) -> None:
        self.process = process
        self.is_over = False
        self._connection = connection
        self._fabric = connection.fabric
        self._ports = {"sockname": ("127.0.0.1", port), "peername": ("127.0.0.1", peer_port)}
        self._handler: StreamHandler | None = None
        self._out: Direction
        self._in: Direction
        self._unread: deque[bytes] = deque()
        self._has_end = False
        self._is_closing = False
        self._is_paused = False
        self._is_reading = False
        self._is_write_paused = False
        self._high = WRITE_BUFFER_HIGH
        self._low = WRITE_BUFFER_HIGH // 4

    def connect_directions(self, outgoing: Direction, incoming: Direction) -> None:
        self._out, self._in = outgoing, incoming

    def attach(self, handler: StreamHandler) -> None:
        """The process has the connection; bytes that came before are read next."""
        if self.is_over:
            return
        self._handler = handler
        handler.connection_made(self)
        self._read_soon()

    # ports.Transport

    def write(self, data: Buffer) -> None:
        if self._is_closing or not self.process.is_alive or not data:
            return
        self._out.write(bytes(data))

    def writelines(self, list_of_data: Sequence[Buffer]) -> None:
        self.write(b"".join(list_of_data))

    def close(self) -> None:
        if self._is_closing or not self.process.is_alive:
            return
        self._is_closing = True
        self._out.finish()
        if self._out.buffered_bytes == 0:
            self._end_soon(None)

    def abort(self) -> None:
        if self.is_over or not self.process.is_alive:
            return
        self._is_closing = True
        self._out.send_reset()
        self._end_soon(None)

    def is_closing(self) -> bool:
        return self._is_closing

    def pause_reading(self) -> None:
        self._is_paused = True

    def resume_reading(self) -> None:
        self._is_paused = False
        self._read_soon()

    def get_write_buffer_size(self) -> int:
        return self._out.buffered_bytes

    def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None:
        self._high = WRITE_BUFFER_HIGH if high is None else high
        self._low = self._high // 4 if low is None else low
        self._check_write_pause()

    def get_extra_info(self, name: str, default: Any = None) -> Any:
        return self._ports.get(name, default)

    # what the network does to this end, in the context of its process

    def on_chunk(self, chunk: bytes) -> None:
        if self.is_over:
            self._out.send_reset()  # nobody reads here any more
            return
        self._unread.append(chunk)
        self._read_soon()

    def on_end(self) -> None:
        self._has_end = True
        self._read_soon()

    def on_reset(self) -> None:
        if self.is_over:
            return
        self._is_closing = True
        self._out.break_off()
        self._in.break_off()
        self._end_soon(ConnectionResetError(errno.ECONNRESET, "Connection reset by peer"))

    def on_buffer(self, buffered_bytes: int) -> None:
        """The writer's buffer grew or shrank."""
        if self._is_closing:
            if buffered_bytes == 0 and not self.is_over:
                self._end_soon(None)
            return
        self._check_write_pause()

    def on_killed(self) -> None:
        """The operating system closes what its process left open."""
        if self.is_over:
            return
        self.is_over = True
        draw = self._fabric.random.random()
        self._out.drop_buffer()
        if draw < SILENCE_SHARE:
            self._out.send_reset(self._fabric.random.random() * SILENCE_S_MAX)
        elif draw < SILENCE_SHARE + FIN_SHARE and not self._unread:
            self._out.finish()
        else:
            self._out.send_reset()
        self._in.break_off()
        self._connection.forget_when_over()

    def _check_write_pause(self) -> None:
        handler, buffered = self._handler, self._out.buffered_bytes
        if handler is None or not self.process.is_alive:
            return
        if not self._is_write_paused and buffered > self._high:
            self._is_write_paused = True
            handler.pause_writing()
        elif self._is_write_paused and buffered <= self._low:
            self._is_write_paused = False
            self._fabric.loop.call_in(self.process, 0, self._resume_writing)

    def _resume_writing(self) -> None:
        if self._handler is not None and not self.is_over and not self._is_write_paused:
            self._handler.resume_writing()

    def _read_soon(self) -> None:
        if not self._is_reading and not self.is_over:
            self._is_reading = True
            self._fabric.loop.call_in(self.process, 0, self._read)

    def _read(self) -> None:
        """One turn of the process's selector: at most one buffer of bytes, or the end."""
        self._is_reading = False
        handler = self._handler
        if handler is None or self._is_paused or self.is_over or self._is_closing:
            return
        if self._unread:
            self._read_bytes(handler)
            self._read_soon()
        elif self._has_end:
            self._has_end = False
            if not handler.eof_received():
                self.close()

    def _read_bytes(self, handler: StreamHandler) -> None:
        buffer = memoryview(handler.get_buffer(-1)).cast("B")
        assert len(buffer) > 0, "a stream handler offers room for at least one byte"
        chunk = self._unread.popleft()
        size = min(len(buffer), len(chunk))
        if size < len(chunk):
            self._unread.appendleft(chunk[size:])
        part = chunk[:size]
        buffer[:size] = part
        buffer.release()
        self._fabric.delivered(self.process, part)
        handler.buffer_updated(size)
        if self.process.is_alive:
            self._in.consumed(size)

    def _end_soon(self, error: Exception | None) -> None:
        if self.is_over:
            return
        self.is_over = True
        self._unread.clear()
        self._fabric.loop.call_in(self.process, 0, self._end, error)
        self._connection.forget_when_over()

    def _end(self, error: Exception | None) -> None:
        if self._handler is not None:
            handler, self._handler = self._handler, None
            handler.connection_lost(error)
