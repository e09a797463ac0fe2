"""What goes wrong in a seed: its own mix of faults, drawn from the seed, one after another until
the world heals.

| fault             | what it does                                                                |
|-------------------|-----------------------------------------------------------------------------|
| kill              | SIGKILL to the broker, now                                                  |
| kill_in_append    | SIGKILL inside one of the next appends: a prefix of it is written           |
| kill_in_operation | SIGKILL inside one of the next creates, renames, syncs or unlinks           |
| power_cut         | the whole site goes dark: unsynced writes are lost, everybody starts anew   |
| roll_cut          | the power fails just after a segment was begun, and names are lost readily  |
| double_crash      | killed in an operation; back again, with a slow disk, the power fails       |
| stop              | a clean stop and a new start                                                |
| kill_client       | one or two clients are killed and start anew                                |
| pause_client      | a client's process stands still for seconds                                 |
| pause             | the broker's process stands still for seconds (SIGSTOP)                     |
| reset             | some connections are reset                                                  |
| cut               | one direction between the broker and a client is silent for seconds         |
| zombie            | what a group member sends arrives only after its session's end              |
| slow              | a client's link is slow for seconds                                         |
| refuse            | new connections of a client are refused for seconds                         |
| slow_disk         | what waits for the device waits for up to half a second, for seconds        |
| full              | the disk has no space for seconds                                           |
| broken_disk       | I/O errors for a moment; then the broker is restarted, as its operator must |
| clock             | the wall clock jumps, up to half a day from true time                       |
| cold              | most reads must wait for the device                                         |
| worker            | half of the calls to the worker process end with its death                  |
| rot               | bits flip in old segments while the broker is down; put right after a while |
| bad_index         | index files are zeros, cut off or gone when the broker starts again         |
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Final

from broker.simulator.faults import ANY_POWER_CUT, LATENCY_S_MAX, PowerCut
from broker.simulator.loop import Process
from broker.simulator.rotting import Rot
from broker.simulator.world import BrokerHost, World

RUNNERS: Final = 2
"""Faults that may overlap."""
PAUSE_BETWEEN_S_MAX: Final = 3.0
FAULT_S_MAX: Final = 5.0
ZOMBIE_S_MIN: Final = 1.6
DOWN_S_MAX: Final = 3.0
CLOCK_JUMP_MS_MAX: Final = 12 * 3_600_000
"""Either way from true time: below every retention and expiration."""
SLOW_DELAY_S_MAX: Final = 1.0
SLOW_DISK_S_MAX: Final = 0.5
MIX_PROBABILITY: Final = 0.5
RARE: Final = {"power_cut": 0.3, "roll_cut": 0.2, "double_crash": 0.2, "rot": 0.25}
"""What hides other faults' harm is in few mixes."""
COLD_PROBABILITY: Final = 0.9

SPARED: Final = frozenset({"recycler-0"})
"""Clients whose link stays whole."""


