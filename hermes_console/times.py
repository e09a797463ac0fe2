"""Times as people and scripts type them, wherever they are typed: forms, addresses, the API. Pure.

| typed | means |
|---|---|
| `2026-03-01`, `2026-03-01 14:03[:12[.345]]`, `2026-03-01T14:03` | in the reader's zone |
| `2026-03-01T14:03+01:00`, `…Z` | in that zone |
| `1772373792000` | milliseconds since 1970 UTC |
"""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta, tzinfo
from typing import Final

MILLISECONDS: Final = re.compile(r"[0-9]{1,7}|[0-9]{9,15}")
"""Eight digits are a date: 20260301."""
YEAR_MAX: Final = 9_998
"""A year more, and some zone cannot say it."""
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)


class BadTime(ValueError):
    """What was typed is no time; the message says what to type."""


def read_moment(text: str, zone: tzinfo) -> datetime:
    """The moment, with its zone. Raises BadTime."""
    if MILLISECONDS.fullmatch(text):
        try:
            return _EPOCH + timedelta(milliseconds=int(text))
        except OverflowError:
            raise BadTime("That time is too far away.") from None
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        raise BadTime(
            "Enter a time, for example 2026-03-01 14:03:12 or 2026-03-01T14:03+01:00, or "
            "milliseconds since 1970."
        ) from None
    if moment.year > YEAR_MAX:
        raise BadTime("That time is too far away.")
    return moment if moment.tzinfo is not None else moment.replace(tzinfo=zone)


def read_time(text: str, zone: tzinfo) -> int:
    """Milliseconds since 1970 UTC, 0 for what is 1970 in its own zone alone: below 0 Kafka means
    something else (-1 is the end). Raises BadTime.
    """
    moment = read_moment(text, zone)
    try:
        at_ms = (moment - _EPOCH) // timedelta(milliseconds=1)
    except OverflowError:
        at_ms = -1
    if at_ms < 0 and moment.year < _EPOCH.year:
        raise BadTime("Nothing is from before 1970.")
    return max(0, at_ms)
