"""Reading a segment around what the device does not give.

Not here: what becomes of the records there (`survey`). Of a read that fails, all from its first to
its last page that fail is lost. Lost bytes read as FILLER, which is no part of any batch: whoever
checks batches finds the damage by that.
"""

from __future__ import annotations

from typing import Final, NamedTuple

from broker.log.segment import Segment
from broker.log.turns import OthersFirst
from broker.model import INT64_MAX
from broker.ports import ReadFault

PAGE_BYTES: Final = 4096
"""The least that the system reads at once, and so the least that one bad sector takes away."""
FAULTS_MAX: Final = 256
"""A search that failed so often takes the rest as lost: one read may cost a device seconds. What it
is looking for at that moment is found first.
"""
FILLER: Final = bytes(range(0xFF, 0xEF, -1)) * 256


class Lost(NamedTuple):
    """Bytes [position, end_position) that the device did not give."""

    position: int
    end_position: int
    reason: str


class Salvage:
    """A segment as far as it can be read: implements `scan.Readable`. `lost` is what was met."""

    def __init__(self, segment: Segment) -> None:
        self.segment = segment
        self.lost: list[Lost] = []
        self._fault_count = 0

    @property
    def size(self) -> int:
        """The segment's."""
        return self.segment.size

    async def read_cold(self, position: int, size: int) -> bytes:
        """As `Segment.read_cold`, with FILLER for what is lost. Raises DiskFault, but no ReadFault;
        FileNotFoundError.
        """
        content, end = bytearray(), position + size
        while position < end:
            lost = self.lost_within(position, end)
            if lost is not None and lost.position <= position:
                stop = min(end, lost.end_position)
                content += (FILLER * (1 + (stop - position) // len(FILLER)))[: stop - position]
                await OthersFirst()
            else:
                stop = end if lost is None else lost.position
                try:
                    part = await self.segment.read_cold(position, stop - position)
                except ReadFault as fault:
                    await self._lose(position, stop, f"it cannot be read: {fault.reason}")
                    continue
                content += part
                if len(part) < stop - position:
                    break  # the file ends there
            position = stop
        return bytes(content)

    def lost_within(self, position: int, end: int) -> Lost | None:
        """The first loss in [position, end), None when none is known."""
        found = [each for each in self.lost if each.position < end and position < each.end_position]
        return min(found, default=None)

    async def _lose(self, position: int, end: int, reason: str) -> None:
        """Find out what of [position, end), which cannot be read at once, is lost. At its ends
        first: where much is lost, all of that read is.
        """
        self._fault_count += 1
        first, last = position // PAGE_BYTES, -(-end // PAGE_BYTES)
        if self._fault_count >= FAULTS_MAX:
            self.lost.append(Lost(first * PAGE_BYTES, INT64_MAX, reason))
            return
        low, high = first, last  # all before `low` is given
        while high - low > 1:
            middle = low + 1 if low == first else (low + high) // 2
            if await self._gives(low, middle):
                low = middle
            else:
                high = middle
        begin, high = low, last  # all from `high` on is given
        while high - low > 1:
            middle = high - 1 if high == last else (low + high) // 2
            if await self._gives(middle, high):
                high = middle
            else:
                low = middle
        if high - begin == 1 and await self._gives(begin, high):
            return  # it did not last: what failed is read once more
        self.lost.append(Lost(begin * PAGE_BYTES, high * PAGE_BYTES, reason))

    async def _gives(self, first: int, end: int) -> bool:
        """Whether the device gives the pages [first, end), which are read; a fault is counted."""
        try:
            await self.segment.read_cold(first * PAGE_BYTES, (end - first) * PAGE_BYTES)
        except ReadFault:
            self._fault_count += 1
            return False
        return True
