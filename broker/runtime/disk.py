"""The machine's disk under one root directory: the only code that opens the broker's data files.

Appends and warm reads run on the event loop (page cache speed); everything that may wait for the
device runs in a few threads, in calls that release the GIL. A descriptor that a thread still uses
is closed by that thread, so its number is never reused under a read. Errors become `DiskFull` or
`DiskFault`; a missing or existing file keeps Python's own exception.
"""

from __future__ import annotations

import asyncio
import errno
import os
import stat
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from functools import partial
from itertools import count
from pathlib import Path
from typing import Final, TypeVar

from broker.log.journal import NEW
from broker.log.names import LOG, SYNC_FAILED
from broker.log.salvage import PAGE_BYTES
from broker.ports import (
    Buffer,
    DiskFault,
    DiskFile,
    DiskFull,
    NewDirectory,
    NoDescriptor,
    ReadFault,
)
from broker.runtime.descriptors import descriptor_limit
from broker.runtime.directory_lock import DirectoryLock
from broker.runtime.freeing import remove_tree_in_steps, unlink, unlink_in_steps
from broker.runtime.linux import is_syncfs_honest, sync_file_system
from broker.runtime.new_directories import open_directory, place_directories
from broker.runtime.outside_reader import FileReader
from broker.runtime.ring_file import RING_BYTES, SystemRing, fill_ring
from broker.runtime.shared_descriptor import SharedDescriptor, Syncs
from broker.runtime.sync_threads import SyncThreads
from broker.runtime.writeback import AHEAD_BYTES, Writeback, WritebackThread

READER_THREADS: Final = 4
"""Cold reads at a time; more wait in line."""
WRITER_THREADS: Final = 4
"""Creates, unlinks and syncs of directories at a time."""
READER_NICENESS: Final = 15
"""Of the threads of cold reads, which copy megabytes on the loop's core: with it a replay of 10 GB
raised the P99 of live records from 2.1 to 4.1 ms, without it to 5.1.
"""
READ_PAUSE_S_MAX: Final = 0.02
"""How long a read of the device lets syncs pass: replays go on beside those that never end."""
SYNC_THREADS: Final = 4
"""Syncs of files at a time; they have threads of their own, so that none waits for a deletion."""
IOVEC_MAX: Final = 1024
"""Buffers in one writev (Linux's UIO_MAXIOV)."""
WARM_READ_BYTES: Final = 1 << 20
"""Size of the scratch buffer for warm reads; a bigger read goes in steps of it."""

_BLOCK_BYTES: Final = 512  # the unit of st_blocks
_FULL: Final = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EFBIG})
_UNREADABLE: Final = frozenset({errno.EIO, errno.EBADMSG, getattr(errno, "EUCLEAN", errno.EIO)})
_NO_NOWAIT: Final = frozenset({errno.EOPNOTSUPP, errno.ENOTSUP, errno.EINVAL, errno.ENOSYS})
_OPEN_FLAGS: Final = os.O_RDWR | os.O_CLOEXEC
T = TypeVar("T")


