"""A snapshot: all that a restart needs of the log below one offset, so that only what follows is
scanned.

Not here: when one is taken. It is written only after the log below `offset` was synced, and
replaced atomically, so a whole one can be trusted as far as it goes; it says nothing of what
follows.
Big endian: 0 magic "HSNP" · 4 version u16 · 6 zero u16 · i64 each: 8 offset · 16 segment base
24 position · 32 log start offset · 40 first append time · 48 last append time · 56 max timestamp
64 cleaned end offset · 72 producer count u32 · then per producer: id i64, epoch i16, wall ms i64,
batch count u8, per batch: first, last sequence i32, base, last offset i64, append time i64
· at the end the CRC-32C u32 of everything before.
"""

from __future__ import annotations

from struct import Struct
from typing import Final, NamedTuple

from broker.log.index import Times
from broker.log.producers import ProducerBatch, ProducerEntry
from broker.log.synced_ends import SyncedEnd
from broker.records.crc import crc32c

_VERSION: Final = 1
_HEADER: Final = Struct(">4sHHqqqqqqqqI")
_PRODUCER: Final = Struct(">qhqB")
_BATCH: Final = Struct(">iiqqq")
_CRC: Final = Struct(">I")


class Snapshot(NamedTuple):
    """`position` in the segment at `segment_base` is where the batch at `offset` begins or will
    begin.
    """

    offset: int
    segment_base: int
    position: int
    log_start_offset: int
    times: Times
    cleaned_end_offset: int
    producers: dict[int, ProducerEntry]

    @property
    def synced_end(self) -> SyncedEnd:
        """Up to where the log was synced before the snapshot was written."""
        return SyncedEnd(self.offset, self.segment_base, self.position)


def encode_snapshot(snapshot: Snapshot) -> bytes:
    """The `.snapshot` file."""
    head = (b"HSNP", _VERSION, 0, *snapshot[:4], *snapshot.times, snapshot.cleaned_end_offset)
    content = bytearray(_HEADER.pack(*head, len(snapshot.producers)))
    for producer_id, (epoch, wall_ms, batches) in snapshot.producers.items():
        content += _PRODUCER.pack(producer_id, epoch, wall_ms, len(batches))
        for batch in batches:
            content += _BATCH.pack(*batch)
    content += _CRC.pack(crc32c(content))
    return bytes(content)


def decode_snapshot(content: bytes) -> Snapshot | None:
    """The snapshot in a `.snapshot` file; None when it is damaged or of another version."""
    if len(content) < _HEADER.size + _CRC.size:
        return None
    if _CRC.unpack_from(content, len(content) - _CRC.size)[0] != crc32c(content[: -_CRC.size]):
        return None
    magic, version, _, offset, base, position, start, first, last, latest, cleaned, count = (
        _HEADER.unpack_from(content)
    )
    if (magic, version) != (b"HSNP", _VERSION):
        return None
    producers: dict[int, ProducerEntry] = {}
    place = _HEADER.size
    for _ in range(count):
        producer_id, epoch, wall_ms, batch_count = _PRODUCER.unpack_from(content, place)
        place += _PRODUCER.size
        batches = []
        for _ in range(batch_count):
            batches.append(ProducerBatch._make(_BATCH.unpack_from(content, place)))
            place += _BATCH.size
        producers[producer_id] = (epoch, wall_ms, tuple(batches))
    return Snapshot(offset, base, position, start, Times(first, last, latest), cleaned, producers)
