"""Simulated users of committed offsets without members: each group commits a rising offset and
reads it back.
"""

from __future__ import annotations

import asyncio
from typing import Final

from broker.errors import RETRIABLE, ErrorCode
from broker.simulator.history import FAIL, INFO, OK
from broker.simulator.reading import LATEST, list_offset
from broker.simulator.session import ClientError, Session
from broker.simulator.world import Node, World
from broker.wire.messages.find_coordinator import FindCoordinatorRequest
from broker.wire.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from broker.wire.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopic,
    OffsetFetchRequestTopics,
)

READ_PROBABILITY: Final = 0.4
PAUSE_S_MAX: Final = 0.5
GROUPS_IN_ONE_REQUEST_VERSION: Final = 8
_UNDECIDED: Final = frozenset({ErrorCode.KAFKA_STORAGE_ERROR, ErrorCode.REQUEST_TIMED_OUT})


class Bookkeeper:
    """A process that commits for one group and one partition."""

    def __init__(self, world: World, node: Node, topic: str) -> None:
        self.world = world
        self.node = node
        self.is_done = False
        self.group = node.name
        self._session = Session(node)
        self._topic = topic
        self._offset = 0

    async def run(self) -> None:
        await find_coordinator(self._session, self.group)
        while not self.world.is_healing:
            self._offset += self.node.random.randint(0, 3)
            await commit(
                self.world, self._session, self.group, self._topic, self._topic, self._offset
            )
            if self.node.random.random() < READ_PROBABILITY:
                await read_committed(
                    self.world, self._session, self.group, self._topic, self._topic
                )
            await asyncio.sleep(self.node.random.random() * PAUSE_S_MAX)
        self._offset += 1
        while not await commit(
            self.world, self._session, self.group, self._topic, self._topic, self._offset
        ):
            await self._session.back_off()
        while not await read_committed(
            self.world, self._session, self.group, self._topic, self._topic
        ):
            await self._session.back_off()
        self.is_done = True
        self._session.close()


async def find_coordinator(session: Session, group: str) -> None:
    """Ask until there is one; the first question makes the offsets topic."""
    while True:
        version = session.node.random.randint(0, 6)
        request = FindCoordinatorRequest(key=group, coordinator_keys=[group])
        if version < 4:
            request = FindCoordinatorRequest(key=group)
        else:
            request = FindCoordinatorRequest(coordinator_keys=[group])
        try:
            response = await session.ask(request, version)
        except ClientError:
            await session.back_off()
            continue
        code = response.coordinators[0].error_code if response.coordinators else response.error_code
        if code == 0:
            return
        await session.back_off()


async def commit(
    world: World, session: Session, group: str, topic: str, label: str, offset: int
) -> bool:
    """One commit into partition 0. Whether it was acknowledged."""
    identity = world.history.invoke(
        world.loop.time(), "commit", group=group, topic=label, partition=0, offset=offset
    )
    request = OffsetCommitRequest(
        group_id=group,
        topics=[
            OffsetCommitRequestTopic(
                name=topic,
                partitions=[
                    OffsetCommitRequestPartition(
                        partition_index=0, committed_offset=offset, committed_metadata=""
                    )
                ],
            )
        ],
    )
    kind = INFO
    try:
        response = await session.ask_any_version(request)
    except ClientError:
        await session.back_off()
    else:
        code = ErrorCode(response.topics[0].partitions[0].error_code)
        kind = OK if code is ErrorCode.NONE else INFO if code in _UNDECIDED else FAIL
        if code is not ErrorCode.NONE:
            check_refusal(world, f"commit of {group}", code)
            await session.back_off()
    if kind == OK:
        world.counters["offsets committed"] += 1
    world.history.end(world.loop.time(), identity, kind, "commit")
    return kind == OK


async def read_committed(
    world: World, session: Session, group: str, topic: str, label: str
) -> bool:
    """Read the committed offset of partition 0. Whether there was an answer."""
    identity = world.history.invoke(
        world.loop.time(), "committed", group=group, topic=label, partition=0
    )
    offset: int | None = None
    try:
        offset = await _fetch_committed(world, session, group, topic)
    except ClientError:
        await session.back_off()
    if offset is None:
        world.history.end(world.loop.time(), identity, FAIL, "committed")
        return False
    world.counters["committed offsets read"] += 1
    world.history.end(world.loop.time(), identity, OK, "committed", offset=offset)
    return True


async def _fetch_committed(world: World, session: Session, group: str, topic: str) -> int | None:
    found = await fetch_committed(world, session, group, topic, [0])
    return None if found is None else found[0]


async def lag_of(
    world: World, session: Session, group: str, topic: str, partitions: int
) -> dict[int, str]:
    """The partitions whose committed offset is not the log end, or could not be asked for."""
    everyone = list(range(partitions))
    try:
        found = await fetch_committed(world, session, group, topic, everyone)
    except ClientError:
        found = None
    if found is None:
        await session.back_off()
        return dict.fromkeys(everyone, "no answer")
    behind: dict[int, str] = {}
    for partition in everyone:
        end = await list_offset(session, topic, partition, LATEST)
        if max(found[partition], 0) != end:
            behind[partition] = f"{found[partition]} of {end}"
    return behind


async def fetch_committed(
    world: World, session: Session, group: str, topic: str, partitions: list[int]
) -> dict[int, int] | None:
    """By partition; None for an error that may pass. Raises ClientError."""
    version = session.node.random.randint(1, 9)
    if version >= GROUPS_IN_ONE_REQUEST_VERSION:
        wanted = [OffsetFetchRequestTopics(name=topic, partition_indexes=partitions)]
        response = await session.ask(
            OffsetFetchRequest(groups=[OffsetFetchRequestGroup(group_id=group, topics=wanted)]),
            version,
        )
        answer = response.groups[0]
    else:
        asked = [OffsetFetchRequestTopic(name=topic, partition_indexes=partitions)]
        answer = await session.ask(OffsetFetchRequest(group_id=group, topics=asked), version)
    rows = [row for each in answer.topics for row in each.partitions]
    code = answer.error_code or next((row.error_code for row in rows if row.error_code), 0)
    if code:
        check_refusal(world, f"offset fetch of {group}", ErrorCode(code))
        await session.back_off()
        return None
    return {row.partition_index: row.committed_offset for row in rows}


def check_refusal(world: World, what: str, code: ErrorCode) -> None:
    """An answer that no correct client earns is a finding."""
    if code not in RETRIABLE:
        world.find("a valid request is refused", f"{what}: {code.name}")
