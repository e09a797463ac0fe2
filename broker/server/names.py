"""The rules for topic names, and which names are the broker's own. Pure.

A name is a directory on disk and a word in metrics and tools, so it is short and plain. `.` and `_`
are the same in a metric's name: two topics that differ only by them are refused.
"""

from __future__ import annotations

import string
from collections.abc import Iterable
from typing import Final

CONSUMER_OFFSETS: Final = "__consumer_offsets"
INTERNAL_TOPICS: Final = frozenset({CONSUMER_OFFSETS, "__transaction_state"})
"""Clients may neither create, delete, grow nor configure these.

Both are reserved from the start.
"""

NAME_CHARACTERS_MAX: Final = 249
_ALLOWED: Final = frozenset(string.ascii_letters + string.digits + "._-")
_SHOWN_CHARACTERS_MAX: Final = 80


def name_problem(name: str) -> str | None:
    """What is wrong with a topic's name, as a sentence for its user; None when it is fine."""
    if not name:
        return "a topic name must not be empty"
    if name in (".", ".."):
        return f"a topic name must not be {name!r}"
    if len(name) > NAME_CHARACTERS_MAX:
        return f"a topic name has at most {NAME_CHARACTERS_MAX} characters, found {len(name)}"
    wrong = sorted(set(name) - _ALLOWED)
    if wrong:
        return (
            "a topic name consists of letters, digits, '.', '_' and '-' (all ASCII), "
            f"found {wrong[0]!r} in {name[:_SHOWN_CHARACTERS_MAX]!r}"
        )
    return None


def collision_key(name: str) -> str:
    """Names with one key may not exist together."""
    return name.replace(".", "_")


def colliding_name(name: str, existing: Iterable[str]) -> str | None:
    """Another name of `existing` that differs from `name` only in `.` and `_`."""
    key = collision_key(name)
    return next(
        (other for other in existing if other != name and collision_key(other) == key), None
    )
