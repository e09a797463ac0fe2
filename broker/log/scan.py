"""Walking the bytes of a segment batch by batch, trusting nothing: for recovery and for rebuilding
an index.

Not here: what to do about damage. A batch counts when its header is plausible, its CRC holds and
its offsets do not go back. The walk reads slices and ends at the end of the file or at the first
byte that is not a batch.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Final, NamedTuple, Protocol

from broker.model import INT64_MAX
from broker.records.batch import (
    HEADER_BYTES,
    LENGTH_OVERHEAD,
    MAGIC,
    BatchHeader,
    is_intact,
    read_header,
)

SLICE_BYTES_MAX: Final = 256 * 1024
"""Bytes read and walked per step when batches are large: checking their CRCs stays below 1 ms."""
SLICE_BYTES_MIN: Final = 32 * 1024
"""Bytes read per step when batches are small."""
BATCHES_PER_STEP: Final = 128
"""A batch costs some 9 µs however small it is: so many stay below 2 ms."""
BATCH_BYTES_MAX: Final = 256 * 1024 * 1024
"""A length beyond this is not a batch's."""
SEARCH_BYTES_MAX: Final = 64 * 1024 * 1024
"""How far behind damage a whole batch is looked for."""

CANDIDATES_MAX: Final = 1_000
"""How many places that look like a batch's beginning are looked at."""

_MAYBE_BATCH: Final = re.compile(rb"(?=\x00\x00.{6}[\x00-\x0f].{7}\x02.{4}\x00)", re.DOTALL)
"""A base offset below 2^48, a batch length below 2^28, magic 2, the attributes' upper byte zero."""


class Readable(Protocol):
    """What is walked: a `Segment`, or a `Salvage` of one."""

    @property
    def size(self) -> int:
        """Bytes."""

    async def read_cold(self, position: int, size: int) -> bytes:
        """At most `size` bytes, fewer only at the end of the file."""


class ScanEnd(NamedTuple):
    """Where the walk ended. `reason` is None at the end of the file, else what is wrong at
    `position`.
    """

    position: int
    next_offset: int
    reason: str | None


async def scan(
    segment: Readable,
    position: int,
    next_offset: int,
    visit: Callable[[BatchHeader, int], None],
    *,
    end: int | None = None,
    is_gapless: bool = False,
) -> ScanEnd:
    """Walk from `position`, where a batch at or above `next_offset` begins, to byte `end` (None:
    the segment's); `visit(header, position)` for each. `is_gapless`: nothing was compacted there,
    so each batch begins where the one before it ended.
    """
    size = segment.size if end is None else end
    slice_bytes = SLICE_BYTES_MIN
    while position < size:
        content = memoryview(await segment.read_cold(position, min(slice_bytes, size - position)))
        place, next_offset, needed, reason = walk(content, next_offset, visit, position, is_gapless)
        if reason is None and needed > len(content) - place and place == 0:
            if needed > size - position:
                reason = f"the last batch is cut off: {size - position} of {needed} bytes"
            else:
                content = memoryview(await segment.read_cold(position, needed))
                place, next_offset, _, reason = walk(
                    content, next_offset, visit, position, is_gapless
                )
                if place == 0 and reason is None:
                    reason = "the file is shorter than its size says"
        position += place
        if reason is not None:
            return ScanEnd(position, next_offset, reason)
        slice_bytes = min(max(2 * place, SLICE_BYTES_MIN), SLICE_BYTES_MAX)
    return ScanEnd(position, next_offset, None)


async def has_batch_behind(segment: Readable, position: int) -> bool:
    """True when a whole batch with a good CRC begins somewhere behind `position`: the damage is not
    a torn tail.
    """
    end = min(segment.size, position + SEARCH_BYTES_MAX)
    return await find_batch(segment, position + 1, end, 0, INT64_MAX) is not None


async def find_batch(
    segment: Readable, position: int, end: int, lowest: int, end_offset: int
) -> tuple[int, int] | None:
    """(position, base offset) of the first intact batch that begins in [position, end) with offsets
    in [lowest, end_offset); None when there is none, or when too much looks like one.
    """
    candidates = 0
    while position < end:
        content = await segment.read_cold(position, min(SLICE_BYTES_MAX, segment.size - position))
        for match in _MAYBE_BATCH.finditer(content):
            start = position + match.start()
            candidates += 1
            if candidates > CANDIDATES_MAX or start >= end:
                return None
            header = await intact_batch_at(segment, start, lowest, end_offset)
            if header is not None:
                return start, header.base_offset
        if len(content) <= HEADER_BYTES:
            return None
        position += len(content) - HEADER_BYTES
    return None


async def intact_batch_at(
    segment: Readable, position: int, lowest: int, end_offset: int
) -> BatchHeader | None:
    """The header of the intact batch that begins at `position`, with offsets in [lowest,
    end_offset); None when there is none.
    """
    if position + HEADER_BYTES > segment.size:
        return None
    header = read_header(await segment.read_cold(position, HEADER_BYTES))
    if not HEADER_BYTES <= header.size <= min(segment.size - position, BATCH_BYTES_MAX):
        return None
    if not lowest <= header.base_offset <= header.last_offset < end_offset:
        return None
    return header if is_intact(await segment.read_cold(position, header.size)) else None


def walk(
    content: memoryview,
    next_offset: int,
    visit: Callable[[BatchHeader, int], None],
    position: int,
    is_gapless: bool,  # noqa: FBT001
) -> tuple[int, int, int, str | None]:
    """Walk `content`, which begins at byte `position` of its file, as `scan` does:
    (bytes walked, next offset, bytes that the batch there needs, what is wrong or None), after
    BATCHES_PER_STEP batches at the latest.
    """
    place = 0
    for _ in range(BATCHES_PER_STEP):
        if len(content) - place < HEADER_BYTES:
            break
        header = read_header(content, place)
        reason = _implausible(header, next_offset, is_gapless)
        if reason is not None:
            return place, next_offset, 0, reason
        if header.size > len(content) - place:
            return place, next_offset, header.size, None
        if not is_intact(content[place : place + header.size]):
            return (
                place,
                next_offset,
                0,
                f"the CRC of the batch at offset {header.base_offset} does not hold",
            )
        visit(header, position + place)
        place += header.size
        next_offset = header.next_offset
    return place, next_offset, HEADER_BYTES, None


def _implausible(
    header: BatchHeader,
    next_offset: int,
    is_gapless: bool,  # noqa: FBT001
) -> str | None:
    if header.magic != MAGIC:
        return f"no batch begins here (magic {header.magic})"
    if not HEADER_BYTES - LENGTH_OVERHEAD <= header.batch_length <= BATCH_BYTES_MAX:
        return f"a batch length of {header.batch_length}"
    if header.base_offset < next_offset or header.last_offset_delta < 0:
        return f"offset {header.base_offset} where {next_offset} or more was expected"
    if is_gapless and header.base_offset != next_offset:
        return f"offset {header.base_offset} where {next_offset} was expected"
    return None
