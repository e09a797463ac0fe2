"""How one group gets on with one partition: lag, progress of its commits, rewinds. Pure, a few
numbers per partition.

| state of the commit | verdict |
|---|---|
| none yet | unknown |
| went back within REWOUND_FOR_MS, and the group has not caught up since | rewound |
| has not moved for STALLED_AFTER_MS while records waited all that time; for | stalled |
| PARTITION_STALLED_AFTER_MS where the group moves on other partitions | |
| otherwise | fine |
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from hermes_console.samples.snapshot import Verdict

STALLED_AFTER_MS: Final = 30_000
PARTITION_STALLED_AFTER_MS: Final = 90_000
REWOUND_FOR_MS: Final = 300_000


@dataclass(frozen=True, slots=True)
class Progress:
    """`progressed_at_ms`: when the commit last moved, or nothing waited, or watching began."""

    committed: int
    end: int
    progressed_at_ms: int
    rewound_at_ms: int | None = None
    rewound_from: int = 0
    start: int = 0

    @property
    def lag(self) -> int:
        return lag_of(self.committed, self.end, self.start)


def lag_of(committed: int, end: int, start: int = 0) -> int:
    """Records that wait: max(0, end − committed); the end was read after the commit. What lies
    below `start`, deleted or expired, does not wait.
    """
    return max(0, end - max(committed, start))


def advance(
    before: Progress | None, committed: int, end: int, at_ms: int, *, start: int = 0
) -> Progress:
    """The state after another sample."""
    if before is None:
        return Progress(committed, end, progressed_at_ms=at_ms, start=start)
    if committed < before.committed:
        return Progress(
            committed,
            end,
            at_ms,
            rewound_at_ms=at_ms,
            rewound_from=before.committed,
            start=start,
        )
    is_at_end = lag_of(committed, end, start) == 0
    has_moved = is_at_end or committed > before.committed
    rewound_at_ms = before.rewound_at_ms
    if rewound_at_ms is not None and (is_at_end or at_ms - rewound_at_ms >= REWOUND_FOR_MS):
        rewound_at_ms = None
    return Progress(
        committed,
        end,
        at_ms if has_moved else before.progressed_at_ms,
        rewound_at_ms,
        before.rewound_from,
        start,
    )


def stalled_after_ms(group: Iterable[Progress], at_ms: int) -> int:
    """How long a commit may stand still: shorter when none of the group's moves where records wait.

    A worker that takes one partition after another is slow, not stalled.
    """
    waiting = [one for one in group if one.lag]
    is_moving = any(at_ms - one.progressed_at_ms < STALLED_AFTER_MS for one in waiting)
    return PARTITION_STALLED_AFTER_MS if is_moving else STALLED_AFTER_MS


def judge_partition(
    progress: Progress | None, at_ms: int, stalled_after: int = STALLED_AFTER_MS
) -> Verdict:
    """The verdict of the table above."""
    if progress is None:
        return Verdict.UNKNOWN
    if progress.lag and at_ms - progress.progressed_at_ms >= stalled_after:
        return Verdict.STALLED
    if progress.rewound_at_ms is not None and progress.lag:
        return Verdict.REWOUND
    return Verdict.FINE
