"""Where partitions live in the data directory, and what a start finds there.

`topics/<topic>/partition-03` while it exists; `trash/<topic id or what is known>` afterwards,
emptied in the background. A directory whose topic the catalog does not know, or knows under another
id, belongs to a deleted incarnation.
"""

from __future__ import annotations

from typing import Final

from broker.model import format_uuid
from broker.ports import Disk

TOPICS: Final = "topics"
TRASH: Final = "trash"


def topic_directory(topic: str) -> str:
    """Where all partitions of a topic live."""
    return f"{TOPICS}/{topic}"


def partition_directory(topic: str, index: int) -> str:
    """Where one partition lives."""
    return f"{TOPICS}/{topic}/partition-{index:02d}"


async def prepare_directories(disk: Disk) -> None:
    """Make what every data directory has. Raises DiskFault."""
    for path in (TOPICS, TRASH):
        await disk.make_directory(path)
    await disk.sync_directory("")


async def discard_topic(disk: Disk, topic: str, topic_id: bytes) -> None:
    """Move a deleted topic out of sight, so that a new one of its name starts empty. Raises
    DiskFault.
    """
    await _move_to_trash(disk, topic_directory(topic), format_uuid(topic_id))


async def discard_partition(disk: Disk, topic: str, index: int) -> None:
    """Move one partition's directory out of sight. Raises DiskFault."""
    await _move_to_trash(disk, partition_directory(topic, index), f"{topic}-{index}")


async def discard_unknown_topics(disk: Disk, known: frozenset[str]) -> list[str]:
    """Move away every topic directory that no topic of the catalog owns; their names."""
    found = [name for name in disk.list_directory(TOPICS) if name not in known]
    for name in found:
        await _move_to_trash(disk, topic_directory(name), f"unknown-{name}")
    return found


async def empty_trash(disk: Disk) -> None:
    """Remove what was moved away, one entry at a time, off the loop."""
    for name in disk.list_directory(TRASH):
        await disk.remove_tree(f"{TRASH}/{name}")


async def _move_to_trash(disk: Disk, path: str, name: str) -> None:
    if not disk.exists(path):
        return
    target = f"{TRASH}/{name}"
    number = 0
    while disk.exists(target):
        number += 1
        target = f"{TRASH}/{name}.{number}"
    disk.rename(path, target)
    await disk.sync_directory(path.rpartition("/")[0])
    await disk.sync_directory(TRASH)
