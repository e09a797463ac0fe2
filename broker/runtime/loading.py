"""Garbage collection while a process loads its modules, and while it serves.

Modules make many objects that stay and little garbage: with Python's own thresholds collections are
a fifth of the time that a broker takes to load. Requests make objects that end with them.
"""

from __future__ import annotations

import gc
from typing import Final

NEW_OBJECTS_MAX: Final = 200_000
"""Between two collections while modules load."""
SERVING: Final = (10_000, 20, 20)
"""A request of a hundred partitions makes some thousand objects that end with it: looking through
them, every 700, took a tenth of what the request costs."""


def begin_loading() -> None:
    """Before the modules: collect rarely."""
    gc.set_threshold(NEW_OBJECTS_MAX)


def end_loading() -> None:
    """Before serving: collect only what is made later, else a full collection takes 40 ms and
    more.
    """
    gc.freeze()
    gc.set_threshold(*SERVING)
