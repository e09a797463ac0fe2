"""Which closed segments of a log are open: their descriptors and indexes, a few at a time.

Not here: the active segment, which stays open. A segment's times are small and stay once known.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Final

from broker.log.index import Times
from broker.log.recovery import rebuild_index
from broker.log.segment import Segment
from broker.log.survey import Extent, note
from broker.log.turns import OthersFirst

if TYPE_CHECKING:
    from broker.log.partition_log import PartitionLog

OPEN_SEGMENTS_MAX: Final = 2
SIZES_PER_STEP: Final = 100
"""Files asked for their size in one step of the loop."""


class OpenSegments:
    """The last used ones, newest last. `make_room` is called when descriptors are short: whoever
    has several logs has all of them give back theirs.
    """

    __slots__ = ("_recent", "make_room")

    def __init__(self) -> None:
        self._recent: list[Segment] = []
        self.make_room: Callable[[], None] = self.close_idle

    def touch(self, segment: Segment) -> None:
        """`segment`, a closed one, is used now; the least recent one beyond the limit is closed."""
        recent = self._recent
        if segment in recent:
            recent.remove(segment)
        recent.append(segment)
        if len(recent) > OPEN_SEGMENTS_MAX:
            oldest = recent.pop(0)
            oldest.close_file()
            oldest.index = None

    def close_idle(self) -> None:
        """Descriptors are short: give back all that nobody uses now."""
        for segment in self._recent:
            segment.close_file()
            segment.index = None
        self._recent.clear()

    def forget(self, segment: Segment) -> None:
        """`segment` left the log or became the active one."""
        if segment in self._recent:
            self._recent.remove(segment)

    async def load(self, log: PartitionLog, segment: Segment) -> Times:
        """Load a closed segment's index, rebuilding it when its files do not fit; its times. Raises
        DiskFault.
        """
        self.touch(segment)
        if segment.index is None and not segment.load_index():
            # The append times are lost: later ones stand in, so that nothing expires early.
            place = (
                log.segments.index(segment) if segment in log.segments else len(log.segments) - 2
            )
            following = log.segments[place + 1]
            end_offset = following.base_offset
            extent = Extent(segment.size, end_offset, is_gapless=False)
            known = log.active_times() if following is log.active else following.times
            bound = (
                log.active_times().last_append_time if known is None else known.first_append_time
            )
            damaged = await rebuild_index(
                segment, log.index_interval_bytes, max(bound, log.opened_wall_ms), extent
            )
            for found in damaged:
                await note(log, segment, found)
            if segment.index is None:  # others closed it while its files were written
                self.touch(segment)
                segment.load_index()
        assert segment.times is not None, "an index is loaded with its times"
        return segment.times


async def measure(log: PartitionLog) -> None:
    """Ask every closed segment's file for its size, a few at a time, so that `log_size` need not
    ask them all at once. Raises DiskFault.
    """
    if log.is_measured:
        return
    for number, segment in enumerate(list(log.segments), start=1):
        assert segment.size >= 0, "a file's size"
        if number % SIZES_PER_STEP == 0:
            await OthersFirst()
    log.is_measured = True
