"""Files are cut down before they are removed, so that nobody's sync waits for it.

The blocks of a removed file are given back all at once, and discarded on the device where the file
system is mounted like that; each sync beside it waits until that is done: tens of milliseconds for
a segment. A file that is cut shorter in steps costs as much, but a step is all that anybody waits
for.

What is cut down is about to be removed: whoever still has it open reads less of it. A file with
another name (a hard link of a backup) is left whole.
"""

from __future__ import annotations

import asyncio
import os
import shutil
import stat
from collections.abc import Awaitable, Callable
from contextlib import suppress
from pathlib import Path
from typing import Any, Final

WHOLE_BYTES_MAX: Final = 32 << 20
"""What is no larger goes at once: where many such files go, steps of them would disturb more."""
STEP_BYTES: Final = 8 << 20
PAUSE_S: Final = 0.005
"""After each step: others' syncs get in between. 1.6 GB/s, more than anybody writes."""

Run = Callable[..., Awaitable[Any]]
"""`run(function, *arguments)` in a thread."""


async def unlink_in_steps(run: Run, path: Path) -> None:
    """Missing is fine. Raises OSError."""
    if size := await run(_unlink_small, path):
        await _cut_down(run, path, size)
        await run(unlink, path)


async def remove_tree_in_steps(run: Run, path: Path) -> None:
    """Missing is fine. Raises OSError."""
    for found, size in await run(_large_files, path):
        await _cut_down(run, found, size)
    await run(_remove_tree, path)


def unlink(path: Path) -> None:
    """Missing is fine. Raises OSError."""
    path.unlink(missing_ok=True)


async def _cut_down(run: Run, path: Path, size: int) -> None:
    while size > STEP_BYTES:
        size -= STEP_BYTES
        if not await run(_cut, path, size):
            return
        await asyncio.sleep(PAUSE_S)


def _cut(path: Path, size: int) -> bool:
    """False where that cannot be done, but removing perhaps: of another owner's file, or for want
    of room on a file system that copies what it writes.
    """
    try:
        os.truncate(path, size)
    except OSError:
        return False
    return True


def _unlink_small(path: Path) -> int:
    """Remove what is not worth a step; else its size."""
    size = _size_to_cut(path)
    if not size:
        unlink(path)
    return size


def _remove_tree(path: Path) -> None:
    """Races with nothing: whoever removes a tree owns it. Of a symbolic link only the link goes."""
    if path.is_symlink():
        path.unlink()
        return
    with suppress(FileNotFoundError):
        shutil.rmtree(path)


def _large_files(path: Path) -> list[tuple[Path, int]]:
    """Those below `path` that are worth a step, and their sizes. Links are not followed."""
    if path.is_symlink():
        return []
    every = (Path(directory, name) for directory, _, names in os.walk(path) for name in names)
    return [(each, size) for each in every if (size := _size_to_cut(each))]


def _size_to_cut(path: Path) -> int:
    """0 of what is small, missing, a link, or has another name."""
    try:
        found = path.lstat()
    except FileNotFoundError:
        return 0
    is_own = stat.S_ISREG(found.st_mode) and found.st_nlink == 1
    return found.st_size if is_own and found.st_size > WHOLE_BYTES_MAX else 0
