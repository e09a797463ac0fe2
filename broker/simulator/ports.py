"""The small ports of a simulated process: clock, ids, worker, metastore."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Sequence
from dataclasses import dataclass
from random import Random
from typing import Any, Final, TypeVar

from broker.metastore.memory import MemoryMetastore
from broker.metastore.state import StoreState
from broker.ports import Change, Condition, Delete, Entry, MetastoreFault, Put, WorkerFault
from broker.runtime.ids import as_uuid4, is_printable_id
from broker.simulator.faults import HostFaults
from broker.simulator.loop import SimulatedLoop

T = TypeVar("T")
WALL_START_MS: Final = 1_750_000_000_000
METASTORE_LATENCY_S_MAX: Final = 0.02
WORKER_LATENCY_S_MAX: Final = 0.05


@dataclass(slots=True)
class WallClock:
    """A host's wall clock; the nemesis moves `skew_ms`, which was `latest_skew_ms` at most."""

    skew_ms: int = 0
    latest_skew_ms: int = 0


class SimulatedClock:
    """Implements `ports.Clock`: the monotonic hand starts anywhere, the wall hand may jump."""

    def __init__(self, loop: SimulatedLoop, wall: WallClock, start_ms: float) -> None:
        self._loop = loop
        self._wall = wall
        self._start_ms = start_ms

    def monotonic_ms(self) -> float:
        return self._start_ms + self._loop.time() * 1000

    def wall_ms(self) -> int:
        return WALL_START_MS + int(self._loop.time() * 1000) + self._wall.skew_ms


class SimulatedIds:
    """Implements `ports.IdSource` from a seed."""

    def __init__(self, random: Random) -> None:
        self._random = random

    def uuid(self) -> bytes:
        while True:
            value = as_uuid4(self._random.randbytes(16))
            if is_printable_id(value):
                return value

    def below(self, bound: int) -> int:
        return self._random.randrange(bound)


class SimulatedWorker:
    """Implements `ports.Worker`: in place, after a while, unless it dies meanwhile."""

    def __init__(self, random: Random, faults: HostFaults) -> None:
        self._random = random
        self._faults = faults

    async def call(self, function: Callable[..., T], *arguments: Any) -> T:
        await asyncio.sleep(self._random.random() * WORKER_LATENCY_S_MAX)
        if self._random.random() < self._faults.worker_death_probability:
            msg = "the worker died"
            raise WorkerFault(msg)
        return function(*arguments)


class SimulatedMetastore:
    """Implements `ports.Metastore` over a host's `StoreState`, as durable as the real one: a commit
    happens at one instant between request and answer, and then survives everything.
    """

    def __init__(
        self,
        clock: SimulatedClock,
        state: StoreState,
        random: Random,
        faults: HostFaults,
        die: Callable[[], None],
    ) -> None:
        self._store = MemoryMetastore(clock, state)
        self._random = random
        self._faults = faults
        self._die = die
        self._writing = asyncio.Lock()

    async def read(self, key: str) -> Entry | None:
        await self._pause()
        return await self._store.read(key)

    async def read_range(self, prefix: str) -> list[Entry]:
        await self._pause()
        return await self._store.read_range(prefix)

    async def transact(
        self, conditions: Sequence[Condition], writes: Sequence[Put | Delete]
    ) -> int | None:
        async with self._writing:
            await self._pause()
            if self._faults.is_full:
                msg = "the metastore cannot grow, the disk is full. Nothing was changed."
                raise MetastoreFault(msg)
            revision = await self._store.transact(conditions, writes)
            await self._pause()
            return revision

    async def watch(self, prefix: str, after_version: int) -> AsyncIterator[Change]:
        async for change in self._store.watch(prefix, after_version):
            yield change

    async def grant_lease(self, ttl_ms: int) -> int:
        return await self._store.grant_lease(ttl_ms)

    async def keep_lease(self, lease_id: int) -> bool:
        return await self._store.keep_lease(lease_id)

    async def revoke_lease(self, lease_id: int) -> None:
        await self._store.revoke_lease(lease_id)

    async def close(self) -> None:
        """The state belongs to the host."""

    async def _pause(self) -> None:
        if self._faults.is_last_operation():
            self._die()
        await asyncio.sleep(self._random.random() ** 2 * METASTORE_LATENCY_S_MAX)
