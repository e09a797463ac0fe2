"""Whether the data directory's disk has room for clients' records.

Produce is refused below a mark well before the last byte, so that commits of groups, checkpoints,
recovery, deletions and settings still have room, and taken again once a quarter more than the mark
is free. The disk is looked at by a clock, and after so many appended bytes, the more often the
nearer the mark is, and at once when a write finds it full. A request reads `is_low` alone.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Final

import structlog

from broker.config.broker import AUTOMATIC
from broker.ports import DiskFault

if TYPE_CHECKING:
    from broker.server.node import Broker

SHARE: Final = 20
"""By itself the mark is one part in so many of the disk…"""
MARK_BYTES_MAX: Final = 1 << 30
"""…and at most this."""
RESUME_SHARE: Final = 4
"""So much of the mark must be free on top of it before produce is taken again."""
CHECK_MS_MAX: Final = 1_000
CHECK_MS_MIN: Final = 100
FILL_BYTES_PER_MS: Final = 1 << 20
"""How fast a disk may fill at most: the next check is due before the mark can be passed by much."""
UNCHECKED_SHARE: Final = 16
"""Appends may take one part in so many of what is left above the mark before the next look…"""
UNCHECKED_BYTES_MIN: Final = 64 << 10
"""…this much at any rate…"""
UNCHECKED_BYTES_MAX: Final = 16 << 20
"""…and this at most: others fill the disk, too."""
CLEANING_SHARE: Final = 2
"""One part in so many of the mark is free at least while segments are compacted: what a cleaning
writes is there before what it replaces goes.
"""
RETAIN_MS: Final = 10_000
"""While space is low, retention runs this often."""

_log = structlog.get_logger("hermes.space")


class DiskSpace:
    """Of one broker. `is_low`: clients' records are refused, with `message`. `unchecked_bytes` are
    what may be appended before the next look.
    """

    def __init__(self, broker: Broker) -> None:
        self._broker = broker
        self.is_low = False
        self.message = ""
        self.unchecked_bytes = 0
        self._retain_due_ms = 0.0

    @property
    def mark_bytes(self) -> int:
        """Below so much free space produce is refused; 0: never. Raises DiskFault."""
        set_bytes = self._broker.settings.hermes_log_dir_min_free_bytes
        return low_mark(set_bytes, self._broker.disk.total_bytes())

    async def watch(self) -> None:
        """Until cancelled."""
        while True:
            wait_ms = self.check()
            await asyncio.sleep(wait_ms / 1000)

    def check(self) -> float:
        """Look at the disk now; how many ms later the next look is due."""
        try:
            free_bytes, mark_bytes = self._broker.disk.free_bytes(), self.mark_bytes
        except DiskFault as fault:
            _log.warning("the free space is not known", fault=str(fault))
            self.unchecked_bytes = UNCHECKED_BYTES_MIN
            return CHECK_MS_MAX
        was_low, self.is_low = self.is_low, is_low(free_bytes, mark_bytes, was_low=self.is_low)
        if self.is_low:
            self.message = (
                f"the broker's disk has {_megabytes(free_bytes)} free, less than the "
                f"{_megabytes(mark_bytes)} below which no records are taken: free space, shorten "
                "retention or delete topics; writes return by themselves"
            )
            self._retain()
        if self.is_low != was_low:
            self._tell(free_bytes, mark_bytes)
        self.unchecked_bytes = unchecked_bytes(free_bytes - mark_bytes)
        return check_interval_ms(free_bytes - mark_bytes)

    def has_room_to_clean(self, needed_bytes: int) -> bool:
        """Whether a cleaning that writes so much more may go on. Raises DiskFault."""
        if not self.is_low:
            return True
        free_bytes = self._broker.disk.free_bytes() - needed_bytes
        return free_bytes >= self.mark_bytes // CLEANING_SHARE

    def _tell(self, free_bytes: int, mark_bytes: int) -> None:
        if self.is_low:
            _log.error(
                "space is low: produce is refused, all else goes on; free space, shorten "
                "retention or delete topics",
                free_bytes=free_bytes,
                low_mark_bytes=mark_bytes,
            )
        else:
            _log.warning("there is space again: produce is taken", free_bytes=free_bytes)

    def _retain(self) -> None:
        now_ms = self._broker.clock.monotonic_ms()
        if now_ms >= self._retain_due_ms:
            self._retain_due_ms = now_ms + RETAIN_MS
            self._broker.maintenance.retain_all_soon()


def low_mark(set_bytes: int, total_bytes: int) -> int:
    """The mark for a disk of `total_bytes`; `set_bytes` is the setting's value."""
    if set_bytes != AUTOMATIC:
        return set_bytes
    return min(total_bytes // SHARE, MARK_BYTES_MAX)


def is_low(free_bytes: int, mark_bytes: int, *, was_low: bool) -> bool:
    """Whether produce is refused, which it is until a part of the mark more is free."""
    resume_bytes = mark_bytes + mark_bytes // RESUME_SHARE
    return free_bytes < (resume_bytes if was_low else mark_bytes)


def check_interval_ms(margin_bytes: int) -> float:
    """Until the next look, with so much left above the mark."""
    return max(CHECK_MS_MIN, min(CHECK_MS_MAX, margin_bytes / FILL_BYTES_PER_MS))


def unchecked_bytes(margin_bytes: int) -> int:
    """What may be appended until the next look, with so much left above the mark."""
    return max(UNCHECKED_BYTES_MIN, min(UNCHECKED_BYTES_MAX, margin_bytes // UNCHECKED_SHARE))


def _megabytes(count: int) -> str:
    return f"{count / 1e6:,.1f} MB"
