"""Deadlines of parked requests: one heap and one timer for all of them.

Invariants: a callback runs at most once, never before its deadline, never after `cancel`; the timer
is armed for the earliest live deadline only. Times are the clock's monotonic milliseconds.
"""

from __future__ import annotations

import asyncio
import heapq
from collections.abc import Callable
from typing import Final

import structlog

from broker.ports import Clock

_log = structlog.get_logger("hermes.waiting")

CANCELLED_COUNT_MIN: Final = 256
"""Below this many cancelled entries the heap is not rebuilt."""

DELAY_MS_MAX: Final = 24 * 3600 * 1000
"""A timer is never armed for longer: it looks again then."""


class Deadline:
    """One callback and its time. `cancel()` may be called at any moment, also after it ran."""

    __slots__ = ("_callback", "_owner", "due_ms", "sequence")

    def __init__(
        self, owner: Deadlines, due_ms: float, sequence: int, callback: Callable[[], None]
    ) -> None:
        self._owner = owner
        self.due_ms = due_ms
        self.sequence = sequence
        self._callback: Callable[[], None] | None = callback

    def __lt__(self, other: Deadline) -> bool:
        if self.due_ms != other.due_ms:
            return self.due_ms < other.due_ms
        return self.sequence < other.sequence

    @property
    def is_live(self) -> bool:
        """Whether it still waits."""
        return self._callback is not None

    def cancel(self) -> None:
        """The callback will not run."""
        if self._callback is not None:
            self._callback = None
            self._owner.on_cancelled()

    def fire(self) -> None:
        """Run the callback, once."""
        callback, self._callback = self._callback, None
        if callback is None:
            return
        try:
            callback()
        except Exception as error:  # noqa: BLE001 - the bug of one who waited must not stop the others
            _log.error("a deadline's callback failed", exc_info=error)


class Deadlines:
    """Every deadline of one broker. `after_fired` runs once after each batch of callbacks."""

    def __init__(self, clock: Clock, after_fired: Callable[[], None]) -> None:
        self._clock = clock
        self._after_fired = after_fired
        self._heap: list[Deadline] = []
        self._sequence = 0
        self._cancelled_count = 0
        self._timer: asyncio.TimerHandle | None = None
        self._timer_due_ms = 0.0
        self._is_closed = False

    def __len__(self) -> int:
        """How many deadlines wait."""
        return len(self._heap) - self._cancelled_count

    def add(self, delay_ms: float, callback: Callable[[], None]) -> Deadline:
        """Run `callback` once `delay_ms` from now."""
        due_ms = self._clock.monotonic_ms() + max(delay_ms, 0)
        self._sequence += 1
        deadline = Deadline(self, due_ms, self._sequence, callback)
        heapq.heappush(self._heap, deadline)
        if self._timer is None or due_ms < self._timer_due_ms:
            self._arm(due_ms)
        return deadline

    def on_cancelled(self) -> None:
        """Count one cancelled entry; rebuild the heap when most of it is dead."""
        self._cancelled_count += 1
        is_mostly_dead = self._cancelled_count * 2 > len(self._heap)
        if is_mostly_dead and self._cancelled_count >= CANCELLED_COUNT_MIN:
            self._heap = [deadline for deadline in self._heap if deadline.is_live]
            heapq.heapify(self._heap)
            self._cancelled_count = 0

    def close(self) -> None:
        """Nothing fires any more."""
        self._is_closed = True
        self._heap.clear()
        self._cancelled_count = 0
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _arm(self, due_ms: float) -> None:
        if self._is_closed:
            return
        if self._timer is not None:
            self._timer.cancel()
        self._timer_due_ms = due_ms
        delay_ms = min(max(due_ms - self._clock.monotonic_ms(), 0), DELAY_MS_MAX)
        self._timer = asyncio.get_running_loop().call_later(delay_ms / 1000, self._on_timer)

    def _on_timer(self) -> None:
        self._timer = None
        now_ms = self._clock.monotonic_ms()
        heap = self._heap
        has_fired = False
        while heap and (heap[0].due_ms <= now_ms or not heap[0].is_live):
            deadline = heapq.heappop(heap)
            if deadline.is_live:
                has_fired = True
                deadline.fire()
                heap = self._heap
            else:
                self._cancelled_count -= 1
        if has_fired:
            self._after_fired()
        self._arm_for_earliest()

    def _arm_for_earliest(self) -> None:
        """A callback may have armed the timer for a later deadline of its own."""
        if self._heap and (self._timer is None or self._heap[0].due_ms < self._timer_due_ms):
            self._arm(self._heap[0].due_ms)
