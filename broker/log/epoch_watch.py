"""Leader epochs of batches that a start scans: learned, and checked, since no checksum covers them.

Epochs never fall along a log. What the epoch file knows is right; behind it a batch may begin a
newer epoch. When the very next one is of the epoch before again, the one that rose is damaged, else
the one that fell.
"""

from __future__ import annotations

from broker.log.damage import DamagedRange
from broker.log.epochs import NO_EPOCH, LeaderEpochs
from broker.records.batch import BatchHeader


class EpochWatch:
    """Told of every batch in order. `broken` are those that cannot be as they were written."""

    __slots__ = ("_epochs", "_riser", "broken")

    def __init__(self, epochs: LeaderEpochs) -> None:
        self._epochs = epochs
        self._riser: tuple[BatchHeader, int] | None = None
        self.broken: list[DamagedRange] = []

    def visit(self, header: BatchHeader, position: int) -> None:
        """The next batch, at byte `position`."""
        epochs, found = self._epochs, header.partition_leader_epoch
        riser, self._riser = self._riser, None
        known = epochs.epoch_at(header.base_offset)
        if known == NO_EPOCH and epochs.entries:
            return  # older than what is known
        if found == known:
            return
        if known == epochs.latest and found > known:
            epochs.begin(found, header.base_offset)
            self._riser = header, position
        elif riser is not None and self._before(riser[0]) <= found:
            self._note(*riser, known=found)
            epochs.restore([entry for entry in epochs.entries if entry[0] != known])
            if found > epochs.latest:
                epochs.begin(found, header.base_offset)
        else:
            self._note(header, position, known=known)

    def _before(self, riser: BatchHeader) -> int:
        """The epoch that ended where `riser` began another."""
        return self._epochs.epoch_at(riser.base_offset - 1)

    def _note(self, header: BatchHeader, position: int, *, known: int) -> None:
        reason = f"leader epoch {header.partition_leader_epoch} where {known} was written"
        end = position + header.size
        self.broken.append(
            DamagedRange(position, end, header.base_offset, header.next_offset, reason)
        )
