"""Cursors of lists that are ordered by name: where the next page begins, whatever came or went in
between. Pure.
"""

from __future__ import annotations

import base64
import binascii
from bisect import bisect_right
from collections.abc import Sequence
from typing import Final, Protocol, TypeVar

CURSOR_LENGTH_MAX: Final = 1_024


class Named(Protocol):
    """Anything with a name."""

    @property
    def name(self) -> str: ...


T = TypeVar("T", bound=Named)


def slice_after(items: Sequence[T], cursor: str | None, limit: int) -> tuple[list[T], str | None]:
    """At most `limit` of `items` (in order of name) behind the cursor, and the next page's cursor
    (None: the end).

    Raises ValueError for a cursor that no page ever gave.
    """
    start = bisect_right(items, read_cursor(cursor), key=lambda one: one.name) if cursor else 0
    page = list(items[start : start + limit])
    is_end = start + limit >= len(items)
    return page, None if is_end else make_cursor(page[-1].name)


def make_cursor(name: str) -> str:
    return base64.urlsafe_b64encode(name.encode("utf-8", "surrogatepass")).decode().rstrip("=")


def read_cursor(cursor: str) -> str:
    """Raises ValueError."""
    try:
        raw = base64.b64decode(
            cursor[:CURSOR_LENGTH_MAX] + "=" * (-len(cursor) % 4), altchars=b"-_", validate=True
        )
        return raw.decode("utf-8", "surrogatepass")
    except (binascii.Error, UnicodeError) as error:
        raise ValueError("not a cursor") from error