class SystemDisk:
    """Implements `ports.Disk`. The root directory is made when it is missing."""

    def __init__(self, root: str | Path) -> None:
        self.root = Path(root)
        self._root_text = str(self.root)
        try:
            _make_root(self.root)
            root_descriptor = os.open(self.root, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        except FileExistsError as error:
            reason = "this is a file: choose a directory, or another name for a new one"
            raise DiskFault(str(root), reason) from error
        except OSError as error:
            reason = f"cannot be the data directory ({error.strerror}): choose another"
            raise DiskFault(str(root), reason) from error
        self._readers = ThreadPoolExecutor(READER_THREADS, "disk-read", _let_others_run)
        self._writers = ThreadPoolExecutor(WRITER_THREADS, thread_name_prefix="disk-write")
        self._syncers = ThreadPoolExecutor(SYNC_THREADS, thread_name_prefix="disk-sync")
        self._rounds = SyncThreads()
        self.writeback = WritebackThread()
        self._root_users = SharedDescriptor(root_descriptor)
        self._root_syncs = Syncs(sync_file_system, self.note_failed_sync)
        self._device = os.fstat(root_descriptor).st_dev
        self._may_sync_all = is_syncfs_honest(root_descriptor)
        self._is_sync_all_tried = False
        self._temporary_numbers = count()
        self.scratch = memoryview(bytearray(WARM_READ_BYTES))
        self._lock: DirectoryLock | None = None

    @property
    def has_sync_all(self) -> bool:
        return self._is_sync_all_tried and self._may_sync_all

    def lock(self) -> None:
        """Keep every other process off the root until `close`. Raises DiskFault that names the
        holder.
        """
        assert self._lock is None, "the data directory is locked already"
        self._lock = DirectoryLock.take(self.root)

    def close(self) -> None:
        """Release the threads and the lock; never waits for the device."""
        self._readers.shutdown(wait=False, cancel_futures=True)
        self._writers.shutdown(wait=False, cancel_futures=True)
        self._syncers.shutdown(wait=False, cancel_futures=True)
        self._rounds.close()
        self.writeback.close()
        self._root_users.close()
        if self._lock is not None:
            self._lock.release()
            self._lock = None

    def exists(self, path: str) -> bool:
        return os.path.exists(self._text_at(path))

    def is_directory(self, path: str) -> bool:
        return os.path.isdir(self._text_at(path))

    def list_directory(self, path: str) -> list[str]:
        with _mapped(path):
            try:
                return sorted(os.listdir(self._text_at(path)))
            except FileNotFoundError:
                return []

    def file_size(self, path: str) -> int:
        with _mapped(path):
            return os.stat(self._text_at(path)).st_size

    def open(self, path: str) -> SystemFile:
        with _mapped(path):
            return SystemFile(self, path, os.open(self._text_at(path), _OPEN_FLAGS))

    async def create(self, path: str) -> SystemFile:
        flags = _OPEN_FLAGS | os.O_CREAT | os.O_EXCL
        return SystemFile(
            self, path, await self.run_write(path, os.open, self._at(path), flags, 0o644)
        )

    def read_file(self, path: str) -> bytes:
        with _mapped(path), open(self._text_at(path), "rb", buffering=0) as file:
            return file.readall()

    def reader(self, path: str) -> FileReader:
        return FileReader(str(self._at(path).absolute()))

    def mark(self, path: str) -> None:
        with _mapped(path), _present(path):
            _mark(self._at(path))

    async def replace_file(self, path: str, content: bytes) -> None:
        temporary = self._at(f"{path}.{next(self._temporary_numbers)}.tmp")
        await self.run_write(path, _replace_file, self._at(path), temporary, content)

    async def make_directory(self, path: str) -> None:
        await self.run_write(path, _make_directory, self._at(path))

    async def place_directories(self, parent: str, directories: Sequence[NewDirectory]) -> None:
        path = self._at(parent)
        with _mapped(parent), _present(parent):
            users = SharedDescriptor(open_directory(path))
        try:
            await place_directories(self, path, directories, users.run)
        finally:
            users.close()

    def rename(self, source: str, target: str) -> None:
        with _mapped(source), _present(source):
            self._at(source).rename(self._at(target))

    async def sync_directory(self, path: str) -> None:
        await self.run_write(path, _sync_directory, self._at(path))

    async def sync_all(self) -> None:
        with _mapped(""):
            await self._rounds.run([partial(self._root_users.call, self._root_syncs.run)])

    async def try_sync_all(self) -> None:
        if self._may_sync_all:
            await self.sync_all()
            self._is_sync_all_tried = True

    async def sync_files(self, files: Sequence[DiskFile]) -> list[DiskFault | None]:
        own = [file for file in files if isinstance(file, SystemFile)]
        assert len(own) == len(files), "files of this disk"
        return await self._rounds.run([file.sync_here for file in own])

    async def open_ring(self, path: str, spare_bytes: int) -> SystemRing:
        if not self.exists(path) or self.file_size(path) != RING_BYTES:
            aside = f"{path}{NEW}"
            await self.run_write(path, fill_ring, self._at(aside), spare_bytes)
            self.rename(aside, path)
            await self.sync_directory(path.rpartition("/")[0])
        with _mapped(path):
            return SystemRing(path, self._at(path))

    async def let_syncs_pass(self) -> None:
        """Before a read of the device: what is being synced goes first, or a consumer that reads
        an old history would slow down every producer.
        """
        await self._rounds.pause(READ_PAUSE_S_MAX)

    async def unlink(self, path: str) -> None:
        await self.run_write(path, unlink, self._at(path))

    async def unlink_in_steps(self, path: str) -> None:
        await unlink_in_steps(partial(self.run_write, path), self._at(path))

    async def remove_tree(self, path: str) -> None:
        await remove_tree_in_steps(partial(self.run_write, path), self._at(path))

    def free_bytes(self) -> int:
        with _mapped(str(self.root)):
            found = os.statvfs(self.root)
            return found.f_bavail * found.f_frsize

    def total_bytes(self) -> int:
        with _mapped(str(self.root)):
            found = os.statvfs(self.root)
            reserved = found.f_bfree - found.f_bavail  # neither used nor to be had
            return (found.f_blocks - reserved) * found.f_frsize

    def open_files_max(self) -> int:
        return descriptor_limit()

    def note_device(self, device: int) -> None:
        """A file on it is used: `sync_all` reaches the root's file system alone."""
        if device != self._device:
            self._may_sync_all = False

    def note_failed_sync(self) -> None:
        """After a file's the next sync of everything would tell of it once more, for files that
        nothing happened to; after one of everything each file that failed with it tells so itself.
        """
        self._may_sync_all = False

    async def run_read(self, function: Callable[..., T], *arguments: object) -> T:
        """A call of this module in a reader thread. Raises OSError."""
        loop = asyncio.get_running_loop()
        return await loop.run_in_executor(self._readers, function, *arguments)

    async def run_write(self, path: str, function: Callable[..., T], *arguments: object) -> T:
        """A call of this module in a writer thread."""
        return await self._run(self._writers, path, function, arguments)

    async def run_sync(self, path: str, function: Callable[..., T], *arguments: object) -> T:
        """A call of this module in a sync thread."""
        return await self._run(self._syncers, path, function, arguments)

    async def run_writeback(self, path: str, function: Callable[..., T], *arguments: object) -> T:
        """A call of this module in the writeback thread, after the steps that were begun."""
        return await self._run(self.writeback.executor, path, function, arguments)

    def read_warm(self, path: str, descriptor: int, position: int, size: int) -> bytes | None:
        """`DiskFile.read` for a descriptor."""
        try:
            return _read_nowait(descriptor, position, size, self.scratch)
        except OSError as error:
            raise _read_fault(path, error) from error

    async def _run(
        self,
        threads: ThreadPoolExecutor,
        path: str,
        function: Callable[..., T],
        arguments: tuple[object, ...],
    ) -> T:
        with _mapped(path), _present(path):
            return await asyncio.get_running_loop().run_in_executor(threads, function, *arguments)

    def _at(self, path: str) -> Path:
        return Path(self._text_at(path))

    def _text_at(self, path: str) -> str:
        """As `_at`, at a tenth of the cost: a start asks several times for each partition."""
        assert not path.startswith("/"), f"{path} is not below the data directory"
        assert ".." not in path or ".." not in path.split("/"), f"{path} leaves the data directory"
        return f"{self._root_text}/{path}"


class SystemFile:
    """Implements `ports.DiskFile`."""

    def __init__(self, disk: SystemDisk, path: str, descriptor: int) -> None:
        self._disk = disk
        self._path = path
        self._descriptor = descriptor
        found = os.fstat(descriptor)
        self._size = found.st_size
        disk.note_device(found.st_dev)
        _read_what_is_asked(descriptor)
        self._users = SharedDescriptor(descriptor)
        self._syncs = Syncs(_fdatasync, self._note_failed_sync)
        self._writeback = Writeback(disk.writeback, self._users.run, self._size)
        if found.st_blocks * _BLOCK_BYTES > self._size + AHEAD_BYTES // 2:
            self._trim()  # set aside by a process that was killed

    @property
    def path(self) -> str:
        return self._path

    def size(self) -> int:
        return self._size

    def append(self, chunks: Sequence[Buffer]) -> None:
        try:
            if len(chunks) == 1:
                self._write_rest(chunks[0], 0)
            else:
                for first in range(0, len(chunks), IOVEC_MAX):
                    self._write_chunks(chunks[first : first + IOVEC_MAX])
        except OSError as error:
            raise _fault(self._path, error) from error
        self._writeback.note_append(self._size)

    def write_at(self, position: int, chunk: Buffer) -> None:
        with _mapped(self._path):
            view = memoryview(chunk).cast("B")
            done = 0
            while done < len(view):
                done += os.pwrite(self._descriptor, view[done:], position + done)
            self._size = max(self._size, position + done)

    def read(self, position: int, size: int) -> bytes | None:
        if size <= WARM_READ_BYTES and _nowait.is_supported:  # the usual case, in one frame
            view = self._disk.scratch[:size]
            try:
                read = os.preadv(self._descriptor, (view,), position, _RWF_NOWAIT)
            except BlockingIOError:
                return None
            except OSError:
                read = -1
            if read == size:
                return bytes(view)
        return self._disk.read_warm(self._path, self._descriptor, position, size)

    async def read_cold(self, position: int, size: int) -> bytes:
        await self._disk.let_syncs_pass()
        try:
            return await self._disk.run_read(self._users.run(_read_all), position, size)
        except OSError as error:
            raise _read_fault(self._path, error) from error

    def truncate(self, size: int) -> None:
        with _mapped(self._path):
            os.ftruncate(self._descriptor, size)
            self._size = size
            self._writeback.note_trimmed(size)

    async def seal(self) -> None:
        if self._writeback.has_ahead:
            await self._disk.run_writeback(self._path, self._users.run(_trim), self._size)
            self._writeback.note_trimmed(self._size)

    async def sync(self) -> None:
        await self._disk.run_sync(self._path, self._users.run(self._syncs.run))

    def sync_here(self) -> DiskFault | None:
        """As `sync`, in the calling thread; the fault instead of raising it."""
        try:
            self._users.call(self._syncs.run)
        except OSError as error:
            return _fault(self._path, error)
        return None

    def _note_failed_sync(self) -> None:
        """In the thread that met it: the round's other files may take long, and the next start
        would not be told of a log by a process that was killed meanwhile.
        """
        self._disk.note_failed_sync()
        if self._path.endswith(LOG):
            with suppress(DiskFault):
                self._disk.mark(f"{self._path.rpartition('/')[0]}/{SYNC_FAILED}")

    async def rewrite(self, position: int) -> None:
        self._disk.note_failed_sync()  # by an earlier process, or this one
        await self._disk.run_sync(self._path, self._users.run(_rewrite), position)

    def close(self) -> None:
        """Closing twice is fine."""
        if self._writeback.has_ahead:
            self._trim()
        self._users.close()

    def _trim(self) -> None:
        """Free the blocks behind the end; a failure leaves them to the next opening."""
        with suppress(OSError):
            _trim(self._descriptor, self._size)
        self._writeback.note_trimmed(self._size)

    def _write_chunks(self, chunks: Sequence[Buffer]) -> None:
        written = os.pwritev(self._descriptor, chunks, self._size)
        self._size += written
        for chunk in chunks:
            length = memoryview(chunk).nbytes
            if written < length:  # a short write: this chunk's rest, then every later chunk whole
                self._write_rest(chunk, written)
            written = max(0, written - length)

    def _write_rest(self, chunk: Buffer, done: int) -> None:
        view = memoryview(chunk).cast("B")
        while done < len(view):
            written = os.pwrite(self._descriptor, view[done:] if done else view, self._size)
            self._size += written
            done += written


def _let_others_run() -> None:
    """In a reader thread that begins. Linux has a niceness for each thread."""
    if sys.platform == "linux":
        with suppress(OSError):
            os.setpriority(os.PRIO_PROCESS, threading.get_native_id(), READER_NICENESS)


@contextmanager
def _mapped(path: str) -> Iterator[None]:
    try:
        yield
    except (FileNotFoundError, FileExistsError):
        raise
    except OSError as error:
        raise _fault(path, error) from error


@contextmanager
def _present(path: str) -> Iterator[None]:
    """For what is there unless somebody removed it under the broker: its directory, mostly."""
    try:
        yield
    except FileNotFoundError as error:
        raise DiskFault(path, "it or its directory is missing: it was removed meanwhile") from error


def _fault(path: str, error: OSError) -> DiskFault:
    reason = error.strerror or str(error)
    if error.errno in _FULL:
        return DiskFull(path, f"{reason}: free some space or shorten the retention")
    if error.errno in (errno.EMFILE, errno.ENFILE):
        return NoDescriptor(path, f"{reason}: raise the limit on open files (ulimit -n)")
    return DiskFault(path, reason)


def _read_fault(path: str, error: OSError) -> DiskFault:
    """Of a read of an open file."""
    if error.errno in _UNREADABLE:
        return ReadFault(path, error.strerror or str(error))
    return _fault(path, error)


def _read_nowait(descriptor: int, position: int, size: int, view: memoryview) -> bytes | None:
    """What the page cache has, through `view`; None when a part of it is not there."""
    if not _nowait.is_supported:
        return os.pread(descriptor, size, position)
    parts: list[bytes] = []
    done = 0
    while done < size:
        step = min(len(view), size - done)
        try:
            read = os.preadv(descriptor, (view[:step],), position + done, _RWF_NOWAIT)
        except BlockingIOError:
            return None
        except OSError as error:
            if error.errno not in _NO_NOWAIT:
                raise
            _nowait.is_supported = False
            return os.pread(descriptor, size, position)
        parts.append(bytes(view[:read]))
        done += read
        if read < step:
            break
    if done < size and position + done < os.fstat(descriptor).st_size:
        return None  # short of the file's end: the rest is on the device
    return parts[0] if len(parts) == 1 else b"".join(parts)


_RWF_NOWAIT: Final[int] = getattr(os, "RWF_NOWAIT", 0)


class _Nowait:
    """Whether this machine's file system can say "not in the page cache"; when not, warm reads may
    wait.
    """

    is_supported = _RWF_NOWAIT != 0


_nowait = _Nowait()


def _read_what_is_asked(descriptor: int) -> None:
    """No reading ahead: fetches are large, and megabytes that nobody asked for yet stand before
    every sync in the device's queue.
    """
    if hasattr(os, "posix_fadvise"):
        with suppress(OSError):  # a file system without it
            os.posix_fadvise(descriptor, 0, 0, os.POSIX_FADV_RANDOM)


def _read_all(descriptor: int, position: int, size: int) -> bytes:
    content = os.pread(descriptor, size, position)
    while content and len(content) < size:
        more = os.pread(descriptor, size - len(content), position + len(content))
        if not more:
            break
        content += more
    return content


def _trim(descriptor: int, size: int) -> None:
    """Frees blocks behind the end, which the size does not show."""
    os.ftruncate(descriptor, size)


def _fdatasync(descriptor: int) -> None:
    getattr(os, "fdatasync", os.fsync)(descriptor)  # macOS has only fsync


def _rewrite(descriptor: int, position: int) -> None:
    with suppress(OSError):
        _fdatasync(descriptor)  # it may still have to tell of the earlier failure
    step = WARM_READ_BYTES
    while True:
        try:
            chunk = os.pread(descriptor, step, position)
        except OSError as error:
            if error.errno not in _UNREADABLE:
                raise
            if step <= PAGE_BYTES:  # it is not in memory: nothing of it can be written anew
                position += step
            step = PAGE_BYTES - position % PAGE_BYTES
            continue
        if not chunk:
            break
        written = 0
        while written < len(chunk):
            written += os.pwrite(descriptor, chunk[written:], position + written)
        position += written
        if step < WARM_READ_BYTES:
            step = PAGE_BYTES if position % WARM_READ_BYTES else WARM_READ_BYTES
    _fdatasync(descriptor)


def _mark(path: Path) -> None:
    """An empty file, without a descriptor where the system can do that: there may be none left."""
    with suppress(FileExistsError):
        try:
            os.mknod(path, 0o644 | stat.S_IFREG)
        except PermissionError:  # macOS
            path.touch()


def _sync_directory(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _replace_file(path: Path, temporary: Path, content: bytes) -> None:
    try:
        descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o644)
        try:
            done = 0
            while done < len(content):
                done += os.write(descriptor, content[done:])
            _fdatasync(descriptor)
        finally:
            os.close(descriptor)
        temporary.replace(path)
    except OSError:
        temporary.unlink(missing_ok=True)
        raise
    _sync_directory(path.parent)


def _make_root(path: Path) -> None:
    """With every directory above it that is missing, each durably there: what is synced below them
    would be lost with their names.
    """
    missing = [each for each in (path, *path.parents) if not each.exists()]
    path.mkdir(parents=True, exist_ok=True)
    for each in reversed(missing):
        _sync_directory(each.parent)


def _make_directory(path: Path) -> None:
    path.mkdir(parents=True, exist_ok=True)
