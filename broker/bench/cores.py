"""A core for the broker and the others for the load, so that neither is preempted by the other.

Where the system has no such call, or one core only, both run wherever the scheduler puts them.
"""

from __future__ import annotations

import os
from typing import Final

can_pin: Final = hasattr(os, "sched_setaffinity") and len(os.sched_getaffinity(0)) > 1
"""Whether brokers and load have cores of their own here."""


def broker_cores() -> set[int]:
    """Where brokers run."""
    return set(_cores()[:1]) if can_pin else set(_cores())


def load_core_count() -> int:
    """How many cores the processes of a load share."""
    return max(1, len(_cores()) - 1) if can_pin else len(_cores())


def pin_broker(process_id: int) -> None:
    """The first core of this process's, for the broker and its later threads and children."""
    if can_pin:
        os.sched_setaffinity(process_id, _cores()[:1])


def pin_load(process_id: int) -> None:
    """All cores but the first."""
    if can_pin:
        os.sched_setaffinity(process_id, _cores()[1:])


def describe_cores() -> str:
    """For a report's head."""
    if not can_pin:
        return "broker and load share the cores"
    broker, *load = _cores()
    return f"broker on core {broker}, load on core {', '.join(map(str, load))}"


def _cores() -> list[int]:
    return sorted(os.sched_getaffinity(0))
