"""One turn of the loop: what was staged, who can go on, whom to answer. Settled once, in that
order.

A read of a socket (or a timer, or a finished task) stages batches and answers requests; `settle`
then writes each dirty partition once, sends the acks that follow the high watermark, and lets some
of the parked fetches go on. Invariant: after `settle` nothing is staged, no answer that is ready is
unsent, and parked requests that are left over go on in the next turn.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable
from typing import Protocol

import structlog

from broker.server.limits import (
    ALONE_TURNS_MAX,
    READY_PER_TURN_MAX,
    SHARED_TURN_BYTES_MAX,
    UNSHARED_TURNS,
)

_log = structlog.get_logger("hermes.turn")


class Dirty(Protocol):
    """A partition with staged batches."""

    def flush(self) -> None:
        """Write them and tell everybody; never raises."""


class Sender(Protocol):
    """A connection with answers to send."""

    def send(self) -> None:
        """Send all that is ready. An exception is its bug, and ends it alone."""

    def abort(self) -> None:
        """Drop it now."""


class Turn:
    """The work collected in this turn. Everything runs on the loop's thread."""

    def __init__(self) -> None:
        self._dirty: list[Dirty] = []
        self._ready: deque[Callable[[], None]] = deque()
        self._senders: list[Sender] = []
        self._is_scheduled = False
        self._is_settling = False
        self._is_open = False
        self.received_end = 0
        self._read_count = 0
        self._alone_count = 0

    def open(self) -> None:
        """The caller promises to `settle` before it returns to the loop."""
        self._is_open = True

    def close(self, received_end: int) -> None:
        """End a read that `open` began; what it staged lies in the receive buffer below
        `received_end`. The turn goes on with other connections that can be read in this round of
        the loop, if there have been such lately, and is settled behind them; else it is settled
        now.
        """
        self._is_open = False
        if not self._dirty or received_end > SHARED_TURN_BYTES_MAX:
            self.settle()
            return
        if self._alone_count >= ALONE_TURNS_MAX:
            self._alone_count += 1
            if self._alone_count >= ALONE_TURNS_MAX + UNSHARED_TURNS:
                self._alone_count = 0
            self.settle()
            return
        self._read_count += 1
        self.received_end = max(self.received_end, received_end)
        self.schedule()

    @property
    def has_dirty(self) -> bool:
        """Whether something is staged and not written yet."""
        return bool(self._dirty)

    def add_dirty(self, partition: Dirty) -> None:
        """Write it in this turn. The caller adds a partition once until its flush."""
        self._dirty.append(partition)
        self.schedule()

    def add_ready(self, resume: Callable[[], None]) -> None:
        """Go on with a parked request once the turn's writes are done. Never raises."""
        self._ready.append(resume)
        self.schedule()

    def add_sender(self, connection: Sender) -> None:
        """Send its answers at the end of the turn. The caller adds a connection once until its
        `send`.
        """
        self._senders.append(connection)
        self.schedule()

    def schedule(self) -> None:
        """Make sure that the turn is settled even when nobody does it directly."""
        if not (self._is_open or self._is_scheduled or self._is_settling):
            self._is_scheduled = True
            asyncio.get_running_loop().call_soon(self._on_scheduled)

    def settle(self) -> None:
        """Write, go on, send. Whatever these steps add is settled too."""
        if self._is_settling:
            return
        self._is_open = False
        self._is_settling = True
        if self._read_count:
            self._alone_count = self._alone_count + 1 if self._read_count == 1 else 0
            self._read_count = 0
        try:
            self._flush()
            self._send()
            if self._ready or self._dirty or self._senders:
                for _ in range(min(len(self._ready), READY_PER_TURN_MAX)):
                    self._ready.popleft()()
                self._flush()
                self._send()
        finally:
            self._is_settling = False
            self.received_end = 0
        if self._dirty or self._ready or self._senders:
            self.schedule()

    def _flush(self) -> None:
        while self._dirty:
            dirty, self._dirty = self._dirty, []
            for partition in dirty:
                partition.flush()

    def _send(self) -> None:
        senders, self._senders = self._senders, []
        for connection in senders:
            try:
                connection.send()
            except Exception as error:  # noqa: BLE001 - one connection's bug must not cut off the others
                _log.error("answers could not be sent", exc_info=error)
                connection.abort()

    def _on_scheduled(self) -> None:
        self._is_scheduled = False
        self.settle()
