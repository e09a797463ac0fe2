"""What the tests of the log share: a real directory with faults on demand, batches, and reading
everything back.
"""

from __future__ import annotations

import asyncio
import errno
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

from broker.errors import Refusal
from broker.log.config import LogConfig
from broker.log.partition_log import PartitionLog
from broker.log.salvage import PAGE_BYTES
from broker.model import AppendResult
from broker.ports import Buffer, DiskFault, DiskFull, ReadFault
from broker.records.build import NewRecord, build_batch
from broker.records.iterate import Record, iterate_batches, iterate_records
from broker.runtime.disk import SystemDisk, SystemFile

T = TypeVar("T")
DIRECTORY = "topics/orders/partition-00"
TOPIC_ID = bytes(range(16))
NOW_MS = 1_700_000_000_000
FOREVER = 1 << 62
SMALL = LogConfig(segment_bytes=1000, index_interval_bytes=100)


class InlineWorker:
    """Implements `ports.Worker` in place."""

    async def call(self, function: Callable[..., T], *arguments: Any) -> T:
        return function(*arguments)


class FaultyDisk(SystemDisk):
    """The real disk; `fail_append` makes the next append write that many bytes and then fail;
    `replace_gate` holds snapshots back until it is set, `held_count` of them so far; `at_names` is
    called before each sync of a directory and may raise; there is no room for new names that
    contain `full_for`. The device does not give the pages of `unreadable` (bytes of the file whose
    path ends so), which failed `fault_count` reads so far.
    """

    fail_append: tuple[int, type[DiskFault]] | None = None
    fail_create: type[DiskFault] | None = None
    fail_replace: type[DiskFault] | None = None
    replace_gate: asyncio.Event | None = None
    held_count = 0
    at_names: Callable[[], None] | None = None
    full_for: str | None = None
    fail_truncate = False
    is_cold = False
    read_count = 0
    unreadable: tuple[str, range] = ("none", range(0))
    fault_count = 0

    def open(self, path: str) -> FaultyFile:
        file = super().open(path)
        file.__class__ = FaultyFile
        return file  # type: ignore[return-value]

    def reader(self, path: str) -> Any:
        return FaultyReader(self, path) if self.unreadable[1] else super().reader(path)

    def fails(self, path: str, position: int, size: int) -> bool:
        name, lost = self.unreadable
        end = position + size + -(position + size) % PAGE_BYTES
        position -= position % PAGE_BYTES
        is_lost = path.endswith(name) and position < lost.stop and lost.start < end
        self.fault_count += is_lost
        return is_lost

    async def replace_file(self, path: str, content: bytes) -> None:
        if self.fail_replace is not None:
            raise self.fail_replace(path, "injected")
        if self.replace_gate is not None:
            self.held_count += 1
            await self.replace_gate.wait()
        await super().replace_file(path, content)

    async def sync_directory(self, path: str) -> None:
        if self.at_names is not None:
            self.at_names()
        await super().sync_directory(path)

    def rename(self, source: str, target: str) -> None:
        self._check_room(target)
        super().rename(source, target)

    def _check_room(self, path: str) -> None:
        if self.full_for is not None and self.full_for in path:
            raise DiskFull(path, "injected")

    async def create(self, path: str) -> FaultyFile:
        if self.fail_create is not None:
            raise self.fail_create(path, "injected")
        self._check_room(path)
        file = await super().create(path)
        file.__class__ = FaultyFile
        return file  # type: ignore[return-value]


class FaultyFile(SystemFile):
    """A file of FaultyDisk."""

    def append(self, chunks: Sequence[Buffer]) -> None:
        disk: Any = self._disk
        if disk.fail_append is not None:
            size, fault = disk.fail_append
            disk.fail_append = None
            super().append([b"".join(chunks)[:size]])
            raise fault(self.path, "injected")
        super().append(chunks)

    def read(self, position: int, size: int) -> bytes | None:
        disk: Any = self._disk
        disk.read_count += 1
        if disk.is_cold or disk.fails(self.path, position, size):
            return None
        return super().read(position, size)

    async def read_cold(self, position: int, size: int) -> bytes:
        disk: Any = self._disk
        if disk.fails(self.path, position, size):
            raise ReadFault(self.path, "injected")
        return await super().read_cold(position, size)

    def truncate(self, size: int) -> None:
        disk: Any = self._disk
        if disk.fail_truncate:
            raise DiskFault(self.path, "injected")
        super().truncate(size)


