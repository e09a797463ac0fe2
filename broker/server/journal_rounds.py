"""What a round of syncs writes to the journal: which rounds are for it, and their bytes.

Not here: where in the journal they go, and whether there is room (`journal`).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

from broker.log.journal import JournalEntry
from broker.log.segment import Written

if TYPE_CHECKING:
    from broker.server.partition import Partition
    from broker.server.syncing import Due

ROUND_BYTES_MAX: Final = 256 * 1024
"""Of batches. They are written twice, and larger rounds gain nothing (decision 024)."""
LOGS_MAX: Final = 32
"""In one record: with the longest names it has no more than RECORD_BYTES_MAX."""


class _Run:
    """Bytes that were appended to one segment, the first at `position`."""

    __slots__ = ("content", "position", "segment_base")

    def __init__(self, segment_base: int, position: int) -> None:
        self.segment_base = segment_base
        self.position = position
        self.content = bytearray()


class RoundBytes:
    """What was appended to each log for one round, copied because its memory is its sender's
    (`Written`); nothing is kept once it is too much for the journal. It is not read back from the
    log's file: a page that could not be written may be read anew from the device, as it was before.
    """

    def __init__(self) -> None:
        self._runs: dict[Partition, _Run] = {}
        self._size = 0

    def add(self, partition: Partition, written: Written) -> None:
        """`written` was appended to the log of `partition`; each append is handed over once."""
        segment_base, position, batches = written
        for batch in batches:
            self._size += len(batch)
        if self._size > ROUND_BYTES_MAX:
            self._runs.clear()
            return
        run = self._runs.get(partition)
        if run is None or run.segment_base != segment_base:  # of two, the files are synced anyway
            run = self._runs[partition] = _Run(segment_base, position)
        for batch in batches:
            run.content += batch

    def entries_of(self, due: Sequence[Due]) -> list[JournalEntry] | None:
        """What the journal is given of a round; None when the round is not for it: too many bytes
        or logs, more than one file to sync, or bytes that were not handed over (a roll or a
        checkpoint wrote them early). Appends never overlap: a run that begins where the log is
        synced, and has as many bytes as lie between there and the mark, lacks none.
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
