"""How far each log was synced, as kept beside the logs: what lies below is damaged when it cannot
be read, never torn. No disk here.

A snapshot says the same, but is written seldom. An entry is a lower bound: more may have been
synced since. Big endian: 0 magic "HEND" · 4 version u16 · 6 zero u16 · 8 count u32 · then per log:
topic id 16 bytes, partition i32, i64 each: offset, segment base, position · at the end the CRC-32C
u32 of everything before.
"""

from __future__ import annotations

from collections.abc import Iterable
from struct import Struct
from typing import Final, NamedTuple

from broker.records.crc import crc32c

_VERSION: Final = 1
_HEADER: Final = Struct(">4sHHI")
_ENTRY: Final = Struct(">16siqqq")
_CRC: Final = Struct(">I")
LogKey = tuple[bytes, int]
"""Topic id and partition: a recreated topic has nothing of the old one's."""


class SyncedEnd(NamedTuple):
    """Everything below `offset`, which begins or will begin at byte `position` of the segment at
    `segment_base`, was synced. The greater of two says more.
    """

    offset: int
    segment_base: int
    position: int


NOTHING_SYNCED: Final = SyncedEnd(0, 0, 0)


def encode_end(key: LogKey, end: SyncedEnd) -> bytes:
    """One entry of the file."""
    return _ENTRY.pack(*key, *end)


def encode_ends(entries: Iterable[bytes]) -> bytes:
    """The file of what `encode_end` gave."""
    body = b"".join(entries)
    content = _HEADER.pack(b"HEND", _VERSION, 0, len(body) // _ENTRY.size) + body
    return content + _CRC.pack(crc32c(content))


def decode_ends(content: bytes) -> dict[LogKey, SyncedEnd]:
    """What the file says; {} when it is damaged or of another version: then less is known."""
    if len(content) < _HEADER.size + _CRC.size:
        return {}
    if _CRC.unpack_from(content, len(content) - _CRC.size)[0] != crc32c(content[: -_CRC.size]):
        return {}
    magic, version, _, count = _HEADER.unpack_from(content)
    body = content[_HEADER.size : -_CRC.size]
    if (magic, version, count * _ENTRY.size) != (b"HEND", _VERSION, len(body)):
        return {}
    return {
        (topic_id, partition): SyncedEnd(*end)
        for topic_id, partition, *end in _ENTRY.iter_unpack(body)
    }
