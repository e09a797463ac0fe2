"""New, empty logs in their directories, durably there all at once: as many of a topic as it takes,
for the price of one.

What a new log has is what a first opening would have written: whose it is, an empty segment, and a
snapshot that says so. Index and epochs are written with the first checkpoint.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from broker.log import names
from broker.log.index import Times
from broker.log.partition_file import PartitionIdentity, encode_identity
from broker.log.snapshot import Snapshot, encode_snapshot
from broker.ports import ASIDE, Disk, NewDirectory

_EMPTY: Final = encode_snapshot(Snapshot(0, 0, 0, 0, Times(), 0, {}))


def new_log(name: str, identity: PartitionIdentity) -> NewDirectory:
    """What `place_logs` makes of a partition, under that name."""
    files = (
        (names.PARTITION_FILE, encode_identity(identity)),
        (names.numbered(0, names.LOG), b""),
        (names.numbered(0, names.SNAPSHOT), _EMPTY),
    )
    return NewDirectory(name, files)


async def place_logs(disk: Disk, parent: str, logs: Sequence[NewDirectory]) -> None:
    """Make them in the directory `parent`, and that where it is missing. Raises DiskFull,
    DiskFault: after a crash in between, or a fault, each is there whole or not at all.
    """
    if not disk.is_directory(parent):
        await disk.make_directory(parent)
        for above in names.directories_above(parent):
            await disk.sync_directory(above)
    await disk.place_directories(parent, logs)


async def place_log(disk: Disk, directory: str, identity: PartitionIdentity) -> None:
    """As `place_logs`, for one. A directory that an older version began, file by file, is gone on
    with.
    """
    if disk.exists(directory):
        path = f"{directory}/{names.PARTITION_FILE}"
        await disk.replace_file(path, encode_identity(identity))
    else:
        above, _, name = directory.rpartition("/")
        await place_logs(disk, above, [new_log(name, identity)])


async def remove_unfinished(disk: Disk, parent: str) -> None:
    """What `place_logs` left there when it broke off. Raises DiskFault."""
    for name in disk.list_directory(parent):
        if name.endswith(ASIDE):
            await disk.remove_tree(f"{parent}/{name}")
