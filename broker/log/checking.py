"""Reading bytes that may not be what was written: every batch is checked before its header is
believed and before it is returned.

Not here: bytes that this process appended and that never left the page cache (`reading`), how far
damage reaches (`survey`). A check is the CRC, the offsets' order, and the leader epoch, which no
CRC covers.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Generator
from struct import Struct
from typing import Final, NamedTuple

from broker.log.damage import Damaged
from broker.log.epochs import NO_EPOCH
from broker.log.reach import Reach, Want
from broker.log.segment import Segment
from broker.records.batch import CRC_START, HEADER_BYTES, LENGTH_OVERHEAD, MAGIC
from broker.records.crc import crc32c

CHECKED_BATCHES_MAX: Final = 2_000
"""Batches checked in one read, some 0.5 µs each; what lies behind is another read."""
CHECKED_BYTES_MAX: Final = 8 * 1024 * 1024
"""Bytes checked in one read, unless one batch has more: 0.5 ms."""
WALK_BYTES: Final = 32 * 1024
_BROKEN: Final = "its checksum, length or offset does not hold"
_HEADER: Final = Struct(">qiiBIHi")
"""The header up to the last offset delta."""


class Place(NamedTuple):
    """Where a walk begins: the batch at `position` begins at offset `base`, or behind it when not
    `is_exact`.
    """

    position: int
    base: int
    is_exact: bool


class Cut(NamedTuple):
    """The first `stop` bytes of `chunk` are whole, intact batches that end at `next_offset`."""

    chunk: memoryview
    stop: int
    next_offset: int


def find(
    reach: Reach, segment: Segment, start: Place, size: int, offset: int
) -> Generator[Want, bytes, int | None]:
    """Where the first batch that ends beyond `offset` begins, below byte `size`; None when there is
    none. Raises Damaged.
    """
    position, base, is_exact = start
    while position < size:
        want = min(WALK_BYTES, size - position)
        chunk = memoryview((yield Want(segment, position, want)))
        place = 0
        while len(chunk) - place >= HEADER_BYTES:
            end = _end_of(segment, chunk, place, position, size)
            if end > len(chunk):
                if place:
                    break
                chunk = memoryview((yield Want(segment, position, end)))
            is_good = _is_intact(reach, chunk, place, end, base)
            first, _, _, _, _, _, last_delta = _HEADER.unpack_from(chunk, place)
            if not is_good or (is_exact and first != base):
                raise Damaged(segment, position + place, _BROKEN)
            if first + last_delta >= offset:
                return position + place
            place = end
            base, is_exact = first + last_delta + 1, reach.is_gapless
        if place == 0:
            raise Damaged(segment, position, "the file is shorter than it was")
        position += place
    return None


def cut(
    reach: Reach,
    segment: Segment,
    start: tuple[int, memoryview],
    size: int,
    offset: int,
    max_bytes: int,
    end_offset: int,
    *,
    at_least_one: bool,
) -> Generator[Want, bytes, Cut]:
    """The intact batches of the chunk at `start` (position, bytes), the first of which holds
    `offset`, up to `max_bytes` and below `end_offset`. Raises Damaged when the first one is broken.
    """
    position, chunk = start
    limit = min(max_bytes, len(chunk))
    end = _end_of(segment, chunk, 0, position, size)
    if end > limit and at_least_one:
        if end > len(chunk):
            chunk = memoryview((yield Want(segment, position, end)))
        limit = end
    place, next_offset = 0, offset
    expected = _HEADER.unpack_from(chunk)[0]
    if reach.is_gapless and expected > offset:
        raise Damaged(segment, position, _BROKEN)
    for _ in range(CHECKED_BATCHES_MAX):
        if limit - place < HEADER_BYTES or place >= CHECKED_BYTES_MAX:
            break
        first, length, _, _, _, _, last_delta = _HEADER.unpack_from(chunk, place)
        end = place + LENGTH_OVERHEAD + length
        if end > limit:
            break
        is_exact = first == expected or not reach.is_gapless
        if not is_exact or not _is_intact(reach, chunk, place, end, expected):
            if place == 0:
                raise Damaged(segment, position, _BROKEN)
            break
        if first + last_delta >= end_offset:
            break
        place = end
        next_offset = expected = first + last_delta + 1
    return Cut(chunk, place, next_offset)


def _end_of(segment: Segment, chunk: memoryview, place: int, position: int, size: int) -> int:
    """Where the batch at `place` ends in the chunk that begins at byte `position`. Raises Damaged
    for a length that leads over the file's end or over a batch that the index knows.
    """
    length: int = _HEADER.unpack_from(chunk, place)[1]
    end = place + LENGTH_OVERHEAD + length
    limit = size
    if segment.index is not None:
        positions = segment.index.positions
        following = bisect_right(positions, position + place)
        if following < len(positions):
            limit = min(limit, positions[following])
    if length < HEADER_BYTES - LENGTH_OVERHEAD or position + end > limit:
        raise Damaged(segment, position + place, f"a batch length of {length}")
    return end


def _is_intact(reach: Reach, chunk: memoryview, place: int, end: int, lowest: int) -> bool:
    """Whether an intact batch at or above offset `lowest` lies at [place, end) of the chunk."""
    if not place + HEADER_BYTES <= end <= len(chunk):
        return False
    first, _, epoch, magic, crc, _, last_delta = _HEADER.unpack_from(chunk, place)
    if magic != MAGIC or first < lowest or last_delta < 0:
        return False
    if crc32c(chunk[place + CRC_START : end]) != crc:
        return False
    epochs = reach.epochs
    if epochs.entries and epoch == epochs.latest:  # the usual case, without a search
        return bool(first >= epochs.entries[-1][1])
    return epochs.epoch_at(first) in (epoch, NO_EPOCH)
