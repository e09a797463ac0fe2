"""What arguments may say: offsets, times, partitions, settings, headers. Pure; raises BadText."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final, NamedTuple

from broker.commands import quantities
from broker.commands.text import TIME_FORMS, BadText, read_span, read_time
from broker.model import INT32_MAX, INT64_MAX

_ESCAPES: Final = {"n": "\n", "t": "\t", "r": "\r", "0": "\0", "\\": "\\"}


class TopicSelection(NamedTuple):
    """A topic, and which of its partitions; None is all of them."""

    topic: str
    partitions: tuple[int, ...] | None


class Start(NamedTuple):
    """Where to begin: exactly one of start, end, an offset, the last so many, a time."""

    kind: str
    number: int = 0
    time_text: str = ""

    def time_ms(self, now_ms: int) -> int:
        """For kind "time"; 0 for what is before 1970: ListOffsets takes a time below 0 for
        something else (-1 is the end).
        """
        return max(0, read_time(self.time_text, now_ms))


def read_start(word: str) -> Start:
    """`start`, `end`, 42 (an offset), -5 (the last five), @TIME."""
    if word in ("start", "earliest", "beginning"):
        return Start("start")
    if word in ("end", "latest"):
        return Start("end")
    if word.startswith("@"):
        read_time(word[1:], 0)
        return Start("time", time_text=word[1:])
    number = _integer(word)
    if number is None:
        raise BadText(
            f"not a place to begin: {word!r}; write start, end, an offset (42), the last so many "
            f"(-5) or @TIME with TIME as {TIME_FORMS}"
        )
    return Start("last", -number) if word.startswith("-") else Start("offset", number)


def read_selection(word: str) -> TopicSelection:
    """TOPIC or TOPIC:0,2-4."""
    topic, colon, numbers = word.partition(":")
    if not topic:
        raise BadText(f"no topic in {word!r}; write TOPIC or TOPIC:0,2-4")
    return TopicSelection(topic, read_partitions(numbers) if colon else None)


def read_partitions(word: str) -> tuple[int, ...]:
    """0,2-4."""
    found: set[int] = set()
    for part in word.split(","):
        low, dash, high = part.partition("-")
        if not low.isdecimal() or (dash and not high.isdecimal()):
            raise BadText(f"not partitions: {word!r}; write for example 0,2-4")
        first, last = int(low), int(high or low)
        if not first <= last <= first + 10_000:
            raise BadText(f"not partitions: {part!r} ends before it begins, or has over 10,000")
        found.update(range(first, last + 1))
    return tuple(sorted(found))


def read_setting(word: str) -> tuple[str, str]:
    """NAME=VALUE; the value may hold further `=`, and be empty."""
    name, equals, value = word.partition("=")
    if not equals or not name:
        raise BadText(f"not a setting: {word!r}; write NAME=VALUE")
    return name, value


def read_header(word: str) -> tuple[str, bytes | None]:
    """NAME=VALUE, or NAME alone for a null value."""
    name, equals, value = word.partition("=")
    if not name:
        raise BadText(f"not a header: {word!r}; write NAME=VALUE, or NAME for a null value")
    return name, value.encode("utf-8", "surrogateescape") if equals else None


def read_whole(word: str) -> int:
    """A whole number, signed."""
    number = _integer(word)
    if number is None or not -INT64_MAX <= number <= INT64_MAX:
        raise BadText(f"not a whole number: {word!r}")
    return number


def read_count(word: str) -> int:
    """A whole number from 1 on."""
    number = _integer(word)
    if number is None or not 1 <= number <= INT64_MAX:
        raise BadText(f"not a number from 1 on: {word!r}")
    return number


def read_small_count(word: str) -> int:
    """A whole number from 1 on that fits 32 bits."""
    number = read_count(word)
    if number > INT32_MAX:
        raise BadText(f"{word} is more than {INT32_MAX}")
    return number


def read_partition(word: str) -> int:
    """A partition's number."""
    number = _integer(word)
    if number is None or not 0 <= number <= INT32_MAX:
        raise BadText(f"not a partition: {word!r}; they are numbered from 0")
    return number


def read_offset(word: str) -> int:
    """An offset."""
    number = _integer(word)
    if number is None or not 0 <= number <= INT64_MAX:
        raise BadText(f"not an offset: {word!r}; offsets are whole numbers from 0 on")
    return number


def read_seconds(word: str) -> float:
    """Seconds, more than none."""
    try:
        seconds = float(word)
    except ValueError:
        seconds = 0
    if not 0.001 <= seconds <= 86_400:
        raise BadText(f"not a number of seconds: {word!r}")
    return seconds


def read_time_text(word: str) -> str:
    """A time, kept as text: it may be relative to the present."""
    read_time(word, 0)
    return word


def read_span_ms(word: str) -> int:
    """A span of time."""
    return read_span(word)


def read_escaped(word: str) -> str:
    """Text with \\n, \\t, \\r, \\0, \\\\ and \\xHH."""
    found, position = [], 0
    while position < len(word):
        each = word[position]
        position += 1
        if each != "\\":
            found.append(each)
            continue
        kind = word[position : position + 1]
        if kind in _ESCAPES:
            found.append(_ESCAPES[kind])
            position += 1
        elif kind == "x" and _is_hexadecimal(word[position + 1 : position + 3]):
            found.append(bytes.fromhex(word[position + 1 : position + 3]).decode("latin-1"))
            position += 3
        else:
            raise BadText(f"unknown escape in {word!r}; there are \\n \\t \\r \\0 \\\\ \\xHH")
    return "".join(found)


def read_separator(word: str) -> str:
    """Text that separates, at least one character."""
    found = read_escaped(word)
    if not found:
        raise BadText("a separator has at least one character")
    return found


READERS: Final[dict[str, Callable[[str], Any]]] = {
    "start": read_start,
    "selection": read_selection,
    "partitions": read_partitions,
    "partition": read_partition,
    "setting": read_setting,
    "header": read_header,
    "whole": read_whole,
    "count": read_count,
    "small-count": read_small_count,
    "offset": read_offset,
    "seconds": read_seconds,
    "time": read_time_text,
    "span": read_span_ms,
    "escaped": read_escaped,
    "separator": read_separator,
    "rate": quantities.read_rate,
    "positive-rate": quantities.read_positive_rate,
    "size": quantities.read_size,
    "bandwidth": quantities.read_bandwidth,
    "share": quantities.read_share,
    "factor": quantities.read_factor,
    "span-s": quantities.read_span_s,
}
"""By the name that an Argument's `type` has."""


def _integer(word: str) -> int | None:
    digits = word[1:] if word.startswith(("-", "+")) else word
    return int(word) if digits.isdecimal() and digits.isascii() and len(digits) < 20 else None


def _is_hexadecimal(word: str) -> bool:
    return len(word) == 2 and all(each in "0123456789abcdefABCDEF" for each in word)
