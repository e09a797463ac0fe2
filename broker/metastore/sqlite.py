"""The metastore of a single node: one SQLite file, synced at every commit, held by one process.

The file's content is small and has one owner, so an exact image in memory answers reads; writes
reach the file first. SQLite runs in one thread of its own. Leases live with the process: whatever
was written under one is gone at the next start. A write whose outcome is unknown (I/O error at
commit) closes the store for good: the next start reads what is true. The file and its write-ahead
log are made bigger than they need be at start, so that changes go on when the disk is full.
"""

from __future__ import annotations

import asyncio
import sqlite3
from collections.abc import AsyncIterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Final, Self

from broker.metastore.memory import MemoryMetastore
from broker.metastore.state import StoreState, check_transaction
from broker.ports import Change, Clock, Condition, Delete, Entry, MetastoreFault, Put
from broker.runtime.clock import SystemClock

APPLICATION_ID: Final = 0x484D514D  # "HMQM" in the file's header: tells our file from any other
SCHEMA_VERSION: Final = 1
RESERVE_BYTES: Final = 2 << 20
"""Room kept free inside the database, and as much inside its write-ahead log."""
CHECKPOINT_PAGES: Final = 128
"""The write-ahead log is copied to the database, and then begun anew, after so many pages: a
quarter of what it has room for, so that no transaction makes it grow.
"""

_SCHEMA: Final = """
CREATE TABLE entries (
    key TEXT PRIMARY KEY, value BLOB NOT NULL, version INTEGER NOT NULL, lease_id INTEGER NOT NULL
) WITHOUT ROWID;
CREATE TABLE store (revision INTEGER NOT NULL);
INSERT INTO store VALUES (0);
"""
_PUT: Final = "INSERT OR REPLACE INTO entries (key, value, version, lease_id) VALUES (?, ?, ?, ?)"


class SqliteMetastore:
    """Implements `ports.Metastore`. Make one with `open`."""

    def __init__(
        self, path: Path, connection: sqlite3.Connection, thread: ThreadPoolExecutor, clock: Clock
    ) -> None:
        self._path = path
        self._connection = connection
        self._thread = thread
        self._clock = clock
        self._state = _load(connection)
        self._image = MemoryMetastore(clock, self._state)
        self._writing = asyncio.Lock()
        self._fault: str | None = None

    @classmethod
    async def open(cls, path: str | Path, clock: Clock | None = None) -> Self:
        """Open or create the file (its directory exists). Raises MetastoreFault: one sentence that
        says what to do.
        """
        thread = ThreadPoolExecutor(max_workers=1, thread_name_prefix="metastore")
        target = Path(path)
        try:
            connection = await asyncio.get_running_loop().run_in_executor(thread, _open, target)
            return cls(target, connection, thread, clock if clock is not None else SystemClock())
        except sqlite3.Error as error:
            thread.shutdown(wait=False)
            raise MetastoreFault(_explain(target, error)) from error
        except MetastoreFault:
            thread.shutdown(wait=False)
            raise

    async def read(self, key: str) -> Entry | None:
        await self._prepare()
        return self._state.read(key)

    async def read_range(self, prefix: str) -> list[Entry]:
        await self._prepare()
        return self._state.read_range(prefix)

    async def transact(
        self, conditions: Sequence[Condition], writes: Sequence[Put | Delete]
    ) -> int | None:
        """A cancelled caller does not stop a write that began: the image must follow the file."""
        await self._prepare()
        return await asyncio.shield(self._transact(conditions, writes))

    async def watch(self, prefix: str, after_version: int) -> AsyncIterator[Change]:
        async for change in self._image.watch(prefix, after_version):
            yield change

    async def grant_lease(self, ttl_ms: int) -> int:
        return self._state.grant_lease(ttl_ms, self._clock.monotonic_ms())

    async def keep_lease(self, lease_id: int) -> bool:
        await self._prepare()
        return self._state.keep_lease(lease_id, self._clock.monotonic_ms())

    async def revoke_lease(self, lease_id: int) -> None:
        await asyncio.shield(self._end_leases([lease_id]))

    async def close(self) -> None:
        """Waits for the write in flight. Closing twice is fine."""
        async with self._writing:
            if self._fault is None:
                self._fault = "it is closed"
                await asyncio.get_running_loop().run_in_executor(
                    self._thread, self._connection.close
                )
            self._thread.shutdown(wait=False)

    async def _prepare(self) -> None:
        if self._fault is not None:
            msg = f"the metastore {self._path} cannot be used: {self._fault}"
            raise MetastoreFault(msg)
        expired = self._state.expired_leases(self._clock.monotonic_ms())
        if expired:
            await asyncio.shield(self._end_leases(expired))

    async def _end_leases(self, lease_ids: Sequence[int]) -> None:
        async with self._writing:
            for lease_id in lease_ids:
                keys = self._state.forget_lease(lease_id)
                if keys:
                    await self._write([Delete(key) for key in keys])

    async def _transact(
        self, conditions: Sequence[Condition], writes: Sequence[Put | Delete]
    ) -> int | None:
        async with self._writing:
            check_transaction(self._state, conditions, writes)
            if not self._state.is_satisfied(conditions):
                return None
            return await self._write(writes)

    async def _write(self, writes: Sequence[Put | Delete]) -> int:
        """File first, then image. The caller holds `_writing` and is not cancelled."""
        revision = self._state.revision + 1
        loop = asyncio.get_running_loop()
        try:
            await loop.run_in_executor(
                self._thread, _commit, self._connection, revision, tuple(writes)
            )
        except sqlite3.Error as error:
            raise MetastoreFault(await self._after_failure(error)) from error
        return self._image.apply(writes)

    async def _after_failure(self, error: sqlite3.Error) -> str:
        """The sentence for a failed write; closes the store unless the file says that nothing was
        written.
        """
        loop = asyncio.get_running_loop()
        try:
            stored = await loop.run_in_executor(self._thread, _roll_back, self._connection)
        except sqlite3.Error:
            stored = -1
        if stored == self._state.revision:
            return f"{_explain(self._path, error)} Nothing was changed."
        self._fault = f"a write failed and its outcome is unknown ({error}): restart the broker"
        return f"the metastore {self._path}: {self._fault}"


