"""One seeded world: the loop, the network, the broker's host, and everything that happened.

Randomness comes from streams named for their use (`random_for`), so that one more draw here does
not change what happens there. The broker's disk, metastore and wall clock belong to its host and
outlive its processes. Findings are broken promises, each with the evidence; a world without
findings is a passed seed.
"""

from __future__ import annotations

import asyncio
import gc
from collections import Counter, deque
from collections.abc import Callable, Coroutine, Iterator, Mapping, MutableMapping
from contextlib import contextmanager
from dataclasses import dataclass
from random import Random
from typing import Any, Final

import structlog

from broker.config.broker import BrokerSettings
from broker.config.setting import Layer, load
from broker.metastore.state import StoreState
from broker.metrics import Metrics
from broker.ports import DiskFault, MetastoreFault, WorkerFault
from broker.server.node import Broker
from broker.server.startup import StartupError
from broker.simulator.disk import DiskImage, SimulatedDisk
from broker.simulator.history import History
from broker.simulator.loop import Process, SimulatedLoop
from broker.simulator.network import Fabric, SimulatedNetwork
from broker.simulator.ports import (
    SimulatedClock,
    SimulatedIds,
    SimulatedMetastore,
    SimulatedWorker,
    WallClock,
)

BROKER_PORT: Final = 9092
LOG_LINES_KEPT: Final = 400
RESTART_AFTER_EXIT_S: Final = 1.0
START_S_MAX: Final = 60.0
"""A start takes less, whatever the disk does."""
STOP_S_MAX: Final = 30.0
ROUNDS_BEFORE_JOURNAL: Final = 5
INVARIANT_INTERVAL_S: Final = 0.2


@dataclass(frozen=True, slots=True)
class Node:
    """One simulated process and its ports."""

    name: str
    process: Process
    network: SimulatedNetwork
    clock: SimulatedClock
    ids: SimulatedIds
    random: Random


class World:
    """Make one inside `world_of(seed)`."""

    def __init__(self, seed: int) -> None:
        self.seed = seed
        self.loop = SimulatedLoop(self.random_for("schedule"))
        self.fabric = Fabric(self.loop, self.random_for("network"))
        self.history = History()
        self.counters: Counter[str] = Counter()
        self.findings: list[str] = []
        self.log_lines: deque[str] = deque(maxlen=LOG_LINES_KEPT)
        self.is_healing = False
        self.is_over = False
        self.full_topics: set[str] = set()
        self.uses_zstd = self.random_for("zstd").random() < 0.5
        self.wall = WallClock()
        self.is_durable_by_default = True
        self.durable_topics: set[str] = set()

    def note_durable(self, label: str) -> None:
        """A topic (its name and incarnation) has `durability=fsync`, and always will."""
        self.durable_topics.add(label)
        self.history.record(self.loop.time(), "durable", topic=label)

    def random_for(self, use: str) -> Random:
        """The stream of one use: the same for the same seed, whatever else was drawn."""
        return Random(f"{self.seed}/{use}")

    def node(self, name: str) -> Node:
        """A new process with its ports. Its name tells it from its earlier incarnations."""
        process = self.loop.add_process(name.partition("#")[0])
        random = self.random_for(f"process {name}")
        return Node(
            name=name,
            process=process,
            network=SimulatedNetwork(self.fabric, process),
            clock=SimulatedClock(self.loop, self.wall, random.random() * 1e9),
            ids=SimulatedIds(self.random_for(f"ids {name}")),
            random=random,
        )

    def find(self, rule: str, evidence: str) -> None:
        """A promise is broken."""
        if self.loop.is_over:
            return  # a coroutine complains while it is taken apart
        self.findings.append(f"{rule}: {evidence} (at {self.loop.time():.3f} s)")

    def run(self, main: Callable[[World], Coroutine[Any, Any, None]]) -> None:
        """Run the whole scenario."""
        try:
            self.loop.run_until_complete(main(self))
        except Exception as error:  # noqa: BLE001 - whatever it is, it is a finding
            self.find("the run could not go on", repr(error))
        for text in self.loop.unhandled:
            self.find("unhandled exception", text)

    def on_log(
        self, _logger: Any, method: str, event: MutableMapping[str, Any]
    ) -> Mapping[str, Any]:
        """structlog's processor: keep the line; a logged exception is a crash unless it is a
        fault.
        """
        error = event.get("exc_info")
        level = str(event.pop("level", method))
        self.log_lines.append(f"{self.loop.time():10.4f} {level:7} {event}")
        if isinstance(error, Exception) and not isinstance(
            error, DiskFault | MetastoreFault | WorkerFault
        ):
            self.find("crash", f"{event.get('event')}: {error!r} {event}")
        raise structlog.DropEvent


@contextmanager
def world_of(seed: int) -> Iterator[World]:
    """A world, and the process-wide settings it needs: logs to it, no garbage collection
    meanwhile.
    """
    world = World(seed)
    configured = structlog.get_config()
    structlog.configure(
        processors=[world.on_log],
        wrapper_class=structlog.BoundLogger,
        cache_logger_on_first_use=False,
    )
    gc.disable()
    try:
        yield world
    finally:
        gc.enable()
        structlog.configure(**configured)
        world.loop.end()


