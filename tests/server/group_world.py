"""A simulated broker and a client's connection to it, for tests of what the group APIs answer."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

from broker.server.groups.shard import ShardState
from broker.server.node import Broker
from broker.simulator.session import Session
from broker.simulator.world import BROKER_PORT, BrokerHost, World, world_of
from broker.wire.messages.create_topics import CreatableTopic, CreateTopicsRequest
from broker.wire.messages.find_coordinator import FindCoordinatorRequest
from broker.wire.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol
from broker.wire.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from broker.wire.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopics,
)
from broker.wire.messages.sync_group import SyncGroupRequest, SyncGroupRequestAssignment

SETTINGS: dict[str, object] = {
    "listeners": f"PLAINTEXT://127.0.0.1:{BROKER_PORT}",
    "hermes.metrics.port": -1,
    "offsets.topic.num.partitions": 4,
    "group.initial.rebalance.delay.ms": 0,
}
SUBSCRIPTION = b"\0\1\0\0\0\1\0\6orders\0\0\0\0"
TOPIC = "orders"


class Cluster:
    """The host and one session; `broker` is the running incarnation."""

    def __init__(self, world: World, host: BrokerHost, session: Session) -> None:
        self.world = world
        self.host = host
        self.session = session

    @property
    def broker(self) -> Broker:
        assert self.host.broker is not None, "the broker is down"
        return self.host.broker

    async def ask(self, request: Any, version: int) -> Any:
        return await self.session.ask(request, version)

    async def until(self, condition: Callable[[], bool], seconds: float = 30) -> None:
        deadline = self.world.loop.time() + seconds
        while not condition():
            assert self.world.loop.time() < deadline, "it did not happen in time"
            await asyncio.sleep(0.01)

    async def ready(self) -> None:
        """The broker serves and its shards are loaded."""
        await self.until(lambda: self.host.is_serving)
        shards = self.broker.groups.shards
        await self.until(lambda: all(s.state is not ShardState.LOADING for s in shards()))

    async def restart(self) -> None:
        """As after SIGKILL, with a fresh connection."""
        self.host.kill()
        self.session.close()
        await self.until(lambda: self.host.process is None)
        await self.ready()

    # what tests do all the time

    async def prepare(self) -> None:
        """The topic `orders` with 3 partitions, and the internal topic."""
        wanted = CreatableTopic(name=TOPIC, num_partitions=3, replication_factor=1)
        answer = await self.ask(CreateTopicsRequest(topics=[wanted], timeout_ms=5_000), 7)
        assert answer.topics[0].error_code == 0
        found = await self.ask(FindCoordinatorRequest(key="any"), 3)
        assert found.error_code == 0
        await self.ready()

    async def join(self, group: str, version: int = 9, member_id: str = "", **fields: Any) -> Any:
        request = join_request(group, version, member_id, **fields)
        answer = await self.ask(request, version)
        if answer.error_code == 79:
            return await self.join(group, version, answer.member_id, **fields)
        return answer

    async def sync(self, group: str, joined: Any, version: int = 5) -> Any:
        request = SyncGroupRequest(
            group_id=group,
            generation_id=joined.generation_id,
            member_id=joined.member_id,
            assignments=[
                SyncGroupRequestAssignment(member_id=member.member_id, assignment=b"mine")
                for member in joined.members
            ],
        )
        return await self.ask(request, version)

    async def enter(self, group: str) -> Any:
        """A group of one, Stable; its join's answer."""
        joined = await self.join(group)
        assert joined.error_code == 0
        assert (await self.sync(group, joined)).assignment == b"mine"
        return joined

    async def commit(
        self, group: str, offset: int, *, joined: Any = None, partition: int = 0, version: int = 9
    ) -> int:
        answer = await self.ask(commit_request(group, offset, joined, partition), version)
        return int(answer.topics[0].partitions[0].error_code)

    async def committed(self, group: str, partition: int = 0) -> int:
        topics = [OffsetFetchRequestTopics(name=TOPIC, partition_indexes=[partition])]
        wanted = OffsetFetchRequestGroup(group_id=group, topics=topics)
        answer = await self.ask(OffsetFetchRequest(groups=[wanted]), 9)
        assert answer.groups[0].error_code == 0
        return int(answer.groups[0].topics[0].partitions[0].committed_offset)


def join_request(group: str, version: int, member_id: str = "", **fields: Any) -> JoinGroupRequest:
    return JoinGroupRequest(
        group_id=group,
        session_timeout_ms=10_000,
        member_id=member_id,
        protocol_type="consumer",
        protocols=[JoinGroupRequestProtocol(name="range", metadata=SUBSCRIPTION)],
        **({"rebalance_timeout_ms": 30_000} if version else {}),
        **fields,
    )


def commit_request(
    group: str, offset: int, joined: Any = None, partition: int = 0
) -> OffsetCommitRequest:
    wanted = OffsetCommitRequestPartition(partition_index=partition, committed_offset=offset)
    return OffsetCommitRequest(
        group_id=group,
        generation_id_or_member_epoch=-1 if joined is None else joined.generation_id,
        member_id="" if joined is None else joined.member_id,
        topics=[OffsetCommitRequestTopic(name=TOPIC, partitions=[wanted])],
    )


def simulate(
    scenario: Callable[[Cluster], Awaitable[None]], settings: dict[str, object] | None = None
) -> None:
    """Run `scenario` as a client's process beside a broker, in virtual time."""
    with world_of(1) as world:
        host = BrokerHost(world, {**SETTINGS, **(settings or {})})

        async def main() -> None:
            supervisor = world.loop.create_task(host.supervise())
            node = world.node("client")
            cluster = Cluster(world, host, Session(node))
            await cluster.until(lambda: host.is_serving)
            await world.loop.spawn(node.process, _as_coroutine(scenario(cluster)))
            supervisor.cancel()
            if host.is_serving:
                await host.stop()

        world.loop.run_until_complete(main())
        assert not world.findings, world.findings


async def _as_coroutine(work: Awaitable[None]) -> None:
    await work
