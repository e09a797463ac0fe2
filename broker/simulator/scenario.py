"""The standard scenario of a seed: a broker, its clients, faults, a heal, and the judgement.

Phase 1: everybody works while the nemesis does too. Phase 2: everything is repaired; every client
must finish within a bound, every partition is read from start to end, the broker stops cleanly.
Then the checker reads the history.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable, Coroutine, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Final, Protocol

from broker.config.topic import FSYNC, REPLICATED
from broker.simulator.bookkeeping import Bookkeeper, lag_of
from broker.simulator.checker import OFFSETS_TOPIC, check
from broker.simulator.consuming import Member
from broker.simulator.delivering import Application
from broker.simulator.faults import PowerCut
from broker.simulator.history import History
from broker.simulator.keeping import COMPACTED_TOPIC, CONFIGS, Follower, Keeper, read_keys
from broker.simulator.loop import Process
from broker.simulator.nemesis import Nemesis
from broker.simulator.poison import opening_configs
from broker.simulator.producing import Producer
from broker.simulator.reading import EXPIRING_TOPIC, TRIMMED_TOPIC, Reader, read_all
from broker.simulator.recycling import ANY_TIME, Recycler, create_topic
from broker.simulator.session import Session
from broker.simulator.switching import Switcher
from broker.simulator.trimming import Trimmer
from broker.simulator.windowing import (
    DELAYED_TOPIC,
    Watcher,
    settle_window,
    window_configs,
)
from broker.simulator.world import BROKER_PORT, BrokerHost, Node, World, world_of

FAULTS_S_MIN: Final = 10.0
FAULTS_S_MAX: Final = 40.0
CONVERGE_S_MAX: Final = 60.0
TOPICS: Final = {"orders": 3, "payments": 1, EXPIRING_TOPIC: 1, TRIMMED_TOPIC: 1}
"""Name and partitions. Retention takes records of the expiring one, and clients delete those of the
trimmed one: they have no groups. The delayed and the compacted topic have clients of their own.
"""
KEPT_TOPICS: Final = ("orders", "payments")

SETTINGS: Final[dict[str, object]] = {
    "listeners": f"PLAINTEXT://127.0.0.1:{BROKER_PORT}",
    "hermes.metrics.port": -1,
    "offsets.topic.num.partitions": 2,
    "offsets.topic.segment.bytes": 16_384,
    "group.initial.rebalance.delay.ms": 300,
    "group.min.session.timeout.ms": 1_000,
    "log.retention.check.interval.ms": 2_000,
    "log.cleaner.backoff.ms": 1_000,
    "hermes.scrub.interval.ms": 5_000,
    "log.cleaner.dedupe.buffer.size": 1_024,
    "hermes.shutdown.timeout.ms": 3_000,
}


class Client(Protocol):
    """A simulated process's program. `is_done` after the heal says that it has finished."""

    is_done: bool

    async def run(self) -> None: ...


Program = Callable[[Node], Client]


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


def run_seed(seed: int, mix: Mapping[str, int] | None = None) -> Outcome:
    """One whole run. `mix` takes the place of the faults that the seed would draw."""
    with world_of(seed) as world:
        scenario = Scenario(world, mix)
        world.run(lambda _world: scenario.run())
        for finding in check(world.history.events):
            world.findings.append(f"{finding.rule}: {finding.evidence}")
        world.counters["events"] = world.loop.event_count
        world.counters["bytes delivered"] = world.fabric.bytes_delivered
        world.counters["appends"] = scenario.host.image.append_count
        world.counters["journal writes"] = scenario.host.image.ring_writes
        world.counters["disk faults"] = scenario.host.image.fault_count
        world.counters["bits flipped"] = scenario.nemesis.rot.flip_count
        world.counters["index files spoilt"] = scenario.nemesis.rot.index_count
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


Make = Callable[[World, str, str, Node], Client]
"""(world, name, topic, node): one incarnation of a client."""

