"""How far groups are behind: records between commit and the end of what consumers see, and the age
of the first of them.

Where a topic has a delivery window, what is expired counts as read, what is not due yet does not
count, and the age begins when the record came due.

The lag of a group without a commit is unknown, not 0, so it has no sample. A commit is compared
with a watermark read after it, and what retention has deleted counts as read.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import TYPE_CHECKING, Final, NamedTuple

from broker.errors import Refusal
from broker.log.age import append_time
from broker.ports import DiskFault

if TYPE_CHECKING:
    from broker.server.node import Broker
    from broker.server.partition import Partition

TIMES_KEPT_MAX: Final = 20_000


class GroupPosition(NamedTuple):
    """Where a group stands on a partition; `first_unread` is the visible end without lag."""

    group: str
    partition: Partition
    committed_offset: int
    first_unread: int

    @property
    def lag_records(self) -> int:
        """0 and above."""
        return max(0, self.partition.visible_end - self.first_unread)


class LagReader:
    """Reads positions of groups.

    Remembers append times, which never change for an offset of a topic id.
    """

    def __init__(self, broker: Broker) -> None:
        self._broker = broker
        self._append_times: dict[tuple[bytes, int, int], int] = {}

    async def positions(self) -> AsyncIterator[GroupPosition]:
        """Of every group with a commit on a partition that serves; safe to consume in slices."""
        for commit in self._broker.groups.committed_offsets():
            partition = self._broker.partitions.get(commit.topic, commit.partition)
            if partition is None or partition.is_offline:
                continue
            if await is_current(partition):
                first_unread = max(commit.offset, partition.first_offset)
                yield GroupPosition(commit.group, partition, commit.offset, first_unread)

    async def oldest_unread_seconds(self, position: GroupPosition) -> float | None:
        """Age of the group's first unread record; 0 without lag, None when the log cannot tell."""
        if position.lag_records == 0:
            return 0.0
        partition = position.partition
        key = (partition.topic_id, partition.index, position.first_unread)
        appended_ms = self._append_times.get(key)
        if appended_ms is None:
            try:
                appended_ms = await append_time(
                    partition.log, position.first_unread, partition.visible_end
                )
            except (DiskFault, Refusal):
                return None
            if appended_ms is None:
                return None
            while len(self._append_times) >= TIMES_KEPT_MAX:
                del self._append_times[next(iter(self._append_times))]
            self._append_times[key] = appended_ms
        due_ms = appended_ms + (0 if partition.window is None else partition.window.delay_ms)
        return max(0, self._broker.clock.wall_ms() - due_ms) / 1000


async def is_current(partition: Partition) -> bool:
    """Bring the partition's delivery window, if it has one, up to now; False when it cannot be."""
    if partition.window is not None:
        try:
            await partition.window.catch_up()
        except Refusal:
            return False
    return True
