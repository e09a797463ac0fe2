"""How long a crashed child waits before it is started again. Pure: run times in, a delay out."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

FIRST_DELAY_S: Final = 0.5
DELAY_S_MAX: Final = 30.0
STEADY_S: Final = 60.0
"""A child that ran this long is healthy again: its next crash counts as its first."""


@dataclass(frozen=True, slots=True)
class Backoff:
    """`crashes_in_a_row` is how many times the child died without having run for STEADY_S."""

    crashes_in_a_row: int = 0

    def after_crash(self, ran_s: float) -> Backoff:
        """The state after a run of `ran_s` seconds that ended in a crash."""
        return Backoff(1 if ran_s >= STEADY_S else self.crashes_in_a_row + 1)

    @property
    def delay_s(self) -> float:
        """Seconds until the next start: 0.5, 1, 2 … at most 30; 0 before the first crash."""
        if self.crashes_in_a_row == 0:
            return 0.0
        doublings = min(self.crashes_in_a_row - 1, 16)
        return min(FIRST_DELAY_S * float(1 << doublings), DELAY_S_MAX)
