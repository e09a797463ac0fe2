"""Whether a shard may try to store: after a full disk refused an append, not before there is room.

A refused append costs the shard its state in memory (it is loaded again), so it must not be tried
for every commit. Pure: times are the monotonic clock's milliseconds.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

FULL_RETRY_MS: Final = 1_000
"""After a full disk the free space is looked at so often."""
FULL_RETRY_MS_MAX: Final = 30_000
"""The same when the disk turned out to be full again and again although it showed free space: a
quota, or somebody else who takes it first.
"""
ROOM_BYTES: Final = 1 << 20
"""Free space from which on a shard stores again."""


class Room:
    """Open until `on_full`; open again when `free_bytes` shows ROOM_BYTES, asked once an
    interval.
    """

    __slots__ = ("_closed_at_ms", "_delay_ms", "_look_at_ms")

    def __init__(self) -> None:
        self._closed_at_ms: float | None = None
        self._delay_ms = FULL_RETRY_MS
        self._look_at_ms: float | None = None

    def on_full(self, now_ms: float) -> None:
        """An append was refused for want of space."""
        last_ms = self._closed_at_ms
        is_again = last_ms is not None and now_ms - last_ms < 2 * FULL_RETRY_MS_MAX
        self._delay_ms = min(2 * self._delay_ms, FULL_RETRY_MS_MAX) if is_again else FULL_RETRY_MS
        self._closed_at_ms = now_ms
        self._look_at_ms = now_ms + self._delay_ms

    def is_open(self, now_ms: float, free_bytes: Callable[[], int]) -> bool:
        """Whether an append may be tried now."""
        if self._look_at_ms is None:
            return True
        if now_ms < self._look_at_ms:
            return False
        if free_bytes() < ROOM_BYTES:
            self._look_at_ms = now_ms + FULL_RETRY_MS
            return False
        self._look_at_ms = None
        return True
