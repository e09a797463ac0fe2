"""The machine's two clocks. The simulator has its own; nothing else reads time."""

from __future__ import annotations

import time


class SystemClock:
    """Implements `ports.Clock`."""

    def monotonic_ms(self) -> float:
        """Milliseconds since an arbitrary start; never backwards."""
        return time.monotonic() * 1000.0

    def wall_ms(self) -> int:
        """Milliseconds since 1970-01-01 UTC; may jump."""
        return time.time_ns() // 1_000_000
