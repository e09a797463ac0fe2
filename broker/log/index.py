"""The sparse index of one segment: which batch begins where, and how late its records are.

Not here: files being opened. In memory four parallel arrays; on disk two files, each written as a
whole with a CRC, so that a torn, zeroed, stale or foreign one is recognised and rebuilt from the
log. An entry stands for the batch that begins at `position`: everything before it in the segment
was appended at or before `append_time` and has timestamps of at most `max_timestamp`. Both times
never go down from entry to entry.

.idx      0 magic "HIDX" · 4 version u16 · 6 zero u16 · 8 base offset i64 · 16 log bytes u64
          · 24 count u32 · 28 crc u32 · then per entry: relative offset u32, position u32
.timeidx  the same with magic "HTIX" · 32 first append time i64 · 40 last append time i64
          · 48 max timestamp i64 · then per entry: append time, max timestamp, relative offset i64
Big endian; the CRC-32C covers everything but itself.
"""

from __future__ import annotations

import sys
from array import array
from bisect import bisect_left, bisect_right
from struct import Struct
from typing import Final, NamedTuple

from broker.model import NO_TIMESTAMP
from broker.records.crc import crc32c

RELATIVE_OFFSET_MAX: Final = 2**32 - 1
_VERSION: Final = 1
_HEADER: Final = Struct(">4sHHqQII")
_TIMES: Final = Struct(">qqq")
_CRC_POSITION: Final = 28
_IS_LITTLE_ENDIAN: Final = sys.byteorder == "little"


class Times(NamedTuple):
    """Of a whole segment, in wall milliseconds; -1 while it is empty. The timestamp is clients' or
    the broker's.
    """

    first_append_time: int = NO_TIMESTAMP
    last_append_time: int = NO_TIMESTAMP
    max_timestamp: int = NO_TIMESTAMP


class SegmentIndex:
    """Entries in ascending order. Relative offsets that do not fit are not entered: the index is
    sparse anyway.
    """

    __slots__ = ("append_times", "base_offset", "max_timestamps", "positions", "relative_offsets")

    def __init__(self, base_offset: int) -> None:
        self.base_offset = base_offset
        self.relative_offsets = array("I")
        self.positions = array("I")
        self.append_times = array("q")
        self.max_timestamps = array("q")

    def __len__(self) -> int:
        return len(self.positions)

    def add(self, offset: int, position: int, append_time: int, max_timestamp: int) -> bool:
        """Enter the batch at `offset` and `position`; False when its offset does not fit."""
        relative = offset - self.base_offset
        if relative > RELATIVE_OFFSET_MAX:
            return False
        self.relative_offsets.append(relative)
        self.positions.append(position)
        self.append_times.append(append_time)
        self.max_timestamps.append(max_timestamp)
        return True

    def truncate(self, count: int) -> None:
        """Keep the first `count` entries."""
        del self.relative_offsets[count:]
        del self.positions[count:]
        del self.append_times[count:]
        del self.max_timestamps[count:]

    def truncate_to_position(self, position: int) -> None:
        """Drop entries at or beyond `position`."""
        self.truncate(bisect_left(self.positions, position))

    def floor_offset(self, offset: int) -> tuple[int, int]:
        """(base offset, position) of the last indexed batch at or below `offset`."""
        place = (
            bisect_right(self.relative_offsets, min(offset - self.base_offset, RELATIVE_OFFSET_MAX))
            - 1
        )
        return self._entry(place)

    def floor_position(self, position: int) -> tuple[int, int]:
        """(base offset, position) of the last indexed batch that begins at or below `position`."""
        return self._entry(bisect_right(self.positions, min(position, RELATIVE_OFFSET_MAX)) - 1)

    def floor_timestamp(self, timestamp_ms: int) -> tuple[int, int]:
        """(base offset, position) from which on a batch may hold a record at or after
        `timestamp_ms`.
        """
        return self._entry(bisect_left(self.max_timestamps, timestamp_ms) - 1)

    def max_timestamp_before(self, position: int) -> int:
        """The greatest timestamp before the last indexed batch at or below `position`; -1 when
        nothing is.
        """
        place = bisect_right(self.positions, min(position, RELATIVE_OFFSET_MAX)) - 1
        return self.max_timestamps[place] if place >= 0 else NO_TIMESTAMP

    def last_position(self) -> int:
        """Where the last indexed batch begins; 0 when there is none."""
        return self.positions[-1] if self.positions else 0

    def _entry(self, place: int) -> tuple[int, int]:
        if place < 0:
            return self.base_offset, 0
        return self.base_offset + self.relative_offsets[place], self.positions[place]


