"""How the transactions of a stretch of a log ended, read off its batches from the oldest on.

Not here: coordination, the last stable offset. A producer has one transaction at a time; its
marker (a control batch) says how it ended. A transaction whose marker may lie in a part that
cannot be read is undecided for good: its records are neither shown to be dropped nor to be newer
than others.
"""

from __future__ import annotations

from bisect import bisect_right
from enum import Enum
from typing import Final

from broker.errors import Refusal
from broker.records.batch import CONTROL_BIT, TRANSACTIONAL_BIT, BatchHeader
from broker.records.iterate import iterate_raw, open_to_search

ABORT: Final = 0
COMMIT: Final = 1
OTHER_MARKER: Final = -1
STRETCHES_MAX: Final = 200_000
"""Transactions that did not commit, remembered at a time: some 30 MB."""


class Fate(Enum):
    """Of the transaction that a batch belongs to."""

    COMMITTED = "committed"
    ABORTED = "aborted"
    UNDECIDED = "undecided"


class Fates:
    """Of the transactions that did not commit, from where to where their producer was in them."""

    __slots__ = ("_count", "_seen_end", "_stretches", "open_offsets")

    def __init__(self) -> None:
        self.open_offsets: dict[int, int] = {}
        """Producer id → first offset of the transaction that has no marker yet."""
        self._stretches: dict[int, list[tuple[int, int, Fate]]] = {}
        self._count = 0
        self._seen_end = 0

    @property
    def is_full(self) -> bool:
        """True when no more should be noted before what is known was used."""
        return self._count >= STRETCHES_MAX

    def note(self, batch: memoryview, header: BatchHeader) -> None:
        """The next batch of the log; one that was noted already changes nothing."""
        if header.base_offset < self._seen_end:
            return
        self._seen_end = header.next_offset
        if not header.attributes & TRANSACTIONAL_BIT:
            return
        if not header.attributes & CONTROL_BIT:
            self.open_offsets.setdefault(header.producer_id, header.base_offset)
            return
        marker = marker_of(batch)
        if marker == OTHER_MARKER:
            return
        first = self.open_offsets.pop(header.producer_id, None)
        if first is not None and marker == ABORT:
            self._add(header.producer_id, first, header.base_offset, Fate.ABORTED)

    def lose_sight(self, end_offset: int) -> None:
        """What follows, up to `end_offset`, cannot be read: markers may be in it."""
        for producer_id, first in self.open_offsets.items():
            self._add(producer_id, first, end_offset, Fate.UNDECIDED)
        self.open_offsets.clear()

    def of(self, header: BatchHeader) -> Fate:
        """The fate of a transactional batch with records."""
        stretches = self._stretches.get(header.producer_id)
        if stretches is None:
            return Fate.COMMITTED
        place = bisect_right(stretches, header.base_offset, key=_place)
        if place == 0 or header.base_offset >= stretches[place - 1][1]:
            return Fate.COMMITTED
        return stretches[place - 1][2]

    def _add(self, producer_id: int, first: int, end: int, fate: Fate) -> None:
        self._stretches.setdefault(producer_id, []).append((first, end, fate))
        self._count += 1


def _place(stretch: tuple[int, int, Fate]) -> int:
    return stretch[0]


def marker_of(batch: memoryview) -> int:
    """ABORT, COMMIT, or OTHER_MARKER for a control batch that is neither (or cannot be read).

    The key of a control record is version i16, type i16 (Kafka protocol guide, "Control Batch").
    """
    try:
        header, payload = open_to_search(batch)
        keys = [raw.key for raw in iterate_raw(payload, header)]
    except Refusal:
        return OTHER_MARKER
    if len(keys) != 1 or keys[0] is None or len(keys[0]) < 4:
        return OTHER_MARKER
    kind = int.from_bytes(keys[0][2:4], "big", signed=True)
    return kind if kind in (ABORT, COMMIT) else OTHER_MARKER
