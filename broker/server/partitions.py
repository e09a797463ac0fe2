"""The partitions this broker leads: one `Partition` each, found by name or by topic id."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

from broker.errors import ErrorCode
from broker.model import TopicId

if TYPE_CHECKING:
    from broker.log.partition_log import PartitionLog
    from broker.server.node import Broker

OnDone = Callable[[ErrorCode], None]


class Partition:
    """One led partition: its log, its place in the epoch, and who waits for its high watermark.

    `high_watermark` and `leader_epoch` are what clients see. `offline_reason` is None while it serves.
    """

    topic: str
    index: int
    topic_id: TopicId
    log: PartitionLog
    leader_epoch: int
    high_watermark: int
    settings: Any
    offline_reason: str | None

    @property
    def is_internal(self) -> bool:
        raise NotImplementedError

    def append_records(self, records: Sequence[Any], on_done: OnDone) -> int:
        """Append one batch of our own `(key, value)` records; the base offset it got.

        Staged now, written before this turn of the loop ends; `on_done(NONE)` is called once the high watermark has passed it, else
        `on_done(error)`. Never calls `on_done` before it returns. Raises Refusal when the partition is offline.
        """
        raise NotImplementedError


class PartitionRegistry:
    """Every partition of this broker."""

    def __init__(self, broker: Broker) -> None:
        self._broker = broker

    def get(self, topic: str, index: int) -> Partition | None:
        """The partition, or None when it does not exist (also when its topic is being deleted)."""
        raise NotImplementedError

    def get_by_id(self, topic_id: bytes, index: int) -> Partition | None:
        raise NotImplementedError

    def all(self) -> Iterator[Partition]:
        """Every partition, internal ones included, in no particular order."""
        raise NotImplementedError

    async def create_partition(self, topic: Any, index: int) -> Partition:
        """Open or create the partition's log and serve it. `topic` is the catalog's Topic. Raises DiskFault."""
        raise NotImplementedError

    async def delete_topic(self, topic_id: bytes) -> None:
        """Stop serving at once, move the directories to the trash; parked requests are answered with error 3 (or 100)."""
        raise NotImplementedError
