"""When a record was appended, by the broker's clock, as closely as the time index knows. Decides;
the log reads.

The index has an entry for every few kilobytes: a record was appended between the times of the
entries around it. Where these lie far apart the record's own timestamp, kept within them, is taken
instead.
"""

from __future__ import annotations

from bisect import bisect_right
from typing import TYPE_CHECKING, Final, NamedTuple

from broker.errors import Refusal
from broker.model import NO_TIMESTAMP
from broker.records.batch import read_header

if TYPE_CHECKING:
    from broker.log.index import SegmentIndex, Times
    from broker.log.partition_log import PartitionLog

PRECISION_MS: Final = 1_000
"""Bounds closer than this are not refined."""


class AppendTimeBounds(NamedTuple):
    """Wall milliseconds, both inclusive."""

    earliest_ms: int
    latest_ms: int


async def append_time(log: PartitionLog, offset: int, end_offset: int) -> int | None:
    """When the record at `offset` (or the next one kept) was appended; None when the log has none
    below `end_offset`.

    Raises DiskFault, Refusal.
    """
    if not log.log_start_offset <= offset < end_offset:
        return None
    place = bisect_right(log.segments, offset, key=lambda segment: segment.base_offset) - 1
    segment = log.segments[max(place, 0)]
    times = await log.load_index(segment)
    if segment.index is None or times.first_append_time == NO_TIMESTAMP:
        return None
    bounds = bounds_of(segment.index, times, offset)
    if bounds.latest_ms - bounds.earliest_ms <= PRECISION_MS:
        return bounds.earliest_ms
    try:
        found = log.read(offset, 1, end_offset, at_least_one=True)
    except Refusal:
        found = None
    if found is None or not found.records:
        return bounds.earliest_ms
    stamp = read_header(found.records, 0).max_timestamp
    return stamp if bounds.earliest_ms <= stamp <= bounds.latest_ms else bounds.earliest_ms


def bounds_of(index: SegmentIndex, times: Times, offset: int) -> AppendTimeBounds:
    """Between which times the batch with `offset` was appended. `times` are the segment's."""
    place = bisect_right(index.relative_offsets, offset - index.base_offset)
    earliest = index.append_times[place - 1] if place > 0 else times.first_append_time
    latest = index.append_times[place] if place < len(index) else times.last_append_time
    earliest = max(earliest, times.first_append_time)
    return AppendTimeBounds(earliest, max(earliest, latest))
