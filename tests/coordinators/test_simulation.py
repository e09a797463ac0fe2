"""Many clients, lost answers, restarts: a seeded run against the pure coordinator and its promises.

- an assignment of one generation is handed to each member once it asks, and never two different
ones;
- committed offsets of clients that only go forward never go back;
- replaying the log gives the state that was, at every moment;
- no request is answered twice, none is forgotten once its member is gone;
- memory is bounded by the clients there are; when the chaos ends, every group becomes stable.
"""

from __future__ import annotations

from collections.abc import Iterator
from random import Random
from typing import Any

import pytest

from broker.coordinators.group.classic import GroupState
from broker.coordinators.group.replay import Replay
from broker.errors import ErrorCode
from tests.coordinators.world import GROUP, Answer, World, subscription

CLIENTS = 6
PARTITIONS = 4
SESSION_MS = 10_000
REBALANCE_MS = 20_000
STEPS = 400
FATAL = {ErrorCode.INCONSISTENT_GROUP_PROTOCOL, ErrorCode.GROUP_MAX_SIZE_REACHED}


class Client:
    """A consumer that follows the protocol as the Java client does; its answers may get lost."""

    def __init__(self, world: World, number: int, random: Random) -> None:
        self.world = world
        self.random = random
        self.version = random.randrange(10)
        self.instance = f"node-{number}" if self.version >= 5 and random.random() < 0.3 else None
        self.member_id = ""
        self.generation = -1
        self.assignment: frozenset[int] | None = None
        self.waiting: Answer | None = None
        self.kind = ""
        self.sent_ms = 0.0
        self.members: list[str] = []
        self.assigned: dict[tuple[str, int], bytes] = {}
        self.is_running = True

    def forget(self) -> None:
        """The process dies without a word."""
        self.waiting = None
        self.member_id, self.generation, self.assignment = "", -1, None

    def commit_as_zombie(self) -> None:
        """A commit of an earlier generation arrives late: taken, it would move offsets back."""
        group = self.world.shard.groups.get(GROUP)
        for member_id, generation in self.assigned:
            if group is not None and generation < group.generation:
                self.world.commit(0, member_id=member_id, generation=generation)

    def step(self, progress: dict[int, int]) -> None:
        if not self.is_running:
            return
        if self.waiting is not None:
            if self.waiting.response is not None:
                self._on_answer()
            elif self.world.monotonic_ms - self.sent_ms > 30_000:
                self.waiting = None
            return
        if self.generation < 0:
            self._join()
        elif self.assignment is None:
            self._sync()
        else:
            self._work(progress)

    def _send(self, kind: str, answer: Answer) -> None:
        self.waiting, self.kind, self.sent_ms = answer, kind, self.world.monotonic_ms

    def _join(self) -> None:
        topics = ["orders"] if self.random.random() < 0.9 else ["orders", "other"]
        answer = self.world.join(
            self.member_id,
            version=self.version,
            instance=self.instance,
            protocols=[("range", subscription(*topics)), ("sticky", subscription(*topics))],
            session_ms=SESSION_MS,
            rebalance_ms=REBALANCE_MS,
        )
        self._send("join", answer)

    def _sync(self) -> None:
        assignments = None
        if self.members:
            assignments = {
                member: bytes(range(number, PARTITIONS, len(self.members)))
                for number, member in enumerate(self.members)
            }
        self._send(
            "sync",
            self.world.sync(self.member_id, self.generation, assignments, instance=self.instance),
        )

    def _on_answer(self) -> None:
        assert self.waiting is not None
        response, code = self.waiting.response, self.waiting.code
        self.waiting = None
        assert code not in FATAL, code
        if code is ErrorCode.FENCED_INSTANCE_ID:
            self.forget()  # instance ids are unique here: this request was of an earlier life
        elif code is ErrorCode.MEMBER_ID_REQUIRED:
            self.member_id = response.member_id
        elif code in (ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.ILLEGAL_GENERATION):
            self.member_id = "" if code is ErrorCode.UNKNOWN_MEMBER_ID else self.member_id
            self.generation, self.assignment = -1, None
        elif code is not ErrorCode.NONE:
            self.generation, self.assignment = -1, None
        elif self.kind == "join":
            self.member_id, self.generation = response.member_id, response.generation_id
            self.members = [member.member_id for member in response.members]
            if response.skip_assignment:
                self.members = []
            self.assignment = None
        else:
            self._take(response.assignment)

    def _take(self, assignment: bytes) -> None:
        before = self.assigned.setdefault((self.member_id, self.generation), assignment)
        assert before == assignment, "one generation gave one member two assignments"
        self.assignment = frozenset(assignment)

    def _work(self, progress: dict[int, int]) -> None:
        assert self.assignment is not None
        if self.assignment and self.random.random() < 0.5:
            partition = self.random.choice(sorted(self.assignment))
            offset = progress[partition] + 1
            code = self.world.commit(
                offset,
                member_id=self.member_id,
                generation=self.generation,
                instance=self.instance,
                partition=partition,
            )
            if code is ErrorCode.NONE:
                progress[partition] = offset
        else:
            code = self.world.heartbeat(self.member_id, self.generation, instance=self.instance)
        if code is ErrorCode.NONE:
            return
        if code in (ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.FENCED_INSTANCE_ID):
            self.member_id = ""
        self.generation, self.assignment = -1, None


