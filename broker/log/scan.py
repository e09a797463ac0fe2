"""Walking the bytes of a segment batch by batch, trusting nothing: for recovery and for rebuilding
an index.

Not here: what to do about damage. A batch counts when its header is plausible, its CRC holds and
its offsets do not go back. The walk reads slices and ends at the end of the file or at the first
byte that is not a batch.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Final, NamedTuple

from broker.log.segment import Segment
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


class ScanEnd(NamedTuple):
    """Where the walk ended. `reason` is None at the end of the file, else what is wrong at
    `position`.
    """

    position: int
    next_offset: int
    reason: str | None


async def scan(
    segment: Segment, position: int, next_offset: int, visit: Callable[[BatchHeader, int], None]
) -> ScanEnd:
    """Walk from `position`, where a batch at or above `next_offset` begins; `visit(header,
    position)` for each.
    """
    size = segment.size
    slice_bytes = SLICE_BYTES_MIN
    while position < size:
        content = memoryview(await segment.read_cold(position, min(slice_bytes, size - position)))
        place, next_offset, needed, reason = _walk(content, next_offset, visit, position)
        if reason is None and needed > len(content) - place and place == 0:
            if needed > size - position:
                reason = f"the last batch is cut off: {size - position} of {needed} bytes"
            else:
                content = memoryview(await segment.read_cold(position, needed))
                place, next_offset, _, reason = _walk(content, next_offset, visit, position)
                if place == 0 and reason is None:
                    reason = "the file is shorter than its size says"
        position += place
        if reason is not None:
            return ScanEnd(position, next_offset, reason)
        slice_bytes = min(max(2 * place, SLICE_BYTES_MIN), SLICE_BYTES_MAX)
    return ScanEnd(position, next_offset, None)


async def has_batch_behind(segment: Segment, position: int) -> bool:
    """True when a whole batch with a good CRC begins somewhere behind `position`: the damage is not
    a torn tail.
    """
    end = min(segment.size, position + SEARCH_BYTES_MAX)
    position += 1
    candidates = 0
    while end - position >= HEADER_BYTES:
        content = await segment.read_cold(position, min(SLICE_BYTES_MAX, end - position))
        for match in _MAYBE_BATCH.finditer(content):
            candidates += 1
            start = position + match.start()
            if candidates > CANDIDATES_MAX:
                return False
            if start + HEADER_BYTES > segment.size:
                break
            head = content[match.start() : match.start() + HEADER_BYTES]
            if len(head) < HEADER_BYTES:
                head = await segment.read_cold(start, HEADER_BYTES)
            header = read_header(head)
            if HEADER_BYTES <= header.size <= min(
                segment.size - start, BATCH_BYTES_MAX
            ) and is_intact(await segment.read_cold(start, header.size)):
                return True
        if len(content) <= HEADER_BYTES:
            return False
        position += len(content) - HEADER_BYTES
    return False


def _walk(
    content: memoryview, next_offset: int, visit: Callable[[BatchHeader, int], None], position: int
) -> tuple[int, int, int, str | None]:
    """(bytes walked, next offset, bytes that the batch there needs, what is wrong or None), after
    BATCHES_PER_STEP batches at the latest.
    """
    place = 0
    for _ in range(BATCHES_PER_STEP):
        if len(content) - place < HEADER_BYTES:
            break
        header = read_header(content, place)
        reason = _implausible(header, next_offset)
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


def _implausible(header: BatchHeader, next_offset: int) -> str | None:
    if header.magic != MAGIC:
        return f"no batch begins here (magic {header.magic})"
    if not HEADER_BYTES - LENGTH_OVERHEAD <= header.batch_length <= BATCH_BYTES_MAX:
        return f"a batch length of {header.batch_length}"
    if header.base_offset < next_offset or header.last_offset_delta < 0:
        return f"offset {header.base_offset} where {next_offset} or more was expected"
    return None
