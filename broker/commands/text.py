"""Text for people: tables, sizes, times; and times read from text. Pure: the present is given."""

from __future__ import annotations

import re
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from difflib import get_close_matches
from typing import Final

GAP: Final = "  "
_UNITS: Final = ("B", "KiB", "MiB", "GiB", "TiB", "PiB")
_SPAN: Final = re.compile(r"(\d+(?:\.\d+)?)(ms|s|m|h|d|w)")
_SPAN_MS: Final = {
    "ms": 1,
    "s": 1_000,
    "m": 60_000,
    "h": 3_600_000,
    "d": 86_400_000,
    "w": 604_800_000,
}
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_MS: Final = timedelta(milliseconds=1)
TIME_FORMS: Final = (
    "2026-03-01, 2026-03-01T09:30 or …T09:30:00+02:00 (UTC where no zone is said), "
    "1772357400000 (ms since 1970), or -15m, -2h, -1d (ago)"
)


MS_DIGITS_MAX: Final = 18
"""So many digits fit 64 bits."""


class BadText(ValueError):
    """What was typed cannot be read; the text says what can."""


def layout(heading: Sequence[str], rows: Sequence[Sequence[object]]) -> list[str]:
    """Lines of a table; a column whose cells are all numbers or absent is set to the right."""
    cells = [[clean(_cell(value)) for value in row] for row in rows]
    is_number = [
        bool(rows) and all(isinstance(row[index], int | float | None) for row in rows)
        for index in range(len(heading))
    ]
    widths = [
        max(len(title), *(len(row[index]) for row in cells)) if cells else len(title)
        for index, title in enumerate(heading)
    ]
    lines = []
    for row in [list(heading), *cells]:
        padded = [
            text.rjust(width) if right else text.ljust(width)
            for text, width, right in zip(row, widths, is_number, strict=True)
        ]
        lines.append(GAP.join(padded).rstrip())
    return lines


def _cell(value: object) -> str:
    if value is None or value == "":
        return "-"
    if isinstance(value, bool):
        return "yes" if value else "no"
    return str(value)


def clean(text: str) -> str:
    """`text` without characters that would move the cursor or colour the terminal: as \\x escapes.

    Names come from other people's programs.
    """
    if text.isprintable():
        return text
    return "".join(
        each if each.isprintable() else each.encode("unicode_escape").decode() for each in text
    )


def size(count: int) -> str:
    """Bytes with a binary unit, three digits or so; "-" for unknown (negative)."""
    if count < 0:
        return "-"
    amount = float(count)
    for unit in _UNITS:
        if amount < 1024 or unit == _UNITS[-1]:
            break
        amount /= 1024
    return f"{count} B" if unit == "B" else f"{amount:.1f} {unit}"


def time(timestamp_ms: int) -> str:
    """ISO 8601 in UTC with milliseconds; "-" for none (negative)."""
    if timestamp_ms < 0:
        return "-"
    try:
        moment = _EPOCH + timestamp_ms * _MS
    except OverflowError:
        return f"{timestamp_ms} ms"
    return moment.strftime("%Y-%m-%dT%H:%M:%S.") + f"{timestamp_ms % 1000:03d}Z"


def read_time(text: str, now_ms: int) -> int:
    """Milliseconds since 1970, not before it, for one of TIME_FORMS. Raises BadText."""
    if text.isdecimal():
        if len(text) > MS_DIGITS_MAX:
            raise BadText(f"not a time: {text!r} is more milliseconds than there are")
        return int(text)
    if text.startswith("-") and len(text) > 1:
        return max(0, now_ms - read_span(text[1:]))
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        raise BadText(f"not a time: {text!r}; write {TIME_FORMS}") from None
    if moment.tzinfo is None:
        moment = moment.replace(tzinfo=UTC)
    return max(0, (moment - _EPOCH) // _MS)


def read_span(text: str) -> int:
    """Milliseconds for "90s", "1h30m", "2d". Raises BadText."""
    parts = _SPAN.findall(text)
    if not parts or "".join(number + unit for number, unit in parts) != text:
        raise BadText(f"not a span of time: {text!r}; write for example 90s, 15m, 1h30m, 2d")
    return int(sum(float(number) * _SPAN_MS[unit] for number, unit in parts))


def nearest(word: str, known: Sequence[str]) -> str:
    """` Did you mean …?` for the closest of the known words, else ""."""
    near = get_close_matches(word, known, n=1, cutoff=0.6)
    return f" Did you mean {near[0]!r}?" if near else ""


def sentences(*parts: str) -> str:
    """Parts that say something, as sentences behind each other; the last keeps its end."""
    said = [part.strip() for part in parts if part.strip()]
    closed = [part if part[-1] in ".?!:" else f"{part}." for part in said[:-1]]
    return " ".join([*closed, *said[-1:]])


def plural(count: int, noun: str) -> str:
    """ "1 topic", "2 topics"."""
    return f"{count:,} {noun}{'' if count == 1 else 's'}"


def ranges(numbers: Sequence[int]) -> str:
    """ "0-3, 5" for sorted numbers."""
    found: list[list[int]] = []
    for number in numbers:
        if found and number == found[-1][1] + 1:
            found[-1][1] = number
        else:
            found.append([number, number])
    return ", ".join(f"{low}" if low == high else f"{low}-{high}" for low, high in found)
