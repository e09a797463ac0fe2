"""How history is thinned: which resolutions exist, how long each is kept, and what the next slice
of work is. Pure.

raw 1 s for 15 min → 10 s for 6 h → 1 min for 7 days.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final


@dataclass(frozen=True, slots=True)
class Level:
    """One resolution and how long its samples are kept, in seconds."""

    resolution_s: int
    kept_s: int


LEVELS: Final = (Level(1, 15 * 60), Level(10, 6 * 3600), Level(60, 7 * 86_400))
SLICE_BUCKETS_MAX: Final = 60
"""Buckets of time that one slice of work condenses."""
SETTLED_AFTER_S: Final = 3
"""A bucket is condensed when its last second is that old: late samples have arrived."""


@dataclass(frozen=True, slots=True)
class Condensation:
    """Condense samples of `source` in [begin_s, end_s) into buckets of `target`; `is_last`: nothing
    is left to do.
    """

    source: Level
    target: Level
    begin_s: int
    end_s: int
    is_last: bool


def plan_condensation(
    source: Level, target: Level, *, now_s: int, first_s: int | None, condensed_until_s: int | None
) -> Condensation | None:
    """The next slice. `first_s` is the oldest source sample, `condensed_until_s` the end of the
    newest target bucket (None: there is none). None when nothing is due.
    """
    if first_s is None:
        return None
    size = target.resolution_s
    begin_s = first_s // size * size
    if condensed_until_s is not None:
        begin_s = max(begin_s, condensed_until_s)
    settled_s = (now_s - SETTLED_AFTER_S) // size * size
    end_s = min(settled_s, begin_s + SLICE_BUCKETS_MAX * size)
    if end_s <= begin_s:
        return None
    return Condensation(source, target, begin_s, end_s, is_last=end_s == settled_s)


def oldest_kept_s(level: Level, now_s: int) -> int:
    """Samples before this time go."""
    return now_s - level.kept_s


def level_for(span_s: int) -> Level:
    """The finest level that still holds `span_s` seconds of history."""
    for level in LEVELS:
        if span_s <= level.kept_s:
            return level
    return LEVELS[-1]
