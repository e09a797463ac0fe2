"""The outside world as Protocols: disk, clock, network, metastore, ids, worker. No I/O here.

`broker/runtime` and `broker/metastore` implement them for real, `broker/simulator` in a seeded
world. Pure code receives times as arguments; only shells hold a port. Every path is a `/`-separated
string.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from typing import Any, Final, NamedTuple, Protocol, TypeVar

Buffer = bytes | bytearray | memoryview
T = TypeVar("T")


class DiskFault(Exception):
    """The disk failed (EIO and the like) on `path`: its owner goes offline, nothing is retried."""

    def __init__(self, path: str, reason: str) -> None:
        super().__init__(f"{path}: {reason}")
        self.path = path
        self.reason = reason


class DiskFull(DiskFault):
    """No space (ENOSPC, EDQUOT, EFBIG): what was written is cut back by the caller; later writes
    may succeed.
    """

    summary = "the disk is full; writes are refused until there is space"


class NoDescriptor(DiskFull):
    """The process has as many files open as it may (EMFILE, ENFILE): nothing was done, later calls
    may succeed.
    """

    summary = "no more files can be opened; what needs one is refused until one is closed"


class ReadFault(DiskFault):
    """The device did not give bytes of a file (EIO): those are damaged, nothing else is. They may
    be whole the next time.
    """


class Clock(Protocol):
    """Two hands, never mixed."""

    def monotonic_ms(self) -> float:
        """Milliseconds since an arbitrary start, never backwards, with a fraction: for every
        deadline and duration.
        """

    def wall_ms(self) -> int:
        """Milliseconds since 1970-01-01 UTC, may jump: only for what is stored or shown."""


class IdSource(Protocol):
    """Randomness for identifiers."""

    def uuid(self) -> bytes:
        """16 bytes, UUID version 4, never all zero, and never printed with a leading `-`."""

    def below(self, bound: int) -> int:
        """A uniformly random int in [0, bound)."""


class DiskFile(Protocol):
    """One open file, written by one owner. Sizes and positions are bytes."""

    @property
    def path(self) -> str: ...

    def size(self) -> int: ...

    def append(self, chunks: Sequence[Buffer]) -> None:
        """Write all chunks at the end, in order (one writev where possible). The buffers may be
        reused afterwards.

        Raises DiskFull or DiskFault; then any prefix may have been written and the caller must
        `truncate`.
        """

    def write_at(self, position: int, chunk: Buffer) -> None:
        """Overwrite in place (index files only). Raises DiskFull or DiskFault."""

    def read(self, position: int, size: int) -> bytes | None:
        """At most `size` bytes, fewer only at the end of the file; None when it would wait for the
        device (then `read_cold`). Raises ReadFault.
        """

    async def read_cold(self, position: int, size: int) -> bytes:
        """As `read`, off the event loop; never None. Raises ReadFault."""

    def truncate(self, size: int) -> None:
        """Cut off what is behind `size`. Raises DiskFault."""

    async def seal(self) -> None:
        """Nothing will be appended any more: what the disk set aside for it is given back, off the
        loop. Raises DiskFault.
        """

    async def rewrite(self, position: int) -> None:
        """Write what is read from `position` on once more, and sync it: after a failed sync the
        system keeps the bytes, counts them as written, and loses them later. Raises DiskFault.
        """

    async def sync(self) -> None:
        """fdatasync, off the loop: what was written before the call is durable. Raises DiskFault;
        after that the file's state is unknown for good, and another sync would not tell. What it
        was of a log is told to the next start: SYNC_FAILED is in its directory.
        """

    def close(self) -> None: ...


class OutsideReader(Protocol):
    """Reads one file wherever it is sent to: an argument for the worker's functions."""

    def read(self, position: int, size: int) -> bytes:
        """At most `size` bytes, fewer only at the file's end. Raises OSError."""


class RingFile(Protocol):
    """One file of a fixed size that is written past the page cache, one write at a time."""

    @property
    def size(self) -> int:
        """Bytes; they never change."""

    @property
    def buffer(self) -> memoryview:
        """What the next `write` writes, as long as the longest one. Filled by the caller, not while
        a write is under way.
        """

    async def write(self, position: int, size: int) -> None:
        """The first `size` bytes of `buffer` are durable at `position`; both are multiples of 4096.
        A crash leaves any blocks of it. Raises DiskFault: then the file holds anything there.
        """

    async def idle(self) -> None:
        """Returns when no write is under way: one that was cancelled goes on."""

    def close(self) -> None:
        """Never waits for the device."""


