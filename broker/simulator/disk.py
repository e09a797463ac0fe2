"""The simulated disk: what a process sees, what the page cache holds, and what survives.

`DiskImage` belongs to a host and outlives its processes. A killed process loses nothing that it
wrote; a power cut loses any unsynced part: the tail of a file (torn at any byte, its length
sometimes ahead of its content), overwritten bytes, and names that were created, renamed or removed
after the last `sync_directory`. `SimulatedDisk` is one process's port to it, with seeded latency,
cold reads, and faults: no space, I/O errors, and a kill in the middle of an append.
"""

from __future__ import annotations

import asyncio
import zlib
from collections.abc import Sequence
from dataclasses import dataclass, field
from random import Random
from typing import Final

from broker.ports import Buffer, DiskFault, DiskFull
from broker.simulator.loop import Process, ProcessKilled, SimulatedLoop

TOTAL_BYTES: Final = 1 << 40


@dataclass(slots=True)
class DiskFaults:
    """What goes wrong, changed by the nemesis. Probabilities are per operation."""

    is_full: bool = False
    error_probability: float = 0.0
    cold_read_probability: float = 0.05
    latency_s_max: float = 0.01
    kill_at_operation: int = 0
    """Counts down with every awaited operation; the process dies in the one that reaches 0."""
    kill_at_append: int = 0
    """Counts down with every append of the process; the one that reaches 0 writes a prefix and
    dies.
    """

    def is_last_operation(self) -> bool:
        """Count one awaited operation."""
        self.kill_at_operation = max(0, self.kill_at_operation - 1)
        return self.kill_at_operation == 1


@dataclass(slots=True, eq=False)
class Inode:
    """One file. `synced` is its content at the last sync."""

    content: bytearray = field(default_factory=bytearray)
    synced: bytes = b""
    is_dirty: bool = False


class DiskImage:
    """The disk of one host."""

    def __init__(self, random: Random) -> None:
        self.random = random
        self.faults = DiskFaults()
        self.append_count = 0
        self.appended_bytes = 0
        self.fault_count = 0
        self.files: dict[str, Inode] = {}
        self.directories: set[str] = {""}
        self._synced_files: dict[str, Inode] = {}
        self._synced_directories: set[str] = {""}
        self._unsynced_names: list[_NameChange] = []

    def change_name(self, change: _NameChange) -> None:
        change.apply(self.files, self.directories)
        self._unsynced_names.append(change)

    def sync_names(self, directory: str) -> None:
        """The names in `directory` are durable, and with them every change that came before
        theirs there.
        """
        kept: list[_NameChange] = []
        for change in self._unsynced_names:
            if change.directory == directory:
                change.apply(self._synced_files, self._synced_directories)
            else:
                kept.append(change)
        self._unsynced_names = kept

    def cut_power(self) -> None:
        """The host loses power: per directory any prefix of the unsynced names survives, per
        file any torn state.
        """
        survivors = self._surviving_names()
        for change in self._unsynced_names:
            if change in survivors:
                change.apply(self._synced_files, self._synced_directories)
        self._unsynced_names.clear()
        self.files = dict(self._synced_files)
        self.directories = set(self._synced_directories)
        for path in sorted(self.files):
            inode = self.files[path]
            if inode.is_dirty:
                inode.content = self._torn(inode)
                inode.synced = bytes(inode.content)
                inode.is_dirty = False

    def _surviving_names(self) -> list[_NameChange]:
        by_directory: dict[str, list[_NameChange]] = {}
        for change in self._unsynced_names:
            by_directory.setdefault(change.directory, []).append(change)
        survivors: list[_NameChange] = []
        for directory in sorted(by_directory):
            changes = by_directory[directory]
            survivors.extend(changes[: self.random.randint(0, len(changes))])
        return survivors

    def _torn(self, inode: Inode) -> bytearray:
        content, synced = inode.content, inode.synced
        if content[: len(synced)] != synced:  # overwritten or truncated: either state
            return bytearray(content if self.random.random() < 0.5 else synced)
        kept = self.random.randint(len(synced), len(content))
        torn = bytearray(content[:kept])
        if self.random.random() < 0.3:  # the length reached the disk, the data did not
            torn.extend(bytes(self.random.randint(0, len(content) - kept)))
        return torn


