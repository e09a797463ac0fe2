"""Bytes of one connection on their way to frames: int32 size, then that many bytes.

Bytes are read into the receive buffer that all connections share. What is left of them after the
complete frames goes either back to its front (a short prefix) or into a buffer of the frame's own,
which doubles as bytes really arrive: a size alone costs nothing. `keep_rest` must run before
anybody else reads into the shared buffer.
"""

from __future__ import annotations

import struct
from typing import Final

from broker.server.limits import FRAME_BUFFER_BYTES_MIN, KEPT_PREFIX_BYTES_MAX, MemoryBudget

_SIZE: Final = struct.Struct(">i")

_HTTP_METHODS: Final = (
    b"GET ",
    b"POST",
    b"HEAD",
    b"PUT ",
    b"DELE",
    b"OPTI",
    b"PATC",
    b"PRI ",
    b"CONN",
)
_TLS_HANDSHAKE: Final = b"\x16\x03"


class FrameError(Exception):
    """The stream holds no frames of this protocol; the text says what it looks like."""


class Incoming:
    """The receiving half of one connection.

    `is_starved`: a frame needs a bigger buffer than memory allows now; try `grow` when memory comes
    back. In a turn, `view[position:end]` is what was received and not taken yet; whoever takes
    whole frames of it moves `position` on. `shared_end` is where that ends in the shared buffer; 0:
    it lies in memory of our own.
    """

    __slots__ = (
        "_frame_size",
        "_is_drained",
        "_memory",
        "_own",
        "_own_filled",
        "_rest",
        "_shared",
        "_start",
        "_taken",
        "end",
        "is_starved",
        "position",
        "shared_end",
        "view",
    )

    def __init__(self, shared: memoryview, memory: MemoryBudget) -> None:
        self._shared = shared
        self._memory = memory
        self._rest: bytes | bytearray = b""
        self.view = shared
        self.position = 0
        self.end = 0
        self.shared_end = 0
        self._start = 0
        self._frame_size = 0
        self._is_drained = True
        self._own: bytearray | None = None
        self._own_filled = 0
        self._taken = 0
        self.is_starved = False

    @property
    def is_inside_frame(self) -> bool:
        """Whether a frame has begun and is not complete."""
        return self._own is not None or (self._is_drained and len(self._rest) > 0)

    @property
    def frame_bytes(self) -> int:
        """How much of an incomplete frame is here."""
        return len(self._rest) if self._own is None else self._own_filled

    @property
    def has_backlog(self) -> bool:
        """Whether complete frames may be waiting in memory of our own: nothing may be read before
        they are taken.
        """
        is_own_complete = self._own is not None and self._own_filled == self._frame_size
        return not self._is_drained or is_own_complete

    def get_buffer(self, taken: int = 0) -> memoryview:
        """Where the next bytes go; never empty while there is no backlog. The first `taken` bytes
        of the shared buffer are in use, at most SHARED_TURN_BYTES_MAX.
        """
        if self._own is not None:
            return memoryview(self._own)[self._own_filled :]
        self._start = taken
        rest = self._rest
        if rest:
            end = taken + len(rest)
            self._shared[taken:end] = rest
            return self._shared[end:]
        return self._shared[taken:] if taken else self._shared

    def begin(self, received: int) -> None:
        """`received` bytes arrived in the buffer; 0 goes on with the backlog."""
        self.shared_end = 0
        if self._own is not None:
            self._own_filled += received
            return
        rest = self._rest
        if received:
            self.view = self._shared
            self.position = self._start
            self.shared_end = self._start + len(rest) + received
            self.end = self.shared_end
        else:
            self.view = memoryview(rest)
            self.position = 0
            self.end = len(rest)
        self._rest = b""
        self._is_drained = False

    def next_frame(self, size_max: int) -> memoryview | None:
        """The next complete frame without its size, valid until this turn ends; None when there
        is none.

        Raises FrameError for a size below 0 or above `size_max`, before anything is allocated.
        """
        if self._own is not None:
            return self._own_frame()
        position = self.position
        available = self.end - position
        self._frame_size = 0
        if available >= _SIZE.size:
            (size,) = _SIZE.unpack_from(self.view, position)
            if not 0 <= size <= size_max:
                raise FrameError(
                    _describe(bytes(self.view[position : position + 4]), size, size_max)
                )
            end = position + 4 + size
            if end <= self.end:
                self.position = end
                return self.view[position + 4 : end]
            self._frame_size = size + 4
        self._is_drained = True
        return None

    def keep_rest(self) -> None:
        """Move what was not handled out of the shared buffer."""
        if self._own is not None:
            return
        if self._taken:
            self._memory.give(self._taken)
            self._taken = 0
        available = self.end - self.position
        if not available:
            self._is_drained = True
            self.view = self._shared
            return
        self._rest = bytearray(self.view[self.position : self.end])  # frames are patched in place
        self.view = self._shared
        self.position = self.end = 0
        if self._is_drained and (
            available > KEPT_PREFIX_BYTES_MAX or self._frame_size > len(self._shared)
        ):
            self.grow()

    def grow(self) -> None:
        """Give the incomplete frame a buffer with room for more of it, or be starved."""
        old = self._rest if self._own is None else self._own
        filled = len(old)
        wanted = min(self._frame_size, max(FRAME_BUFFER_BYTES_MIN, 2 * filled))
        self.is_starved = not self._memory.try_take(wanted - self._taken)
        if self.is_starved:
            return
        self._taken = wanted
        self._own = bytearray(wanted)  # never resized: whoever reads into the old one may hold it
        self._own[:filled] = old
        self._own_filled = filled
        self._rest = b""

    def close(self) -> None:
        """Forget everything and return the memory."""
        self._own = None
        self._rest = b""
        self._is_drained = True
        if self._taken:
            self._memory.give(self._taken)
            self._taken = 0

    def _own_frame(self) -> memoryview | None:
        own = self._own
        assert own is not None, "only a frame with its own buffer gets here"
        if self._own_filled < self._frame_size:
            if self._own_filled == len(own):
                self.grow()
            return None
        self._own = None
        self.position = self.end = 0
        self._is_drained = True
        return memoryview(own)[4:]


def _describe(prefix: bytes, size: int, size_max: int) -> str:
    if prefix in _HTTP_METHODS:
        return (
            "this is an HTTP request on the Kafka port: metrics and the web console have ports of "
            "their own"
        )
    if prefix.startswith(_TLS_HANDSHAKE):
        return (
            "this is a TLS handshake on a plaintext port: set security.protocol=PLAINTEXT in the "
            "client"
        )
    if size < 0:
        return f"a frame announces {size} bytes"
    return f"a frame announces {size} bytes, above socket.request.max.bytes ({size_max})"
