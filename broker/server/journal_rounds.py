"""What a round of syncs writes to the journal: which rounds are for it, and their bytes.

Not here: where in the journal they go, and whether there is room (`journal`).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

from broker.log.journal import JournalEntry, record_size
from broker.ports import DiskFault

if TYPE_CHECKING:
    from broker.server.syncing import Due

ROUND_BYTES_MAX: Final = 48 * 1024
"""Of records. They are written twice: more is not worth it."""
LOGS_MAX: Final = 32
"""In one record: with the longest names it fits the buffer of a ring."""


def record_size_of(due: Sequence[Due]) -> int | None:
    """Bytes of the record of a round; None when it is not for the journal."""
    if len(due) > LOGS_MAX:
        return None
    size = names_size = 0
    for partition, log, mark, _ in due:
        synced = log.checkpoints.synced
        length = mark.position - synced.position
        size += length
        if (
            length < 0
            or size > ROUND_BYTES_MAX
            or synced.segment_base != mark.segments[-1].base_offset
            or not log.checkpoints.needs_one_file(mark)
        ):
            return None
        names_size += len(partition.topic)
    return record_size(len(due), names_size, size)


def read_entries(due: Sequence[Due]) -> list[JournalEntry] | None:
    """What is not synced of each log; None when one cannot be read at once."""
    entries: list[JournalEntry] = []
    for each in due:
        entry = _entry_of(each)
        if entry is None:
            return None
        entries.append(entry)
    return entries


def _entry_of(due: Due) -> JournalEntry | None:
    partition, log, mark, _ = due
    _, base, position = log.checkpoints.synced
    length = mark.position - position
    try:
        content = mark.segments[-1].file().read(position, length)
    except (DiskFault, FileNotFoundError):
        return None
    if content is None or len(content) != length:
        return None
    topic_id = bytes(partition.topic_id)
    return JournalEntry(topic_id, partition.index, partition.topic, base, position, content)
