"""Many new directories with small files, durable by one sync of their file system.

They are written under other names, synced, and renamed, and renamed back before they are removed: a
crash leaves whole ones or none. One sync for all is a `syncfs`, on a descriptor of its own: the
system tells each descriptor of the faults since it was opened, so that this one hears of its own
files' and takes none away from whoever else syncs (`SystemDisk.sync_all`). A few are synced one by
one, for a `syncfs` waits for all that others wrote; so are all where the kernel's does not tell of
faults.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Iterator, Sequence
from itertools import count
from pathlib import Path
from typing import Final, NamedTuple, Protocol, TypeVar

from broker.ports import ASIDE, DiskFault, NewDirectory
from broker.runtime.linux import sync_file_system

DIRECT_MAX: Final = 2
"""Directories that are synced one by one, at four syncs each."""
DIRECTORIES_PER_CALL: Final = 100
"""Written by one call in a writer thread: 10 ms. Others' calls come between."""
_FLAGS: Final = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC
_numbers: Final = count()
"""So that what a cancelled attempt still writes is nobody else's."""
T = TypeVar("T")


class Threads(Protocol):
    """What is used of the disk: its threads, whose faults are DiskFault."""

    @property
    def has_sync_all(self) -> bool: ...

    async def run_write(self, path: str, function: Callable[..., T], *arguments: object) -> T: ...

    async def run_sync(self, path: str, function: Callable[..., T], *arguments: object) -> T: ...


class Aside(NamedTuple):
    """A directory where it is written, and where it belongs."""

    path: str
    target: str
    files: Sequence[tuple[str, bytes]]


async def place_directories(
    threads: Threads,
    parent: Path,
    directories: Sequence[NewDirectory],
    on_descriptor: Callable[[Callable[[int], None]], Callable[[], None]],
) -> None:
    """As `ports.Disk.place_directories`. `on_descriptor` makes a call for a thread of one that
    takes a descriptor of `parent`, which was opened before.
    """
    number = next(_numbers)
    every = [
        Aside(f"{parent}/{name}.{number}{ASIDE}", f"{parent}/{name}", files)
        for name, files in directories
    ]
    name = str(parent)
    is_direct = len(every) <= DIRECT_MAX or not threads.has_sync_all
    placed: list[Aside] = []
    try:
        for some in _steps(every):
            await threads.run_write(name, _write, some, is_direct)
        if not is_direct:
            await threads.run_sync(name, on_descriptor(sync_file_system))
        for some in _steps(every):
            await threads.run_write(name, _rename, some, placed)
        await threads.run_sync(name, on_descriptor(os.fsync))
    except DiskFault:
        if placed:
            await threads.run_write(name, _take_back, placed)
            await threads.run_sync(name, on_descriptor(os.fsync))
        for some in _steps(every):
            await threads.run_write(name, _remove, some)
        raise


def open_directory(path: Path) -> int:
    """A descriptor. Raises OSError."""
    return os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)


def _write(
    directories: Sequence[Aside],
    is_synced: bool,  # noqa: FBT001 - a thread's call has no keywords
) -> None:
    for path, _, files in directories:
        try:
            os.mkdir(path)
        except FileExistsError:
            shutil.rmtree(path)
            os.mkdir(path)
        for file, content in files:
            _write_file(f"{path}/{file}", content, is_synced)
        if is_synced:
            descriptor = open_directory(Path(path))
            try:
                os.fsync(descriptor)
            finally:
                os.close(descriptor)


def _write_file(path: str, content: bytes, is_synced: bool) -> None:  # noqa: FBT001
    descriptor = os.open(path, _FLAGS, 0o644)
    try:
        done = 0
        while done < len(content):
            done += os.write(descriptor, content[done:])
        if is_synced and content:
            os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _rename(directories: Sequence[Aside], placed: list[Aside]) -> None:
    for each in directories:
        os.rename(each.path, each.target)
        placed.append(each)


def _take_back(placed: Sequence[Aside]) -> None:
    for path, target, _ in placed:
        os.rename(target, path)


def _remove(directories: Sequence[Aside]) -> None:
    """What cannot be removed stays aside."""
    for each in directories:
        shutil.rmtree(each.path, ignore_errors=True)


def _steps(items: Sequence[T]) -> Iterator[Sequence[T]]:
    for first in range(0, len(items), DIRECTORIES_PER_CALL):
        yield items[first : first + DIRECTORIES_PER_CALL]