class Nemesis:
    """One seed's faults. `clients` are the names whose links may suffer."""

    def __init__(
        self,
        world: World,
        host: BrokerHost,
        clients: list[str],
        restart_client: Callable[[str], None],
        client_process: Callable[[str], Process],
        cut_power: Callable[[PowerCut], None],
    ) -> None:
        self.world = world
        self.host = host
        self._random = world.random_for("nemesis")
        self._restart_client = restart_client
        self._client_process = client_process
        self._cut_power = cut_power
        self._clients = [name for name in clients if name not in SPARED]
        self.rot = Rot(host.image, world.random_for("rot"))
        self._faults: dict[str, Callable[[], Awaitable[None]]] = {
            "kill": self._kill,
            "kill_in_append": self._kill_in_append,
            "kill_in_operation": self._kill_in_operation,
            "power_cut": self._power_cut,
            "roll_cut": self._roll_cut,
            "double_crash": self._double_crash,
            "stop": self._stop,
            "kill_client": self._kill_client,
            "pause_client": self._pause_client,
            "pause": self._pause,
            "reset": self._reset,
            "cut": self._cut,
            "zombie": self._zombie,
            "slow": self._slow,
            "refuse": self._refuse,
            "slow_disk": self._slow_disk,
            "full": self._full,
            "broken_disk": self._broken_disk,
            "clock": self._clock,
            "cold": self._cold,
            "worker": self._worker,
            "rot": self._rot,
            "bad_index": self._bad_index,
        }
        self.mix = {
            name: self._random.randint(1, 5)
            for name in self._faults
            if self._random.random() < RARE.get(name, MIX_PROBABILITY)
        } or {"kill": 1}

    async def run(self) -> None:
        """Until cancelled; `heal` repairs what is broken then."""
        async with asyncio.TaskGroup() as group:
            for _ in range(RUNNERS):
                group.create_task(self._run_one())

    async def _run_one(self) -> None:
        names = list(self.mix)
        while True:
            await asyncio.sleep(self._random.random() * PAUSE_BETWEEN_S_MAX)
            (name,) = self._random.choices(names, [self.mix[each] for each in names])
            self.world.counters[f"fault {name}"] += 1
            await self._faults[name]()

    async def heal(self) -> None:
        """Everything works from now on; a broken disk's broker gets the restart that it needs."""
        faults = self.host.image.faults
        was_broken = faults.error_probability > 0
        faults.is_full = False
        faults.worker_death_probability = 0.0
        faults.error_probability = 0.0
        faults.kill_at_append = faults.kill_at_operation = 0
        faults.latency_s_max = LATENCY_S_MAX
        self.rot.repair()
        if self.host.process is not None:
            self.host.process.is_paused = False
        for name in self._clients:
            self._client_process(name).is_paused = False
        self.world.fabric.heal()
        if was_broken or self.host.is_stopping:
            self.host.kill()  # nobody waits for the end of that stop any more
        self.host.wanted = True

    async def _kill(self) -> None:
        await self._stay_down(self.host.kill)

    async def _kill_in_append(self) -> None:
        self.host.wanted = True
        self.host.image.faults.kill_at_append = self._random.randint(1, 20)

    async def _kill_in_operation(self) -> None:
        self.host.wanted = True
        self.host.image.faults.kill_at_operation = self._random.randint(2, 40)

    async def _power_cut(self) -> None:
        self._cut_power(ANY_POWER_CUT)

    async def _roll_cut(self) -> None:
        image = self.host.image
        begun, deadline_s = image.segment_count, self.world.loop.time() + FAULT_S_MAX
        image.faults.latency_s_max = SLOW_DISK_S_MAX
        while image.segment_count == begun:
            await asyncio.sleep(0.005)
            if self.world.loop.time() > deadline_s:
                break
        await asyncio.sleep(2 * self._random.random() * SLOW_DISK_S_MAX)  # until its first answer
        image.faults.latency_s_max = LATENCY_S_MAX
        self._cut_power(PowerCut(lost_name_probability=0.7))

    async def _double_crash(self) -> None:
        """What was written and not synced at the kill is read again; the power fails before it is
        synced (KAFKA-10101).
        """
        faults, incarnation = self.host.image.faults, self.host.incarnation
        self.host.wanted = True
        faults.kill_at_operation = self._random.randint(2, 30)
        deadline_s = self.world.loop.time() + FAULT_S_MAX
        while self.host.incarnation == incarnation or not self.host.is_serving:
            await asyncio.sleep(0.02)
            if self.world.loop.time() > deadline_s:
                return
        faults.latency_s_max = SLOW_DISK_S_MAX
        await asyncio.sleep(self._random.random() * SLOW_DISK_S_MAX)
        faults.latency_s_max = LATENCY_S_MAX
        self._cut_power(ANY_POWER_CUT)

    async def _slow_disk(self) -> None:
        self.host.image.faults.latency_s_max = self._random.random() * SLOW_DISK_S_MAX
        await self._a_while()
        self.host.image.faults.latency_s_max = LATENCY_S_MAX

    async def _stop(self) -> None:
        self.host.wanted = False
        await self.host.stop()
        await asyncio.sleep(self._random.random() * DOWN_S_MAX)
        self.host.wanted = True

    async def _kill_client(self) -> None:
        for _ in range(self._random.randint(1, 2)):
            self._restart_client(self._random.choice(self._clients))

    async def _pause_client(self) -> None:
        name = self._random.choice(self._clients)
        process = self._client_process(name)
        process.is_paused = True
        await self._a_while()
        process.is_paused = False

    async def _pause(self) -> None:
        process = self.host.process
        if process is not None:
            process.is_paused = True
            await self._a_while()
            process.is_paused = False

    async def _reset(self) -> None:
        count = self.world.fabric.reset_some(self._random.random())
        self.world.counters["connections reset"] += count

    async def _cut(self) -> None:
        pair = self._direction()
        self.world.fabric.set_cut(*pair, is_cut=True)
        await self._a_while()
        self.world.fabric.set_cut(*pair, is_cut=False)

    async def _zombie(self) -> None:
        """What a member says arrives after its session: its commits must not count any more."""
        members = [name for name in self._clients if name.startswith("member")]
        pair = (self._random.choice(members), "broker")
        self.world.fabric.set_cut(*pair, is_cut=True)
        await asyncio.sleep(ZOMBIE_S_MIN + self._random.random() * FAULT_S_MAX)
        self.world.fabric.set_cut(*pair, is_cut=False)

    async def _slow(self) -> None:
        link = self.world.fabric.link(*self._direction())
        before = link.delay_s_min, link.delay_s_max
        link.delay_s_max = self._random.random() * SLOW_DELAY_S_MAX + link.delay_s_min
        await self._a_while()
        link.delay_s_min, link.delay_s_max = before

    async def _refuse(self) -> None:
        link = self.world.fabric.link(self._random.choice(self._clients), "broker")
        link.refuses = True
        self.world.fabric.reset_some(0.3)
        await self._a_while()
        link.refuses = False

    async def _full(self) -> None:
        self.host.image.faults.is_full = True
        await self._a_while()
        self.host.image.faults.is_full = False

    async def _broken_disk(self) -> None:
        self.host.image.faults.error_probability = 0.05 + self._random.random() * 0.5
        await asyncio.sleep(self._random.random() * 2)
        self.host.image.faults.error_probability = 0.0
        await self._stay_down(self.host.kill)

    async def _clock(self) -> None:
        skew_ms = self._random.randint(-CLOCK_JUMP_MS_MAX, CLOCK_JUMP_MS_MAX)
        wall = self.world.wall
        wall.skew_ms = skew_ms
        wall.latest_skew_ms = max(wall.latest_skew_ms, skew_ms)
        self.world.history.record(self.world.loop.time(), "clock", skew_ms=skew_ms)

    async def _cold(self) -> None:
        self.host.image.faults.cold_read_probability = COLD_PROBABILITY
        await self._a_while()
        self.host.image.faults.cold_read_probability = 0.05

    async def _worker(self) -> None:
        self.host.image.faults.worker_death_probability = 0.5
        await self._a_while()
        self.host.image.faults.worker_death_probability = 0.0

    async def _rot(self) -> None:
        """What the page cache holds is right: only a start reads what the device has."""
        self.host.wanted = False
        self.host.kill()
        self.rot.flip_bits()
        await asyncio.sleep(self._random.random() * DOWN_S_MAX)
        self.host.wanted = True
        await self._a_while()
        await self._a_while()
        self.rot.repair()

    async def _bad_index(self) -> None:
        self.host.wanted = False
        self.host.kill()
        self.rot.spoil_indexes()
        await asyncio.sleep(self._random.random() * DOWN_S_MAX)
        self.host.wanted = True

    async def _stay_down(self, kill: Callable[[], None]) -> None:
        self.host.wanted = self._random.random() < 0.5
        kill()
        if not self.host.wanted:
            await asyncio.sleep(self._random.random() * DOWN_S_MAX)
            self.host.wanted = True

    async def _a_while(self) -> None:
        await asyncio.sleep(self._random.random() * FAULT_S_MAX)

    def _direction(self) -> tuple[str, str]:
        client = self._random.choice(self._clients)
        return (client, "broker") if self._random.random() < 0.5 else ("broker", client)
