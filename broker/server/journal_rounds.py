"""What a round of syncs writes to the journal: which rounds are for it, and their bytes.

Not here: where in the journal they go, and whether there is room (`journal`).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

from broker.log.journal import JournalEntry, record_size
from broker.log.segment import Written

if TYPE_CHECKING:
    from broker.server.partition import Partition
    from broker.server.syncing import Due

ROUND_BYTES_MAX: Final = 256 * 1024
"""Of records. They are written twice: more is not worth it."""
LOGS_MAX: Final = 32
"""In one record: with the longest names it fits the buffer of a ring."""


class _Run:
    """Bytes that were appended to one segment, the first at `position`."""

    __slots__ = ("content", "position", "segment_base")

    def __init__(self, segment_base: int, position: int) -> None:
        self.segment_base = segment_base
        self.position = position
        self.content = bytearray()


class RoundBytes:
    """What was written of each log since the last round began: copies, as long as all together is
    for the journal. It never asks the disk what it was given: that may not be able to tell.
    """

    def __init__(self) -> None:
        self._runs: dict[Partition, _Run] = {}
        self._size = 0

    def add(self, partition: Partition, written: Written) -> None:
        """`written` was appended to its log."""
        segment_base, position, batches = written
        for batch in batches:
            self._size += len(batch)
        if self._size > ROUND_BYTES_MAX:
            self._runs.clear()
            return
        run = self._runs.get(partition)
        if run is None or run.segment_base != segment_base:
            run = self._runs[partition] = _Run(segment_base, position)
        for batch in batches:
            run.content += batch

    def entries_of(self, due: Sequence[Due]) -> list[JournalEntry] | None:
        """What the journal is given of a round; None when the round is not for it: when there is
        too much, or when not all is here from what is synced to the round's mark. Appends only go
        on: as many bytes from there as lie between the two are all of them.
        """
        runs = self._runs
        if self._size > ROUND_BYTES_MAX or len(due) > LOGS_MAX:
            return None
        entries: list[JournalEntry] = []
        for partition, log, mark, _ in due:
            run = runs.get(partition)
            _, base, position = log.checkpoints.synced
            if (
                run is None
                or run.position != position
                or position + len(run.content) != mark.position
                or not run.segment_base == base == mark.segments[-1].base_offset
                or not log.checkpoints.needs_one_file(mark)
            ):
                return None
            topic_id = bytes(partition.topic_id)
            entries.append(
                JournalEntry(
                    topic_id, partition.index, partition.topic, base, position, run.content
                )
            )
        return entries


def size_of(entries: Sequence[JournalEntry]) -> int:
    """Bytes of their record."""
    names_size = content_size = 0
    for entry in entries:
        names_size += len(entry.topic)
        content_size += len(entry.content)
    return record_size(len(entries), names_size, content_size)