@dataclass(frozen=True, slots=True, eq=False)
class _NameChange:
    """One entry of a directory: `inode` None removes `path`; `source` is the old name of a
    rename.
    """

    directory: str
    path: str
    inode: Inode | None
    source: str | None = None
    is_directory: bool = False

    def apply(self, files: dict[str, Inode], directories: set[str]) -> None:
        if self.is_directory and self.inode is None and self.source is None:
            directories.add(self.path)
        elif self.is_directory:
            self._move_tree(files, directories)
        elif self.inode is None:
            files.pop(self.path, None)
            directories.discard(self.path)
        else:
            if self.source is not None:
                files.pop(self.source, None)
            files[self.path] = self.inode

    def _move_tree(self, files: dict[str, Inode], directories: set[str]) -> None:
        source = self.source or ""
        for path in [each for each in files if each.startswith(source + "/")]:
            files[self.path + path[len(source) :]] = files.pop(path)
        for path in [
            each for each in directories if each == source or each.startswith(source + "/")
        ]:
            directories.discard(path)
            directories.add(self.path + path[len(source) :])


class SimulatedDisk:
    """Implements `ports.Disk` for one process."""

    def __init__(self, loop: SimulatedLoop, process: Process, image: DiskImage) -> None:
        self.loop = loop
        self.process = process
        self.image = image

    def exists(self, path: str) -> bool:
        return path in self.image.files or path in self.image.directories

    def is_directory(self, path: str) -> bool:
        return path in self.image.directories

    def list_directory(self, path: str) -> list[str]:
        prefix = path + "/" if path else ""
        names = [*self.image.files, *self.image.directories]
        inside = {name[len(prefix) :] for name in names if name.startswith(prefix) and name != path}
        return sorted(name for name in inside if name and "/" not in name)

    def file_size(self, path: str) -> int:
        return len(self._inode(path).content)

    def open(self, path: str) -> SimulatedFile:
        return SimulatedFile(self, path, self._inode(path))

    async def create(self, path: str) -> SimulatedFile:
        await self.pause()
        self.check_space(path)
        if self.exists(path):
            raise FileExistsError(path)
        inode = Inode()
        self._change(_NameChange(self._parent(path), path, inode))
        return SimulatedFile(self, path, inode)

    def read_file(self, path: str) -> bytes:
        return bytes(self._inode(path).content)

    async def replace_file(self, path: str, content: bytes) -> None:
        await self.pause()
        self.check_space(path)
        directory = self._parent(path)
        inode = Inode(bytearray(content), bytes(content))
        temporary = f"{path}.new.tmp"
        self._change(_NameChange(directory, temporary, inode))
        await self.pause()  # a kill here leaves the temporary file
        self._change(_NameChange(directory, path, inode, source=temporary))
        await self.pause()
        if self.process.is_alive:
            self.image.sync_names(directory)

    async def make_directory(self, path: str) -> None:
        await self.pause()
        parts = path.split("/")
        for count in range(1, len(parts) + 1):
            directory = "/".join(parts[:count])
            if directory not in self.image.directories:
                parent = "/".join(parts[: count - 1])
                self._change(_NameChange(parent, directory, None, is_directory=True))

    def rename(self, source: str, target: str) -> None:
        directory = self._parent(target)
        if source in self.image.directories:
            if self.exists(target) and self.list_directory(target):
                raise DiskFault(source, f"{target} is not empty")
            self._change(_NameChange(directory, target, None, source=source, is_directory=True))
        else:
            self._change(_NameChange(directory, target, self._inode(source), source=source))

    async def sync_directory(self, path: str) -> None:
        await self.pause()
        if path not in self.image.directories:
            raise FileNotFoundError(path)
        if self.process.is_alive:
            self.image.sync_names(path)

    async def unlink(self, path: str) -> None:
        await self.pause()
        if path in self.image.files:
            self._change(_NameChange(self._parent(path), path, None))

    async def remove_tree(self, path: str) -> None:
        """File by file: a kill may leave a part."""
        inside = [each for each in sorted(self.image.files) if each.startswith(path + "/")]
        for each in inside:
            await self.unlink(each)
        names = sorted(self.image.directories, reverse=True)
        for each in [name for name in names if name == path or name.startswith(path + "/")]:
            await self.pause()
            self._change(_NameChange(self._parent(each), each, None))

    def free_bytes(self) -> int:
        return 0 if self.image.faults.is_full else TOTAL_BYTES // 2

    def total_bytes(self) -> int:
        return TOTAL_BYTES

    # for files

    async def pause(self) -> None:
        """An operation's time at the device."""
        faults = self.image.faults
        if faults.is_last_operation():
            self.die()
        await asyncio.sleep(self.image.random.random() ** 2 * faults.latency_s_max)

    def check_space(self, path: str) -> None:
        if self.image.faults.is_full:
            self.image.fault_count += 1
            raise DiskFull(path, "No space left on device")

    def check_error(self, path: str) -> None:
        faults = self.image.faults
        if faults.error_probability and self.image.random.random() < faults.error_probability:
            self.image.fault_count += 1
            raise DiskFault(path, "Input/output error")

    def die(self) -> None:
        """Kill the process in the middle of what it does."""
        self.loop.kill(self.process)
        raise ProcessKilled

    def _inode(self, path: str) -> Inode:
        inode = self.image.files.get(path)
        if inode is None:
            raise FileNotFoundError(path)
        return inode

    def _parent(self, path: str) -> str:
        directory = path.rpartition("/")[0]
        if directory not in self.image.directories:
            raise FileNotFoundError(f"no directory for {path}")
        return directory

    def _change(self, change: _NameChange) -> None:
        if self.process.is_alive:
            self.image.change_name(change)


