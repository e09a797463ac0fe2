"""The leader's side of one partition: who is in sync and up to where records are committed.
Pure.

The high watermark is the smallest stored end over the in-sync replicas; it never moves backwards.
With `durability=replicated` a replica has stored what it wrote, with `fsync` what it synced. A
follower tells its stored end as the offset that it fetches next: under fsync it fetches again only
after its sync, so the leader need not know its durability.
Invariant after every step: 0 <= log_start_offset <= high_watermark <= written end of the leader,
and the leader's synced end is never above its written end.
"""

from __future__ import annotations

from typing import Final, NamedTuple

from broker.model import BrokerId


class HighWatermarkAdvanced(NamedTuple):
    """Effect: everything below `high_watermark` is committed. Answer acks, wake fetches."""

    high_watermark: int


Effect = HighWatermarkAdvanced
_new: Final = tuple.__new__  # what a NamedTuple's constructor calls, without its Python frame


class PartitionLeader:
    """The step machine of a partition that this broker leads.

    `on_*` take what happened and return what to do, in order. There are no deadlines while the
    leader is the only replica; a follower's lag will bring the first.
    """

    __slots__ = (
        "_stored_ends",
        "broker_id",
        "high_watermark",
        "leader_epoch",
        "needs_sync",
        "synced_end_offset",
        "written_end_offset",
    )

    def __init__(
        self,
        broker_id: BrokerId,
        leader_epoch: int,
        *,
        high_watermark: int,
        written_end_offset: int,
        synced_end_offset: int,
        needs_sync: bool,
    ) -> None:
        """`needs_sync` is durability=fsync; the ends are the leader's own."""
        assert 0 <= high_watermark <= written_end_offset, "a high watermark lies inside the log"
        assert 0 <= synced_end_offset <= written_end_offset, "only what is written can be synced"
        self.broker_id = broker_id
        self.leader_epoch = leader_epoch
        self.high_watermark = high_watermark
        self.written_end_offset = written_end_offset
        self.synced_end_offset = synced_end_offset
        self.needs_sync = needs_sync
        self._stored_ends: dict[BrokerId, int] = {broker_id: self.stored_end_offset}

    @property
    def in_sync_replicas(self) -> tuple[BrokerId, ...]:
        """Ids of the replicas whose stored end the watermark waits for, the leader's included."""
        return tuple(self._stored_ends)

    @property
    def stored_end_offset(self) -> int:
        """Up to where the leader itself has stored records: what acks=1 waits for."""
        return self.synced_end_offset if self.needs_sync else self.written_end_offset

    def on_elected(self) -> list[Effect]:
        """The partition begins to serve in this epoch: with a single replica everything stored is
        committed. What was recovered and not synced is not (KAFKA-10101).
        """
        return self._advance()

    def on_written(self, end_offset: int) -> list[Effect]:
        """The leader has written everything below `end_offset`."""
        assert end_offset >= self.written_end_offset, (
            "a written end never moves backwards within an epoch"
        )
        self.written_end_offset = end_offset
        if self.needs_sync:
            return []
        self._stored_ends[self.broker_id] = end_offset
        return self._advance()

    def on_synced(self, end_offset: int) -> list[Effect]:
        """The leader has synced everything below `end_offset`."""
        assert end_offset <= self.written_end_offset, "only what is written can be synced"
        self.synced_end_offset = max(self.synced_end_offset, end_offset)
        if not self.needs_sync:
            return []
        self._stored_ends[self.broker_id] = self.synced_end_offset
        return self._advance()

    def on_durability(self, *, needs_sync: bool) -> list[Effect]:
        """The topic's durability changed. Without the need to sync, all that is written counts at
        once; with it, the watermark stays where it is until the sync has come up to it.
        """
        self.needs_sync = needs_sync
        self._stored_ends[self.broker_id] = self.stored_end_offset
        return self._advance()

    def on_log_start(self, log_start_offset: int) -> None:
        """Retention moved the log start."""
        assert 0 <= log_start_offset <= self.high_watermark, (
            "only committed records are ever deleted"
        )

    def _advance(self) -> list[Effect]:
        lowest = min(self._stored_ends.values())
        if lowest <= self.high_watermark:
            return []
        self.high_watermark = lowest
        return [_new(HighWatermarkAdvanced, (lowest,))]
