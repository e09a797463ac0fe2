"""What goes wrong at a simulated host, and what a power cut takes of its disk."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import Final, NamedTuple

TOTAL_BYTES: Final = 1 << 40
LATENCY_S_MAX: Final = 0.01
"""Of an operation that waits for a device without faults."""
LOST_NAME_PROBABILITY: Final = 0.2
"""At a power cut: each unsynced change of names is the first lost one of its directories."""


@dataclass(slots=True)
class HostFaults:
    """What goes wrong at a host, changed by the nemesis. Probabilities are per operation."""

    is_full: bool = False
    free_bytes: int = TOTAL_BYTES // 2
    """While the disk is not full."""
    has_room_for_marks: bool = True
    error_probability: float = 0.0
    cold_read_probability: float = 0.05
    worker_death_probability: float = 0.0
    latency_s_min: float = 0.0
    latency_s_max: float = LATENCY_S_MAX
    """Most operations take a small part of it."""
    kill_at_operation: int = 0
    """Counts down with every awaited operation; the process dies in the one that reaches 0."""
    kill_at_append: int = 0
    """Counts down with every append of the process; the one that reaches 0 writes a prefix and
    dies.
    """

    def is_last_operation(self) -> bool:
        """Count one awaited operation."""
        self.kill_at_operation = max(0, self.kill_at_operation - 1)
        return self.kill_at_operation == 1


class Kept(Enum):
    """What is left of the unsynced part of a file. HOLED: its length and most of its bytes, a
    stretch of zeros among them.
    """

    NOTHING = "nothing"
    EVERYTHING = "everything"
    TORN = "torn"
    HOLED = "holed"


class PowerCut(NamedTuple):
    """What a power cut takes of what was not synced."""

    lost_name_probability: float = LOST_NAME_PROBABILITY
    kept: Kept = Kept.TORN


ANY_POWER_CUT: Final = PowerCut()
