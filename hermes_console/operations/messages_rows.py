"""A message as pages, API, export and search hand it on, and how stored batches become messages.
Pure.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from broker.client.batches import Batch, encode_varint, marker_of

NO_PRODUCER_ID: Final = -1
SEQUENCE_SPACE: Final = 2**31


@dataclass(frozen=True, slots=True)
class Message:
    """One record. `control` is commit or abort for a transaction's marker, else empty; `sequence`
    is None without an idempotent producer. `size` is of key, value and headers' contents.
    """

    partition: int
    offset: int
    timestamp_ms: int
    timestamp_type: str
    key: bytes | None
    value: bytes | None
    headers: tuple[tuple[str, bytes | None], ...]
    compression: str
    producer_id: int | None
    producer_epoch: int | None
    sequence: int | None
    is_transactional: bool
    control: str

    @property
    def is_tombstone(self) -> bool:
        """Null where a value could be: in a compacted topic it deletes the key."""
        return self.value is None and not self.control

    @property
    def size(self) -> int:
        headers = sum(len(name.encode()) + len(value or b"") for name, value in self.headers)
        return len(self.key or b"") + len(self.value or b"") + headers


def messages_of(batch: Batch, partition: int, start: int, end: int) -> Iterator[Message]:
    """The batch's messages with start ≤ offset < end. Raises BrokerRefusal for a damaged batch."""
    batch.check()
    header = batch.header
    has_producer = header.producer_id != NO_PRODUCER_ID
    for record in batch.records():
        if not start <= record.offset < end:
            continue
        yield Message(
            partition=partition,
            offset=record.offset,
            timestamp_ms=record.timestamp,
            timestamp_type="LogAppendTime" if batch.is_log_append_time else "CreateTime",
            key=record.key,
            value=record.value,
            headers=record.headers,
            compression=batch.compression,
            producer_id=header.producer_id if has_producer else None,
            producer_epoch=header.producer_epoch if has_producer else None,
            sequence=_sequence(header.base_sequence, record.offset - header.base_offset),
            is_transactional=batch.is_transactional,
            control=marker_of(record) if batch.is_control else "",
        )


def key_pattern(key: bytes) -> bytes:
    """How a record with that key holds it: bytes that must be in an unpacked batch."""
    return encode_varint(len(key)) + key


def _sequence(base_sequence: int, delta: int) -> int | None:
    return None if base_sequence < 0 else (base_sequence + delta) % SEQUENCE_SPACE
