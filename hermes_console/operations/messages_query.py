"""Which messages are asked for: where to begin, which way to go, what fits, and how much may be
read for it. Pure.

A cursor is where to go on, per partition; it is checked like any other input.
"""

from __future__ import annotations

import base64
import binascii
import re
import zlib
from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

INT64_MAX: Final = 2**63 - 1
RECORDS_DEFAULT: Final = 50
RECORDS_MAX: Final = 500
BYTES_DEFAULT: Final = 32 * 1024 * 1024
BYTES_MAX: Final = 128 * 1024 * 1024
SECONDS_DEFAULT: Final = 5
SECONDS_MAX: Final = 20
PARTITIONS_MAX: Final = 1_000
"""More partitions at once would not fit in an address."""
CURSOR_CHARACTERS_MAX: Final = 12_000
CURSOR_BYTES_MAX: Final = 32_000


class Start(StrEnum):
    """Where to begin. NEWEST goes back in time, the others forward."""

    NEWEST = "newest"
    OLDEST = "oldest"
    OFFSET = "offset"
    TIME = "time"


class Direction(StrEnum):
    """Which way from the positions."""

    OLDER = "older"
    NEWER = "newer"


TOPIC_NAME: Final = re.compile(r"[A-Za-z0-9._-]{1,249}")


def is_topic_name(name: str) -> bool:
    """Whether a topic can have that name at all."""
    return TOPIC_NAME.fullmatch(name) is not None and name not in {".", ".."}


class BadCursor(ValueError):
    """No page gave this cursor."""


@dataclass(frozen=True, slots=True)
class Budget:
    """How much one call may read: messages shown, bytes read from the cluster or unpacked, time."""

    records: int = RECORDS_DEFAULT
    bytes: int = BYTES_DEFAULT
    seconds: float = SECONDS_DEFAULT

    def bounded(self) -> Budget:
        """The same, within what the server allows."""
        return Budget(
            min(max(1, self.records), RECORDS_MAX),
            min(max(1, self.bytes), BYTES_MAX),
            min(max(0.1, self.seconds), SECONDS_MAX),
        )


@dataclass(frozen=True, slots=True)
class Cursor:
    """Where to go on: per partition the first offset not yet shown (OLDER: exclusive)."""

    direction: Direction
    positions: Mapping[int, int]


@dataclass(frozen=True, slots=True)
class BrowseQuery:
    """`partition` None: all of them. `key` None: any; else only messages with exactly that key, in
    the partition that murmur2 gives it unless `is_everywhere`.
    """

    partition: int | None = None
    start: Start = Start.NEWEST
    offset: int = 0
    at_ms: int = 0
    key: bytes | None = None
    is_everywhere: bool = False
    cursor: Cursor | None = None
    budget: Budget = Budget()

    @property
    def direction(self) -> Direction:
        if self.cursor is not None:
            return self.cursor.direction
        return Direction.OLDER if self.start is Start.NEWEST else Direction.NEWER

    @property
    def is_newest_first(self) -> bool:
        """How the page is sorted; paging keeps it."""
        return self.start is Start.NEWEST


def make_cursor(cursor: Cursor) -> str:
    """The cursor as a word for addresses."""
    parts = [cursor.direction.value]
    parts += [f"{partition}:{offset}" for partition, offset in sorted(cursor.positions.items())]
    packed = zlib.compress(",".join(parts).encode(), 9)
    return base64.urlsafe_b64encode(packed).decode().rstrip("=")


def read_cursor(text: str) -> Cursor:
    """Raises BadCursor."""
    if len(text) > CURSOR_CHARACTERS_MAX:
        raise BadCursor("the cursor is too long")
    try:
        packed = base64.b64decode(text + "=" * (-len(text) % 4), altchars=b"-_", validate=True)
        unpacker = zlib.decompressobj()
        content = unpacker.decompress(packed, CURSOR_BYTES_MAX).decode("ascii")
        if not unpacker.eof:
            raise BadCursor("the cursor is cut off")
        word, *pairs = content.split(",")
        positions = {}
        for pair in pairs:
            partition, _, offset = pair.partition(":")
            positions[_number(partition)] = _number(offset)
        if not positions or len(positions) > PARTITIONS_MAX:
            raise BadCursor("the cursor names no partitions")
        return Cursor(Direction(word), positions)
    except (binascii.Error, zlib.error, ValueError) as error:
        raise BadCursor("the cursor is none of a page of this list") from error


def _number(text: str) -> int:
    if not text.isdecimal() or not text.isascii() or len(text) > 19 or int(text) > INT64_MAX:
        raise BadCursor(f"{text!r} is no offset")
    return int(text)
