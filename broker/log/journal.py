"""The journal: what a round of syncs brought to many logs, made durable by one write to one file.
No disk here.

A round that does not bring too much is written here instead of syncing each log's file: a record
holds what the round brought to each log, with its place. The files are synced later, many at once,
beside the rounds, and the record's place is used again. What a crash left in it is written to the
files before any log is opened (`journal_replay`). Bytes of a log never change once they are
written, so an old record says what the file has, or had to have, and writing it again does no harm.

Big endian, in blocks of 4096 bytes. Blocks 0 and 1, written one after the other, so that one of
them is always whole: 0 magic "HJNL" · 4 version u16 · 6 zero u16 · 8 run 16 bytes · 24 turn u64
32 CRC-32C u32 of what is before. From block 2 records, each from the beginning of a block: 0 magic
"HJRN" · 4 version u16 · 6 entry count u16 · 8 run 16 bytes · 24 sequence u64 · 32 size u32, of the
record · 36 CRC-32C u32 of what is before and behind it · entries: topic id 16 bytes, partition i32,
segment base i64, position i64, size u32, length of the topic's name u16, the name, the bytes.

A run is one process's use of the journal: records of other runs mean nothing.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from struct import Struct
from typing import Final, NamedTuple

from broker.ports import Buffer
from broker.records.crc import crc32c

FILE: Final = "journal"
NEW: Final = ".new"
"""Ends its name until it is complete."""
BLOCK_BYTES: Final = 4096
"""What the device writes at a time; a record begins at a multiple of it."""
RECORD_BYTES_MAX: Final = 272 * 1024
"""No record is longer, with its last block; a start reads so far beyond a step."""
FIRST_RECORD: Final = 2 * BLOCK_BYTES
NO_RUN: Final = bytes(16)
"""The run of a journal in which nothing is."""

_VERSION: Final = 1
_SUPER: Final = Struct(">4sHH16sQ")
_RECORD: Final = Struct(">4sHH16sQI")
_CRC: Final = Struct(">I")
_ENTRY: Final = Struct(">16siqqIH")
_BODY: Final = _RECORD.size + _CRC.size


class JournalHead(NamedTuple):
    """Which run's records count. Of two heads that of the later `turn` holds."""

    run: bytes
    turn: int

    @property
    def position(self) -> int:
        """Where it is written, beside its predecessor."""
        return self.turn % 2 * BLOCK_BYTES

    def followed_by(self, run: bytes) -> tuple[JournalHead, JournalHead]:
        """Both heads of a journal of `run`, in the order in which they are to be durable."""
        return JournalHead(run, self.turn + 1), JournalHead(run, self.turn + 2)


NO_HEAD: Final = JournalHead(NO_RUN, -1)
"""Of a journal that was never used."""


class HeadsFound(NamedTuple):
    """What the first two blocks say. `head` is None when neither is whole; `is_damaged`: one is
    neither whole nor all zeros; `other_version` is that of a head which we do not read, else 0.
    """

    head: JournalHead | None
    is_damaged: bool
    other_version: int


class JournalEntry(NamedTuple):
    """`content`, whole batches, stands at byte `position` of the segment at `segment_base`."""

    topic_id: bytes
    partition: int
    topic: str
    segment_base: int
    position: int
    content: Buffer


class JournalRecord(NamedTuple):
    """Where a record stands in the journal, and how many bytes it has."""

    sequence: int
    position: int
    size: int


def blocks_of(size: int) -> int:
    """`size` bytes, rounded up to whole blocks."""
    return -(-size // BLOCK_BYTES) * BLOCK_BYTES


def encode_head(head: JournalHead) -> bytes:
    """One of the first two blocks."""
    content = _SUPER.pack(b"HJNL", _VERSION, 0, *head)
    return (content + _CRC.pack(crc32c(content))).ljust(BLOCK_BYTES, b"\0")


def read_heads(content: bytes) -> HeadsFound:
    """What the first two blocks of the journal say."""
    found: list[JournalHead] = []
    is_damaged = False
    other_version = 0
    for start in (0, BLOCK_BYTES):
        block = content[start : start + _SUPER.size + _CRC.size]
        if not any(block):
            continue
        if len(block) < _SUPER.size + _CRC.size:
            is_damaged = True
            continue
        magic, version, _, run, turn = _SUPER.unpack_from(block)
        (crc,) = _CRC.unpack_from(block, _SUPER.size)
        if magic != b"HJNL" or crc != crc32c(block[: _SUPER.size]):
            is_damaged = True
        elif version != _VERSION:
            other_version = version
        else:
            found.append(JournalHead(run, turn))
    head = max(found, key=lambda each: each.turn, default=None)
    return HeadsFound(head, is_damaged, other_version)


def record_size(entries: Sequence[JournalEntry]) -> int:
    """Bytes of the record of `entries`."""
    return _BODY + sum(_ENTRY.size + len(each.topic) + len(each.content) for each in entries)


def write_record(
    buffer: memoryview, run: bytes, sequence: int, entries: Sequence[JournalEntry]
) -> int:
    """Write the record of `entries` to the beginning of `buffer`; its size in bytes. Topics' names
    are legal, in ASCII.
    """
    place = _BODY
    for topic_id, partition, topic, base, position, content in entries:
        name = topic.encode()
        size = len(content)
        _ENTRY.pack_into(buffer, place, topic_id, partition, base, position, size, len(name))
        place += _ENTRY.size
        buffer[place : place + len(name)] = name
        place += len(name)
        buffer[place : place + size] = content
        place += size
    _RECORD.pack_into(buffer, 0, b"HJRN", _VERSION, len(entries), run, sequence, place)
    crc = crc32c(buffer[_BODY:place], crc32c(buffer[: _RECORD.size]))
    _CRC.pack_into(buffer, _RECORD.size, crc)
    return place


def find_record(content: memoryview, position: int, run: bytes) -> JournalRecord | None:
    """The whole record of `run` with which `content` begins, `position` bytes behind the journal's
    beginning; None when there is none.
    """
    if len(content) < _BODY:
        return None
    magic, version, _, its_run, sequence, size = _RECORD.unpack_from(content)
    if (magic, version, its_run) != (b"HJRN", _VERSION, run) or not _BODY <= size <= len(content):
        return None
    (crc,) = _CRC.unpack_from(content, _RECORD.size)
    if crc != crc32c(content[_BODY:size], crc32c(content[: _RECORD.size])):
        return None
    return JournalRecord(sequence, position, size)


def entries_of(content: memoryview) -> Iterator[JournalEntry]:
    """What a whole record says; `content` of the entries are parts of it."""
    count = _RECORD.unpack_from(content)[2]
    place = _BODY
    for _ in range(count):
        topic_id, partition, base, position, size, length = _ENTRY.unpack_from(content, place)
        place += _ENTRY.size
        topic = bytes(content[place : place + length]).decode()
        place += length
        yield JournalEntry(
            topic_id, partition, topic, base, position, content[place : place + size]
        )
        place += size
