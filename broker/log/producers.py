"""What a partition remembers of each idempotent producer: its epoch and its last five batches
(KIP-98).

Not here: transactions. An entry is an immutable tuple, so undoing is putting the old one back.
Silence longer than `producer.id.expiration.ms` makes a producer unknown; an unknown producer may
begin at any sequence, but not behind a batch that was refused: what it had sent after that one may
not overtake it. The state outlives the data: deleting every record changes nothing (KAFKA-7190).
"""

from __future__ import annotations

from typing import Final, NamedTuple

from broker.errors import ErrorCode, Refusal
from broker.model import INT32_MAX
from broker.ports import Buffer
from broker.records.batch import HEADER, HEADER_BYTES, MAGIC

BATCHES_KEPT: Final = 5
"""In-flight requests an idempotent client may have, so the retries that can arrive."""
PRODUCERS_MAX: Final = 100_000
"""Producers remembered per partition; beyond it the longest silent go at the next `expire`."""
REFUSED_MAX: Final = 1_000
"""Producers per partition of which a refused batch is remembered; beyond it the oldest go."""
REFUSED_MS_MAX: Final = 600_000
"""A refused batch is remembered for so long: nothing sent before the refusal is under way then."""


class ProducerBatch(NamedTuple):
    """One appended batch. Sequences and offsets inclusive; `append_time` is what the answer said,
    or -1.
    """

    first_sequence: int
    last_sequence: int
    base_offset: int
    last_offset: int
    append_time: int


ProducerEntry = tuple[int, int, tuple[ProducerBatch, ...]]
"""(producer epoch, wall ms of its last batch, its last batches, oldest first)."""


