"""How much of a compacted log waits for the cleaner, and how far a cleaning may go.

Not here: the cleaning. A closed segment may be cleaned when its newest record is older than
`min.compaction.lag.ms`, and must be when its oldest is older than `max.compaction.lag.ms`: by the
broker's append times, whatever clients say.
"""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING

from broker.log.segment import Segment
from broker.model import NO_TIMESTAMP

if TYPE_CHECKING:
    from broker.log.partition_log import PartitionLog


def is_due(log: PartitionLog, now_wall_ms: int) -> bool:
    """True when the uncleaned share of what may be cleaned reached `min.cleanable.dirty.ratio`, a
    record waits for longer than `max.compaction.lag.ms`, or the last cleaning left something until
    now.
    """
    if not log.config.is_compacted or log.is_in_upkeep or log.offline_reason:
        return False
    if 0 <= log.next_clean_ms <= now_wall_ms:
        return True
    dirty = [
        segment
        for segment, end_offset in _closed(log)
        if end_offset > log.cleaned_end_offset and not _is_young(log, segment, now_wall_ms)
    ]
    dirty_bytes = sum(segment.size for segment in dirty)
    if not dirty_bytes:
        return False
    if any(_is_overdue(log, segment, now_wall_ms) for segment in dirty):
        return True
    clean_bytes = sum(
        segment.size for segment, end_offset in _closed(log) if end_offset <= log.cleaned_end_offset
    )
    return dirty_bytes >= log.config.min_cleanable_dirty_ratio * (dirty_bytes + clean_bytes)


def dirty_ratio(log: PartitionLog) -> float:
    """The share of the closed segments' bytes that no cleaning has seen, 0 when there are none."""
    dirty_bytes = total_bytes = 0
    for segment, end_offset in _closed(log):
        total_bytes += segment.size
        if end_offset > log.cleaned_end_offset:
            dirty_bytes += segment.size
    return dirty_bytes / total_bytes if total_bytes else 0.0


def is_roll_due(log: PartitionLog, now_wall_ms: int) -> bool:
    """True when the active segment holds a record older than `max.compaction.lag.ms`: only what is
    closed can be cleaned.
    """
    return bool(
        log.config.is_compacted
        and log.active.size
        and now_wall_ms - log.rolls_from_ms >= log.config.max_compaction_lag_ms
    )


async def end_of(log: PartitionLog, now_wall_ms: int, high_watermark: int) -> int:
    """Up to which offset the log may be cleaned now: whole segments that a start would not scan,
    below the high watermark, none of them too young. Raises DiskFault.
    """
    end = log.segments[0].base_offset
    for segment, end_offset in list(_closed(log)):
        if end_offset > min(high_watermark, log.checkpoints.segment_base):
            break
        if end_offset > log.cleaned_end_offset and log.config.min_compaction_lag_ms:
            await log.load_index(segment)
            if _is_young(log, segment, now_wall_ms):
                break
        end = end_offset
    return end


def _closed(log: PartitionLog) -> list[tuple[Segment, int]]:
    """The closed segments with their end offsets."""
    return [(segment, following.base_offset) for segment, following in pairwise(log.segments)]


def _is_young(log: PartitionLog, segment: Segment, now_wall_ms: int) -> bool:
    """False also when nobody has looked into the segment's index yet."""
    lag_ms = log.config.min_compaction_lag_ms
    if not lag_ms or segment.times is None:
        return False
    return now_wall_ms - segment.times.last_append_time < lag_ms


def _is_overdue(log: PartitionLog, segment: Segment, now_wall_ms: int) -> bool:
    times = segment.times
    if times is None or times.first_append_time == NO_TIMESTAMP:
        return False
    return now_wall_ms - times.first_append_time >= log.config.max_compaction_lag_ms
