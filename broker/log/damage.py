"""Which stretches of a log's files are broken, and what that leaves readable. No disk here.

A range is known once somebody looked (`survey`): bytes that are no intact batch, from the end of
the last good one to the beginning of the next. Reads end before it, refuse inside it (2,
CORRUPT_MESSAGE) and go on behind it. The file `damaged-ranges` keeps what is known: a version line,
a count line, a line `segment position end_position offset end_offset reason` each, and a last line
with the CRC-32C of all before it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Final, NamedTuple

from broker.errors import ErrorCode, Refusal
from broker.records.crc import crc32c

if TYPE_CHECKING:
    from broker.log.segment import Segment

_VERSION: Final = "1"


class DamagedRange(NamedTuple):
    """Bytes [position, end_position) of a segment, which held the offsets [offset, end_offset)."""

    position: int
    end_position: int
    offset: int
    end_offset: int
    reason: str


class Damaged(Refusal):
    """Stored bytes that cannot be what was written, met by a reader somewhere in the `size` bytes
    from `position` on; how far they reach is not known yet.
    """

    def __init__(self, segment: Segment, position: int, reason: str, size: int = 0) -> None:
        super().__init__(
            ErrorCode.CORRUPT_MESSAGE, f"{segment.path()} is damaged at byte {position}: {reason}"
        )
        self.segment = segment
        self.position = position
        self.reason = reason
        self.size = size


def view_around(
    ranges: Sequence[DamagedRange], offset: int, size: int, segment_end: int
) -> tuple[int, int, int]:
    """(position from which, position and offset up to which) a reader at `offset` may read, of a
    segment of `size` bytes that ends at `segment_end`. Raises Refusal(CORRUPT_MESSAGE) inside a
    range.
    """
    floor = 0
    for found in ranges:
        if offset < found.offset:
            return floor, found.position, found.offset
        if offset < found.end_offset:
            raise Refusal(
                ErrorCode.CORRUPT_MESSAGE,
                f"offsets {found.offset} to {found.end_offset - 1} are damaged on disk: "
                f"seek to offset {found.end_offset} to go on",
            )
        floor = found.end_position
    return floor, size, segment_end


def merged(ranges: Sequence[DamagedRange], new: DamagedRange) -> tuple[DamagedRange, ...]:
    """`ranges` and `new`, ascending; those that touch become one."""
    result: list[DamagedRange] = []
    for each in sorted([*ranges, new]):
        if result and each.position <= result[-1].end_position:
            last = result[-1]
            result[-1] = last._replace(
                end_position=max(last.end_position, each.end_position),
                end_offset=max(last.end_offset, each.end_offset),
            )
        else:
            result.append(each)
    return tuple(result)


def encode_ranges(ranges: Sequence[tuple[int, DamagedRange]]) -> bytes:
    """The file's content for (segment base offset, range) pairs."""
    lines = [_VERSION, str(len(ranges))]
    for base, found in ranges:
        numbers = (base, *found[:4])
        lines.append(" ".join([*map(str, numbers), " ".join(found.reason.split())]))
    text = "\n".join(lines) + "\n"
    return f"{text}{crc32c(text.encode()):08x}\n".encode()


def decode_ranges(content: bytes) -> list[tuple[int, DamagedRange]]:
    """What `encode_ranges` took; [] when the file is damaged itself: the ranges are found again."""
    try:
        text = content.decode()
        body, crc = text[:-9], text[-9:-1]
        if int(crc, 16) != crc32c(body.encode()):
            return []
        version, _, *lines = body.splitlines()
        if version != _VERSION:
            return []
        rows = [line.split(" ", 5) for line in lines]
        return [
            (int(row[0]), DamagedRange(int(row[1]), int(row[2]), int(row[3]), int(row[4]), row[5]))
            for row in rows
        ]
    except (ValueError, IndexError):
        return []
