"""A partition read batch by batch by code without an event loop; optionally one answer ahead.

Made by `BlockingClient.open_reader`. For one thread at a time.
"""

from __future__ import annotations

import concurrent.futures
from collections.abc import Awaitable
from types import TracebackType
from typing import NamedTuple

from broker.client.blocking_loop import BlockingLoop
from broker.client.cluster import Cluster
from broker.client.reading import FETCH_BYTES_DEFAULT, Fetched, PartitionReader


class _Ahead(NamedTuple):
    """An answer that is on its way."""

    offset: int
    bytes_max: int
    future: concurrent.futures.Future[Fetched]


class BlockingReader:
    """A context manager. `close` ends its connections, the client goes on."""

    def __init__(
        self,
        loop: BlockingLoop,
        topic: str,
        partition: int,
        *,
        isolation_level: int,
        reads_ahead: bool,
    ) -> None:
        self.topic = topic
        self.partition = partition
        self._loop = loop
        self._isolation_level = isolation_level
        self._reads_ahead = reads_ahead
        self._reader: PartitionReader | None = None
        self._ahead: _Ahead | None = None

    def __enter__(self) -> BlockingReader:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def close(self) -> None:
        """End its connections. Closing twice is fine, after the client too."""
        reader, self._reader = self._reader, None
        if self._ahead is not None:
            self._ahead.future.cancel()
            self._ahead = None
        if reader is not None:
            self._loop.call_soon(reader.close)

    def fetch(
        self, offset: int, *, bytes_max: int = FETCH_BYTES_DEFAULT, wait_ms: int = 0
    ) -> Fetched:
        """About `bytes_max` bytes of whole batches from `offset` on, at least one if there is one;
        without batches when none came within `wait_ms`. Raises as PartitionReader.fetch.
        """
        allowed_ms = self._loop.timeout_ms + wait_ms
        ahead, self._ahead = self._ahead, None
        if ahead is not None and (ahead.offset, ahead.bytes_max) == (offset, bytes_max):
            found = self._loop.result_of(ahead.future, allowed_ms)
            if not found.batches and wait_ms:
                found = self._fetch(offset, bytes_max, wait_ms, allowed_ms)
        else:
            if ahead is not None:
                ahead.future.cancel()
            found = self._fetch(offset, bytes_max, wait_ms, allowed_ms)
        if self._reads_ahead and found.next_offset < found.end_offset:
            self._ahead = _Ahead(
                found.next_offset,
                bytes_max,
                self._submit(found.next_offset, bytes_max, 0, self._loop.timeout_ms),
            )
        return found

    def _fetch(self, offset: int, bytes_max: int, wait_ms: int, allowed_ms: int) -> Fetched:
        return self._loop.result_of(
            self._submit(offset, bytes_max, wait_ms, allowed_ms), allowed_ms
        )

    def _submit(
        self, offset: int, bytes_max: int, wait_ms: int, allowed_ms: int
    ) -> concurrent.futures.Future[Fetched]:
        def work(cluster: Cluster) -> Awaitable[Fetched]:
            if self._reader is None:
                self._reader = PartitionReader(cluster, isolation_level=self._isolation_level)
            return self._reader.fetch(
                self.topic, self.partition, offset, bytes_max=bytes_max, wait_ms=wait_ms
            )

        return self._loop.submit(work, timeout_ms=allowed_ms)
