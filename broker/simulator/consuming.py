"""Simulated members of a group, on the real client's consumer: they read, commit by hand, come
and go.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Final

from broker.client.cluster import Cluster
from broker.client.consumer import ConsumedRecord, Consumer
from broker.client.failure import BrokerRefusal, ClientError
from broker.config.client import ClientSettings
from broker.errors import ErrorCode
from broker.model import TopicPartition
from broker.simulator.history import INFO, OK
from broker.simulator.world import BROKER_PORT, Node, World

POLL_MS_MAX: Final = 500
COMMIT_PROBABILITY: Final = 0.5
LEAVE_PROBABILITY: Final = 0.02
SESSION_TIMEOUTS_MS: Final = (1_500, 3_000)
STATIC_PROBABILITY: Final = 0.3


def client_settings(name: str, **changes: object) -> ClientSettings:
    """Of a client that does not wait long."""
    fields: dict[str, object] = {
        "bootstrap_servers": (f"127.0.0.1:{BROKER_PORT}",),
        "client_id": name,
        "request_timeout_ms": 6_000,
        "socket_connection_setup_timeout_ms": 2_000,
        "retry_backoff_max_ms": 500,
        "auto_offset_reset": "earliest",
        **changes,
    }
    return ClientSettings(**fields)  # type: ignore[arg-type]


def is_fenced(error: ClientError) -> bool:
    """A late duplicate of a static member's own join takes its place: the protocol allows that."""
    return isinstance(error, BrokerRefusal) and error.code is ErrorCode.FENCED_INSTANCE_ID


class Member:
    """A process that is a member of a group until the world is over."""

    def __init__(self, world: World, node: Node, name: str, group: str, topic: str) -> None:
        self.world = world
        self.node = node
        self.is_done = False
        self._group = group
        self.topic = topic
        random = node.random
        settings = client_settings(
            node.name,
            session_timeout_ms=random.choice(SESSION_TIMEOUTS_MS),
            heartbeat_interval_ms=400,
            max_poll_interval_ms=random.choice((5_000, 10_000)),
            metadata_max_age_ms=5_000,
        )
        self._instance_id = name if world.random_for(name).random() < STATIC_PROBABILITY else None
        self._cluster = Cluster(node.network, node.clock, node.ids, settings)
        self._consumer: Consumer
        self._positions: dict[TopicPartition, int] = {}
        self._run = 0
        self._is_fenced = False
        self._asked_at = 0

    async def run(self) -> None:
        while not self.world.is_over:
            await self._live_once()
        await self._cluster.close()
        self.is_done = True

    async def _live_once(self) -> None:
        """Join, read and commit, and leave at some time."""
        random = self.node.random
        consumer = self._consumer = Consumer(
            self._cluster,
            self._group,
            [self.topic],
            commits_automatically=False,
            instance_id=self._instance_id,
            on_revoked=self._on_revoked,
            on_assigned=self._on_assigned,
        )
        await consumer.start()
        self._is_fenced = False
        while not self.world.is_over:
            await self._poll_once()
            is_leaving = not self.world.is_healing and random.random() < LEAVE_PROBABILITY
            if is_leaving or self._is_fenced:
                break
        await consumer.close()

    async def _poll_once(self) -> None:
        random = self.node.random
        self._asked_at = self.world.history.now()
        try:
            records = await self._consumer.poll(random.randint(0, POLL_MS_MAX))
        except ClientError as error:
            self._is_fenced = self._instance_id is not None and is_fenced(error)
            if not self._is_fenced:
                self.world.find("a member cannot poll", f"{self.node.name}: {error!r}")
            await asyncio.sleep(1)
            return
        self._tell(records)
        if self._positions and random.random() < COMMIT_PROBABILITY:
            await self._commit()
        await asyncio.sleep(random.random() * 0.2)

    def _tell(self, records: Sequence[ConsumedRecord]) -> None:
        by_partition: dict[int, list[tuple[int, str]]] = {}
        for record in records:
            value = (record.value or b"").decode().rstrip(" ")
            by_partition.setdefault(record.partition, []).append((record.offset, value))
        for partition, found in by_partition.items():
            where = TopicPartition(self.topic, partition)
            position = self._positions.get(where, -1)
            may_shrink = self.world.counters["power cuts"] > 0
            may_shrink &= self.topic not in self.world.durable_topics
            if found[0][0] < position and may_shrink:
                self._run += 1  # the log is shorter than the commit: the client began again
                position = found[0][0]
                self.world.history.record(
                    self.world.loop.time(),
                    "reset",
                    group=self._group,
                    topic=self.topic,
                    partition=partition,
                )
            self.world.history.record(
                self.world.loop.time(),
                "poll",
                reader=f"{self.node.name}@{self._run}",
                topic=self.topic,
                partition=partition,
                position=position,
                records=found,
                high_watermark=None,
            )
            self._positions[where] = found[-1][0] + 1
            self.world.counters["records read in groups"] += len(found)

    async def _commit(self) -> None:
        history, now_s = self.world.history, self.world.loop.time()
        offsets = dict(self._positions)
        identities = [
            history.invoke(
                now_s,
                "commit",
                group=self._group,
                member=f"{self.node.name}@{self._run}",
                topic=self.topic,
                partition=where.partition,
                offset=offset,
            )
            for where, offset in offsets.items()
        ]
        kind = OK
        try:
            await self._consumer.commit(offsets)
        except ClientError:
            kind = INFO  # an earlier attempt of the call may have worked unheard
        else:
            self.world.counters["group commits"] += 1
        for identity in identities:
            history.end(self.world.loop.time(), identity, kind, "commit")

    async def _on_assigned(self, assigned: Sequence[TopicPartition]) -> None:
        """A new generation: it begins where the group's commits say, read since the poll began."""
        self.world.counters["rebalances"] += 1
        self._run += 1
        self._positions = {where: self._consumer.positions[where] for where in assigned}
        for where, offset in self._positions.items():
            self.world.history.recall(
                self._asked_at,
                self.world.loop.time(),
                "committed",
                group=self._group,
                member=f"{self.node.name}@{self._run}",
                topic=self.topic,
                partition=where.partition,
                offset=offset,
            )

    async def _on_revoked(self, _partitions: Sequence[TopicPartition]) -> None:
        self._positions = {}
