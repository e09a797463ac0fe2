"""The delivery window of one partition: consumers see [first_offset, visible_end).

Not here: where batches lie and how old they are (`log.window`), what a fetch does with it. Made
only for topics with `delivery.delay.ms` or `delivery.ttl.ms`. Both ends are brought up to date when
somebody asks; a timer (an entry in the broker's heap of deadlines, one for a partition at most)
runs only while a fetch is parked here and a record waits for its time.

Invariants: log start ≤ first_offset ≤ visible_end ≤ high watermark; visible_end never goes back,
whatever happens to the delay or the clock, until another epoch begins. A record is due, or expired,
when the broker's wall clock says that it was appended that long ago.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sized
from typing import TYPE_CHECKING, Final, NamedTuple

from broker.errors import Refusal
from broker.log.window import Boundary

if TYPE_CHECKING:
    from broker.config.topic import TopicSettings
    from broker.log.partition_log import PartitionLog
    from broker.metrics import Metrics
    from broker.ports import Clock
    from broker.server.waiting import Deadline

LOOK_AGAIN_MS: Final = 1_000
"""When it cannot be told how old the next record is."""
WAKE_INTERVAL_MS: Final = 10
"""Parked fetches are woken at most this often; records that come due in between wake together."""
NO_TTL: Final = -1


def has_window(settings: TopicSettings) -> bool:
    """Whether consumers see less of the topic than what is committed."""
    return settings.delivery_delay_ms > 0 or settings.delivery_ttl_ms != NO_TTL


class WindowHost(NamedTuple):
    """What a window needs of its partition and broker. `publish` tells those in `parked` how many
    more bytes may be read; `look_again` makes them look, whatever there is.
    """

    clock: Clock
    metrics: Metrics
    call_later: Callable[[float, Callable[[], None]], Deadline]
    spawn: Callable[[Awaitable[None]], None]
    parked: Sized
    publish: Callable[[int], None]
    look_again: Callable[[], None]


class DeliveryWindow:
    """`await catch_up()`, or `refresh()` when it says True, before the ends are looked at."""

    __slots__ = (
        "_delay_ms",
        "_due",
        "_expired",
        "_high_watermark",
        "_host",
        "_is_running",
        "_lock",
        "_log",
        "_timer",
        "_ttl_ms",
    )

    def __init__(
        self,
        host: WindowHost,
        log: PartitionLog,
        settings: TopicSettings,
        *,
        floor: int,
        high_watermark: int,
    ) -> None:
        """What lies below `floor` was visible in this epoch already."""
        self._host = host
        self._log = log
        self._delay_ms = settings.delivery_delay_ms
        self._ttl_ms = settings.delivery_ttl_ms
        self._high_watermark = high_watermark
        self._due = Boundary(floor)
        self._expired = Boundary(log.log_start_offset)
        self._lock = asyncio.Lock()
        self._timer: Deadline | None = None
        self._is_running = False

    @property
    def visible_end(self) -> int:
        """The end of what consumers may read."""
        if self._delay_ms == 0:
            return self._high_watermark
        return max(self._due.offset, self._log.log_start_offset)

    @property
    def first_offset(self) -> int:
        """The first record that is not expired; the end when all are."""
        log_start = self._log.log_start_offset
        if self._ttl_ms == NO_TTL:
            return log_start
        return min(max(log_start, self._expired.offset), self.visible_end)

    @property
    def delay_ms(self) -> int:
        """For how long a record is held back."""
        return self._delay_ms

    def refresh(self) -> bool:
        """Bring both ends up to now; False when that takes waiting: use `catch_up`."""
        if self._lock.locked():
            return False
        now_ms = self._host.clock.wall_ms()
        is_settled = self._delay_ms == 0 or self._due.advance(
            self._log, self._high_watermark, now_ms - self._delay_ms
        )
        if is_settled and self._ttl_ms != NO_TTL:
            is_settled = self._expired.advance(
                self._log, self._high_watermark, now_ms - self._ttl_ms
            )
        self._publish()
        return is_settled

    async def catch_up(self) -> None:
        """Bring both ends up to the time of the call. Raises Refusal(KAFKA_STORAGE_ERROR)."""
        if self.refresh():
            return
        async with self._lock:
            now_ms, end_offset = self._host.clock.wall_ms(), self._high_watermark
            is_settled = False
            while not is_settled:
                is_settled = await self._advance_cold(now_ms, end_offset)
                await asyncio.sleep(0)
        self._publish()

    async def _advance_cold(self, now_ms: int, end_offset: int) -> bool:
        self._log.check_online()
        log = self._log
        if self._delay_ms > 0 and not await self._due.advance_cold(
            log, end_offset, now_ms - self._delay_ms
        ):
            return False
        return self._ttl_ms == NO_TTL or await self._expired.advance_cold(
            log, end_offset, now_ms - self._ttl_ms
        )

    def on_high_watermark(self, high_watermark: int, size: int) -> None:
        """`size` more bytes are committed, up to `high_watermark`."""
        was_at_end = self._due.offset >= self._high_watermark
        self._high_watermark = high_watermark
        if self._delay_ms == 0:
            self._host.publish(size)
        elif was_at_end and len(self._host.parked):
            self.on_parked()  # it may have been written well before

    def on_parked(self) -> None:
        """A fetch waits here: wake it when a record comes due."""
        if self._delay_ms == 0 or self._timer is not None or self._is_running:
            return
        if self._due.offset < self._high_watermark:
            if self._due.next_time is None and not self.refresh():
                self._run()
            else:
                self._arm_for_next(0)

    def configure(self, settings: TopicSettings) -> None:
        """The topic's settings changed; the topic still has a window."""
        if (self._delay_ms, self._ttl_ms) == (settings.delivery_delay_ms, settings.delivery_ttl_ms):
            return
        if self._delay_ms == 0:
            self._due.raise_to(self._high_watermark)
        old_ttl_ms, self._ttl_ms = self._ttl_ms, settings.delivery_ttl_ms
        self._delay_ms = settings.delivery_delay_ms
        if self._ttl_ms != NO_TTL and (old_ttl_ms == NO_TTL or self._ttl_ms > old_ttl_ms):
            self._expired = Boundary(self._log.log_start_offset)
        self.close()
        self._host.look_again()
        if len(self._host.parked):
            self.on_parked()

    def close(self) -> None:
        """No timer is left."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    # waking

    def _publish(self) -> None:
        size, self._due.passed_bytes = self._due.passed_bytes, 0
        if size:
            self._host.publish(size)

    def _arm(self, delay_ms: float) -> None:
        if self._timer is None:
            self._timer = self._host.call_later(delay_ms, self._on_timer)

    def _arm_for_next(self, pause_ms: int) -> None:
        """Wait for the next record's time, and for `pause_ms` at least; for nothing without one."""
        if self._due.offset >= self._high_watermark:
            return
        next_time = self._due.next_time
        if next_time is None:
            self._arm(LOOK_AGAIN_MS)
            return
        now_ms = self._host.clock.wall_ms()
        self._arm(max(next_time + self._delay_ms - now_ms, pause_ms))

    def _on_timer(self) -> None:
        self._timer = None
        if not len(self._host.parked) or self._is_running:
            return
        next_time, offset = self._due.next_time, self._due.offset
        if not self.refresh():
            self._run()
            return
        is_passed = self._due.offset > offset
        if is_passed and next_time is not None:
            late_ms = self._host.clock.wall_ms() - next_time - self._delay_ms
            self._host.metrics.delivery_wake_delay_seconds.observe(max(0, late_ms) / 1000)
        self._arm_for_next(WAKE_INTERVAL_MS if is_passed else 1)

    def _run(self) -> None:
        """Catch up in a task, since it takes waiting."""
        self._is_running = True
        self._host.spawn(self._catch_up_and_arm())

    async def _catch_up_and_arm(self) -> None:
        try:
            await self.catch_up()
        except Refusal:
            self._host.look_again()  # each of them gets the error for an answer
            return
        finally:
            self._is_running = False
        if len(self._host.parked):
            self.on_parked()
