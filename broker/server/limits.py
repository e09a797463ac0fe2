"""What this node can spend: memory for requests, memory for fetch responses, connections,
descriptors.

Every limit has a name here or is a setting; nothing in the server grows without one of them.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import Final

RECEIVE_BUFFER_BYTES: Final = 256 << 10
"""The one receive buffer that all connections share; also what one connection may have handled
in one turn.
"""

KEPT_PREFIX_BYTES_MAX: Final = 64 << 10
"""An incomplete frame up to this size goes back into the shared buffer; more of it gets a buffer
of its own.
"""

FRAME_BUFFER_BYTES_MIN: Final = 1 << 20
"""A frame's own buffer starts at this size (or the frame's, if smaller) and doubles as bytes
really arrive.
"""

READY_PER_TURN_MAX: Final = 16
"""Parked requests that go on in one turn; a record that many wait for wakes them in slices."""

SHARED_TURN_BYTES_MAX: Final = 64 << 10
"""Connections that can be read in one round of the loop share a turn up to so many bytes of the
receive buffer, which have to stay as they are until the turn is settled."""

ALONE_TURNS_MAX: Final = 4
UNSHARED_TURNS: Final = 60
"""After so many turns that nobody shared, so many are not held open for others: a connection that
is alone would be answered one round of the loop later for nothing."""

TURN_RESPONSE_BYTES: Final = 1 << 20
"""After this many response bytes a connection lets the others have their turn."""

WRITE_BUFFER_BYTES_HIGH: Final = 64 << 10
"""A connection whose client leaves more than this unread is not read from until it has drained."""

CONTROL_FRAME_BYTES_MAX: Final = 2 << 20
"""Only Produce carries records: any other request is decoded in one step of the loop, so it must
be smaller.
"""

CLOSE_LINGER_MS: Final = 5_000
"""How long a closed connection may take to drain its last answers while the broker runs."""

STOP_POLL_MS: Final = 10
"""A stopping broker looks this often whether its connections have drained."""

WRITE_STALL_MS_MAX: Final = 30_000
"""A client that reads nothing for this long while answers wait for it is cut off."""

FRAME_BYTES_PER_MS_MIN: Final = 256
"""A big request has so much more time than hermes.request.read.timeout.ms: 1 ms for so many bytes
that arrived.
"""

SWEEP_INTERVAL_MS: Final = 1_000
"""How often deadlines of connections (idle, slow frame, stalled write) are looked at."""

LOG_INTERVAL_MS: Final = 10_000
LOG_LINES_PER_INTERVAL: Final = 10
"""What strangers can cause is logged so often; the rest is only counted."""

SWEEP_SLICE_COUNT: Final = 500
"""Connections looked at in one step of a sweep."""

SWEEPS_PER_DESCRIPTOR_COUNT: Final = 60
"""The process's descriptors are counted every so many sweeps, and when partitions came or went:
with thousands of connections the count takes milliseconds."""

DESCRIPTORS_RESERVED_SHARE: Final = 4
"""At most a quarter of a small descriptor limit is kept for storage."""

FETCH_RESPONSE_BYTES_MAX: Final = 1 << 20
"""Records in one Fetch answer, whatever the client allows: one step of the loop reads and sends
them."""

WRITE_STALL_PRESSED_MS_MAX: Final = 2_000
"""As WRITE_STALL_MS_MAX, while answers that are not taken use up all of FETCH_MEMORY_BYTES."""

FETCH_MEMORY_SHARE: Final = 8
REQUEST_MEMORY_SHARE: Final = 4
"""Answers of fetches, and requests, take at most one part in so many of the process's memory."""

FETCH_MEMORY_BYTES: Final = 256 << 20
"""Records on their way to clients that have not taken them yet, of all connections."""


def reserved_descriptors(limit: int, wanted: int) -> int:
    """What connections may not take of `limit` descriptors: storage needs one for each step."""
    return min(wanted, limit // DESCRIPTORS_RESERVED_SHARE)


def partition_files_max(limit: int, reserved: int) -> int:
    """Partitions that may keep a file open: as much as storage's reserve is left for its steps, and
    as much again for connections.
    """
    return limit - 2 * reserved_descriptors(limit, reserved)


class MemoryBudget:
    """Bytes that many holders share. Whoever does not get any may wait for its turn, first come
    first served.
    """

    def __init__(self, limit_bytes: int) -> None:
        self.limit_bytes = limit_bytes
        self.used_bytes = 0
        self._waiters: deque[Callable[[], None]] = deque()

    @property
    def free_bytes(self) -> int:
        """May be negative: a holder that must make progress takes what it needs with `take`."""
        return self.limit_bytes - self.used_bytes

    def try_take(self, size: int) -> bool:
        """Take `size` bytes if they are free. One holder of an otherwise unused budget always
        gets them.
        """
        if self.used_bytes + size > self.limit_bytes and self.used_bytes > 0:
            return False
        self.used_bytes += size
        return True

    def take(self, size: int) -> None:
        """Take `size` bytes, over the limit if need be."""
        self.used_bytes += size

    def exchange(self, held: int, wanted: int) -> None:
        """Hold `wanted` bytes in place of `held`, over the limit if need be."""
        if wanted > held:
            self.take(wanted - held)
        elif wanted < held:
            self.give(held - wanted)

    def give(self, size: int) -> None:
        """Return `size` bytes and let those who wait try again."""
        self.used_bytes -= size
        assert self.used_bytes >= 0, "more bytes were returned to a memory budget than taken"
        for _ in range(len(self._waiters)):  # one that waits again is not asked twice
            if self.used_bytes >= self.limit_bytes:
                return
            self._waiters.popleft()()

    def wait(self, retry: Callable[[], None]) -> None:
        """Call `retry` once when bytes come back; it may find them gone and wait again."""
        self._waiters.append(retry)


class LogLines:
    """Lets a few log lines through per interval: a flood of connections is no flood of lines."""

    def __init__(self) -> None:
        self._interval_ends_ms = 0.0
        self._line_count = 0
        self._suppressed_count = 0

    def admits(self, now_ms: float) -> bool:
        """Whether one more line may be written; else it is counted as suppressed."""
        if now_ms >= self._interval_ends_ms:
            self._interval_ends_ms = now_ms + LOG_INTERVAL_MS
            self._line_count = 0
        self._line_count += 1
        if self._line_count > LOG_LINES_PER_INTERVAL:
            self._suppressed_count += 1
            return False
        return True

    def take_suppressed(self) -> int:
        """How many lines were suppressed since the last call."""
        count, self._suppressed_count = self._suppressed_count, 0
        return count