class ProducerStates:
    """By producer id. `mark` begins an undoable stretch, `undo` returns to it."""

    __slots__ = ("_refused", "_undo", "entries", "expiration_ms")

    def __init__(self, expiration_ms: int) -> None:
        self.entries: dict[int, ProducerEntry] = {}
        self.expiration_ms = expiration_ms
        self._undo: list[tuple[int, ProducerEntry | None]] = []
        self._refused: dict[int, tuple[int, int, int]] = {}

    def find_duplicate(
        self,
        producer_id: int,
        epoch: int,
        first_sequence: int,
        last_sequence: int,
        now_wall_ms: int,
    ) -> ProducerBatch | None:
        """The batch already stored under these sequences; None when the batch is the next one.

        Raises Refusal: INVALID_PRODUCER_EPOCH for an older epoch, OUT_OF_ORDER_SEQUENCE_NUMBER for
        a gap.
        """
        entry = self.entries.get(producer_id)
        if entry is None:
            self._check_beginning(producer_id, epoch, first_sequence, now_wall_ms)
            return None
        known_epoch, last_ms, batches = entry
        if epoch == known_epoch:
            last = batches[-1][1]
            if first_sequence == (0 if last == INT32_MAX else last + 1):
                return None
            for batch in batches:
                if batch[0] == first_sequence and batch[1] == last_sequence:
                    return batch
        if now_wall_ms - last_ms > self.expiration_ms:
            self._check_beginning(producer_id, epoch, first_sequence, now_wall_ms)
            return None
        if epoch < known_epoch:
            raise Refusal(
                ErrorCode.INVALID_PRODUCER_EPOCH,
                f"producer {producer_id} has epoch {known_epoch} by now, not {epoch}",
            )
        if epoch > known_epoch and first_sequence == 0:
            return None
        expected = 0 if epoch > known_epoch else (batches[-1][1] + 1) & INT32_MAX
        raise Refusal(
            ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER,
            f"producer {producer_id} epoch {epoch} sent sequence {first_sequence}, "
            f"expected {expected}",
        )

    def _check_beginning(
        self, producer_id: int, epoch: int, first_sequence: int, now_wall_ms: int
    ) -> None:
        """Raises Refusal when the batch that an unknown producer would begin with was sent behind
        one that was refused: the client sends that one again, and takes an answer to a later one
        for a sign that it was stored (librdkafka).
        """
        refused = self._refused.get(producer_id)
        if (
            refused is not None
            and refused[0] == epoch
            and _is_after(first_sequence, refused[1])
            and now_wall_ms - refused[2] <= REFUSED_MS_MAX
        ):
            raise Refusal(
                ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER,
                f"producer {producer_id} epoch {epoch} sent sequence {first_sequence}, but "
                f"{refused[1]} was refused and has not come again",
            )

    def on_refused(self, batch: Buffer, now_wall_ms: int) -> None:
        """A client's batch was not staged, whatever is wrong with it: those that the producer sent
        behind it have to wait until it comes again, or for another epoch.
        """
        refused = identity_of(batch)
        if refused is not None:
            self.note_refused(*refused, now_wall_ms)

    def unacknowledged(self, offset: int) -> list[tuple[int, int, int]]:
        """(producer id, epoch, first sequence) of each producer's first known batch at or behind
        `offset`.
        """
        return [
            (producer_id, epoch, first)
            for producer_id, (epoch, _, batches) in self.entries.items()
            for first in [batch[0] for batch in batches if batch[2] >= offset][:1]
        ]

    def awaited(self) -> list[tuple[tuple[int, int, int], int]]:
        """((producer id, epoch, sequence), wall ms) of what was refused and has not come again."""
        return [((key, *refused[:2]), refused[2]) for key, refused in self._refused.items()]

    def note_refused(self, producer_id: int, epoch: int, sequence: int, now_wall_ms: int) -> None:
        """The earliest of the newest epoch counts."""
        refused = self._refused.pop(producer_id, None)
        if refused is not None and now_wall_ms - refused[2] <= REFUSED_MS_MAX:
            known_epoch, first_sequence, _ = refused
            if known_epoch > epoch or (
                known_epoch == epoch and _is_after(sequence, first_sequence)
            ):
                epoch, sequence = known_epoch, first_sequence
        elif len(self._refused) >= REFUSED_MAX:
            del self._refused[next(iter(self._refused))]
        self._refused[producer_id] = (epoch, sequence, now_wall_ms)

    def stage(self, producer_id: int, epoch: int, now_wall_ms: int, batch: ProducerBatch) -> None:
        """Remember a staged batch; `undo` takes it back."""
        self._undo.append((producer_id, self.entries.get(producer_id)))
        if self._refused:
            self._refused.pop(producer_id, None)
        self.replay(producer_id, epoch, now_wall_ms, batch)

    def replay(self, producer_id: int, epoch: int, now_wall_ms: int, batch: ProducerBatch) -> None:
        """Remember a batch that is in the log."""
        entry = self.entries.get(producer_id)
        if entry is None or entry[0] != epoch:
            self.entries[producer_id] = (epoch, now_wall_ms, (batch,))
        else:
            self.entries[producer_id] = (epoch, now_wall_ms, (*entry[2][1 - BATCHES_KEPT :], batch))

    def mark(self) -> None:
        """What was staged is written: nothing before now can be undone."""
        self._undo.clear()

    def undo(self) -> None:
        """Forget everything staged since `mark`: all of it is refused."""
        for producer_id, entry in reversed(self._undo):
            epoch, now_wall_ms, batches = self.entries[producer_id]
            self.note_refused(producer_id, epoch, batches[-1][0], now_wall_ms)
            if entry is None:
                del self.entries[producer_id]
            else:
                self.entries[producer_id] = entry
        self._undo.clear()

    def active(self, now_wall_ms: int) -> list[tuple[int, ProducerEntry]]:
        """(producer id, entry) of every producer that is not expired, by id."""
        oldest = now_wall_ms - self.expiration_ms
        return sorted(item for item in self.entries.items() if item[1][1] >= oldest)

    def expire(self, now_wall_ms: int) -> None:
        """Drop the silent, and the longest silent beyond PRODUCERS_MAX; not while something can be
        undone.
        """
        if self._undo:
            return
        oldest = now_wall_ms - self.expiration_ms
        for producer_id in [key for key, entry in self.entries.items() if entry[1] < oldest]:
            del self.entries[producer_id]
        if len(self.entries) > PRODUCERS_MAX:
            by_silence = sorted(self.entries, key=lambda key: self.entries[key][1])
            for producer_id in by_silence[: len(self.entries) - PRODUCERS_MAX]:
                del self.entries[producer_id]


def identity_of(batch: Buffer) -> tuple[int, int, int] | None:
    """(producer id, epoch, first sequence) of an idempotent producer's batch."""
    if len(batch) < HEADER_BYTES:
        return None
    fields = HEADER.unpack_from(batch)
    producer_id, epoch, sequence = fields[9:12]
    is_idempotent = fields[3] == MAGIC and producer_id >= 0 and sequence >= 0
    return (producer_id, epoch, sequence) if is_idempotent else None


def _is_after(sequence: int, other: int) -> bool:
    """Whether `sequence` is one of the 2^30 that follow `other`."""
    return 0 < (sequence - other) & INT32_MAX < 1 << 30


def last_sequence_of(base_sequence: int, last_offset_delta: int) -> int:
    """The sequence of a batch's last record: sequences wrap from 2^31 - 1 to 0."""
    return (base_sequence + last_offset_delta) & INT32_MAX
