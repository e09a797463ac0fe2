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
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from random import Random
from typing import Final

from broker.log.names import LOG, SYNC_FAILED
from broker.ports import ASIDE, Buffer, DiskFault, DiskFile, DiskFull, NewDirectory
from broker.simulator.faults import ANY_POWER_CUT, TOTAL_BYTES, HostFaults, Kept, PowerCut
from broker.simulator.inodes import (
    Directory,
    Inode,
    Link,
    apply_links,
    copy_directory,
    copy_node,
)
from broker.simulator.loop import Process, ProcessKilled, SimulatedLoop
from broker.simulator.ring import RING_BYTES, SimulatedRing

OPEN_FILES_MAX: Final = 1 << 20


class DiskImage:
    """The disk of one host."""

    def __init__(self, random: Random) -> None:
        self.random = random
        self.faults = HostFaults()
        self.append_count = 0
        self.appended_bytes = 0
        self.fault_count = 0
        self.segment_count = 0
        """Segments of logs that were begun."""
        self.ring_writes = 0
        self.file_system_faults = self.file_system_faults_seen = 0
        """Of syncs, of a file too. A sync of the whole file system tells of those that nobody saw
        before its descriptor was opened, and of later ones.
        """
        self.root = Directory()
        self.on_change: Callable[[], None] | None = None
        """Told after every step that changes what a crash would leave."""
        self._unsynced: list[tuple[Link, ...]] = []

    def clone(self, random: Random) -> DiskImage:
        """The same state on another disk, without its faults."""
        copies: dict[int, Inode | Directory] = {}
        other = DiskImage(random)
        other.root = copy_directory(self.root, copies)
        other._unsynced = [
            tuple(
                (
                    copy_directory(directory, copies),
                    name,
                    None if node is None else copy_node(node, copies),
                )
                for directory, name, node in links
            )
            for links in self._unsynced
        ]
        return other

    def note_change(self) -> None:
        """Something changed that a crash would leave."""
        if self.on_change is not None:
            self.on_change()

    def find(self, path: str) -> Inode | Directory | None:
        """What stands at `path`; "" is the root."""
        node: Inode | Directory | None = self.root
        for name in path.split("/") if path else ():
            if not isinstance(node, Directory):
                return None
            node = node.entries.get(name)
        return node

    def content(self, path: str) -> bytes:
        """Of an existing file, as the page cache has it."""
        node = self.find(path)
        assert isinstance(node, Inode), f"{path} is a file"
        return bytes(node.content)

    def change(self, *links: Link) -> None:
        """Change names, all at once."""
        apply_links(links, is_synced=False)
        self._unsynced.append(links)
        self.note_change()

    def unsynced_changes(self) -> list[tuple[Link, ...]]:
        """The changes of names that are not durable, in their order."""
        return list(self._unsynced)

    def sync_names(self, directory: Directory | None, changes: Sequence[tuple[Link, ...]]) -> None:
        """Of `changes` those in `directory` are durable, and every earlier one that they hang on;
        without a directory all of them.
        """
        asked = {id(links) for links in changes}
        wanted = {id(directory)}
        durable: list[tuple[Link, ...]] = []
        kept: list[tuple[Link, ...]] = []
        for links in reversed(self._unsynced):
            touched = {id(link[0]) for link in links}
            if id(links) in asked and (directory is None or touched & wanted):
                wanted |= touched
                durable.append(links)
            else:
                kept.append(links)
        for links in reversed(durable):
            apply_links(links, is_synced=True)
        self._unsynced = kept[::-1]
        self.note_change()

    def dirty_files(self) -> Iterator[Inode]:
        """Every file that has a name and unsynced content."""
        pending = [self.root]
        while pending:
            for node in pending.pop().entries.values():
                if isinstance(node, Directory):
                    pending.append(node)
                elif node.is_dirty:
                    yield node

    def cut_power(self, cut: PowerCut = ANY_POWER_CUT) -> None:
        """The host loses power: of each directory's changes any first part survives (a rename
        wholly or not at all), of each file's unsynced part what `cut` says.
        """
        stopped: set[int] = set()
        for links in self._unsynced:
            touched = {id(link[0]) for link in links}
            if touched & stopped or self.random.random() < cut.lost_name_probability:
                stopped |= touched
            else:
                apply_links(links, is_synced=True)
        self._unsynced.clear()
        self._restore(self.root, cut)

    def _restore(self, directory: Directory, cut: PowerCut) -> None:
        directory.entries = dict(directory.synced)
        for name in sorted(directory.entries):
            node = directory.entries[name]
            if isinstance(node, Directory):
                self._restore(node, cut)
            elif node.is_dirty:
                node.content = node.on_device()
                node.content = self._left_of(node, cut.kept)
                node.given_up.clear()
                node.synced = bytearray(node.content)
                node.synced_rewrites = node.rewrites
                node.is_dirty = False

    def _left_of(self, inode: Inode, kept: Kept) -> bytearray:
        if kept is Kept.NOTHING:
            return bytearray(inode.synced)
        if kept is Kept.TORN:
            return self._torn(inode)
        content, synced_size = bytearray(inode.content), len(inode.synced)
        if kept is Kept.HOLED and content[:synced_size] == inode.synced:
            begin = self.random.randint(synced_size, len(content))
            end = self.random.randint(begin, len(content))
            content[begin:end] = bytes(end - begin)
        return content

    def _torn(self, inode: Inode) -> bytearray:
        content, synced = inode.content, inode.synced
        if content[: len(synced)] != synced:  # overwritten or truncated: either state
            return bytearray(content if self.random.random() < 0.5 else synced)
        kept = self.random.randint(len(synced), len(content))
        torn = bytearray(content[:kept])
        if self.random.random() < 0.3:  # the length reached the disk, the data did not
            torn.extend(bytes(self.random.randint(0, len(content) - kept)))
        return torn


