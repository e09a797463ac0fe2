"""JSON laid out for reading without a change: every number, string and duplicate key stays the text
that was sent.

Not here: values. Python's `json` would round 1.10, drop the first of two equal keys and accept NaN;
here the lexemes are only moved apart. Nothing recurses; depth and size are bounded. Pure.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from enum import Enum
from typing import Final

DEPTH_MAX: Final = 100
PRETTY_CHARACTERS_MAX: Final = 1_000_000
INDENT: Final = "  "

_TOKEN: Final = re.compile(
    r"""
    (?P<space>[ \t\r\n]++)
  | (?P<string>"[^"\\\x00-\x1f]*+(?:\\(?:["\\/bfnrt]|u[0-9a-fA-F]{4})[^"\\\x00-\x1f]*+)*+")
  | (?P<number>-?(?:0|[1-9][0-9]*+)(?:\.[0-9]++)?+(?:[eE][+-]?[0-9]++)?+)
  | (?P<word>true|false|null)
  | (?P<mark>[][{}:,])
    """,
    re.VERBOSE,
)


class NotJson(ValueError):
    """The text is not exactly one JSON value (RFC 8259), or one too deep to lay out."""


class _Place(Enum):
    """What may come next."""

    VALUE = "a value"
    VALUE_OR_END = "a value or ]"
    KEY = "a key"
    KEY_OR_END = "a key or }"
    COLON = ":"
    AFTER = ", or the end of the list or object"
    END = "the end of the text"


def pretty(text: str) -> str:
    """`text` with one member a line. Without its white space it is the same text.

    Raises NotJson, also when the result would exceed PRETTY_CHARACTERS_MAX.
    """
    pieces: list[str] = []
    depth = size = 0
    previous = ""
    for lexeme in lexemes(text):
        if lexeme in "}]":
            depth -= 1
            piece = lexeme if previous in "{[" else f"\n{INDENT * depth}{lexeme}"
        elif lexeme == ",":
            piece = ","
        elif lexeme == ":":
            piece = ": "
        elif previous and previous in "{[,":
            piece = f"\n{INDENT * depth}{lexeme}"
        else:
            piece = lexeme
        if lexeme in "{[":
            depth += 1
        size += len(piece)
        if size > PRETTY_CHARACTERS_MAX:
            raise NotJson(f"laid out it has more than {PRETTY_CHARACTERS_MAX} characters")
        pieces.append(piece)
        previous = lexeme
    return "".join(pieces)


def lexemes(text: str) -> Iterator[str]:
    """The lexemes of one JSON value as they stand, each where it may be. Raises NotJson."""
    open_marks: list[str] = []
    place, position = _Place.VALUE, 0
    while position < len(text):
        found = _TOKEN.match(text, position)
        if found is None:
            raise NotJson(f"expected {place.value} at character {position + 1}")
        position = found.end()
        if found.lastgroup == "space":
            continue
        lexeme = found[0]
        place = _next_place(place, lexeme, found.lastgroup or "", open_marks, found.start())
        yield lexeme
    if place is not _Place.END:
        raise NotJson(f"expected {place.value} where the text ends")


def _next_place(place: _Place, lexeme: str, kind: str, open_marks: list[str], at: int) -> _Place:
    is_value_place = place in {_Place.VALUE, _Place.VALUE_OR_END}
    if is_value_place and (kind in {"string", "number", "word"}):
        return _after(open_marks)
    if is_value_place and lexeme in {"{", "["}:
        open_marks.append(lexeme)
        if len(open_marks) > DEPTH_MAX:
            raise NotJson(f"more than {DEPTH_MAX} levels deep")
        return _Place.KEY_OR_END if lexeme == "{" else _Place.VALUE_OR_END
    if kind == "string" and place in {_Place.KEY, _Place.KEY_OR_END}:
        return _Place.COLON
    if lexeme == ":" and place is _Place.COLON:
        return _Place.VALUE
    if place is _Place.AFTER and lexeme == ",":
        return _Place.KEY if open_marks[-1] == "{" else _Place.VALUE
    closes = {
        "}": {_Place.KEY_OR_END, _Place.AFTER},
        "]": {_Place.VALUE_OR_END, _Place.AFTER},
    }.get(lexeme, set())
    if place in closes and open_marks and open_marks[-1] == {"}": "{", "]": "["}[lexeme]:
        open_marks.pop()
        return _after(open_marks)
    raise NotJson(f"expected {place.value} at character {at + 1}")


def _after(open_marks: list[str]) -> _Place:
    return _Place.AFTER if open_marks else _Place.END
