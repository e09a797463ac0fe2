"""Where a group's lag is heading: production and consumption rates, and whether its floor rises.
Pure.

A burst is not a trend. Lag goes up and down with every commit and every spike; a group falls behind
when the *lowest* lag of each third of the window is above that of the third before, by more than
commits alone explain.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from typing import Final, NamedTuple

WINDOW_MS: Final = 120_000
WINDOW_MS_MIN: Final = 60_000
RATE_WINDOW_MS: Final = 60_000
RATE_WINDOW_MS_MIN: Final = 5_000
SAMPLES_MAX: Final = 150
NOISE_S: Final = 2.0
"""Seconds of production by which a floor may differ from another without meaning anything."""


class TrendSample(NamedTuple):
    """Sums over the partitions with a commit, at one time; `partition_count` tells when the sums
    lost their meaning.
    """

    at_ms: int
    partition_count: int
    committed: int
    end: int
    lag: int


class Rate(NamedTuple):
    """Messages per second over the last RATE_WINDOW_MS."""

    produced: float
    consumed: float


class Trend:
    """The last samples of one group. A changed set of partitions, a recreated topic or a rewind
    starts it anew.
    """

    __slots__ = ("_samples",)

    def __init__(self) -> None:
        self._samples: deque[TrendSample] = deque(maxlen=SAMPLES_MAX)

    def add(self, sample: TrendSample) -> None:
        if self._samples:
            last = self._samples[-1]
            if sample.at_ms <= last.at_ms:
                return
            if (
                sample.partition_count != last.partition_count
                or sample.end < last.end
                or sample.committed < last.committed
            ):
                self._samples.clear()
        self._samples.append(sample)
        while self._samples[-1].at_ms - self._samples[0].at_ms > WINDOW_MS:
            self._samples.popleft()

    def rate(self) -> Rate | None:
        """None before RATE_WINDOW_MS_MIN was watched."""
        if not self._samples:
            return None
        last = self._samples[-1]
        begin_ms = last.at_ms - RATE_WINDOW_MS
        first = next(sample for sample in self._samples if sample.at_ms >= begin_ms)
        seconds = (last.at_ms - first.at_ms) / 1000
        if seconds * 1000 < RATE_WINDOW_MS_MIN:
            return None
        return Rate((last.end - first.end) / seconds, (last.committed - first.committed) / seconds)

    def is_falling_behind(self) -> bool:
        rate = self.rate()
        return (
            rate is not None
            and rate.produced > rate.consumed
            and is_floor_rising(self._samples, rate.produced)
        )


def is_floor_rising(samples: Sequence[TrendSample], produced_per_s: float) -> bool:
    """Whether the lowest lag rises from third to third, in total by more than NOISE_S of
    production, and has not begun to fall in the last sixth.

    `samples` are in order of time; fewer than WINDOW_MS_MIN of them are no trend.
    """
    begin, span = samples[0].at_ms, samples[-1].at_ms - samples[0].at_ms
    if span < WINDOW_MS_MIN:
        return False
    floors: list[int | None] = [None] * 6
    for sample in samples:
        sixth = min(5, (sample.at_ms - begin) * 6 // span)
        floor = floors[sixth]
        floors[sixth] = sample.lag if floor is None else min(floor, sample.lag)
    known = [floor for floor in floors if floor is not None]
    if len(known) < len(floors):
        return False
    first, second, last = (min(known[index : index + 2]) for index in (0, 2, 4))
    noise = NOISE_S * produced_per_s + 1
    return first < second < last and last - first > noise and known[5] >= known[4]


def drain_seconds(lag: int | None, rate: Rate | None) -> float | None:
    """Until nothing waits at this pace; 0 when nothing does, None when unknown or never (not
    shrinking).
    """
    if lag == 0:
        return 0.0
    if lag is None or rate is None or rate.consumed - rate.produced <= 0.01 * rate.produced:
        return None
    shrinking = rate.consumed - rate.produced
    return lag / shrinking if shrinking > 0 else None