class NewDirectory(NamedTuple):
    """A directory that does not exist yet, and the small files in it: name and content."""

    name: str
    files: Sequence[tuple[str, bytes]]


ASIDE: Final = ".aside"
"""Ends the name of a new directory until it is complete and durable."""


class Disk(Protocol):
    """A directory tree that this process owns. `has_sync_all` says whether `sync_all` may be used:
    `try_sync_all` has succeeded, no sync failed since, and all files are on the root's file system.
    """

    @property
    def has_sync_all(self) -> bool: ...

    def exists(self, path: str) -> bool: ...

    def is_directory(self, path: str) -> bool: ...

    def list_directory(self, path: str) -> list[str]:
        """Entry names, sorted; [] when the directory does not exist."""

    def file_size(self, path: str) -> int: ...

    def open(self, path: str) -> DiskFile:
        """An existing file, for reading and writing. Raises FileNotFoundError, DiskFault."""

    async def create(self, path: str) -> DiskFile:
        """A new empty file; an existing one is an error (FileExistsError). Its directory exists.
        Not synced.
        """

    def read_file(self, path: str) -> bytes:
        """A whole small file. Raises FileNotFoundError, DiskFault."""

    def reader(self, path: str) -> OutsideReader:
        """For the worker process. The file need not exist yet, or any more."""

    def mark(self, path: str) -> None:
        """An empty file, at once, also when no descriptor is left; an existing one is fine. Not
        synced. Raises DiskFault.
        """

    async def replace_file(self, path: str, content: bytes) -> None:
        """Write aside, sync, rename over `path`, sync the directory: afterwards the old or the new,
        never a mix.
        """

    async def make_directory(self, path: str) -> None:
        """With parents; existing is fine."""

    async def place_directories(self, parent: str, directories: Sequence[NewDirectory]) -> None:
        """New directories in `parent`, with their files, durably there: whatever stops it, each
        stands under its name whole or not at all. What broke off is left as `*.aside`.
        Raises DiskFault.
        """

    def rename(self, source: str, target: str) -> None:
        """Atomic, replaces an existing file. Durable after `sync_directory` of both parents."""

    async def sync_directory(self, path: str) -> None:
        """Make the names in it durable. Raises FileNotFoundError, DiskFault."""

    async def sync_files(self, files: Sequence[DiskFile]) -> Sequence[DiskFault | None]:
        """As `DiskFile.sync` of each, side by side in one step off the loop; what each failed
        with, in their order.
        """

    async def sync_all(self) -> None:
        """What was written to the tree before the call, all its names too, is durable (syncfs).

        Raises DiskFault: the state of every file that was not synced is unknown for good.
        """

    async def try_sync_all(self) -> None:
        """Run the first `sync_all`, where the file system's can be believed; no write depends on
        it. It hears of what failed before this process. Raises DiskFault; then `has_sync_all` stays
        false.
        """

    async def open_ring(self, path: str, spare_bytes: int) -> RingFile:
        """The file at `path`, made of zeros, durable with its name, when it is missing or has
        another size than this disk's rings. Raises DiskFull, also when fewer than `spare_bytes`
        would be left; DiskFault, also where the system has no such files.
        """

    async def unlink(self, path: str) -> None:
        """Off the loop; missing is fine."""

    async def unlink_in_steps(self, path: str) -> None:
        """As `unlink`, of what may be large and is renamed for good: it is cut shorter first, so
        that no sync waits long for its blocks to be freed. Who still has it open reads less of it.
        """

    async def remove_tree(self, path: str) -> None:
        """Off the loop, large files in steps; missing is fine."""

    def free_bytes(self) -> int:
        """What this process may still write, of the file system's `total_bytes`."""

    def total_bytes(self) -> int:
        """What is used and what is free, as df reckons: without the blocks that are kept for root
        or others. The share in use is 1 − `free_bytes` / `total_bytes`.
        """

    def open_files_max(self) -> int:
        """Files and connections that this process may have open at a time."""