class SimulatedFile:
    """Implements `ports.DiskFile`."""

    def __init__(self, disk: SimulatedDisk, path: str, inode: Inode) -> None:
        self._disk = disk
        self._path = path
        self._inode = inode
        self._is_closed = False

    @property
    def path(self) -> str:
        return self._path

    def size(self) -> int:
        return len(self._inode.content)

    def append(self, chunks: Sequence[Buffer]) -> None:
        content = b"".join(chunks)
        image, faults = self._disk.image, self._disk.image.faults
        self._check_open()
        image.append_count += 1
        if faults.kill_at_append:
            faults.kill_at_append -= 1
            if faults.kill_at_append == 0:
                self._write(content[: image.random.randint(0, len(content))])
                self._disk.die()
        try:
            self._disk.check_space(self._path)
            self._disk.check_error(self._path)
        except DiskFault:
            self._write(content[: image.random.randint(0, len(content))])
            raise
        self._write(content)
        image.appended_bytes += len(content)
        self._disk.loop.mix(zlib.crc32(content))

    def write_at(self, position: int, chunk: Buffer) -> None:
        self._check_open()
        self._disk.check_error(self._path)
        if self._disk.process.is_alive:
            self._inode.is_dirty = True
            self._inode.content[position : position + len(chunk)] = chunk

    def read(self, position: int, size: int) -> bytes | None:
        self._check_open()
        image = self._disk.image
        if image.random.random() < image.faults.cold_read_probability:
            return None
        return self._content(position, size)

    async def read_cold(self, position: int, size: int) -> bytes:
        self._check_open()
        await self._disk.pause()
        return self._content(position, size)

    def truncate(self, size: int) -> None:
        self._check_open()
        if self._disk.process.is_alive:
            self._inode.is_dirty = True
            content = self._inode.content
            content.extend(bytes(max(0, size - len(content))))
            del content[size:]

    async def sync(self) -> None:
        self._check_open()
        await self._disk.pause()
        self._disk.check_error(self._path)
        if self._disk.process.is_alive:
            self._inode.synced = bytes(self._inode.content)
            self._inode.is_dirty = False

    def close(self) -> None:
        self._is_closed = True

    def _content(self, position: int, size: int) -> bytes:
        return bytes(memoryview(self._inode.content)[position : position + size])

    def _write(self, content: bytes) -> None:
        if self._disk.process.is_alive:
            self._inode.is_dirty = True
            self._inode.content += content

    def _check_open(self) -> None:
        if self._is_closed and self._disk.process.is_alive:
            raise DiskFault(self._path, "Bad file descriptor")
