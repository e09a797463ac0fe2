"""The fetches of a simulated reader: in any version, without a session or in an incremental
one (KIP-227).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final

from broker.errors import ErrorCode
from broker.records.batch import is_intact
from broker.records.iterate import iterate_batches, iterate_records
from broker.simulator.session import ClientError, Session
from broker.simulator.world import World
from broker.wire.messages.fetch import (
    FetchPartition,
    FetchRequest,
    FetchResponse,
    FetchTopic,
    ForgottenTopic,
    PartitionData,
)

FETCH_VERSION_MIN: Final = 4
FETCH_VERSION_MAX: Final = 17
SESSION_VERSION_MIN: Final = 7
ZSTD_VERSION_MIN: Final = 10
"""KIP-110."""
UNPACKED_BYTES_MAX: Final = 1 << 20
NO_SESSION: Final = -1
_SESSION_ERRORS: Final = frozenset(
    {
        ErrorCode.FETCH_SESSION_ID_NOT_FOUND,
        ErrorCode.INVALID_FETCH_SESSION_EPOCH,
        ErrorCode.FETCH_SESSION_TOPIC_ID_ERROR,
    }
)

Found = list[tuple[int, str]]
"""(offset, value) of each record."""


class DamagedRecords(Exception):
    """A batch with a wrong checksum was served."""


class Cursor:
    """One partition being read from a position on. A seek begins a new reader."""

    def __init__(self, name: str, label: str, partition: int, position: int) -> None:
        self.name = name
        self.label = label
        self.partition = partition
        self.position = position
        self.run = 0

    @property
    def reader(self) -> str:
        return f"{self.name}@{self.run}"

    def seek(self, position: int) -> None:
        self.run += 1
        self.position = position


@dataclass(slots=True)
class Dialogue:
    """One reader's fetches of one topic. `asked` is what the broker's session remembers."""

    world: World
    session: Session
    topic: str
    topic_id: bytes
    is_incremental: bool = False
    version: int = 0
    session_id: int = 0
    epoch: int = 0
    asked: dict[int, int] = field(default_factory=dict)

    async def fetch(
        self, cursors: Sequence[Cursor], *, max_wait_ms: int, max_bytes: int
    ) -> dict[int, PartitionData]:
        """The answer per partition; an incremental one leaves out what has no news. Raises
        ClientError.
        """
        request = self._request(cursors, max_wait_ms, max_bytes)
        try:
            response = await self.session.ask(request, self.version)
        except ClientError:
            self._begin_again()
            raise
        self._follow(response, cursors)
        return {row.partition_index: row for each in response.responses for row in each.partitions}

    def _request(self, cursors: Sequence[Cursor], max_wait_ms: int, max_bytes: int) -> FetchRequest:
        if self.epoch == 0:
            self._choose_version()
        wanted = {cursor.partition: cursor.position for cursor in cursors}
        news = {index: at for index, at in wanted.items() if self.asked.get(index) != at}
        gone = [index for index in self.asked if index not in wanted]
        partitions = [
            FetchPartition(partition=index, fetch_offset=at, partition_max_bytes=max_bytes)
            for index, at in news.items()
        ]
        row = FetchTopic(topic=self.topic, topic_id=self.topic_id, partitions=partitions)
        forgotten = ForgottenTopic(topic=self.topic, topic_id=self.topic_id, partitions=gone)
        return FetchRequest(
            max_wait_ms=max_wait_ms,
            min_bytes=1,
            max_bytes=max_bytes,
            session_id=self.session_id,
            session_epoch=self.epoch if self.is_incremental else NO_SESSION,
            topics=[row] if partitions else [],
            forgotten_topics_data=[forgotten] if gone else [],
        )

    def _choose_version(self) -> None:
        lowest = SESSION_VERSION_MIN if self.is_incremental else FETCH_VERSION_MIN
        if self.world.uses_zstd:
            lowest = ZSTD_VERSION_MIN
        self.version = self.session.node.random.randint(lowest, FETCH_VERSION_MAX)

    def _follow(self, response: FetchResponse, cursors: Sequence[Cursor]) -> None:
        if not self.is_incremental:
            return
        if response.error_code in _SESSION_ERRORS or response.session_id == 0:
            self._begin_again()
            return
        if self.epoch:
            self.world.counters["incremental fetches"] += 1
        self.session_id = response.session_id
        self.epoch += 1
        self.asked = {cursor.partition: cursor.position for cursor in cursors}

    def _begin_again(self) -> None:
        self.session_id = self.epoch = 0
        self.asked = {}


def stamps_from(data: PartitionData, position: int) -> list[int]:
    """The timestamps of the records that `records_from` gives."""
    blob = data.records
    if not isinstance(blob, bytes | bytearray | memoryview):
        return []
    return [
        record.timestamp
        for batch in iterate_batches(blob)
        for record in iterate_records(batch, size_max=UNPACKED_BYTES_MAX)
        if record.offset >= position
    ]


def records_from(data: PartitionData, position: int) -> Found:
    """The records at `position` and above: a batch may begin below. Raises DamagedRecords."""
    found: Found = []
    blob = data.records
    if not isinstance(blob, bytes | bytearray | memoryview):
        return found
    for batch in iterate_batches(blob):
        if not is_intact(batch):
            raise DamagedRecords(f"at position {position}: {bytes(batch[:61]).hex()}")
        for record in iterate_records(batch, size_max=UNPACKED_BYTES_MAX):
            if record.offset >= position:
                found.append((record.offset, (record.value or b"").decode().rstrip(" ")))
    return found