def _open(path: Path) -> sqlite3.Connection:
    connection = sqlite3.connect(path, timeout=0, isolation_level=None, check_same_thread=False)
    try:
        _prepare_file(path, connection)
    except BaseException:
        connection.close()
        raise
    return connection


def _prepare_file(path: Path, connection: sqlite3.Connection) -> None:
    connection.execute("PRAGMA locking_mode = EXCLUSIVE")
    connection.execute("PRAGMA journal_mode = WAL")
    connection.execute("PRAGMA synchronous = FULL")
    connection.execute(f"PRAGMA wal_autocheckpoint = {CHECKPOINT_PAGES}")
    connection.execute("BEGIN EXCLUSIVE")
    application_id = connection.execute("PRAGMA application_id").fetchone()[0]
    version = connection.execute("PRAGMA user_version").fetchone()[0]
    has_tables = connection.execute("SELECT count(*) FROM sqlite_master").fetchone()[0] > 0
    if not has_tables and application_id == 0:
        for statement in _SCHEMA.split(";"):
            connection.execute(statement)
        connection.execute(f"PRAGMA application_id = {APPLICATION_ID}")
        connection.execute(f"PRAGMA user_version = {SCHEMA_VERSION}")
    elif application_id != APPLICATION_ID:
        msg = f"{path} is another application's: choose another data directory; nothing was changed"
        raise MetastoreFault(msg)
    elif version > SCHEMA_VERSION:
        msg = (
            f"{path} has format {version}, this HermesMQ reads up to {SCHEMA_VERSION}: "
            "run the version that wrote it, or a newer one"
        )
        raise MetastoreFault(msg)
    connection.execute("DELETE FROM entries WHERE lease_id != 0")
    connection.execute("COMMIT")
    problems = connection.execute("PRAGMA quick_check(1)").fetchone()[0]
    if problems != "ok":
        msg = f"{path} is damaged ({problems}): restore it from a backup"
        raise MetastoreFault(msg)
    _reserve(connection)


def _reserve(connection: sqlite3.Connection) -> None:
    """Make room in file and write-ahead log: SQLite writes over both in place and never makes them
    smaller while they are open. Without space for it the store does without.
    """
    checkpoint = "PRAGMA wal_checkpoint"
    connection.execute(checkpoint).fetchone()  # so that the log is filled from its beginning
    try:
        connection.execute("BEGIN EXCLUSIVE")
        connection.execute("DROP TABLE IF EXISTS reserve")  # of a start that was killed
        connection.execute("CREATE TABLE reserve (room BLOB NOT NULL)")
        connection.execute("INSERT INTO reserve VALUES (zeroblob(?))", (RESERVE_BYTES,))
        connection.execute("COMMIT")
        connection.execute("DROP TABLE reserve")
        connection.execute(checkpoint).fetchone()
    except sqlite3.OperationalError as error:
        if error.sqlite_errorcode != sqlite3.SQLITE_FULL:
            raise
    if connection.in_transaction:
        connection.execute("ROLLBACK")


def _load(connection: sqlite3.Connection) -> StoreState:
    """Called once, before the loop's first call to the thread."""
    revision = connection.execute("SELECT revision FROM store").fetchone()[0]
    rows = connection.execute("SELECT key, value, version FROM entries")
    return StoreState((Entry(key, value, version) for key, value, version in rows), revision)


def _commit(connection: sqlite3.Connection, revision: int, writes: Sequence[Put | Delete]) -> None:
    connection.execute("BEGIN IMMEDIATE")
    for write in writes:
        if isinstance(write, Put):
            connection.execute(_PUT, (write.key, write.value, revision, write.lease_id))
        else:
            connection.execute("DELETE FROM entries WHERE key = ?", (write.key,))
    connection.execute("UPDATE store SET revision = ?", (revision,))
    connection.execute("COMMIT")


def _roll_back(connection: sqlite3.Connection) -> int:
    """The revision that the file holds."""
    if connection.in_transaction:
        connection.execute("ROLLBACK")
    return int(connection.execute("SELECT revision FROM store").fetchone()[0])


def _explain(path: Path, error: sqlite3.Error) -> str:
    code = getattr(error, "sqlite_errorname", "") or ""
    if code.startswith(("SQLITE_BUSY", "SQLITE_LOCKED")):
        return f"{path} is in use by another process: stop the broker of this data directory."
    if code.startswith(("SQLITE_NOTADB", "SQLITE_CORRUPT")):
        return f"{path} is damaged or not a HermesMQ metastore ({error}): restore it from a backup."
    if code.startswith("SQLITE_FULL"):
        return f"{path} cannot grow, the disk is full: free some space."
    if code.startswith(("SQLITE_CANTOPEN", "SQLITE_READONLY", "SQLITE_PERM")):
        return (
            f"{path} cannot be opened for writing ({error}): check its directory and permissions."
        )
    return f"{path}: {error}."
