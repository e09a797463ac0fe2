"""The cleaner's visits to partitions: when one is due, at which speed, and what is counted.

Not here: what is kept (`broker.log.cleaner`). A worker that dies costs one visit; the next round
begins where the last finished pass left off. While space is low retention goes first, and a
cleaning without room for what it writes pauses: what it has exchanged so far stays.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import structlog

from broker.log import cleanable
from broker.log.cleaner import Cleaned, CleanLimits
from broker.log.open_segments import measure
from broker.ports import WorkerFault
from broker.server.pacing import Pace
from broker.server.partition import Partition

if TYPE_CHECKING:
    from broker.server.node import Broker

_log = structlog.get_logger("hermes.cleaning")


class _Paused(Exception):
    """Space is low, and others need it first."""


class Cleaning:
    """One for a broker: it works on one partition at a time."""

    def __init__(self, broker: Broker) -> None:
        self._broker = broker
        self._pace = Pace(broker.clock, lambda: broker.settings.log_cleaner_io_max_bytes_per_second)
        self._present: Partition | None = None
        self._gives_way = False

    def give_way(self, partition: Partition) -> None:
        """Retention has something to delete of `partition`, and space is low."""
        self._gives_way |= partition is self._present

    async def visit(self, partition: Partition) -> None:
        """Clean the partition if that is due. Raises DiskFull, DiskFault."""
        log, broker = partition.log, self._broker
        now_wall_ms = broker.clock.wall_ms()
        if cleanable.is_roll_due(log, now_wall_ms) and not partition.is_rolling:
            await log.roll(now_wall_ms)
            broker.metrics.segments_rolled_total.add(1)
        if not log.config.is_compacted:
            return
        await measure(log)
        needed_bytes = min(log.config.segment_bytes, log.log_size())
        if not cleanable.is_due(log, now_wall_ms):
            return
        if not broker.space.has_room_to_clean(needed_bytes):
            return
        began_ms, size_before = broker.clock.monotonic_ms(), log.log_size()
        reason_before = log.uncleanable_reason
        limits = CleanLimits(
            broker.settings.log_cleaner_dedupe_buffer_size,
            self._step,
            partition.high_watermark,
        )
        outcome = "failed"
        self._present, self._gives_way = partition, False
        try:
            cleaned = await log.clean(broker.upkeep_worker, now_wall_ms, limits)
            outcome = "cleaned" if cleaned.is_changed else "nothing"
            self._count(cleaned, size_before - log.log_size())
        except WorkerFault as fault:
            _log.warning("a cleaning begins again", partition=str(partition), fault=str(fault))
        except _Paused:
            outcome = "paused"
            broker.maintenance.retain_one_soon(partition)
        finally:
            self._present = None
            metrics = broker.metrics
            metrics.cleaner_runs_total.add(1, outcome=outcome)
            metrics.cleaner_duration_seconds.observe(
                (broker.clock.monotonic_ms() - began_ms) / 1000
            )
        if log.uncleanable_reason and log.uncleanable_reason != reason_before:
            _log.error(
                "a part of the log cannot be cleaned",
                partition=str(partition),
                reason=log.uncleanable_reason,
            )

    async def _step(self, size: int) -> None:
        """Before a cleaning goes on after so many bytes."""
        await self._pace.wait(size)
        if self._gives_way or not self._broker.space.has_room_to_clean(0):
            raise _Paused

    def _count(self, cleaned: Cleaned, removed_bytes: int) -> None:
        metrics = self._broker.metrics
        metrics.cleaner_read_bytes_total.add(cleaned.read_bytes)
        metrics.cleaner_written_bytes_total.add(cleaned.written_bytes)
        metrics.cleaner_removed_bytes_total.add(max(0, removed_bytes))
        metrics.cleaner_last_run_timestamp_seconds.set(self._broker.clock.wall_ms() / 1000)
