"""What the gateway holds for one partition: puts in order, the first batch of them perhaps on its
way.

Pure state. Unlike the client's producer, a batch whose outcome is unknown is never given up: it is
sent again, the same bytes under the same numbers, until the cluster says what became of it. Only
those who wait for it are told that the outcome is unknown. Invariants: one batch is in flight; a
batch that was sent keeps its bytes.

| head      | meaning                          | leaves by                             |
|-----------|----------------------------------|---------------------------------------|
| waiting   | never sent, or surely not stored | sent; failed (refusal, deadline)      |
| in flight | an answer is awaited             | stored; failed; waiting; unknown      |
| unknown   | sent, no answer: stored or not   | sent again; stored                    |
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Sequence
from typing import Final, NamedTuple

from broker.gateway.ids import EntryRow
from broker.gateway.problem import Problem
from broker.model import INT32_MAX, NO_PRODUCER_EPOCH, NO_PRODUCER_ID, NO_SEQUENCE, TopicPartition
from broker.records.build import encode_records, frame_batch

BATCH_BYTES_MAX: Final = 512 * 1024
RECORD_OVERHEAD_BYTES: Final = 24
EPOCH_MAX: Final = 32_766


class Answer(NamedTuple):
    """Where a message is; `offset` and `high_watermark` are -1 when it is not known (yet)."""

    partition: int
    offset: int
    high_watermark: int
    is_duplicate: bool = False


Outcome = Answer | Problem


class Call:
    """Someone who waits for `count` puts; `future` is done when each has an outcome, or the
    deadline has passed.
    """

    __slots__ = ("deadline_ms", "future", "left", "outcomes")

    def __init__(self, count: int, future: asyncio.Future[None], deadline_ms: float) -> None:
        self.left = count
        self.outcomes: list[Outcome | None] = [None] * count
        self.future = future
        self.deadline_ms = deadline_ms

    def finish(self, index: int, outcome: Outcome) -> None:
        """Only the first outcome of a put counts."""
        if self.outcomes[index] is None:
            self.outcomes[index] = outcome
            self.left -= 1
            if self.left == 0 and not self.future.done():
                self.future.set_result(None)

    def expire(self) -> None:
        """The deadline has passed: what has no outcome gets none."""
        if not self.future.done():
            self.future.set_result(None)


class Put:
    """A record on its way. `body` is encoded; `is_kept` says that its id will be remembered (no
    client can repeat one that the gateway made). `call` is who sent it, and waits for the outcome
    at `index`; None when nobody does. `repeats` are those who sent it too, later.
    """

    __slots__ = ("body", "call", "digest", "id_key", "index", "is_kept", "repeats", "size")

    def __init__(
        self,
        body: bytes,
        id_key: bytes,
        digest: bytes,
        call: Call | None,
        index: int,
        *,
        is_kept: bool,
    ) -> None:
        self.body = body
        self.size = len(body) + RECORD_OVERHEAD_BYTES
        self.id_key = id_key
        self.digest = digest
        self.is_kept = is_kept
        self.call = call
        self.index = index
        self.repeats: list[tuple[Call, int]] | None = None

    def repeat(self, call: Call, index: int) -> None:
        """`call` sent it too, later."""
        if self.repeats is None:
            self.repeats = []
        self.repeats.append((call, index))

    def finish(self, outcome: Outcome) -> None:
        """Tell everyone who waits; those who came later learn that theirs is a duplicate."""
        if self.call is not None:
            self.call.finish(self.index, outcome)
            self.call = None
        if self.repeats is not None:
            repeats, self.repeats = self.repeats, None
            if isinstance(outcome, Answer):
                outcome = outcome._replace(is_duplicate=True)
            for call, index in repeats:
                call.finish(index, outcome)


def finish_all(puts: Sequence[Put], answers: Sequence[Answer]) -> None:
    """`Put.finish` of each with its answer; written out, since most puts are as simple as this."""
    for put, answer in zip(puts, answers, strict=True):
        call = put.call
        if call is None or put.repeats is not None:
            put.finish(answer)
            continue
        put.call = None
        outcomes, index = call.outcomes, put.index
        if outcomes[index] is None:
            outcomes[index] = answer
            call.left -= 1
            if call.left == 0 and not call.future.done():
                call.future.set_result(None)


class Batch:
    """Puts that travel together. `opens_epoch`: the first of a producer epoch, which nothing that
    waits behind it may be stored without.
    """

    __slots__ = (
        *("acks", "base_sequence", "created_ms", "encoded", "is_closed", "is_unknown"),
        *("not_before_ms", "opens_epoch", "pause_ms", "puts", "size"),
    )

    def __init__(self, acks: int, created_ms: float) -> None:
        self.acks = acks
        self.created_ms = created_ms
        self.puts: list[Put] = []
        self.size = 0
        self.is_closed = False
        self.is_unknown = False
        self.opens_epoch = False
        self.encoded: bytearray | None = None
        self.base_sequence = NO_SEQUENCE
        self.not_before_ms = 0.0
        self.pause_ms = 0.0


class Lane:
    """One partition's queue, its producer identity, and what of it is in the ids topic already."""

    def __init__(self, where: TopicPartition, topic_id: bytes) -> None:
        self.where = where
        self.topic_id = topic_id
        self.queue: deque[Batch] = deque()
        self.is_in_flight = False
        self.is_claimed = False
        self.needs_new_epoch = False
        self.producer_id = NO_PRODUCER_ID
        self.producer_epoch = NO_PRODUCER_EPOCH
        self.high_watermark = -1
        self.position = 0
        """What was stored below it is in the ids topic."""
        self.stored_end = 0
        """After the last record that was stored."""
        self.checked_end: int | None = None
        """Up to where the partition was read before the first batch of this claim."""
        self.unrecorded: list[EntryRow] = []
        self.used_ms = 0.0
        self.problem: Problem | None = None
        self._next_sequence = 0

    def append(self, put: Put, acks: int, now_ms: float) -> None:
        """Queue it behind the others; batches hold one kind of acks."""
        last = self.queue[-1] if self.queue else None
        if (
            last is None
            or last.is_closed
            or last.acks != acks
            or last.size + put.size > BATCH_BYTES_MAX
        ):
            if last is not None:
                last.is_closed = True
            last = Batch(acks, now_ms)
            self.queue.append(last)
        last.puts.append(put)
        last.size += put.size

    def extend(self, puts: Sequence[Put], acks: int, now_ms: float) -> int:
        """Append all of them; their bytes."""
        last = self.queue[-1] if self.queue else None
        size = sum([put.size for put in puts])
        if (
            last is not None
            and not last.is_closed
            and last.acks == acks
            and last.size + size <= BATCH_BYTES_MAX
        ):
            last.puts += puts
            last.size += size
        else:
            for put in puts:
                self.append(put, acks, now_ms)
        return size

    def identify(self, producer_id: int, producer_epoch: int) -> None:
        """Write as this producer from now on. A batch that waits is numbered anew."""
        self.producer_id, self.producer_epoch = producer_id, producer_epoch
        self._next_sequence = 0
        self.needs_new_epoch = False
        if self.queue:
            self.queue[0].encoded = None

    def encode_head(self, now_wall_ms: int) -> bytearray:
        """The first batch as bytes; the same as last time if it was sent before."""
        batch = self.queue[0]
        batch.is_closed = True
        if batch.encoded is None:
            payload = encode_records([put.body for put in batch.puts])
            count = len(batch.puts)
            batch.base_sequence = self._next_sequence
            batch.encoded = frame_batch(
                payload,
                record_count=count,
                last_offset_delta=count - 1,
                base_timestamp=now_wall_ms,
                max_timestamp=now_wall_ms,
                codec=0,
                producer=(self.producer_id, self.producer_epoch, batch.base_sequence),
                base_offset=0,
                leader_epoch=-1,
                attributes=0,
            )
        return batch.encoded

    def take_head(self, *, is_stored: bool) -> Batch:
        """The first batch, which leaves the queue; its numbers are used up when it is stored."""
        batch = self.queue.popleft()
        if is_stored and batch.encoded is not None:
            self._next_sequence = (batch.base_sequence + len(batch.puts)) & INT32_MAX
        return batch

    def split_head(self) -> bool:
        """Cut the first batch, which is not stored, in two; False when it holds one record."""
        batch = self.queue[0]
        if len(batch.puts) < 2:
            return False
        self.queue.popleft()
        middle = len(batch.puts) // 2
        for part in (batch.puts[middle:], batch.puts[:middle]):
            half = Batch(batch.acks, batch.created_ms)
            half.is_closed = True
            half.puts = part
            half.size = sum(put.size for put in part)
            self.queue.appendleft(half)
        return True
