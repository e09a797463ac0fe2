"""The leader's side of one partition: who is in sync and up to where records are committed.
Pure.

The high watermark is the smallest written end over the in-sync replicas; it never moves backwards.
Invariant after every step: 0 <= log_start_offset <= high_watermark <= written end of the leader.
"""

from __future__ import annotations

from typing import NamedTuple

from broker.model import BrokerId


class HighWatermarkAdvanced(NamedTuple):
    """Effect: everything below `high_watermark` is committed. Answer acks, wake fetches."""

    high_watermark: int


Effect = HighWatermarkAdvanced


class PartitionLeader:
    """The step machine of a partition that this broker leads.

    `on_*` take what happened and return what to do, in order. There are no deadlines while the
    leader is the only replica; a follower's lag will bring the first.
    """

    __slots__ = (
        "_written_ends",
        "broker_id",
        "high_watermark",
        "leader_epoch",
    )

    def __init__(
        self,
        broker_id: BrokerId,
        leader_epoch: int,
        *,
        high_watermark: int,
        written_end_offset: int,
    ) -> None:
        assert 0 <= high_watermark <= written_end_offset, "a high watermark lies inside the log"
        self.broker_id = broker_id
        self.leader_epoch = leader_epoch
        self.high_watermark = high_watermark
        self._written_ends: dict[BrokerId, int] = {broker_id: written_end_offset}

    @property
    def in_sync_replicas(self) -> tuple[BrokerId, ...]:
        """Ids of the replicas whose written end the watermark waits for, the leader's included."""
        return tuple(self._written_ends)

    @property
    def written_end_offset(self) -> int:
        """The leader's own."""
        return self._written_ends[self.broker_id]

    def on_elected(self) -> list[Effect]:
        """The partition begins to serve in this epoch: with a single replica everything written
        is committed.
        """
        return self._advance()

    def on_written(self, replica: BrokerId, written_end_offset: int) -> list[Effect]:
        """`replica` has written everything below `written_end_offset`. Raises KeyError for one
        that is not in sync.
        """
        assert written_end_offset >= self._written_ends[replica], (
            "a written end never moves backwards within an epoch"
        )
        self._written_ends[replica] = written_end_offset
        return self._advance()

    def on_log_start(self, log_start_offset: int) -> None:
        """Retention moved the log start."""
        assert 0 <= log_start_offset <= self.high_watermark, (
            "only committed records are ever deleted"
        )

    def _advance(self) -> list[Effect]:
        lowest = min(self._written_ends.values())
        if lowest <= self.high_watermark:
            return []
        self.high_watermark = lowest
        return [HighWatermarkAdvanced(lowest)]
