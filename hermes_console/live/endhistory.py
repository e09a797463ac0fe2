"""When did a partition's end pass an offset? Answered from sampled ends, in bounded memory. Pure.

Three tiers of samples, each coarser and longer than the one before. A stretch in which the end
stands still is kept as its two ends, so an idle partition costs almost nothing and the time of its
next record is still exact to a sample.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import deque
from typing import Final, NamedTuple

TIERS: Final = ((1_000, 60), (10_000, 90), (60_000, 60))
"""(milliseconds between samples, how many are kept): one minute, a quarter of an hour, an hour."""


class EndSample(NamedTuple):
    """The end offset as it was at a time."""

    at_ms: int
    end: int


class ProducedAt(NamedTuple):
    """About when the record at an offset was appended; `is_at_least`: at that time it was there
    already.
    """

    at_ms: float
    is_at_least: bool


class EndHistory:
    """The samples of one partition. Ends never go back: a lower one (a recreated topic) starts the
    history anew.
    """

    __slots__ = ("_at_ms", "_end", "_tiers")

    def __init__(self) -> None:
        self._tiers: tuple[deque[EndSample], ...] = tuple(deque(maxlen=kept) for _, kept in TIERS)
        self._at_ms = -1
        self._end = -1

    def add(self, at_ms: int, end: int) -> None:
        """A new sample; one that is not later than the last is ignored. An end that stands still is
        written down when it moves on: most partitions of a large cluster do so for hours.
        """
        if end < self._end:
            for tier in self._tiers:
                tier.clear()
        elif at_ms <= self._at_ms:
            return
        elif end == self._end:
            self._at_ms = at_ms
            return
        elif self._tiers[0] and self._at_ms > self._tiers[0][-1].at_ms:
            self._write(EndSample(self._at_ms, self._end))
        self._at_ms, self._end = at_ms, end
        self._write(EndSample(at_ms, end))

    def _write(self, sample: EndSample) -> None:
        at_ms, end = sample
        for (step_ms, _), tier in zip(TIERS, self._tiers, strict=True):
            if len(tier) >= 2 and tier[-1].end == tier[-2].end == end:
                tier[-1] = sample
            elif not tier or at_ms - tier[-1].at_ms >= step_ms * 0.9:
                tier.append(sample)

    def produced_at(self, offset: int) -> ProducedAt | None:
        """When `offset` was appended; None when no sample's end is above it (or there are no
        samples).
        """
        if not self._tiers[0] or self._tiers[0][-1].end <= offset:
            return None
        for tier in self._tiers:
            if tier and tier[0].end <= offset < tier[-1].end:
                return ProducedAt(_interpolate(tier, offset), is_at_least=False)
        oldest = min((tier[0] for tier in self._tiers if tier), key=lambda sample: sample.at_ms)
        return ProducedAt(oldest.at_ms, is_at_least=True)


def _interpolate(tier: deque[EndSample], offset: int) -> float:
    """The time at which the end went past `offset`, on a straight line between the samples around
    it.
    """
    samples = list(tier)
    above = bisect_right(samples, offset, key=lambda sample: sample.end)
    before, after = samples[above - 1], samples[above]
    share = (offset - before.end) / (after.end - before.end)
    return before.at_ms + share * (after.at_ms - before.at_ms)
