"""Which half of the journal takes a record, and whose files may lack what the halves have.

Records stand one behind the other in the open half. When it has enough, and the other half is
settled, the other one is opened, and this one's logs are to be synced. Pure: no file, clock or
task. Invariant: a place is given again only when every log with records there was synced by its
file, or is gone.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable
from typing import Final, Generic, TypeVar

from broker.log.journal import BLOCK_BYTES, FIRST_RECORD, RECORD_BYTES_MAX, blocks_of

HALF_BYTES: Final = 512 * 1024
"""Of records, after which the other half is opened: the files of so little are synced within
milliseconds.
"""
OPEN_MS_MIN: Final = 20
"""A half stays open for so long at least: about 26 MB/s of records are written twice at most."""

K = TypeVar("K", bound=Hashable)


class Halves(Generic[K]):
    """Of a journal of `file_size` bytes; K names a log. Positions and sizes are bytes, times
    milliseconds of one clock.
    """

    def __init__(self, file_size: int) -> None:
        middle = FIRST_RECORD + (file_size - FIRST_RECORD) // (2 * BLOCK_BYTES) * BLOCK_BYTES
        assert middle - FIRST_RECORD >= RECORD_BYTES_MAX, "a half has room for a record"
        self._open, self._other = (FIRST_RECORD, middle), (middle, file_size)
        self._next = FIRST_RECORD
        self._record_bytes = 0
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
        return self._record_bytes < HALF_BYTES and self._next + blocks_of(size) <= self._open[1]

    def may_leave(self, now_ms: float) -> bool:
        """Whether the other half may be opened."""
        return self._is_settled and now_ms >= self._may_leave_from_ms

    def leave(self, now_ms: float) -> None:
        """Open the other half; this one's logs are `settling`."""
        assert self.may_leave(now_ms), "the other half is settled"
        self._open, self._other = self._other, self._open
        self._next, self._record_bytes = self._open[0], 0
        self._may_leave_from_ms = now_ms + OPEN_MS_MIN
        self.leave_both()

    def leave_both(self) -> None:
        """All logs are `settling`."""
        self._settling |= self._owed
        self._owed = {}
        self._is_settled = False

    def place(self, size: int, logs: Iterable[K]) -> int:
        """The position of a record of `size` bytes, of `logs`."""
        assert self.has_place(size), "a record stands in one half"
        position = self._next
        self._next += blocks_of(size)
        self._record_bytes += size
        self._owed.update(dict.fromkeys(logs))
        return position

    def note_settled(self, synced: Iterable[K]) -> bool:
        """The files of `synced` have what was `settling`; False when a log's file does not."""
        for log in synced:
            self._settling.pop(log, None)
        self._is_settled = not self._settling
        return self._is_settled

    def forget(self, log: K) -> None:
        """It was deleted."""
        self._owed.pop(log, None)
        self._settling.pop(log, None)