def encode_index(index: SegmentIndex, log_bytes: int) -> bytes:
    """The `.idx` file of a segment of `log_bytes`."""
    entries = array("I", bytes(8 * len(index)))
    entries[0::2] = index.relative_offsets
    entries[1::2] = index.positions
    return _seal(b"HIDX", index, log_bytes, b"", entries)


def encode_time_index(index: SegmentIndex, log_bytes: int, times: Times) -> bytes:
    """The `.timeidx` file of a segment of `log_bytes`."""
    entries = array("q", bytes(24 * len(index)))
    entries[0::3] = index.append_times
    entries[1::3] = index.max_timestamps
    entries[2::3] = array("q", index.relative_offsets)
    return _seal(b"HTIX", index, log_bytes, _TIMES.pack(*times), entries)


def decode_indexes(
    base_offset: int, index_file: bytes, time_index_file: bytes
) -> tuple[SegmentIndex, Times, int] | None:
    """(index, times, log bytes covered) of a segment; None unless both files are whole."""
    places = _open(b"HIDX", base_offset, index_file, 0, 8)
    times = _open(b"HTIX", base_offset, time_index_file, _TIMES.size, 24)
    if places is None or times is None or places != times:
        return None
    log_bytes, _ = places
    index = SegmentIndex(base_offset)
    pairs = _native(array("I", index_file[_HEADER.size :]))
    triples = _native(array("q", time_index_file[_HEADER.size + _TIMES.size :]))
    index.relative_offsets, index.positions = pairs[0::2], pairs[1::2]
    index.append_times, index.max_timestamps = triples[0::3], triples[1::3]
    if array("q", index.relative_offsets) != triples[2::3]:
        return None
    return index, Times(*_TIMES.unpack_from(time_index_file, _HEADER.size)), log_bytes


def _seal(
    magic: bytes, index: SegmentIndex, log_bytes: int, extra: bytes, entries: array[int]
) -> bytes:
    content = bytearray(
        _HEADER.pack(magic, _VERSION, 0, index.base_offset, log_bytes, len(index), 0)
    )
    content += extra
    content += _native(entries).tobytes()
    content[_CRC_POSITION : _CRC_POSITION + 4] = _crc(content).to_bytes(4, "big")
    return bytes(content)


def _open(
    magic: bytes, base_offset: int, content: bytes, extra: int, entry: int
) -> tuple[int, int] | None:
    """(log bytes, count) when the file is whole and this segment's."""
    if len(content) < _HEADER.size + extra:
        return None
    found_magic, version, _, base, log_bytes, count, crc = _HEADER.unpack_from(content)
    if (found_magic, version, base) != (magic, _VERSION, base_offset):
        return None
    if len(content) != _HEADER.size + extra + entry * count or _crc(content) != crc:
        return None
    return log_bytes, count


def _crc(content: bytes | bytearray) -> int:
    with memoryview(content) as view:
        return int(crc32c(view[_CRC_POSITION + 4 :], crc32c(view[:_CRC_POSITION])))


def _native(entries: array[int]) -> array[int]:
    if _IS_LITTLE_ENDIAN:
        entries.byteswap()
    return entries
