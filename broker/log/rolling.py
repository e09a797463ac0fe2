"""Closing the active segment and beginning the next while appends go on.

Not here: when (`PartitionLog.needs_roll`). The file is made under an aside name, because its base
offset is known only when it takes over; a file that has that name already is kept under another
(KAFKA-6388).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from broker.log import names
from broker.log.recovery import clear_next, free_name
from broker.log.segment import Segment
from broker.ports import Disk, DiskFault

if TYPE_CHECKING:
    from broker.log.partition_log import PartitionLog


async def roll(log: PartitionLog) -> None:
    """A new active segment at the log's end. Raises DiskFull, DiskFault: the old one stays active,
    or the new one lacks nothing but a checkpoint.
    """
    disk = log.disk
    aside = f"{log.directory}/{names.NEXT_LOG}"
    await clear_next(disk, log.directory)
    try:
        file = await disk.create(aside)
    except FileExistsError as error:
        raise DiskFault(
            aside, "exists although it was just removed: look who writes there"
        ) from error
    try:
        log.check_online()
        log.flush_early()
        base = log.log_end_offset
        target = f"{log.directory}/{names.numbered(base, names.LOG)}"
        if disk.exists(target):
            disk.rename(target, free_name(disk, f"{target}{names.DAMAGED}"))
        disk.rename(aside, target)
    except BaseException:
        file.close()
        raise
    old = log.active
    old.times = log.active_times()
    log.checkpoints.unsynced_closed.append(old)
    log.checkpoints.names_changed += 1
    log.begin_segment(Segment.empty(disk, log.directory, base, file))
    await old.write_index(old.encode_index_files())
    await old.seal()
    await log.checkpoint()


async def create_segment(disk: Disk, directory: str, base_offset: int) -> Segment:
    """An empty segment of a log that is being opened; a file in its place is kept under another
    name.
    """
    path = f"{directory}/{names.numbered(base_offset, names.LOG)}"
    if disk.exists(path):
        disk.rename(path, free_name(disk, f"{path}{names.DAMAGED}"))
    segment = Segment.empty(disk, directory, base_offset, await disk.create(path))
    await disk.sync_directory(directory)
    return segment
