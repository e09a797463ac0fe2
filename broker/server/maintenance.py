"""What partitions need besides requests: rolling, retention, cleaning, and an empty trash. One
partition at a time.

Rolls start when a write finds one due, wait for their turn, and go on beside everything else;
retention and cleaning are two loops. A disk fault takes its partition offline and nothing else;
what cannot be read is damage, which they leave as it is.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Final

import structlog

from broker.errors import Refusal
from broker.log.directory import empty_trash
from broker.log.open_segments import measure
from broker.log.retention import expired_count
from broker.ports import DiskFault, DiskFull, NoDescriptor
from broker.server.cleaning import Cleaning
from broker.server.partition import Partition
from broker.server.roll_order import RollOrder

if TYPE_CHECKING:
    from broker.server.node import Broker

ROLL_RETRY_MS: Final = 1_000
"""After a full disk stopped a roll; meanwhile the old segment goes on."""

DELETING_SHARE: Final = 0.2
"""Of the time, while there is room: the kernel frees a big file at the expense of who writes."""
PAUSE_S_MAX: Final = 1.0
"""After the deletions of one partition, however long they took: the others wait for retention and
checkpoints, too.
"""

_log = structlog.get_logger("hermes.maintenance")


class Maintenance:
    """The background work on a broker's partitions."""

    def __init__(self, broker: Broker) -> None:
        self._broker = broker
        self._cleaning = Cleaning(broker)
        self._is_emptying = False
        self._moved: dict[Partition, None] = {}
        self._is_following = False
        self._rolls = RollOrder()

    def start(self) -> None:
        """Begin the loops."""
        self._broker.spawn(self._repeat(self._retain, self._retention_interval_ms))
        self._broker.spawn(self._repeat(self._cleaning.visit, self._cleaner_backoff_ms))
        self._broker.spawn(self._round(_measure))
        self.empty_trash_soon()

    def roll_soon(self, partition: Partition) -> None:
        """A new segment is due at `partition`, which has `is_rolling` set until it is there."""
        self._broker.spawn(self._roll(partition))

    def retain_soon(self, partition: Partition) -> None:
        """The log start moved: whole segments below it need not wait for the next round. Of many
        partitions one after the other, as in a round.
        """
        if partition.is_offline:
            return
        log = partition.log
        if len(log.segments) > 1 and log.segments[1].base_offset <= log.log_start_offset:
            self._moved[partition] = None
            if not self._is_following:
                self._is_following = True
                self._broker.spawn(self._retain_moved())

    def retain_one_soon(self, partition: Partition) -> None:
        """Compaction gave way to it."""
        self._broker.spawn(self._attend(partition, self._retain))

    def retain_all_soon(self) -> None:
        """Space is low: what retention allows to go need not wait for the next round."""
        self._broker.spawn(self._round(self._retain))

    def empty_trash_soon(self) -> None:
        """Remove what was deleted, in the background."""
        if not self._is_emptying:
            self._is_emptying = True
            self._broker.spawn(self._empty_trash())

    async def _roll(self, partition: Partition) -> None:
        try:
            while not partition.is_offline and partition.log.needs_roll:
                try:
                    async with self._rolls.turn(partition):
                        if partition.log.needs_roll:  # settings may have changed meanwhile
                            await partition.log.roll(self._broker.clock.wall_ms())
                            self._broker.metrics.segments_rolled_total.add(1)
                except DiskFull as fault:
                    self._make_room(fault)
                    _log.error(
                        "no space for a new segment", partition=str(partition), fault=str(fault)
                    )
                    await asyncio.sleep(ROLL_RETRY_MS / 1000)
                except (DiskFault, FileNotFoundError, Refusal) as fault:
                    partition.take_offline(str(fault))  # or it was deleted meanwhile
        finally:
            partition.is_rolling = False

    async def _retain(self, partition: Partition) -> None:
        now_wall_ms = self._broker.clock.wall_ms()
        if partition.log.needs_roll and not partition.is_rolling:
            partition.is_rolling = True
            self.roll_soon(partition)  # nobody waits for it: a full disk would not let it end
        log, metrics = partition.log, self._broker.metrics
        await measure(log)
        if log.is_in_upkeep:
            if self._broker.space.is_low and await expired_count(
                log, now_wall_ms, partition.high_watermark
            ):
                self._cleaning.give_way(partition)
            return
        size_before, count_before = log.log_size(), len(log.segments)
        began_ms = self._broker.clock.monotonic_ms()
        await log.apply_retention(now_wall_ms, high_watermark=partition.high_watermark)
        elapsed_ms = self._broker.clock.monotonic_ms() - began_ms
        partition.check_log_start()
        deleted_count = max(0, count_before - len(log.segments))
        metrics.retention_deleted_bytes_total.add(max(0, size_before - log.log_size()))
        metrics.retention_deleted_segments_total.add(deleted_count)
        if deleted_count and not self._broker.space.is_low:
            pause_s = elapsed_ms / 1000 * (1 / DELETING_SHARE - 1)
            await asyncio.sleep(min(pause_s, PAUSE_S_MAX))

    async def _retain_moved(self) -> None:
        try:
            while self._moved:
                partition = next(iter(self._moved))
                del self._moved[partition]
                if not partition.is_offline:
                    await self._attend(partition, self._retain)
        finally:
            self._is_following = False

    async def _repeat(
        self, work: Callable[[Partition], Awaitable[None]], interval_ms: Callable[[], int]
    ) -> None:
        while True:
            await asyncio.sleep(interval_ms() / 1000)
            await self._round(work)

    async def _round(self, work: Callable[[Partition], Awaitable[None]]) -> None:
        for partition in self._broker.partitions.all():
            if not partition.is_offline:
                await self._attend(partition, work)
            await asyncio.sleep(0)

    async def _attend(
        self, partition: Partition, work: Callable[[Partition], Awaitable[None]]
    ) -> None:
        try:
            await work(partition)
        except DiskFull as fault:
            self._make_room(fault)
            _log.error("no space for maintenance", partition=str(partition), fault=str(fault))
        except (DiskFault, FileNotFoundError, Refusal) as fault:
            partition.take_offline(str(fault))  # or it was deleted meanwhile
        except Exception as error:  # noqa: BLE001 - one partition's bug must not stop the others' maintenance
            _log.error("maintenance failed", partition=str(partition), exc_info=error)
        partition.report_damage()

    def _make_room(self, fault: DiskFull) -> None:
        if isinstance(fault, NoDescriptor):
            self._broker.partitions.close_idle_files()
        else:
            self._broker.space.check()

    async def _empty_trash(self) -> None:
        try:
            await empty_trash(self._broker.disk)
        except DiskFault as fault:
            _log.error("the trash could not be emptied", fault=str(fault))
        finally:
            self._is_emptying = False

    def _retention_interval_ms(self) -> int:
        return self._broker.settings.log_retention_check_interval_ms

    def _cleaner_backoff_ms(self) -> int:
        return self._broker.settings.log_cleaner_backoff_ms


async def _measure(partition: Partition) -> None:
    """What a start leaves for later: the sizes of closed segments."""
    await measure(partition.log)
