"""Garbage collection while a process loads its modules.

Modules make many objects that stay and little garbage: with Python's own thresholds collections are
a fifth of the time that a broker takes to load.
"""

from __future__ import annotations

import gc
from typing import Final

NEW_OBJECTS_MAX: Final = 200_000
"""Between two collections while modules load."""
_PYTHONS: Final = gc.get_threshold()


def begin_loading() -> None:
    """Before the modules: collect rarely."""
    gc.set_threshold(NEW_OBJECTS_MAX)


def end_loading() -> None:
    """Before serving: collect as Python does, and only what is made later, else a full collection
    takes 40 ms and more.
    """
    gc.freeze()
    gc.set_threshold(*_PYTHONS)