class BrokerHost:
    """The broker's machine: starts it, kills it, starts it again."""

    def __init__(self, world: World, settings: dict[str, object]) -> None:
        self.world = world
        self.image = DiskImage(world.random_for("disk"))
        self.state = StoreState()
        self.broker: Broker | None = None
        self.process: Process | None = None
        self.incarnation = 0
        self.wanted = True
        self.is_stopping = False
        self.layers = [Layer("simulation", settings)]

    @property
    def is_serving(self) -> bool:
        """Whether the process lives and its broker says that it is ready."""
        return self.process is not None and self.broker is not None and self.broker.is_ready

    async def supervise(self) -> None:
        """Start the broker whenever it is wanted and gone, until cancelled."""
        while True:
            if self.wanted and self.process is None:
                self._start()
            await asyncio.sleep(0.05)

    def kill(self) -> None:
        """As SIGKILL: what was written is on the disk, nothing else happens."""
        if self.process is not None:
            self.world.counters["broker kills"] += 1
            self.world.loop.kill(self.process)

    async def stop(self) -> None:
        """A clean stop, as far as the disk allows."""
        process, broker = self.process, self.broker
        if process is None or broker is None or not broker.is_ready:
            self.kill()
            return
        self.world.counters["broker stops"] += 1
        self.is_stopping = True
        stopping = self.world.loop.spawn(process, broker.stop(), name="stop")
        deadline_s = self.world.loop.time() + STOP_S_MAX
        while process.is_alive and not stopping.done():
            await asyncio.sleep(0.05)
            if self.world.loop.time() > deadline_s:
                self.world.find("stop takes too long", f"more than {STOP_S_MAX} s")
                break
        if process.is_alive:
            if stopping.done() and stopping.exception() is not None:
                self.world.find("stop failed", repr(stopping.exception()))
            self.world.loop.kill(process)

    def _start(self) -> None:
        self.incarnation += 1
        node = self.world.node(f"broker#{self.incarnation}")
        process = node.process
        process.on_killed.append(self._on_gone)
        faults = self.image.faults
        faults.kill_at_append = faults.kill_at_operation = 0
        self.process = process
        disk = SimulatedDisk(self.world.loop, process, self.image)
        self.broker = Broker(
            load(BrokerSettings, self.layers),
            disk,
            node.clock,
            node.network,
            SimulatedMetastore(
                node.clock,
                self.state,
                self.world.random_for(f"metastore {node.name}"),
                faults,
                disk.die,
            ),
            node.ids,
            SimulatedWorker(node.random, faults),
        )
        self.broker.journal.rounds_before = ROUNDS_BEFORE_JOURNAL
        self.world.counters["broker starts"] += 1
        self.world.loop.spawn(process, self._run(self.broker, process), name="broker")
        self.world.loop.call_in(
            self.world.loop.harness, START_S_MAX, self._check_started, process, self.broker
        )

    async def _run(self, broker: Broker, process: Process) -> None:
        try:
            await broker.start()
        except StartupError as refusal:
            if not self.image.faults.is_full and not self.image.faults.error_probability:
                self.world.find("start refused", str(refusal))
            self.world.counters["refused starts"] += 1
            self.wanted = False
            harness = self.world.loop.harness
            self.world.loop.call_in(harness, RESTART_AFTER_EXIT_S, self._want_again)
            self.world.loop.kill(process)
        except Exception as error:  # noqa: BLE001 - whatever it is, it is a finding
            self.world.find("start crashed", repr(error))
            self.world.loop.kill(process)
        while process.is_alive:
            self._check_invariants(broker)
            await asyncio.sleep(INVARIANT_INTERVAL_S)

    def _check_started(self, process: Process, broker: Broker) -> None:
        is_waiting = process.is_alive and not process.is_paused and not self.is_stopping
        if is_waiting and not broker.is_ready:
            self.world.find("start takes too long", f"more than {START_S_MAX} s")

    def _check_invariants(self, broker: Broker) -> None:
        """0 <= log start <= what consumers see <= high watermark <= log end, of every partition, at
        any time.
        """
        for partition in broker.partitions.all():
            if partition.offline_reason is not None:
                continue
            log = partition.log
            window = (log.log_start_offset, partition.first_offset, partition.visible_end)
            chain = (0, *window, partition.high_watermark, log.log_end_offset)
            if list(chain) != sorted(chain):
                self.world.find("0 <= start <= watermark <= end", f"{partition}: {chain}")

    def _count(self, metrics: Metrics) -> None:
        """What an incarnation did, so that a run in which nothing happened cannot pass."""
        for name, metric in {
            "segments rolled": metrics.segments_rolled_total,
            "bytes deleted by retention": metrics.retention_deleted_bytes_total,
            "records replayed from the journal": metrics.journal_replayed_records_total,
            "generations of groups": metrics.group_rebalances_total,
        }.items():
            self.world.counters[name] += int(sum(each.value for each in metric.children.values()))
        cleaned = metrics.cleaner_runs_total.children.get(("cleaned",))
        self.world.counters["logs cleaned"] += int(cleaned.value) if cleaned else 0

    def _want_again(self) -> None:
        self.wanted = True

    def _on_gone(self) -> None:
        if self.broker is not None:
            self._count(self.broker.metrics)
        self.process = None
        self.broker = None
        self.is_stopping = False
