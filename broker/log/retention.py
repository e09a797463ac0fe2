"""Deleting old data: whole segments, by the broker's append time and by size, and below the log
start.

Not here: compaction. The log start moves first, then files are renamed (readers in flight keep
their descriptors), then unlinked off the loop. Producer state outlives the data: a snapshot beyond
it is on disk before a segment goes.
"""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING, Final

from broker.errors import ErrorCode, Refusal
from broker.log import names
from broker.log.segment import Segment
from broker.ports import Disk, DiskFull

if TYPE_CHECKING:
    from broker.log.partition_log import PartitionLog

CHECKPOINT_ATTEMPTS_MAX: Final = 100
"""Others may begin one first, each time."""
SEGMENT_SUFFIXES: Final = (names.LOG, names.INDEX, names.TIME_INDEX)


async def apply(log: PartitionLog, now_wall_ms: int, high_watermark: int | None) -> int:
    """The log start after deleting what the policy says; nothing while other upkeep runs. Raises
    DiskFull, DiskFault.
    """
    log.check_online()
    if log.is_in_upkeep:
        return log.log_start_offset
    log.is_in_upkeep = True
    try:
        await unlink_doomed(log)  # what an earlier deletion had no descriptor for
        log.producers.expire(now_wall_ms)
        limit = (
            log.written_end_offset
            if high_watermark is None
            else min(high_watermark, log.written_end_offset)
        )
        count = await expired_count(log, now_wall_ms, limit)
        await _delete_first(log, count)  # before the roll: on a full disk it makes room
        if len(log.segments) == 1 and _is_active_expired(log, now_wall_ms, limit):
            await log.roll(now_wall_ms)
            await _delete_first(log, await expired_count(log, now_wall_ms, limit))
        if log.checkpoints.is_due(log):
            await log.checkpoint()
    finally:
        log.is_in_upkeep = False
    return log.log_start_offset


async def advance(log: PartitionLog, offset: int) -> int:
    """Move the log start to `offset`, durably; segments below it go with the next `apply`. The
    start that a restart finds, which may be below the one that another call is still storing.

    A start that moved that far already is waited for, too.
    """
    log.check_online()
    if not 0 <= offset <= log.written_end_offset:
        raise Refusal(
            ErrorCode.OFFSET_OUT_OF_RANGE,
            f"offset {offset} is beyond the end {log.written_end_offset}",
        )
    log.log_start_offset = max(log.log_start_offset, offset)
    for _ in range(CHECKPOINT_ATTEMPTS_MAX):
        while log.checkpoints.is_under_way and stored_start(log) < offset:
            await log.sync()  # it may have begun before the start moved: it ends first
        if stored_start(log) >= offset:
            return stored_start(log)
        await log.checkpoint()
    raise Refusal(
        ErrorCode.KAFKA_STORAGE_ERROR, f"the new log start {offset} could not be stored: try again"
    )


def stored_start(log: PartitionLog) -> int:
    """The log start that a restart finds: in a snapshot, or because the files below are gone."""
    return max(log.checkpoints.log_start_offset, log.segments[0].base_offset)


async def expired_count(log: PartitionLog, now_wall_ms: int, limit: int) -> int:
    """How many of the oldest segments may go; never the active one, nor one that ends beyond
    `limit`.
    """
    config = log.config
    segments = list(log.segments)
    kept_bytes = log.log_size()
    count = 0
    for segment, following in pairwise(segments):
        if following.base_offset > limit:
            break
        is_below_start = following.base_offset <= log.log_start_offset
        is_too_much = config.is_deleted and 0 <= config.retention_bytes <= kept_bytes - segment.size
        if (
            not is_below_start
            and not is_too_much
            and not await _is_expired(log, segment, now_wall_ms)
        ):
            break
        kept_bytes -= segment.size
        count += 1
    return count


async def _is_expired(log: PartitionLog, segment: Segment, now_wall_ms: int) -> bool:
    config = log.config
    if not config.is_deleted or config.retention_ms < 0:
        return False
    times = segment.times or await log.load_index(segment)
    return times.last_append_time <= now_wall_ms - config.retention_ms


def _is_active_expired(log: PartitionLog, now_wall_ms: int, limit: int) -> bool:
    config = log.config
    return (
        config.is_deleted
        and config.retention_ms >= 0
        and log.active.size > 0
        and log.written_end_offset <= limit
        and log.last_append_time <= now_wall_ms - config.retention_ms
    )


async def _delete_first(log: PartitionLog, count: int) -> None:
    if count == 0:
        return
    doomed = log.segments[:count]
    new_start = log.segments[count].base_offset
    if log.checkpoints.offset < new_start:
        try:
            await log.checkpoint()
        except DiskFull:
            await _delete_below_checkpoint(log, doomed)
            raise
        if log.checkpoints.offset < new_start or log.segments[:count] != doomed:
            return
    await delete_segments(log, doomed)


async def _delete_below_checkpoint(log: PartitionLog, doomed: list[Segment]) -> None:
    """What needs no new snapshot: the room it leaves is what the next one is written in."""
    ends = [following.base_offset for following in log.segments[1 : len(doomed) + 1]]
    count = sum(end <= log.checkpoints.offset for end in ends)
    if count and log.segments[:count] == doomed[:count]:
        await delete_segments(log, doomed[:count])


async def delete_segments(log: PartitionLog, doomed: list[Segment]) -> None:
    """Take closed neighbours out of the log; when they are the oldest, the log start moves behind
    them. Raises Refusal when the log was closed meanwhile: its directory may be another topic's.
    """
    log.check_online()
    end = log.segments[log.segments.index(doomed[-1]) + 1].base_offset
    if log.segments[0] is doomed[0]:
        log.log_start_offset = max(log.log_start_offset, end)
    for segment in doomed:
        log.doomed += rename_deleted(log.disk, segment, (names.LOG,))
        log.replace_segments([segment], [])
        for suffix in (names.INDEX, names.TIME_INDEX):
            try:
                log.doomed += rename_deleted(log.disk, segment, (suffix,))
            except DiskFull:  # no room for the new name: nobody looks for it under the old one
                log.doomed.append((segment.path(suffix), segment))
    await unlink_doomed(log)


async def unlink_doomed(log: PartitionLog, *, are_names_synced: bool = False) -> None:
    """Remove the files of segments that left the log, once their new names are durable. Raises
    DiskFull, DiskFault: the next retention goes on with them.
    """
    if not log.doomed:
        return
    if not are_names_synced:
        await log.disk.sync_directory(log.directory)
    while log.doomed:
        log.check_online()  # a closed log's directory may be another topic's by now
        path, segment = doomed = log.doomed[0]
        if segment.users:  # somebody still reads what was there, and no less than that
            await log.disk.unlink(path)
        else:
            await log.disk.unlink_in_steps(path)
        log.doomed.remove(doomed)


def rename_deleted(
    disk: Disk, segment: Segment, suffixes: tuple[str, ...] = SEGMENT_SUFFIXES
) -> list[tuple[str, Segment]]:
    """Rename a segment's files so that no start finds them; their new paths, each with it."""
    renamed = []
    for suffix in suffixes:
        path = segment.path(suffix)
        if disk.exists(path):
            disk.rename(path, path + names.DELETED)
            renamed.append((path + names.DELETED, segment))
    return renamed