PARTS: Final[dict[str, tuple[int, int, Make]]] = {
    "producer": (1, 3, lambda world, _, topic, node: Producer(world, node, topic, TOPICS[topic])),
    "application": (
        0,
        2,
        lambda world, _, topic, node: Application(world, node, topic, TOPICS[topic]),
    ),
    "reader": (1, 2, lambda world, _, topic, node: Reader(world, node, topic, TOPICS[topic])),
    "book": (1, 2, lambda world, _, topic, node: Bookkeeper(world, node, topic)),
    "member": (
        2,
        4,
        lambda world, name, topic, node: Member(world, node, name, group_of(topic), topic),
    ),
    "recycler": (1, 1, lambda world, _, _topic, node: Recycler(world, node)),
    "trimmer": (1, 1, lambda world, _, _topic, node: Trimmer(world, node)),
    "delayer": (1, 1, lambda world, _, _topic, node: Producer(world, node, DELAYED_TOPIC, 1)),
    "watcher": (1, 2, lambda world, _, _topic, node: Watcher(world, node)),
    "keeper": (1, 2, lambda world, _, _topic, node: Keeper(world, node)),
    "follower": (1, 2, lambda world, _, _topic, node: Follower(world, node)),
}
"""Kind: how many at least, at most, and how one is made."""


LATE: Final = frozenset({"member", "follower"})
"""Kinds that go on until all others have finished."""
EVERYWHERE: Final = frozenset({"producer", "reader"})
"""Kinds that also use the expiring and the trimmed topic."""
APPEND_TIME_PROBABILITY: Final = 0.3
DURABLE_BY_DEFAULT_PROBABILITY: Final = 0.7
DURABILITIES: Final = ("default", "default", "fsync", "replicated")
"""One is drawn for each topic; that of a further one is changed while all works."""


def group_of(topic: str) -> str:
    """The consumer group that reads `topic`."""
    return f"group-{topic}"


