"""One partition's log (interface; the body follows)."""

from __future__ import annotations

from typing import NamedTuple

from broker.log.config import LogConfig
from broker.model import AppendResult
from broker.ports import Disk, Worker


class ReadResult(NamedTuple):
    """Whole batches. `next_offset` is where to read on; equal to the asked offset when `records` is empty."""

    records: memoryview
    next_offset: int


class TimestampedOffset(NamedTuple):
    """A record found by time. `leader_epoch` is its batch's."""

    offset: int
    timestamp: int
    leader_epoch: int


class PartitionLog:
    """See the module."""

    topic: str
    partition: int
    topic_id: bytes
    log_start_offset: int
    log_end_offset: int
    written_end_offset: int
    damage: list[str]

    @classmethod
    async def create(
        cls, disk: Disk, directory: str, *, topic_id: bytes, partition: int, topic: str, config: LogConfig, now_wall_ms: int
    ) -> PartitionLog: ...

    @classmethod
    async def open(cls, disk: Disk, directory: str, config: LogConfig, now_wall_ms: int) -> PartitionLog: ...

    def stage(self, batch: memoryview, *, leader_epoch: int, now_wall_ms: int, is_client: bool = True) -> AppendResult: ...

    def flush(self) -> None: ...

    @property
    def needs_roll(self) -> bool: ...

    async def roll(self, now_wall_ms: int) -> None: ...

    def read(self, offset: int, max_bytes: int, end_offset: int, *, at_least_one: bool) -> ReadResult | None: ...

    async def read_cold(self, offset: int, max_bytes: int, end_offset: int, *, at_least_one: bool) -> ReadResult: ...

    async def offset_for_timestamp(
        self, timestamp_ms: int, end_offset: int, worker: Worker | None = None
    ) -> TimestampedOffset | None: ...

    async def max_timestamp(self, end_offset: int, worker: Worker | None = None) -> TimestampedOffset | None: ...

    @property
    def latest_epoch(self) -> int: ...

    def epoch_at(self, offset: int) -> int: ...

    def end_offset_for_epoch(self, epoch: int) -> tuple[int, int]: ...

    def log_size(self) -> int: ...

    def configure(self, config: LogConfig) -> None: ...

    async def apply_retention(self, now_wall_ms: int, *, high_watermark: int | None = None) -> int: ...

    async def advance_log_start(self, offset: int) -> None: ...

    @property
    def needs_clean(self) -> bool: ...

    async def clean(self, worker: Worker, now_wall_ms: int) -> bool: ...

    async def sync(self) -> int: ...

    async def checkpoint(self) -> None: ...

    async def close(self) -> None: ...