class SimulatedDisk:
    """Implements `ports.Disk` for one process."""

    def __init__(self, loop: SimulatedLoop, process: Process, image: DiskImage) -> None:
        self.has_sync_all, self._may_sync_all = False, True
        self.loop = loop
        self.process = process
        self.image = image
        self._faults_told = image.file_system_faults_seen

    def exists(self, path: str) -> bool:
        return self.image.find(path) is not None

    def is_directory(self, path: str) -> bool:
        return isinstance(self.image.find(path), Directory)

    def list_directory(self, path: str) -> list[str]:
        node = self.image.find(path)
        return sorted(node.entries) if isinstance(node, Directory) else []

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
        self._change((*self._place(path), inode))
        return SimulatedFile(self, path, inode)

    def read_file(self, path: str) -> bytes:
        return bytes(self._inode(path).content)

    def reader(self, path: str) -> SimulatedReader:
        return SimulatedReader(self, path)

    def mark(self, path: str) -> None:
        if not self.image.faults.has_room_for_marks:
            raise DiskFull(path, "No space left on device")
        if not self.exists(path):
            self._change((*self._place(path), Inode()))

    async def replace_file(self, path: str, content: bytes) -> None:
        await self.pause()
        self.check_space(path)
        directory, name = self._place(path)
        inode = Inode(bytearray(content), bytearray(content))
        self._change((directory, f"{name}.new.tmp", inode))
        await self.pause()  # a kill here leaves the temporary file
        self._change((directory, f"{name}.new.tmp", None), (directory, name, inode))
        await self.pause()
        if self.process.is_alive:
            self.image.sync_names(directory, self.image.unsynced_changes())

    async def make_directory(self, path: str) -> None:
        await self.pause()
        self.check_space(path)
        parts = path.split("/")
        for count in range(1, len(parts) + 1):
            directory = "/".join(parts[:count])
            if not self.exists(directory):
                self._change((*self._place(directory), Directory()))

    def rename(self, source: str, target: str) -> None:
        node = self.image.find(source)
        if node is None:
            raise FileNotFoundError(source)
        if self.is_directory(target) and self.list_directory(target):
            raise DiskFault(source, f"{target} is not empty")
        self._change((*self._place(source), None), (*self._place(target), node))
        self.image.segment_count += target.endswith(".log")

    async def sync_directory(self, path: str) -> None:
        changes = self.image.unsynced_changes()
        await self.pause()
        node = self.image.find(path)
        if not isinstance(node, Directory):
            raise FileNotFoundError(path)
        if self.process.is_alive:
            self.image.sync_names(node, changes)

    async def sync_files(self, files: Sequence[DiskFile]) -> list[DiskFault | None]:
        async with asyncio.TaskGroup() as group:
            tasks = [group.create_task(_fault_of_sync(file)) for file in files]
        return [task.result() for task in tasks]

    async def place_directories(self, parent: str, directories: Sequence[NewDirectory]) -> None:
        aside = [f"{parent}/{name}{ASIDE}" for name, _ in directories]
        placed: list[tuple[str, str]] = []
        try:
            for path, (_, files) in zip(aside, directories, strict=True):
                await self.remove_tree(path)
                await self.make_directory(path)
                for file, content in files:
                    (await self.create(f"{path}/{file}")).append([content])
            await self._sync_file_system()
            for path, (name, _) in zip(aside, directories, strict=True):
                await self.pause()
                self.rename(path, f"{parent}/{name}")
                placed.append((path, f"{parent}/{name}"))
            await self.sync_directory(parent)
        except DiskFault:
            for path, target in placed:
                self.rename(target, path)
            if placed:
                await self.sync_directory(parent)
            for path in aside:
                await self.remove_tree(path)
            raise

    async def sync_all(self) -> None:
        with suppress(DiskFault):  # it is counted
            await self._sync_file_system()
        self._tell_of_faults()

    async def try_sync_all(self) -> None:
        """Writes nothing: no promise may rest on it."""
        if self._may_sync_all:
            await self.pause()
            self._tell_of_faults()
            self.has_sync_all = self._may_sync_all

    def _tell_of_faults(self) -> None:
        told, self._faults_told = self._faults_told, self.image.file_system_faults
        self.image.file_system_faults_seen = self._faults_told
        if told != self._faults_told:
            self.end_syncs_of_all()
            raise DiskFault("", "Input/output error")

    def end_syncs_of_all(self) -> None:
        """After a sync that failed."""
        self._may_sync_all = self.has_sync_all = False

    async def _sync_file_system(self) -> None:
        """By a descriptor that was opened for it. Raises DiskFault."""
        finishes = [inode.begin_sync() for inode in self.image.dirty_files()]
        changes = self.image.unsynced_changes()
        await self.pause()
        try:
            self.check_error("")
        except DiskFault:
            self.image.file_system_faults += 1
            for inode in self.image.dirty_files():
                inode.fail_sync()
                inode.owes_error = True
            raise
        if self.process.is_alive:
            for finish in finishes:
                finish()
            self.image.sync_names(None, changes)

    async def open_ring(self, path: str, spare_bytes: int) -> SimulatedRing:
        if not self.exists(path):
            if self.free_bytes() < RING_BYTES + spare_bytes:
                raise DiskFull(path, "there is no room to spare for it")
            await self.replace_file(path, bytes(RING_BYTES))
        return SimulatedRing(self, path, self._inode(path))

    async def unlink(self, path: str) -> None:
        await self.pause()
        if isinstance(self.image.find(path), Inode):
            self._change((*self._place(path), None))

    async def unlink_in_steps(self, path: str) -> None:
        inode = self.image.find(path)
        if isinstance(inode, Inode):
            self.cut(inode, len(inode.content) // 2)  # a kill may leave that
        await self.unlink(path)

    async def remove_tree(self, path: str) -> None:
        """Name by name: a kill may leave a part."""
        for name in self.list_directory(path):
            await self.remove_tree(f"{path}/{name}")
        await self.pause()
        if self.exists(path):
            self._change((*self._place(path), None))

    def free_bytes(self) -> int:
        return 0 if self.image.faults.is_full else self.image.faults.free_bytes

    def total_bytes(self) -> int:
        return TOTAL_BYTES

    def open_files_max(self) -> int:
        return OPEN_FILES_MAX

    # for files

    async def pause(self) -> None:
        """An operation's time at the device."""
        faults = self.image.faults
        if faults.is_last_operation():
            self.die()
        latency_s = self.image.random.random() ** 2 * faults.latency_s_max
        await asyncio.sleep(max(latency_s, faults.latency_s_min))

    def cut(self, inode: Inode, size: int) -> None:
        """It has `size` bytes from now on, zeros at the end if it had less."""
        if self.process.is_alive:
            inode.is_dirty = True
            inode.rewrites += 1
            inode.content.extend(bytes(max(0, size - len(inode.content))))
            del inode.content[size:]
            self.image.note_change()

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
        node = self.image.find(path)
        if not isinstance(node, Inode):
            raise FileNotFoundError(path)
        return node

    def _place(self, path: str) -> tuple[Directory, str]:
        parent, _, name = path.rpartition("/")
        directory = self.image.find(parent)
        if not isinstance(directory, Directory):
            raise FileNotFoundError(f"no directory for {path}")
        return directory, name

    def _change(self, *links: Link) -> None:
        if self.process.is_alive:
            self.image.change(*links)


class SimulatedReader:
    """Implements `ports.OutsideReader`."""

    def __init__(self, disk: SimulatedDisk, path: str) -> None:
        self._disk = disk
        self._path = path

    def read(self, position: int, size: int) -> bytes:
        return self._disk.read_file(self._path)[position : position + size]


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
            self._inode.content[position : position + len(chunk)] = chunk
            self._inode.write_anew(position, position + len(chunk))
            self._disk.image.note_change()

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
        self._disk.cut(self._inode, size)

    async def seal(self) -> None:
        self._check_open()
        await self._disk.pause()
        self._disk.check_error(self._path)

    async def rewrite(self, position: int) -> None:
        self._inode.write_anew(position, len(self._inode.content))
        self._inode.owes_error = False
        self._disk.end_syncs_of_all()
        await self.sync()

    async def sync(self) -> None:
        self._check_open()
        finish = self._inode.begin_sync()
        await self._disk.pause()
        try:
            self._disk.check_error(self._path)
            if self._inode.owes_error:
                raise DiskFault(self._path, "Input/output error")
        except DiskFault:
            self._disk.image.file_system_faults += not self._inode.owes_error
            self._inode.fail_sync()
            self._inode.owes_error = False
            self._disk.end_syncs_of_all()
            if self._path.endswith(LOG):
                with suppress(DiskFault):
                    self._disk.mark(f"{self._path.rpartition('/')[0]}/{SYNC_FAILED}")
            raise
        if self._disk.process.is_alive:
            finish()
            self._disk.image.note_change()

    def close(self) -> None:
        self._is_closed = True

    def _content(self, position: int, size: int) -> bytes:
        return bytes(memoryview(self._inode.content)[position : position + size])

    def _write(self, content: bytes) -> None:
        if self._disk.process.is_alive:
            self._inode.is_dirty = True
            self._inode.content += content
            self._disk.image.note_change()

    def _check_open(self) -> None:
        if self._is_closed and self._disk.process.is_alive:
            raise DiskFault(self._path, "Bad file descriptor")


async def _fault_of_sync(file: DiskFile) -> DiskFault | None:
    try:
        await file.sync()
    except DiskFault as fault:
        return fault
    return None
