"""In which order partitions roll: one at a time, the one whose segment has outgrown its size most,
and now and then the one that has waited longest.

Partitions that are written alike are due alike. Their segments may well grow while they wait, but
not without bounds: who is written fastest waits least. Nor does anybody wait for ever: a segment
that is due by its age may never outgrow those of busy partitions.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from itertools import islice
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from broker.server.partition import Partition

COMPARED_MAX: Final = 1_000
"""Of those that wait, the first so many are compared: a fraction of a millisecond."""
LONGEST_EVERY: Final = 4
"""One turn in so many goes to who has waited longest."""


class RollOrder:
    """Whose turn it is. Invariant: while somebody waits, somebody rolls."""

    def __init__(self) -> None:
        self._is_taken = False
        self._turn_count = 0
        self._waiting: dict[Partition, asyncio.Future[None]] = {}

    @asynccontextmanager
    async def turn(self, partition: Partition) -> AsyncIterator[None]:
        """Wait until `partition` may roll; the others wait until the end of the block."""
        if self._is_taken:
            await self._wait(partition)
        self._is_taken = True
        try:
            yield
        finally:
            self._pass_on()

    async def _wait(self, partition: Partition) -> None:
        assert partition not in self._waiting, "a partition rolls once at a time"
        turn = self._waiting[partition] = asyncio.get_running_loop().create_future()
        try:
            await turn
        except asyncio.CancelledError:
            self._waiting.pop(partition, None)
            if not turn.cancelled():  # its turn had just come
                self._pass_on()
            raise

    def _pass_on(self) -> None:
        while self._waiting:
            turn = self._waiting.pop(self._following())
            if not turn.done():  # else its task was cancelled, and has not noticed yet
                turn.set_result(None)
                return
        self._is_taken = False

    def _following(self) -> Partition:
        self._turn_count += 1
        if self._turn_count % LONGEST_EVERY == 0:
            return next(iter(self._waiting))
        return max(islice(self._waiting, COMPARED_MAX), key=_overgrowth)


def _overgrowth(partition: Partition) -> float:
    """Bytes beyond its segment's size; who is offline meanwhile does not roll and only leaves."""
    if partition.is_offline:
        return float("inf")
    log = partition.log
    return log.active.size - log.config.segment_bytes
