"""How late the event loop runs its timers: the longest step in between."""

from __future__ import annotations

import asyncio
from typing import Final

from broker.metrics import Metrics
from broker.ports import Clock

PROBE_INTERVAL_MS: Final = 50


async def watch_loop_lag(clock: Clock, metrics: Metrics) -> None:
    """Observe the lag of a timer, for ever."""
    lag = metrics.loop_lag_seconds.labels()
    while True:
        due_ms = clock.monotonic_ms() + PROBE_INTERVAL_MS
        await asyncio.sleep(PROBE_INTERVAL_MS / 1000)
        lag.observe(max(0.0, clock.monotonic_ms() - due_ms) / 1000)
