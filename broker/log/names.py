"""The names of the files in a partition's directory. Nothing here touches a disk.

`<base offset, 20 digits>` + `.log .idx .timeidx .snapshot`; `partition.json`; `leader-epochs`;
`damaged-ranges` (what cannot be read; there only when something is); `sync-failed` (empty; what was
not synced before it appeared is only in the page cache, for ever).
While something is under way: `next.log` (a segment being created), `<base>-<end>.cleaned` (a
compacted segment being written), `<base>-<end>.swap` (it is complete and replaces all segments in
[base, end)), `*.deleted` (to be unlinked), `*.damaged` (kept for a person).
"""

from __future__ import annotations

import re
from typing import Final, NamedTuple

LOG: Final = ".log"
INDEX: Final = ".idx"
TIME_INDEX: Final = ".timeidx"
SNAPSHOT: Final = ".snapshot"
CLEANED: Final = ".cleaned"
SWAP: Final = ".swap"
DELETED: Final = ".deleted"
TEMPORARY: Final = ".tmp"
DAMAGED: Final = ".damaged"
NEXT_LOG: Final = "next.log"
PARTITION_FILE: Final = "partition.json"
EPOCHS_FILE: Final = "leader-epochs"
DAMAGE_FILE: Final = "damaged-ranges"
SYNC_FAILED: Final = "sync-failed"

_NUMBERED: Final = re.compile(r"(\d{20})(\.log|\.idx|\.timeidx|\.snapshot)")
_RANGE: Final = re.compile(r"(\d{20})-(\d{20})(\.cleaned|\.swap)")


class Swap(NamedTuple):
    """A compacted segment that replaces every segment in [base_offset, end_offset)."""

    base_offset: int
    end_offset: int
    name: str


class Listing(NamedTuple):
    """A partition's directory by kind; offsets ascending, `leftovers` may be unlinked."""

    segments: list[int]
    snapshots: list[int]
    swaps: list[Swap]
    leftovers: list[str]


def numbered(offset: int, suffix: str) -> str:
    """`00000000000000000042.log` and the like."""
    return f"{offset:020d}{suffix}"


def ranged(base_offset: int, end_offset: int, suffix: str) -> str:
    """`<base>-<end>.cleaned` or `.swap`."""
    return f"{base_offset:020d}-{end_offset:020d}{suffix}"


def sort_out(names: list[str]) -> Listing:
    """What the entries of a partition's directory are; foreign names are left alone."""
    listing = Listing([], [], [], [])
    indexes: list[tuple[int, str]] = []
    for name in names:
        if match := _NUMBERED.fullmatch(name):
            if match[2] == LOG:
                listing.segments.append(int(match[1]))
            elif match[2] == SNAPSHOT:
                listing.snapshots.append(int(match[1]))
            else:
                indexes.append((int(match[1]), name))
        elif match := _RANGE.fullmatch(name):
            if match[3] == SWAP:
                listing.swaps.append(Swap(int(match[1]), int(match[2]), name))
            else:
                listing.leftovers.append(name)
        elif name.endswith((DELETED, TEMPORARY)):
            listing.leftovers.append(name)
    bases = set(listing.segments)  # a segment's log is renamed before its indexes are
    listing.leftovers.extend(name for base, name in indexes if base not in bases)
    return listing


def directories_above(directory: str) -> list[str]:
    """From the root ("") down to the parent: each names the next, which may be new."""
    parts = directory.split("/")
    return ["/".join(parts[:count]) for count in range(len(parts))]
