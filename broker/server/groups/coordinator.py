"""Every group this broker coordinates: one shard per partition of `__consumer_offsets`."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable, Iterator
from functools import partial
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from broker.config.broker import BrokerSettings
from broker.coordinators.group.effects import Effect, Moment, Reply, ReplyTo
from broker.coordinators.group.limits import GroupLimits
from broker.coordinators.group.placement import partition_of
from broker.coordinators.group.shard import GroupShard
from broker.errors import ErrorCode
from broker.server.groups.shard import RunningShard, ShardState, Step
from broker.server.names import CONSUMER_OFFSETS
from broker.server.topic_rules import WantedTopic

if TYPE_CHECKING:
    from broker.server.node import Broker
    from broker.server.topics import Topic

SLICE_GROUPS: Final = 20
"""Groups that a background scan looks at before the loop gets its turn."""
RECORD_OVERHEAD_BYTES: Final = 4096
"""Kept free in a batch of the offsets topic for what surrounds a group's record."""
MINUTE_MS: Final = 60_000


class CommittedPosition(NamedTuple):
    """One committed offset as the lag metrics read it; the timestamp is wall time in ms."""

    group: str
    topic: str
    partition: int
    offset: int
    commit_timestamp_ms: int


class GroupCoordinator:
    """Routes group requests to shards. `await start()` after the partitions are open.

    `group_count` is the number of groups over all shards; the shards keep it.
    """

    def __init__(self, broker: Broker) -> None:
        self.broker = broker
        self.group_count = 0
        self._shards: tuple[RunningShard, ...] = ()
        self._limits: tuple[BrokerSettings, GroupLimits] | None = None
        self._expiry_timer: Any = None
        self._is_stopped = False

    # life

    async def start(self) -> None:
        """Begin to load every existing shard, in the background; until then requests get 14."""
        topic = self.broker.catalog.topic(CONSUMER_OFFSETS)
        if topic is not None:
            self._adopt(topic)
        self._schedule_expiry()

    async def stop(self) -> None:
        """Cancel timers and loads; parked requests are answered with COORDINATOR_NOT_AVAILABLE."""
        self._is_stopped = True
        if self._expiry_timer is not None:
            self._expiry_timer.cancel()
        for shard in self._shards:
            shard.close()

    async def ensure_topic(self) -> None:
        """Create `__consumer_offsets` unless it exists. Raises Refusal, MetastoreFault."""
        if self._shards:
            return
        group = self.broker.settings.group
        wanted = WantedTopic(
            CONSUMER_OFFSETS,
            partition_count=group.offsets_topic_num_partitions,
            replication_factor=1,
            is_internal=True,
        )
        overrides = {
            "cleanup.policy": "compact",
            "compression.type": "producer",
            "segment.bytes": str(group.offsets_topic_segment_bytes),
        }
        topic = await self.broker.catalog.ensure_topic(wanted, overrides)
        if not self._shards:
            self._adopt(topic)

    def _adopt(self, topic: Topic) -> None:
        partitions = [
            self.broker.partitions.get(topic.name, index) for index in range(topic.partition_count)
        ]
        assert None not in partitions, "the offsets topic's partitions are open before its shards"
        self._shards = tuple(RunningShard(self, partition) for partition in partitions if partition)
        self.broker.spawn(self._load_all())

    async def _load_all(self) -> None:
        for shard in self._shards:
            await shard.load()

    # routing

    def moment(self) -> Moment:
        """This moment, as every step sees it."""
        broker = self.broker
        settings = broker.settings
        limits = self._limits
        if limits is None or limits[0] is not settings:
            limits = self._limits = (settings, _limits_of(settings))
        clock = broker.clock
        may_create = self.group_count < settings.group.hermes_groups_max
        return Moment(clock.monotonic_ms(), clock.wall_ms(), limits[1], may_create)

    def shard_of(self, group_id: str) -> RunningShard | None:
        """The shard that holds the group; None before the offsets topic exists."""
        shards = self._shards
        return shards[partition_of(group_id, len(shards))] if shards else None

    def run(self, group_id: str, reply_to: ReplyTo, step: Step) -> None:
        """Run a step of the group's shard; `reply_to` gets an ErrorCode when there is none that
        serves.
        """
        shard = self.shard_of(group_id)
        if shard is None:
            reply_to(ErrorCode.NOT_COORDINATOR)
        else:
            shard.run(reply_to, step)

    def run_unstored(self, group_id: str, reply_to: ReplyTo, step: Step) -> None:
        """As `run`, for a step that appends nothing: a full disk does not stop it."""
        shard = self.shard_of(group_id)
        if shard is None:
            reply_to(ErrorCode.NOT_COORDINATOR)
        else:
            shard.read(reply_to, step)

    def read(
        self, group_id: str, reply_to: ReplyTo, read: Callable[[GroupShard, Moment], Any]
    ) -> None:
        """As `run_unstored`, for a step that only computes a response."""

        def step(groups: GroupShard, moment: Moment) -> list[Effect]:
            return [Reply(reply_to, read(groups, moment))]

        self.run_unstored(group_id, reply_to, step)

    def forget_newcomer(self, group_id: str, member_id: str) -> None:
        """The connection of a parked first join ended."""
        self.run(
            group_id,
            lambda _: None,
            lambda shard, moment: shard.on_disconnected(group_id, member_id, moment),
        )

    def shards(self) -> tuple[RunningShard, ...]:
        """Every shard, serving or not."""
        return self._shards

    def find_topic(self, name: str) -> tuple[bytes, int] | None:
        """(topic id, partition count) by name, None for a topic that does not exist."""
        topic = self.broker.catalog.topic(name)
        return None if topic is None else (topic.topic_id, topic.partition_count)

    # what is forgotten

    def on_topic_deleted(self, topic_id: bytes) -> None:
        """Remove every commit for that incarnation of a topic. The catalog calls it after a
        deletion.
        """
        if self._shards and not self._is_stopped:
            self.broker.spawn(
                self._scan(lambda group_id, groups, _: groups.on_topic_removed(group_id, topic_id))
            )

    def _schedule_expiry(self) -> None:
        if not self._is_stopped:
            interval_ms = self.broker.settings.group.offsets_retention_check_interval_ms
            self._expiry_timer = self.broker.call_later(interval_ms, self._begin_expiry)

    def _begin_expiry(self) -> None:
        self.broker.spawn(self._expire())

    async def _expire(self) -> None:
        try:
            await self._scan(
                lambda group_id, groups, moment: groups.on_expiry(group_id, self.find_topic, moment)
            )
        finally:
            self._schedule_expiry()

    async def _scan(self, look: Callable[[str, GroupShard, Moment], list[Effect]]) -> None:
        """Run a step for every group there is, in slices."""
        for shard in self._shards:
            for position, group_id in enumerate(list(shard.groups.groups), start=1):
                if shard.state is not ShardState.READY or not shard.may_store:
                    break  # what is left of a deleted topic goes with a later expiry
                shard.take(partial(look, group_id))
                if position % SLICE_GROUPS == 0:
                    await asyncio.sleep(0)
            await asyncio.sleep(0)

    # what metrics read

    def committed_offsets(self) -> Iterator[CommittedPosition]:
        """Every committed offset of every loaded shard; safe to consume in slices between loop
        turns.
        """
        for shard in self._shards:
            for commit in shard.groups.all_offsets():
                found = self.find_topic(commit.topic)
                if found is not None and commit.topic_id in (found[0], bytes(16)):
                    yield CommittedPosition(
                        commit.group,
                        commit.topic,
                        commit.partition,
                        commit.offset,
                        commit.commit_timestamp_ms,
                    )

    def groups_by_state(self) -> dict[str, int]:
        """How many groups are in each state, by Kafka's state names."""
        states: Counter[str] = Counter()
        for shard in self._shards:
            for state, count in shard.groups.states.items():
                states[state.value] += count
        return dict(states)

    def members_by_group(self) -> Iterator[tuple[str, int]]:
        """(group, members) for every group; safe to consume in slices between loop turns."""
        for shard in self._shards:
            for group in list(shard.groups.groups.values()):
                yield group.group_id, len(group.members)


def _limits_of(settings: BrokerSettings) -> GroupLimits:
    group = settings.group
    record_bytes_max = settings.topic_defaults.max_message_bytes - RECORD_OVERHEAD_BYTES
    return GroupLimits(
        session_timeout_ms_min=group.group_min_session_timeout_ms,
        session_timeout_ms_max=group.group_max_session_timeout_ms,
        group_size_max=group.group_max_size,
        initial_rebalance_delay_ms=group.group_initial_rebalance_delay_ms,
        offset_metadata_bytes_max=group.offset_metadata_max_bytes,
        offsets_retention_ms=group.offsets_retention_minutes * MINUTE_MS,
        group_record_bytes_max=max(record_bytes_max, RECORD_OVERHEAD_BYTES),
    )
