"""Numbers as people read them, on pages and in sentences. Pure; None is `unknown`, never 0."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime, tzinfo
from typing import Final

NAMES_SHOWN_MAX: Final = 3
UNKNOWN: Final = "unknown"
BYTE_UNITS: Final = ("B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB")
DURATION_UNITS: Final = ((86_400, "d", 3_600, "h"), (3_600, "h", 60, "min"), (60, "min", 1, "s"))


def number(value: int | None) -> str:
    """`1,234`."""
    return UNKNOWN if value is None else f"{value:,}"


def signed_number(value: int | None) -> str:
    """`+1,234`, `−5`, `±0`."""
    if value is None:
        return UNKNOWN
    sign = "±" if value == 0 else "+" if value > 0 else "−"
    return f"{sign}{abs(value):,}"


def count(value: int, noun: str) -> str:
    """`1 message`, `1,234 messages`."""
    return f"{value:,} {noun}" if value == 1 else f"{value:,} {noun}s"


def rate(value: float | None) -> str:
    """A number per second without its unit: `1,234`, `12.5`, `0`."""
    if value is None:
        return UNKNOWN
    if abs(value) >= 100 or value == 0:
        return f"{value:,.0f}"
    return f"{value:,.1f}"


def per_second(value: float | None) -> str:
    """`1,234/s`, `12.5/s`."""
    return UNKNOWN if value is None else f"{rate(value)}/s"


def signed_rate(value: float | None) -> str:
    """`+12.5/s`, `−3.0/s`, `±0/s`."""
    if value is None:
        return UNKNOWN
    if abs(value) < 0.05:
        return "±0/s"
    sign = "+" if value > 0 else "−"
    return f"{sign}{rate(abs(value))}/s"


def size(value: float | None) -> str:
    """`512 B`, `1.5 MiB`."""
    if value is None:
        return UNKNOWN
    amount = float(value)
    for unit in BYTE_UNITS:
        if abs(amount) < 1024 or unit == BYTE_UNITS[-1]:
            break
        amount /= 1024
    return f"{amount:,.0f} {unit}" if unit == "B" or amount >= 100 else f"{amount:,.1f} {unit}"


def used_percent(used_bytes: int | None, free_bytes: int | None) -> int | None:
    """Of a disk, as df reckons it: the used of the used and the free, rounded up. None when
    unknown.
    """
    if used_bytes is None or free_bytes is None or used_bytes + free_bytes <= 0:
        return None
    return -(-100 * used_bytes // (used_bytes + free_bytes))


def duration(seconds: float | None) -> str:
    """The two largest units: `0.4 s`, `42 s`, `3 min 5 s`, `2 h 10 min`, `3 d 4 h`."""
    if seconds is None:
        return UNKNOWN
    if 0 < seconds < 1:
        return f"{seconds:.1f} s"
    whole = int(seconds)
    for unit_size, unit, below_size, below_unit in DURATION_UNITS:
        if whole >= unit_size:
            large, rest = divmod(whole, unit_size)
            small = rest // below_size
            return f"{large} {unit} {small} {below_unit}" if small else f"{large} {unit}"
    return f"{whole} s"


def clock(at_ms: int, zone: tzinfo = UTC) -> str:
    """`14:03:12` of today or another day alike: for what is minutes old."""
    return datetime.fromtimestamp(at_ms / 1000, zone).strftime("%H:%M:%S")


def listed(names: Sequence[str]) -> str:
    """`a, b, c` or `a, b, c and 4 more`."""
    shown = ", ".join(names[:NAMES_SHOWN_MAX])
    more = len(names) - NAMES_SHOWN_MAX
    return f"{shown} and {more} more" if more > 0 else shown
