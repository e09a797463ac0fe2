"""Reads topics as a member of a group: partitions come and go, positions are committed, order per
partition is kept.

`poll` does everything that takes part in the group but heartbeats, which a task of its own sends.
Delivery is at least once: a commit covers records that earlier polls returned. A member that does
not poll for `max.poll.interval.ms` leaves its group. For reading without a group use `fetcher`.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import suppress

from broker.client.cluster import Cluster
from broker.client.failure import BrokerRefusal, ClientError
from broker.client.fetcher import RESET_TIMESTAMPS, ConsumedRecord, Fetcher
from broker.client.membership import Membership, is_lost
from broker.client.offsets import commit_offsets, fetch_committed, list_offsets
from broker.errors import ErrorCode
from broker.model import TopicPartition
from broker.runtime.tasks import TaskScope

__all__ = ["ConsumedRecord", "Consumer"]

RebalanceCallback = Callable[[Sequence[TopicPartition]], Awaitable[None]]


async def _ignore(_partitions: Sequence[TopicPartition]) -> None:
    """The callback of those who do not care."""


class Consumer:
    """`start` it, `poll` it often, `close` it.

    `on_revoked` is awaited before partitions are given up (the last chance to commit) and when they
    were lost; `on_assigned` once the new ones can be read.
    """

    def __init__(
        self,
        cluster: Cluster,
        group_id: str,
        topics: Sequence[str],
        *,
        commits_automatically: bool = True,
        instance_id: str | None = None,
        isolation_level: int = 0,
        on_revoked: RebalanceCallback = _ignore,
        on_assigned: RebalanceCallback = _ignore,
    ) -> None:
        self._cluster = cluster
        self._settings = cluster.settings
        self._clock = cluster.clock
        self._topics = tuple(topics)
        self._commits_automatically = commits_automatically
        self._on_revoked = on_revoked
        self._on_assigned = on_assigned
        self._membership = Membership(cluster, group_id, instance_id=instance_id)
        self._fetcher = Fetcher(cluster, isolation_level=isolation_level)
        self._scope = TaskScope("consumer")
        self._needs_join = True
        self._is_closed = False
        self._committed: dict[TopicPartition, int] = {}
        self._commit_due_ms = 0.0
        self._look_due_ms = 0.0
        self._polled_ms = 0.0
        self._heard_ms = 0.0

    @property
    def assignment(self) -> tuple[TopicPartition, ...]:
        """What this member reads now."""
        return tuple(self._fetcher.positions)

    @property
    def positions(self) -> Mapping[TopicPartition, int]:
        """Per partition the next offset that `poll` will return."""
        return self._fetcher.positions

    @property
    def damage(self) -> BrokerRefusal | None:
        """See Fetcher."""
        return self._fetcher.damage

    @property
    def member_id(self) -> str:
        return self._membership.member_id

    @property
    def generation(self) -> int:
        """-1 while not in the group."""
        return self._membership.generation

    async def start(self) -> None:
        """Start the heartbeats; joining happens in `poll`."""
        self._polled_ms = self._clock.monotonic_ms()
        await self._scope.start()
        self._scope.spawn(self._beat(), "heartbeat")

    async def poll(self, timeout_ms: int) -> list[ConsumedRecord]:
        """Records, or [] when there were none within about `timeout_ms` (a rebalance may take
        longer).

        Raises a ClientError that is final, e.g. no right to read, or fenced by another instance.
        Cancellation leaves the consumer usable; records are handed out by a later poll.
        """
        if self._is_closed:
            msg = "the consumer is closed"
            raise ClientError(msg)
        deadline_ms = self._clock.monotonic_ms() + timeout_ms
        while True:
            now_ms = self._clock.monotonic_ms()
            self._polled_ms = now_ms
            if self._needs_join or not self._membership.is_member:
                if not await self._rejoin(max(0.0, deadline_ms - now_ms)):
                    if self._clock.monotonic_ms() >= deadline_ms:
                        return []
                    continue
            else:
                await self._commit_when_due(now_ms)
                await self._watch_topics(now_ms)
            left_ms = max(0, int(deadline_ms - self._clock.monotonic_ms()))
            records = await self._fetcher.poll(min(left_ms, self._settings.fetch_max_wait_ms))
            if not self._membership.is_member:
                continue
            if records or self._clock.monotonic_ms() >= deadline_ms:
                return records

    async def commit(
        self,
        offsets: Mapping[TopicPartition, int] | None = None,
        *,
        timeout_ms: int | None = None,
    ) -> None:
        """Store `offsets` (the next ones to read), or the position of everything that was returned
        by `poll`.

        Raises BrokerRefusal when the member's generation is over (nothing is stored then), or
        ClientError after retries for as long as the request timeout.
        """
        wanted = dict(self._fetcher.positions if offsets is None else offsets)
        changed = {
            where: offset
            for where, offset in wanted.items()
            if self._committed.get(where) != offset
        }
        if not changed:
            return

        # A retry speaks for the generation that read the records, never for a later one and never
        # from outside the group, though the membership may end meanwhile.
        member_id, generation = self._membership.member_id, self._membership.generation

        async def attempt() -> None:
            await commit_offsets(
                self._cluster,
                self._membership.group_id,
                changed,
                member_id=member_id,
                generation=generation,
                instance_id=self._membership.instance_id,
                purpose=self._membership.purpose,
            )

        if not self._membership.is_member:
            raise BrokerRefusal(ErrorCode.UNKNOWN_MEMBER_ID, "not a member of the group now")
        try:
            await self._cluster.call(attempt, what="commit offsets", timeout_ms=timeout_ms)
        except BrokerRefusal as error:
            self._on_group_error(error)
            raise
        self._committed |= changed

    async def close(self) -> None:
        """Commit (when that is automatic), leave the group, stop. Closing twice is fine; failures
        are not raised.
        """
        if self._is_closed:
            return
        self._is_closed = True
        await self._scope.close()
        try:
            if self._membership.is_member:
                await self._give_up()
                await self._membership.leave()
        except ClientError:
            pass  # the session's end does the same
        finally:
            self._fetcher.close()
            self._membership.close()

    async def _commit_when_due(self, now_ms: float) -> None:
        if not self._commits_automatically or now_ms < self._commit_due_ms:
            return
        self._commit_due_ms = now_ms + self._settings.auto_commit_interval_ms
        try:
            await self.commit(timeout_ms=self._settings.retry_backoff_max_ms)
        except ClientError as error:
            if not error.is_retriable and not isinstance(error, BrokerRefusal):
                raise

    async def _watch_topics(self, now_ms: float) -> None:
        """Look at the topics now and then; the group's leader rebalances when they grew."""
        if now_ms < self._look_due_ms:
            return
        self._look_due_ms = now_ms + self._settings.metadata_max_age_ms
        try:
            await self._cluster.refresh(self._topics)
        except ClientError:
            return  # asked again next time; fetches refresh what they need
        if self._membership.has_outgrown():
            self._needs_join = True

    async def _give_up(self) -> None:
        """Commit what was returned, tell the owner, read nothing."""
        held = self.assignment
        if not held:
            return
        if self._commits_automatically and self._membership.is_member:
            with suppress(ClientError):  # the next owner reads again: at least once
                await self.commit(timeout_ms=self._settings.retry_backoff_max_ms)
        await self._on_revoked(held)
        self._fetcher.assign({})
        self._committed.clear()

    async def _rejoin(self, left_ms: float) -> bool:
        """One attempt to get an assignment; False when it has to be tried again."""
        await self._give_up()
        self._needs_join = False
        try:
            assigned = await self._membership.join(self._topics)
            positions = await self._start_positions(assigned)
        except ClientError as error:
            self._needs_join = True
            if not error.is_retriable:
                raise
            pause_ms = min(self._settings.retry_backoff_ms, left_ms)
            await asyncio.sleep(self._cluster.jittered(pause_ms) / 1000)
            return False
        except BaseException:
            self._needs_join = True
            raise
        finally:
            self._heard_ms = self._clock.monotonic_ms()
        self._fetcher.assign(positions)
        self._commit_due_ms = self._heard_ms + self._settings.auto_commit_interval_ms
        self._look_due_ms = self._heard_ms + self._settings.metadata_max_age_ms
        await self._on_assigned(assigned)
        return True

    async def _start_positions(
        self, assigned: Sequence[TopicPartition]
    ) -> dict[TopicPartition, int]:
        """Where to begin: at the commit, else where `auto.offset.reset` says."""
        if not assigned:
            return {}
        group_id = self._membership.group_id
        committed = await self._cluster.call(
            lambda: fetch_committed(self._cluster, group_id, assigned), what="read commits"
        )
        positions = {where: row.offset for where, row in committed.items()}
        self._committed = dict(positions)
        fresh = [where for where in assigned if where not in positions]
        if fresh:
            timestamp = RESET_TIMESTAMPS.get(self._settings.auto_offset_reset)
            if timestamp is None:
                raise BrokerRefusal(
                    ErrorCode.OFFSET_OUT_OF_RANGE, "no committed offset", subject=str(fresh[0])
                )
            found = await self._cluster.call(
                lambda: list_offsets(self._cluster, dict.fromkeys(fresh, timestamp)),
                what="find where to begin",
            )
            positions |= {where: row.offset for where, row in found.items()}
        return {where: positions[where] for where in assigned}

    async def _beat(self) -> None:
        interval_s = self._settings.heartbeat_interval_ms / 1000
        while True:
            await asyncio.sleep(interval_s)
            if not self._membership.is_member:
                continue
            now_ms = self._clock.monotonic_ms()
            if now_ms - self._polled_ms > self._settings.max_poll_interval_ms:
                await self._leave_idle()
                continue
            try:
                await self._membership.heartbeat()
                self._heard_ms = self._clock.monotonic_ms()
            except BrokerRefusal as error:
                self._on_group_error(error)
            except ClientError:
                self._cluster.forget_coordinator(self._membership.group_id)
            if self._clock.monotonic_ms() - self._heard_ms > self._settings.session_timeout_ms:
                self._needs_join = True

    async def _leave_idle(self) -> None:
        self._needs_join = True
        try:
            await self._membership.leave()
        except ClientError:
            self._membership.forget()

    def _on_group_error(self, error: BrokerRefusal) -> None:
        if error.code is ErrorCode.REBALANCE_IN_PROGRESS:
            self._needs_join = True
        elif is_lost(error):
            self._needs_join = True
            self._membership.lose()
            if error.code is ErrorCode.UNKNOWN_MEMBER_ID:
                self._membership.forget()
