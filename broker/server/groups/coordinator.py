"""Every group this broker coordinates: one shard per partition of `__consumer_offsets`."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from broker.server.node import Broker


class CommittedPosition(NamedTuple):
    """One committed offset as the lag metrics read it; the timestamp is wall time in ms."""

    group: str
    topic: str
    partition: int
    offset: int
    commit_timestamp_ms: int


class GroupCoordinator:
    """Routes group requests to shards. `await start()` after the partitions are open."""

    def __init__(self, broker: Broker) -> None:
        self._broker = broker

    async def start(self) -> None:
        """Begin to load every existing shard, in the background; requests meanwhile get error 14."""

    async def stop(self) -> None:
        """Cancel timers and loads; parked requests are answered with COORDINATOR_NOT_AVAILABLE."""

    def on_topic_deleted(self, topic_id: bytes) -> None:
        """Remove every commit for that incarnation of a topic. The catalog calls it after a deletion."""

    def committed_offsets(self) -> Iterator[CommittedPosition]:
        """Every committed offset of every loaded shard; safe to consume in slices between loop turns."""
        return iter(())

    def groups_by_state(self) -> dict[str, int]:
        """How many groups are in each state, by Kafka's state names."""
        return {}

    def member_count(self) -> int:
        """Members over all groups."""
        return 0
