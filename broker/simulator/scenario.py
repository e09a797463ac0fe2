"""The standard scenario of a seed: a broker, its clients, faults, a heal, and the judgement.
 Phase 1: everybody works while the nemesis does too. Phase 2: everything is repaired; every client
must finish within a bound, every partition is read from start to end, the broker stops cleanly.
Then the checker reads the history.
"""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from dataclasses import dataclass, field
from typing import Any, Final, Protocol

from broker.simulator.bookkeeping import Bookkeeper
from broker.simulator.checker import check
from broker.simulator.history import History
from broker.simulator.nemesis import Nemesis
from broker.simulator.producing import Producer
from broker.simulator.reading import Reader, read_all
from broker.simulator.recycling import Recycler, create_topic
from broker.simulator.session import Session
from broker.simulator.world import BROKER_PORT, BrokerHost, Node, World, world_of

FAULTS_S_MIN: Final = 10.0
FAULTS_S_MAX: Final = 40.0
CONVERGE_S_MAX: Final = 90.0
TOPICS: Final = {"orders": 3, "payments": 1}

SETTINGS: Final[dict[str, object]] = {
    "listeners": f"PLAINTEXT://127.0.0.1:{BROKER_PORT}",
    "hermes.metrics.port": -1,
    "offsets.topic.num.partitions": 2,
    "offsets.topic.segment.bytes": 16_384,
    "group.initial.rebalance.delay.ms": 300,
    "group.min.session.timeout.ms": 1_000,
    "log.retention.check.interval.ms": 2_000,
    "log.cleaner.backoff.ms": 1_000,
    "hermes.shutdown.timeout.ms": 3_000,
}


class Client(Protocol):
    """A simulated process's program. `is_done` after the heal says that it has finished."""

    is_done: bool

    async def run(self) -> None: ...


@dataclass(slots=True)
class Outcome:
    """What one seed did, and what it found."""

    seed: int
    trace: int
    virtual_s: float
    mix: dict[str, int]
    counters: dict[str, int]
    findings: list[str]
    history: History
    log_lines: list[str] = field(default_factory=list)


def run_seed(seed: int) -> Outcome:
    """One whole run."""
    with world_of(seed) as world:
        scenario = Scenario(world)
        world.run(lambda _world: scenario.run())
        for finding in check(world.history.events):
            world.findings.append(f"{finding.rule}: {finding.evidence}")
        world.counters["events"] = world.loop.event_count
        world.counters["bytes delivered"] = world.fabric.bytes_delivered
        world.counters["appends"] = scenario.host.image.append_count
        world.counters["disk faults"] = scenario.host.image.fault_count
        return Outcome(
            seed=seed,
            trace=world.loop.trace,
            virtual_s=world.loop.time(),
            mix=scenario.nemesis.mix,
            counters=dict(sorted(world.counters.items())),
            findings=world.findings,
            history=world.history,
            log_lines=list(world.log_lines),
        )


class Scenario:
    """The processes of one run."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.random = world.random_for("scenario")
        self.host = BrokerHost(world, dict(SETTINGS))
        self.clients: list[tuple[Node, Client]] = []
        self._names = [
            *(f"producer-{index}" for index in range(self.random.randint(1, 4))),
            *(f"reader-{index}" for index in range(self.random.randint(1, 2))),
            *(f"book-{index}" for index in range(self.random.randint(1, 2))),
            "recycler",
        ]
        self.nemesis = Nemesis(world, self.host, self._names)

    async def run(self) -> None:
        loop = self.world.loop
        supervisor = loop.create_task(self.host.supervise())
        admin = self.world.node("admin")
        await self._in(admin, self._create_topics(Session(admin)))
        for name in self._names:
            self._start_client(name)
        faults = loop.create_task(self.nemesis.run())
        await asyncio.sleep(FAULTS_S_MIN + self.random.random() * (FAULTS_S_MAX - FAULTS_S_MIN))
        faults.cancel()
        await self.nemesis.heal()
        self.world.is_healing = True
        await self._converge()
        await self._in(admin, self._read_finals(Session(admin)))
        supervisor.cancel()
        await self.host.stop()

    async def _create_topics(self, session: Session) -> None:
        for topic, partitions in TOPICS.items():
            size = str(self.random.choice((2_048, 8_192, 1 << 20)))
            await create_topic(
                self.world,
                session,
                topic,
                partitions,
                {"segment.bytes": size, "index.interval.bytes": "512"},
            )
        session.close()

    def _start_client(self, name: str) -> None:
        node = self.world.node(name)
        topic = self.random.choice(list(TOPICS))
        client: Client
        if name.startswith("producer"):
            client = Producer(self.world, node, topic, TOPICS[topic])
        elif name.startswith("reader"):
            client = Reader(self.world, node, topic, TOPICS[topic])
        elif name.startswith("book"):
            client = Bookkeeper(self.world, node, topic)
        else:
            client = Recycler(self.world, node)
        self.clients.append((node, client))
        self.world.loop.spawn(node.process, self._guard(client), name=name)

    async def _guard(self, client: Client) -> None:
        """A client that crashes is a fault of the harness, or an answer that makes no sense."""
        try:
            await client.run()
        except Exception as error:  # noqa: BLE001 - whatever it is, it is a finding
            self.world.find("client crashed", f"{type(client).__name__}: {error!r}")

    async def _converge(self) -> None:
        deadline_s = self.world.loop.time() + CONVERGE_S_MAX
        while not all(client.is_done for _node, client in self.clients):
            if self.world.loop.time() > deadline_s:
                for node, client in self.clients:
                    if not client.is_done:
                        self.world.find("does not converge", f"{node.name} did not finish")
                return
            await asyncio.sleep(0.1)

    async def _read_finals(self, session: Session) -> None:
        deadline_s = self.world.loop.time() + CONVERGE_S_MAX
        for topic, partitions in TOPICS.items():
            for partition in range(partitions):
                while not await read_all(self.world, session, topic, topic, partition):
                    if self.world.loop.time() > deadline_s:
                        self.world.find("does not converge", f"{topic}-{partition} is unreadable")
                        break
                    await session.back_off()
        session.close()

    async def _in(self, node: Node, work: Coroutine[Any, Any, None]) -> None:
        """Run `work` in the node's process and wait for it."""
        await self.world.loop.spawn(node.process, work)
