"""What a producer holds for one partition: batches in order, the first of them perhaps on its way.

Pure state: no I/O, no clock. Invariants: at most one batch is in flight, so order never depends on
retries; a sequence number is given to a batch when it is first sent; after a batch whose outcome
stays unknown, or whose numbers cannot be used again, the lane takes the next epoch of its producer
id and counts from 0, which fences what may still arrive.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Sequence
from typing import Final, NamedTuple

from broker.client.failure import ClientError
from broker.model import INT32_MAX, NO_PRODUCER_EPOCH, NO_PRODUCER_ID, NO_SEQUENCE
from broker.records.build import NewRecord, build_batch

RECORD_OVERHEAD_BYTES: Final = 24
BATCH_OVERHEAD_BYTES: Final = 61
EPOCH_MAX: Final = 32766


class RecordMetadata(NamedTuple):
    """Where a record is. `offset` is -1 when the broker does not say (acks=0, or a very old
    duplicate).
    """

    topic: str
    partition: int
    offset: int
    timestamp_ms: int


Delivery = asyncio.Future[RecordMetadata]


class Batch:
    """Records that travel together, and the futures of those who wait for them."""

    __slots__ = (
        "base_sequence",
        "created_ms",
        "deliveries",
        "encoded",
        "is_closed",
        "is_outcome_unknown",
        "not_before_ms",
        "pause_ms",
        "records",
        "size",
    )

    def __init__(self, created_ms: float) -> None:
        self.created_ms = created_ms
        self.records: list[NewRecord] = []
        self.deliveries: list[Delivery] = []
        self.size = BATCH_OVERHEAD_BYTES
        self.is_closed = False
        self.encoded: bytearray | None = None
        self.base_sequence = NO_SEQUENCE
        self.is_outcome_unknown = False
        self.not_before_ms = 0.0
        self.pause_ms = 0.0

    def add(self, record: NewRecord, size: int, delivery: Delivery) -> None:
        self.records.append(record)
        self.deliveries.append(delivery)
        self.size += size


class Lane:
    """One partition's queue and its producer identity."""

    def __init__(self, topic: str, partition: int) -> None:
        self.topic = topic
        self.partition = partition
        self.queue: deque[Batch] = deque()
        self.is_in_flight = False
        self.producer_id = NO_PRODUCER_ID
        self.producer_epoch = NO_PRODUCER_EPOCH
        self._next_sequence = 0

    def append(
        self, record: NewRecord, delivery: Delivery, *, now_ms: float, batch_bytes: int
    ) -> None:
        """Put the record into the last batch, or into a new one when that is full or on its way."""
        size = record_size(record)
        last = self.queue[-1] if self.queue else None
        if last is None or last.is_closed or last.size + size > batch_bytes:
            if last is not None:
                last.is_closed = True
            last = Batch(now_ms)
            self.queue.append(last)
        last.add(record, size, delivery)

    def encode_head(self, *, is_idempotent: bool, compression: str, now_wall_ms: int) -> bytearray:
        """The first batch as bytes, the same at every attempt."""
        batch = self.queue[0]
        batch.is_closed = True
        if batch.encoded is None:
            identity = {}
            if is_idempotent:
                batch.base_sequence = self._next_sequence
                self._next_sequence = advance(self._next_sequence, len(batch.records))
                identity = {
                    "producer_id": self.producer_id,
                    "producer_epoch": self.producer_epoch,
                    "base_sequence": batch.base_sequence,
                }
            batch.encoded = build_batch(
                batch.records, timestamp_ms=now_wall_ms, compression=compression, **identity
            )
        return batch.encoded

    def succeed(self, base_offset: int, log_append_time_ms: int) -> int:
        """The first batch is stored: resolve its futures. Returns the bytes that it held."""
        batch = self.queue.popleft()
        pairs = zip(batch.records, batch.deliveries, strict=True)
        for index, (record, delivery) in enumerate(pairs):
            if not delivery.done():
                offset = base_offset + index if base_offset >= 0 else -1
                timestamp_ms = record.timestamp_ms if log_append_time_ms < 0 else log_append_time_ms
                delivery.set_result(
                    RecordMetadata(self.topic, self.partition, offset, timestamp_ms or 0)
                )
        return batch.size - BATCH_OVERHEAD_BYTES

    def fail(self, error: ClientError) -> int:
        """The first batch is given up. Returns the bytes that it held."""
        batch = self.queue[0]
        self.take_back_sequence()
        self.queue.popleft()
        for delivery in batch.deliveries:
            if not delivery.done():
                delivery.set_exception(error)
        return batch.size - BATCH_OVERHEAD_BYTES

    def take_back_sequence(self) -> None:
        """The first batch was not stored under its numbers and is to be encoded anew or dropped."""
        batch = self.queue[0]
        if batch.encoded is None:
            return
        if batch.base_sequence != NO_SEQUENCE:
            if batch.is_outcome_unknown:
                self.next_epoch()
            else:
                self._next_sequence = batch.base_sequence
        batch.encoded = None
        batch.base_sequence = NO_SEQUENCE
        batch.is_outcome_unknown = False

    def next_epoch(self) -> None:
        """Count from 0 in the next epoch; the last one of an id asks for a new id."""
        self._next_sequence = 0
        if self.producer_epoch >= EPOCH_MAX:
            self.producer_id = NO_PRODUCER_ID
        else:
            self.producer_epoch += 1

    def identify(self, producer_id: int, producer_epoch: int) -> None:
        """Take an identity; the sequence starts at 0."""
        self.producer_id = producer_id
        self.producer_epoch = producer_epoch
        self._next_sequence = 0

    def split_head(self) -> bool:
        """Cut the first batch in two halves; False when it holds a single record."""
        batch = self.queue[0]
        if len(batch.records) < 2:
            return False
        self.take_back_sequence()
        middle = len(batch.records) // 2
        halves = []
        for part in (slice(0, middle), slice(middle, None)):
            half = Batch(batch.created_ms)
            half.is_closed = True
            for record, delivery in zip(batch.records[part], batch.deliveries[part], strict=True):
                half.add(record, record_size(record), delivery)
            halves.append(half)
        self.queue.popleft()
        self.queue.extendleft(reversed(halves))
        return True


def record_size(record: NewRecord) -> int:
    """About the bytes that the record takes in a batch."""
    size = RECORD_OVERHEAD_BYTES + len(record.key or b"") + len(record.value or b"")
    return size + headers_size(record.headers)


def headers_size(headers: Sequence[tuple[str, bytes | None]]) -> int:
    """About the bytes that the headers take."""
    return sum(len(name) + len(value or b"") + 4 for name, value in headers)


def advance(sequence: int, count: int) -> int:
    """The sequence number `count` records later: after 2^31 - 1 comes 0."""
    return (sequence + count) & INT32_MAX