class FaultyReader:
    """Implements `ports.OutsideReader` on FaultyDisk."""

    def __init__(self, disk: FaultyDisk, path: str) -> None:
        self._disk = disk
        self._path = path

    def read(self, position: int, size: int) -> bytes:
        if self._disk.fails(self._path, position, size):
            raise OSError(errno.EIO, "injected")
        return SystemDisk.reader(self._disk, self._path).read(position, size)


async def create(disk: SystemDisk, config: LogConfig = SMALL, now_ms: int = NOW_MS) -> PartitionLog:
    return await PartitionLog.create(
        disk,
        DIRECTORY,
        topic_id=TOPIC_ID,
        partition=0,
        topic="orders",
        config=config,
        now_wall_ms=now_ms,
    )


async def recreate(disk: SystemDisk, log: PartitionLog, config: LogConfig) -> PartitionLog:
    """The log of the topic of this name after `log`'s was deleted, which is moved away."""
    await log.close()
    disk.rename(log.directory, f"{log.directory}-gone")
    return await create(disk, config)


async def reopen(disk: SystemDisk, config: LogConfig = SMALL, now_ms: int = NOW_MS) -> PartitionLog:
    return await PartitionLog.open(disk, DIRECTORY, config, now_ms)


def stage(
    log: PartitionLog,
    *values: str,
    now_ms: int = NOW_MS,
    timestamp_ms: int | None = None,
    epoch: int = 0,
    **options: Any,
) -> AppendResult:
    """Stage one batch of records `k` → value."""
    records = [(b"k", value.encode()) for value in values] or [(b"k", b"v")]
    batch = build_batch(
        records, timestamp_ms=now_ms if timestamp_ms is None else timestamp_ms, **options
    )
    return log.stage(memoryview(batch), leader_epoch=epoch, now_wall_ms=now_ms)


def append(log: PartitionLog, *values: str, **options: Any) -> AppendResult:
    """Stage and flush one batch."""
    result = stage(log, *values, **options)
    log.flush()
    return result


async def append_rolling(
    log: PartitionLog, count: int, now_ms: int = NOW_MS, **options: Any
) -> None:
    """Append `count` batches of one record `v<offset>`, rolling when asked to."""
    for _ in range(count):
        append(log, f"v{log.log_end_offset}", now_ms=now_ms, **options)
        if log.needs_roll:
            await log.roll(now_ms)


def append_keyed(
    log: PartitionLog,
    *pairs: tuple[str, str | None],
    now_ms: int = NOW_MS,
    leader_epoch: int = 0,
    **options: Any,
) -> AppendResult:
    """One internal batch of key → value records; None is a tombstone."""
    records = [
        NewRecord(key.encode(), None if value is None else value.encode()) for key, value in pairs
    ]
    batch = build_batch(records, timestamp_ms=now_ms, **options)
    result = log.stage(
        memoryview(batch), leader_epoch=leader_epoch, now_wall_ms=now_ms, is_client=False
    )
    log.flush()
    return result


async def read_from(
    log: PartitionLog, offset: int, max_bytes: int = 300, *, end_offset: int = FOREVER
) -> list[Record]:
    """Every record from `offset` on, read as a consumer does: warm, else cold."""
    records: list[Record] = []
    while offset < min(end_offset, log.written_end_offset):
        result = log.read(offset, max_bytes, end_offset, at_least_one=True)
        if result is None:
            result = await log.read_cold(offset, max_bytes, end_offset, at_least_one=True)
        if result.next_offset == offset:
            break
        for batch in iterate_batches(result.records):
            records += [record for record in iterate_records(batch) if record.offset >= offset]
        offset = result.next_offset
    return records


async def values(log: PartitionLog) -> list[str]:
    """The values of all records from the log start."""
    return [(record.value or b"").decode() for record in await read_from(log, log.log_start_offset)]


def refusal_of(function: Callable[..., object], *arguments: Any, **options: Any) -> Any:
    """The error code with which `function` refuses, or None."""
    try:
        function(*arguments, **options)
    except Refusal as refused:
        return refused.code
    return None


def numbers(*bounds: int) -> list[str]:
    """["v<n>", …] for range(*bounds): what `append_rolling` wrote."""
    return [f"v{number}" for number in range(*bounds)]
