"""Background work takes as long as its bytes do at the rate that is set, in virtual time."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine, Iterator
from random import Random
from typing import Any, NamedTuple

import pytest

from broker.server.pacing import Pace
from broker.simulator.loop import SimulatedLoop
from broker.simulator.ports import SimulatedClock, WallClock


class Rate:
    """Bytes a second, which a setting may change."""

    def __init__(self) -> None:
        self.value = 1_000_000.0


class World(NamedTuple):
    """A pace at `rate`, and the loop whose time it takes."""

    loop: SimulatedLoop
    rate: Rate
    pace: Pace

    async def work(self, *sizes: int) -> float:
        """Seconds until so many bytes, one stretch after the other, are within the rate."""
        began_s = self.loop.time()
        for size in sizes:
            await self.pace.wait(size)
        return self.loop.time() - began_s

    def run(self, main: Coroutine[Any, Any, float]) -> float:
        return self.loop.run_until_complete(main)


@pytest.fixture
def world() -> Iterator[World]:
    loop, rate = SimulatedLoop(Random(7)), Rate()
    clock = SimulatedClock(loop, WallClock(), 5_000.0)
    yield World(loop, rate, Pace(clock, lambda: rate.value))
    loop.end()


@pytest.mark.parametrize("sizes", [(60_000_000,), (1_000_000,) * 60, (1_000,) * 60_000])
def test_bytes_take_their_time_however_they_are_cut(world: World, sizes: tuple[int, ...]) -> None:
    assert world.run(world.work(*sizes)) == pytest.approx(60, rel=0.01)


def test_a_new_rate_holds_for_what_comes_next(world: World) -> None:
    async def main() -> float:
        slow_s = await world.work(10_000_000)
        assert slow_s == pytest.approx(10, rel=0.01)
        world.rate.value *= 10
        return await world.work(10_000_000)

    assert world.run(main()) == pytest.approx(1, rel=0.01)


def test_two_that_work_beside_each_other_share_the_rate(world: World) -> None:
    async def main() -> float:
        other = world.loop.create_task(world.work(*(1_000_000,) * 30))
        return max(await world.work(*(1_000_000,) * 30), await other)

    assert world.run(main()) == pytest.approx(60, rel=0.01)


def test_nothing_is_saved_up_while_nobody_works(world: World) -> None:
    async def main() -> float:
        await world.work(1_000_000)
        await asyncio.sleep(3_600)
        return await world.work(*(1_000_000,) * 10)

    assert world.run(main()) == pytest.approx(10, rel=0.01)
