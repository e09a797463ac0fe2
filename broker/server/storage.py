"""What a start finds in the data directory that no topic owns.

A directory whose topic the catalog does not know, or knows under another id, belongs to a deleted
incarnation: it goes to the trash, which is emptied in the background.
"""

from __future__ import annotations

from broker.log.directory import TOPICS, TRASH, partition_directory
from broker.ports import Disk


async def prepare_directories(disk: Disk) -> None:
    """Make what every data directory has. Raises DiskFault."""
    for path in (TOPICS, TRASH):
        await disk.make_directory(path)
    await disk.sync_directory("")


async def discard_partition(disk: Disk, topic: str, index: int) -> None:
    """Move one partition's directory out of sight. Raises DiskFault."""
    await _move_to_trash(disk, partition_directory(topic, index), f"{topic}-{index}")


async def discard_unknown_topics(disk: Disk, known: frozenset[str]) -> list[str]:
    """Move away every topic directory that no topic of the catalog owns; their names."""
    found = [name for name in disk.list_directory(TOPICS) if name not in known]
    for name in found:
        await _move_to_trash(disk, f"{TOPICS}/{name}", f"unknown-{name}")
    return found


async def _move_to_trash(disk: Disk, path: str, name: str) -> None:
    target = f"{TRASH}/{name}"
    number = 0
    while disk.exists(target):
        number += 1
        target = f"{TRASH}/{name}.{number}"
    disk.rename(path, target)
    await disk.sync_directory(path.rpartition("/")[0])
    await disk.sync_directory(TRASH)
