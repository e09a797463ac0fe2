"""Which batches of a fetched range belong to transactions that were aborted (KIP-98): the broker
names the transactions, the client leaves their records out.

Pure. Batches are asked about in the order of their offsets.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final, NamedTuple

from broker.records.batch import TRANSACTIONAL_BIT, BatchHeader, is_control
from broker.records.iterate import iterate_records

_ABORT_KEY: Final = b"\x00\x00\x00\x00"
"""Key of the control record that ends a transaction by an abort: version 0, type 0."""


class AbortedRange(NamedTuple):
    """An aborted transaction: it began at `first_offset` and ends at its producer's marker."""

    producer_id: int
    first_offset: int


class AbortedFilter:
    """One per answer. `leaves_out` is asked for every batch, control batches too."""

    def __init__(self, aborted: Iterable[AbortedRange]) -> None:
        self._coming = sorted(aborted, key=lambda row: row.first_offset)
        self._open: set[int] = set()

    def leaves_out(self, header: BatchHeader, batch: memoryview) -> bool:
        """Whether the batch has no record for a reader: control, or part of an aborted
        transaction. Raises Refusal for a damaged control batch.
        """
        while self._coming and self._coming[0].first_offset <= header.last_offset:
            self._open.add(self._coming.pop(0).producer_id)
        if is_control(header.attributes):
            if header.producer_id in self._open and _is_abort(batch):
                self._open.discard(header.producer_id)
            return True
        return bool(header.attributes & TRANSACTIONAL_BIT) and header.producer_id in self._open


def _is_abort(batch: memoryview) -> bool:
    return any(record.key == _ABORT_KEY for record in iterate_records(batch))
