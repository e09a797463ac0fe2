"""Background work that reads and writes no faster than a setting says.

Not here: what the work is. A debt of time, not a bucket: nothing is saved up while nobody works.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from broker.ports import Clock


class Pace:
    """Bytes per second, as `bytes_per_second` says at the time."""

    def __init__(self, clock: Clock, bytes_per_second: Callable[[], float]) -> None:
        self._clock = clock
        self._bytes_per_second = bytes_per_second
        self._free_at_ms = 0.0

    async def wait(self, size: int) -> None:
        """Come back when `size` more bytes are within the rate."""
        now_ms = self._clock.monotonic_ms()
        self._free_at_ms = max(self._free_at_ms, now_ms) + size / self._bytes_per_second() * 1000
        if self._free_at_ms > now_ms:
            await asyncio.sleep((self._free_at_ms - now_ms) / 1000)