def check(world: World, progress: dict[int, int]) -> None:
    for partition, offset in progress.items():
        committed = world.committed(partition=partition)
        assert (committed or 0) == offset, "a committed offset moved by itself"
    group = world.shard.groups.get(GROUP)
    if group is None:
        return
    parked_joins = [m for m in group.members.values() if m.parked_join is not None]
    parked_syncs = [m for m in group.members.values() if m.parked_sync is not None]
    assert not parked_joins or group.state is GroupState.PREPARING_REBALANCE
    assert not parked_syncs or group.state is GroupState.COMPLETING_REBALANCE
    assert not set(group.pending) & set(group.members), "an id is pending or a member"
    assert all(group.members[member].instance_id == i for i, member in group.instances.items())
    assert (group.leader in group.members) is bool(group.members)
    assert (group.state is GroupState.EMPTY) is (not group.members) or (
        group.state is GroupState.PREPARING_REBALANCE
    )
    assert group.parked_join_count == len(parked_joins)
    assert group.metadata_bytes == sum(m.metadata_bytes() for m in group.members.values())
    assert group.unsynced <= set(group.members)
    deadline = group.next_deadline_ms()
    assert deadline is None or group.scheduled_at_ms <= deadline, "no deadline is slept through"
    if group.state is GroupState.STABLE:
        assert world.shard.stored.generations[GROUP] == group.to_stored(), "what serves is stored"


def replayed(world: World) -> Any:
    replay = Replay()
    for key, value in world.log:
        replay.add(key, value)
    for _ in replay.records_applied():
        pass
    return replay.shard.stored.snapshot()


def chaos(
    world: World, clients: list[Client], progress: dict[int, int], random: Random
) -> Iterator[None]:
    """One disturbance or one client's step at a time."""
    for _ in range(STEPS):
        dice = random.random()
        client = random.choice(clients)
        if dice < 0.02:
            client.forget()
        elif dice < 0.03 and client.member_id:
            world.leave((client.member_id, client.instance))
            client.forget()
        elif dice < 0.04:
            client.waiting = None
        elif dice < 0.045:
            world.restart()
            for each in clients:
                each.waiting = None
        elif dice < 0.06:
            client.is_running = not client.is_running
        elif dice < 0.07:
            world.join()  # somebody who never comes back
        elif dice < 0.08:
            client.commit_as_zombie()
        elif dice < 0.4:
            world.advance(random.choice((1, 50, 500, 3_000)))
        else:
            client.step(progress)
        yield


@pytest.mark.parametrize("seed", range(60))
def test_group_keeps_its_promises_through_chaos_and_settles_afterwards(seed: int) -> None:
    random = Random(seed)
    world = World(initial_rebalance_delay_ms=random.choice((0, 3_000)))
    clients = [Client(world, number, random) for number in range(CLIENTS)]
    progress = dict.fromkeys(range(PARTITIONS), 0)
    for _ in chaos(world, clients, progress, random):
        check(world, progress)
        if random.random() < 0.05:
            assert replayed(world) == world.shard.stored.snapshot()
    for client in clients:
        client.is_running = True
    began = world.monotonic_ms
    while not is_settled(world, clients):
        assert world.monotonic_ms - began < 4 * (SESSION_MS + REBALANCE_MS), "does not settle"
        for client in clients:
            client.step(progress)
        world.advance(100)
        check(world, progress)
    owned = sorted(p for client in clients for p in client.assignment or ())
    assert owned == list(range(PARTITIONS)), "every partition has exactly one owner"
    assert len(world.group.members) == CLIENTS
    assert replayed(world) == world.shard.stored.snapshot()
    assert world.shard.stored.generations[GROUP] == world.group.to_stored()


def is_settled(world: World, clients: list[Client]) -> bool:
    group = world.shard.groups.get(GROUP)
    return (
        group is not None
        and group.state is GroupState.STABLE
        and not group.pending
        and all(
            client.assignment is not None
            and client.generation == group.generation
            and client.waiting is None
            for client in clients
        )
        and len(group.members) == len(clients)
    )
