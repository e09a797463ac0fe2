"""Which half of the journal takes a record, and whose files may lack what the halves have.

Records stand one behind the other in the open half. When it has enough, and the other half is
settled, the other one is opened, and this one's logs are to be synced. How many bytes a half takes
follows from how fast the files of the one before were synced. Pure: no file, clock or task.
Invariant: a place is given again only when every log with records there was synced by its file, or
is gone.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable
from typing import Final, Generic, TypeVar

from broker.log.journal import BLOCK_BYTES, FIRST_RECORD, blocks_of

ENOUGH_PART: Final = 32
"""A half with a 32nd of its bytes is left as soon as it may be: 512 KiB of a real ring's, whose
files are synced within milliseconds.
"""
OPEN_MS_MIN: Final = 20
"""From one leaving to the next: syncing a file costs as much as writing many records."""
SETTLE_SHARE: Final = 3
"""And so many times as long as the last half's files took: their syncs have a third of the time at
most.
"""
REST_MS_MAX: Final = 1_000
"""But no longer than this behind the end of a sync: a device that stood still says nothing of how
fast it is.
"""
SETTLE_MS_MAX: Final = 30
"""A half takes as many bytes as the last one's files were synced with in so long, and enough at
least: a round that finds it full syncs its own files, and waits for their part of that.
"""
GROWTH_MAX: Final = 2
"""Of what a half may take, from one to the next: when rounds had synced the files already, the last
sync took no time and says nothing.
"""
SETTLE_MS_MIN: Final = 1
"""No sync counts as shorter."""

K = TypeVar("K", bound=Hashable)


class Halves(Generic[K]):
    """Of a journal of `file_size` bytes, with records of up to `record_bytes_max`; K names a log.
    Positions and sizes are bytes, times milliseconds of one clock.
    """

    def __init__(self, file_size: int, record_bytes_max: int) -> None:
        middle = FIRST_RECORD + (file_size - FIRST_RECORD) // (2 * BLOCK_BYTES) * BLOCK_BYTES
        assert middle - FIRST_RECORD >= record_bytes_max, "a half has room for a record"
        self._open, self._other = (FIRST_RECORD, middle), (middle, file_size)
        self._next = FIRST_RECORD
        self._enough_bytes = (middle - FIRST_RECORD) // ENOUGH_PART
        self._record_bytes = 0
        self._bytes_max = self._enough_bytes
        """With so many the open half takes no more."""
        self._left_bytes = 0
        self._left_ms = 0.0
        """What the other half had, and when it was left."""
        self._may_leave_from_ms = 0.0
        self._owed: dict[K, None] = {}
        """Whose files may lack what the open half has."""
        self._settling: dict[K, None] = {}
        """Whose files may lack what the other half has."""
        self._is_settled = True
        """Not the same as nothing `_settling`: while a sync runs, the last log may be forgotten."""

    @property
    def settling(self) -> tuple[K, ...]:
        """The logs that are to be synced."""
        return tuple(self._settling)

    @property
    def is_all_settled(self) -> bool:
        """Whether the files have what the journal has."""
        return self._is_settled and not self._owed

    def has_place(self, size: int) -> bool:
        """Whether the open half takes a record of `size` bytes."""
        return (
            self._record_bytes < self._bytes_max and self._next + blocks_of(size) <= self._open[1]
        )

    def is_to_be_left(self, size: int, now_ms: float) -> bool:
        """Whether the next record, of `size` bytes, is for the other half."""
        has_enough = self._record_bytes >= self._enough_bytes or not self.has_place(size)
        return has_enough and self.may_leave(now_ms)

    def may_leave(self, now_ms: float) -> bool:
        """Whether the other half may be opened."""
        return self._is_settled and now_ms >= self._may_leave_from_ms

    def leave(self, now_ms: float) -> None:
        """Open the other half; this one's logs are `settling`."""
        assert self.may_leave(now_ms), "the other half is settled"
        self._open, self._other = self._other, self._open
        self._left_bytes = self._record_bytes
        self._next, self._record_bytes = self._open[0], 0
        self._left_ms = now_ms
        self.leave_both()

    def leave_both(self) -> None:
        """All logs are `settling`."""
        self._settling |= self._owed
        self._owed = {}
        self._is_settled = False

    def place(self, size: int, logs: Iterable[K]) -> int:
        """The position of a record of `size` bytes, of `logs`."""
        assert self.has_place(size), "the open half takes the record"
        position = self._next
        self._next += blocks_of(size)
        self._record_bytes += size
        self._owed.update(dict.fromkeys(logs))
        return position

    def note_settled(self, synced: Iterable[K], now_ms: float) -> bool:
        """The files of `synced` have what was `settling`; False when a log's file does not. From
        how long that took follows what a half takes, and for how long it stays open.
        """
        for log in synced:
            self._settling.pop(log, None)
        self._is_settled = not self._settling
        took_ms = max(now_ms - self._left_ms, SETTLE_MS_MIN)
        open_ms = took_ms + min((SETTLE_SHARE - 1) * took_ms, REST_MS_MAX)
        self._may_leave_from_ms = self._left_ms + max(OPEN_MS_MIN, open_ms)
        settled_in_time = int(self._left_bytes * SETTLE_MS_MAX / took_ms)
        self._bytes_max = max(
            self._enough_bytes, min(settled_in_time, GROWTH_MAX * self._bytes_max)
        )
        return self._is_settled

    def forget(self, log: K) -> None:
        """It was deleted."""
        self._owed.pop(log, None)
        self._settling.pop(log, None)
