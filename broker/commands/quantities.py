"""Rates, sizes and shares for capacity plans, read exactly and shown for people. Pure; raises
BadText.

KB, MB … are 1,000, 1,000,000 … bytes, as disks are sold; KiB, MiB … are 1,024, 1,048,576 ….
"""

from __future__ import annotations

import re
from fractions import Fraction
from typing import Final

from broker.commands.text import BadText

DIGITS_MAX: Final = 18
_NUMBER: Final = r"(\d[\d_,]*(?:\.\d+)?)"
_RATE: Final = re.compile(rf"{_NUMBER}\s*([kMG]?)\s*(?:/\s*(s|min|h|d))?")
_SIZE: Final = re.compile(rf"{_NUMBER}\s*([kKMGTP]?)(i?)(B?)")
_SHARE: Final = re.compile(rf"{_NUMBER}\s*(%?)")
_SPAN: Final = re.compile(rf"{_NUMBER}(ms|s|min|m|h|d|w)")
_PER_S: Final = {"": 1, "s": 1, "min": 60, "h": 3_600, "d": 86_400}
_SPAN_MS: Final = {
    "ms": 1,
    "s": 1_000,
    "min": 60_000,
    "m": 60_000,
    "h": 3_600_000,
    "d": 86_400_000,
    "w": 604_800_000,
}
_THOUSANDS: Final = {"": 0, "k": 1, "K": 1, "M": 2, "G": 3, "T": 4, "P": 5}
_SIZE_NAMES: Final = ("B", "KB", "MB", "GB", "TB", "PB", "EB")
_SPAN_PARTS: Final = ((86_400, "d"), (3_600, "h"), (60, "min"))


def read_rate(word: str) -> Fraction:
    """Messages a second for "1000", "1000/s", "50k/min", "1000000000/d"."""
    match = _RATE.fullmatch(word)
    if match is None:
        raise BadText(f"not a rate: {word!r}; write for example 1000/s, 50k/min, 1000000000/d")
    number, prefix, unit = match.groups()
    return _number(number, word) * Fraction(1_000) ** _THOUSANDS[prefix] / _PER_S[unit or ""]


def read_positive_rate(word: str) -> Fraction:
    """A rate above 0."""
    rate = read_rate(word)
    if rate == 0:
        raise BadText(f"{word!r} is nothing a second: it must be above 0")
    return rate


def read_size(word: str) -> Fraction:
    """Bytes for "1KB" (1,000), "1KiB" (1,024), "512"."""
    match = _SIZE.fullmatch(word)
    if match is None or (match[3] and not match[2]):
        raise BadText(f"not a size: {word!r}; write for example 512, 1KB (1,000), 1KiB (1,024)")
    number, prefix, binary, _unit = match.groups()
    return _number(number, word) * Fraction(1_024 if binary else 1_000) ** _THOUSANDS[prefix]


def read_bandwidth(word: str) -> Fraction:
    """Bytes a second for "10MB/s"; above 0."""
    size = read_size(word.removesuffix("/s"))
    if size == 0:
        raise BadText(f"{word!r} is nothing a second: it must be above 0")
    return size


def read_share(word: str) -> Fraction:
    """A share for "25%" or "0.25"."""
    match = _SHARE.fullmatch(word)
    share = None if match is None else _number(match[1], word) / (100 if match[2] else 1)
    if share is None or share > 100:
        raise BadText(f"not a share: {word!r}; write for example 25%")
    return share


def read_factor(word: str) -> Fraction:
    """A number above 0, such as "4" or "2.5"."""
    match = re.fullmatch(_NUMBER, word)
    factor = Fraction(0) if match is None else _number(word, word)
    if factor == 0:
        raise BadText(f"not a factor: {word!r}; write for example 4 when 4 KB become 1 KB")
    return factor


def read_span_s(word: str) -> Fraction:
    """Seconds, exactly, for "60s", "1h30m", "7d"."""
    parts = _SPAN.findall(word)
    if not parts or "".join(number + unit for number, unit in parts) != word:
        raise BadText(f"not a span of time: {word!r}; write for example 90s, 15m, 1h30m, 7d")
    return sum((_number(each, word) * _SPAN_MS[unit] for each, unit in parts), Fraction(0)) / 1_000


def show_count(count: Fraction) -> str:
    """A whole number with commas; below ten two digits after the point, if it has them."""
    if count < 10 and count.denominator != 1:
        return f"{float(count):.2f}"
    return f"{round(count):,}"


def show_rate(rate: Fraction) -> str:
    """ "1,600/s"."""
    return f"{show_count(rate)}/s"


def show_size(size: Fraction) -> str:
    """Decimal units, three digits or so: "7.0 TB"."""
    amount, place = size, 0
    while amount >= Fraction(9_995, 10) and place < len(_SIZE_NAMES) - 1:
        amount, place = amount / 1_000, place + 1
    if place == 0:
        return f"{round(size)} B"
    return f"{float(amount):,.1f} {_SIZE_NAMES[place]}"


def show_span(seconds: Fraction) -> str:
    """ "90 s", with larger units behind it where they help: "5,400 s (1 h 30 min)"."""
    whole = f"{show_count(seconds)} s"
    return whole if seconds < 120 else f"{whole} ({show_clock(seconds)})"


def show_clock(seconds: Fraction) -> str:
    """ "7 d", "1 h 30 min", "90 s"."""
    rest, words = round(seconds), []
    for size, name in _SPAN_PARTS:
        count, rest = divmod(rest, size)
        if count:
            words.append(f"{count} {name}")
    words += [f"{rest} s"] if rest or not words else []
    return " ".join(words)


def _number(word: str, whole: str) -> Fraction:
    plain = word.replace("_", "").replace(",", "")
    if len(plain) > DIGITS_MAX:
        raise BadText(f"{whole!r} has more than {DIGITS_MAX} digits")
    return Fraction(plain)