class Transport(Protocol):
    """The part of asyncio's stream transport that connections use."""

    def write(self, data: Buffer) -> None: ...
    def writelines(self, list_of_data: Sequence[Buffer]) -> None: ...
    def close(self) -> None: ...
    def abort(self) -> None: ...
    def is_closing(self) -> bool: ...
    def pause_reading(self) -> None: ...
    def resume_reading(self) -> None: ...
    def get_write_buffer_size(self) -> int: ...
    def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None: ...
    def get_extra_info(self, name: str, default: Any = None) -> Any:
        """`peername` and `sockname` are (host, port)."""


class StreamHandler(Protocol):
    """asyncio.BufferedProtocol's callbacks."""

    def connection_made(self, transport: Any) -> None: ...
    def get_buffer(self, sizehint: int) -> Buffer: ...
    def buffer_updated(self, nbytes: int) -> None: ...
    def eof_received(self) -> bool | None: ...
    def connection_lost(self, exc: Exception | None) -> None: ...
    def pause_writing(self) -> None: ...
    def resume_writing(self) -> None: ...


class Listener(Protocol):
    """A bound listening socket."""

    @property
    def port(self) -> int:
        """The port really bound (port 0 asks for any)."""

    async def close(self) -> None:
        """Stop accepting; connections already made go on."""


class Network(Protocol):
    """Stream connections between processes."""

    async def listen(self, host: str, port: int, handler: Callable[[], StreamHandler]) -> Listener:
        """Raises OSError with a readable text when the address is taken."""

    async def connect(
        self, host: str, port: int, handler: Callable[[], StreamHandler], *, timeout_ms: int
    ) -> tuple[Transport, StreamHandler]:
        """Raises OSError (TimeoutError is one)."""


class WorkerFault(Exception):
    """The worker died or is overloaded; the call may be made again."""


class Worker(Protocol):
    """One process for CPU work, so that Python code never runs beside the loop in a thread."""

    async def call(self, function: Callable[..., T], *arguments: Any) -> T:
        """`function` is a module-level function; arguments and result are picklable. The simulator
        runs it in place. Raises what `function` raises, and WorkerFault.
        """


class Entry(NamedTuple):
    """A metastore key: `value` as written, `version` = the store revision of its last change, 1 or
    above.
    """

    key: str
    value: bytes
    version: int


class Condition(NamedTuple):
    """Holds when `key` is at exactly `version`; 0 means that it must not exist."""

    key: str
    version: int


class Put(NamedTuple):
    """`lease_id` 0 means no lease."""

    key: str
    value: bytes
    lease_id: int = 0


class Delete(NamedTuple):
    """Deleting what is absent is fine."""

    key: str


class Change(NamedTuple):
    """A watched change: `entry.value` is b"" when `is_deleted`."""

    entry: Entry
    is_deleted: bool


class MetastoreFault(Exception):
    """The metastore cannot be reached or refused; the outcome of a write is unknown unless the text
    says otherwise.
    """


class Metastore(Protocol):
    """Linearizable key-value store. Keys are `/`-separated text. Every call may raise
    MetastoreFault.
    """

    async def read(self, key: str) -> Entry | None:
        """The newest value; None when there is none."""

    async def read_range(self, prefix: str) -> list[Entry]:
        """Every entry whose key begins with `prefix`, in key order, at one revision."""

    async def transact(
        self, conditions: Sequence[Condition], writes: Sequence[Put | Delete]
    ) -> int | None:
        """All writes at once when every condition holds: the new revision. None when one does not:
        nothing changed.
        """

    def watch(self, prefix: str, after_version: int) -> AsyncIterator[Change]:
        """Changes after that revision, in order, until cancelled."""

    async def grant_lease(self, ttl_ms: int) -> int:
        """The id of a lease that ends, and its keys with it, `ttl_ms` after it was last kept."""

    async def keep_lease(self, lease_id: int) -> bool:
        """False when the lease is gone (its keys with it)."""

    async def revoke_lease(self, lease_id: int) -> None:
        """End it and remove its keys now."""

    async def close(self) -> None: ...


Spawn = Callable[[Awaitable[None]], None]
"""Starts a background task in its owner's TaskGroup."""