class Scenario:
    """The processes of one run."""

    def __init__(self, world: World, mix: Mapping[str, int] | None = None) -> None:
        self.world = world
        self.random = world.random_for("scenario")
        durability = world.random_for("durability")
        world.is_durable_by_default = durability.random() < DURABLE_BY_DEFAULT_PROBABILITY
        default = FSYNC if world.is_durable_by_default else REPLICATED
        self.durabilities = {topic: durability.choice(DURABILITIES) for topic in TOPICS}
        self.switched = durability.choice((None, None, *TOPICS))
        self.host = BrokerHost(world, {**SETTINGS, "hermes.durability": default})
        self.programs = self._cast()
        self.clients: dict[str, tuple[Node, Client]] = {}
        self._incarnations: Counter[str] = Counter()
        self.nemesis = Nemesis(
            world,
            self.host,
            list(self.programs),
            self.restart_client,
            self.process_of,
            self.cut_power,
        )
        if mix is not None:
            self.nemesis.mix = dict(mix)

    async def run(self) -> None:
        loop = self.world.loop
        supervisor = loop.create_task(self.host.supervise())
        admin = self.world.node("admin")
        await self._in(admin, self._create_topics(Session(admin)))
        for name in self.programs:
            self._start_client(name)
        faults = loop.create_task(self.nemesis.run())
        await asyncio.sleep(FAULTS_S_MIN + self.random.random() * (FAULTS_S_MAX - FAULTS_S_MIN))
        faults.cancel()
        await self.nemesis.heal()
        self.world.is_healing = True
        early = [name for name in self.programs if name.partition("-")[0] not in LATE]
        await self._wait_for_clients(early)
        await self._in(admin, self._wait_for_groups(Session(admin)))
        await self._in(admin, settle_window(self.world, Session(admin)))
        self.world.is_over = True
        await self._wait_for_clients(list(self.programs))
        await self._in(admin, self._read_finals(Session(admin)))
        supervisor.cancel()
        await self.host.stop()

    def cut_power(self, cut: PowerCut) -> None:
        """Every machine goes dark; what comes back is what the disk had synced, and maybe more."""
        self.world.counters["power cuts"] += 1
        self.host.kill()
        for node, _client in self.clients.values():
            self.world.loop.kill(node.process)
        self.host.image.cut_power(cut)
        self.world.history.record(self.world.loop.time(), "power cut")
        for name in self.programs:
            self._start_client(name)

    def process_of(self, name: str) -> Process:
        """The client's present incarnation."""
        return self.clients[name][0].process

    def restart_client(self, name: str) -> None:
        """The client is killed; another incarnation starts at once. One that has finished stays."""
        node, client = self.clients[name]
        if not client.is_done or isinstance(client, Reader | Watcher):
            self.world.counters["client kills"] += 1
            self.world.loop.kill(node.process)
            self._start_client(name)

    def _cast(self) -> dict[str, Program]:
        """Who takes part, by name. "orders" always has a producer, a reader and two members."""
        cast: dict[str, Program] = {}
        for kind, (count_min, count_max, make) in PARTS.items():
            for index in range(self.random.randint(count_min, count_max)):
                is_fixed = index == 0 or (kind == "member" and index == 1)
                topics = list(TOPICS) if kind in EVERYWHERE else KEPT_TOPICS
                topic = "orders" if is_fixed else self.random.choice(topics)
                name = f"{kind}-{index}"
                cast[name] = partial(make, self.world, name, topic)
        switched = self.switched
        if switched is not None:
            cast["switcher-0"] = lambda node: Switcher(self.world, node, switched)
        return cast

    async def _create_topics(self, session: Session) -> None:
        for topic, partitions in TOPICS.items():
            size = str(self.random.choice((2_048, 8_192, 1 << 20)))
            configs = {"segment.bytes": size, "index.interval.bytes": "512", **ANY_TIME}
            if self.random.random() < APPEND_TIME_PROBABILITY:
                configs["message.timestamp.type"] = "LogAppendTime"
            configs |= opening_configs(self.world, topic)
            if topic == EXPIRING_TOPIC:
                configs |= {"segment.bytes": "2048", "retention.bytes": "6000"}
            durability = self.durabilities[topic]
            if durability != "default":
                configs["durability"] = durability
            await create_topic(self.world, session, topic, partitions, configs)
            if topic != self.switched and self._is_durable(durability):
                self.world.note_durable(topic)
        configs = {"index.interval.bytes": "512", **ANY_TIME}
        configs |= window_configs(self.world, self.world.random_for("window"))
        await create_topic(self.world, session, DELAYED_TOPIC, 1, configs)
        await create_topic(self.world, session, COMPACTED_TOPIC, 1, {**CONFIGS, **ANY_TIME})
        if self.world.is_durable_by_default:
            for topic in (DELAYED_TOPIC, COMPACTED_TOPIC, OFFSETS_TOPIC):
                self.world.note_durable(topic)
        session.close()

    def _is_durable(self, durability: str) -> bool:
        if durability == "default":
            return self.world.is_durable_by_default
        return durability == FSYNC

    def _start_client(self, name: str) -> None:
        self._incarnations[name] += 1
        node = self.world.node(f"{name}#{self._incarnations[name]}")
        client = self.programs[name](node)
        self.clients[name] = (node, client)
        self.world.loop.spawn(node.process, self._guard(client), name=name)

    async def _guard(self, client: Client) -> None:
        """A client that crashes is a fault of the harness, or an answer that makes no sense."""
        try:
            await client.run()
        except Exception as error:  # noqa: BLE001 - whatever it is, it is a finding
            self.world.find("client crashed", f"{type(client).__name__}: {error!r}")

    async def _wait_for_clients(self, names: list[str]) -> None:
        deadline_s = self.world.loop.time() + CONVERGE_S_MAX
        while not all(self.clients[name][1].is_done for name in names):
            if self.world.loop.time() > deadline_s:
                slow = [name for name in names if not self.clients[name][1].is_done]
                self.world.find("does not converge", f"not finished: {slow}")
                return
            await asyncio.sleep(0.1)

    async def _wait_for_groups(self, session: Session) -> None:
        """Every group that has members commits up to the end of its topic."""
        read = {each.topic for _, each in self.clients.values() if isinstance(each, Member)}
        deadline_s = self.world.loop.time() + CONVERGE_S_MAX
        for topic in sorted(read):
            group = group_of(topic)
            while behind := await lag_of(self.world, session, group, topic, TOPICS[topic]):
                if self.world.loop.time() > deadline_s:
                    self.world.find("does not converge", f"{group} is behind: {behind}")
                    break
                await asyncio.sleep(0.5)
        session.close()

    async def _read_finals(self, session: Session) -> None:
        deadline_s = self.world.loop.time() + CONVERGE_S_MAX
        for topic, partitions in {**TOPICS, DELAYED_TOPIC: 1}.items():
            for partition in range(partitions):
                while not await read_all(self.world, session, topic, topic, partition):
                    if self.world.loop.time() > deadline_s:
                        self.world.find("does not converge", f"{topic}-{partition} is unreadable")
                        break
                    await session.back_off()
        while not await read_keys(self.world, session):
            if self.world.loop.time() > deadline_s:
                self.world.find("does not converge", f"{COMPACTED_TOPIC} is unreadable")
                break
            await session.back_off()
        session.close()

    async def _in(self, node: Node, work: Coroutine[Any, Any, None]) -> None:
        """Run `work` in the node's process and wait for it."""
        await self.world.loop.spawn(node.process, work)
