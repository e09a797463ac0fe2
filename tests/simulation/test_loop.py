"""The simulated loop: virtual time, processes that vanish, one order of events per seed."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Callable, Coroutine, Iterator
from random import Random
from typing import Any

import pytest

from broker.runtime.tasks import TaskScope
from broker.simulator.loop import Process, SimulatedLoop, current_process

Main = Callable[[SimulatedLoop], Coroutine[Any, Any, Any]]
Run = Callable[[Main], Any]


@pytest.fixture
def run() -> Iterator[Run]:
    loop = SimulatedLoop(Random(7))
    yield lambda main: loop.run_until_complete(main(loop))
    loop.end()


def test_an_hour_passes_in_no_time(run: Run) -> None:
    async def main(loop: SimulatedLoop) -> float:
        await asyncio.sleep(3_600)
        return loop.time()

    assert run(main) == pytest.approx(3_600, abs=0.1)


def test_timeout_and_task_group_work(run: Run) -> None:
    async def main(loop: SimulatedLoop) -> list[str]:
        order: list[str] = []

        async def child(name: str, delay_s: float) -> None:
            await asyncio.sleep(delay_s)
            order.append(name)

        async with asyncio.TaskGroup() as group:
            group.create_task(child("late", 2))
            group.create_task(child("soon", 1))
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(5):
                await asyncio.Event().wait()
        return order

    assert run(main) == ["soon", "late"]


def test_killed_process_runs_no_cleanup(run: Run) -> None:
    async def main(loop: SimulatedLoop) -> list[str]:
        seen: list[str] = []

        async def victim() -> None:
            try:
                seen.append("started")
                await asyncio.sleep(10)
            finally:
                seen.append("cleaned up")

        process = loop.add_process("victim")
        loop.spawn(process, victim())
        await asyncio.sleep(1)
        loop.kill(process)
        await asyncio.sleep(100)
        return list(seen)

    assert run(main) == ["started"]


def test_tasks_of_a_process_belong_to_it_and_wake_in_it(run: Run) -> None:
    async def main(loop: SimulatedLoop) -> list[Process]:
        found: list[Process] = []
        gate = asyncio.Event()

        async def grandchild() -> None:
            await gate.wait()
            found.append(current_process())

        async def child() -> None:
            await asyncio.create_task(grandchild())
            found.append(current_process())

        process = loop.add_process("p")
        task = loop.spawn(process, child())
        await asyncio.sleep(1)
        gate.set()  # from the harness
        await task
        return [*found, process]

    first, second, process = run(main)
    assert first is second is process


def test_callbacks_of_one_process_run_first_in_first_out(run: Run) -> None:
    async def main(loop: SimulatedLoop) -> dict[str, list[int]]:
        order: dict[str, list[int]] = {"a": [], "b": []}
        for name, numbers in order.items():
            process = loop.add_process(name)
            for number in range(20):
                loop.call_in(process, 0, numbers.append, number)
        await asyncio.sleep(1)
        return order

    assert run(main) == {"a": list(range(20)), "b": list(range(20))}


def test_paused_process_catches_up_later(run: Run) -> None:
    async def main(loop: SimulatedLoop) -> list[float]:
        ticks: list[float] = []

        async def tick() -> None:
            while True:
                await asyncio.sleep(1)
                ticks.append(loop.time())

        process = loop.add_process("p")
        loop.spawn(process, tick())
        await asyncio.sleep(0.5)
        process.is_paused = True
        await asyncio.sleep(10)
        assert ticks == []
        process.is_paused = False
        await asyncio.sleep(1)
        return ticks

    assert run(main)[0] == pytest.approx(10.5, abs=0.1)


def test_threads_are_refused(run: Run) -> None:
    async def main(loop: SimulatedLoop) -> None:
        await asyncio.to_thread(print)

    with pytest.raises(RuntimeError, match="no threads"):
        run(main)


def test_crash_that_nobody_notices_is_kept(run: Run) -> None:
    async def main(loop: SimulatedLoop) -> list[str]:
        loop.call_in(loop.add_process("p"), 0, int, "x")
        await asyncio.sleep(1)
        return loop.unhandled

    assert "ValueError" in run(main)[0]


def test_world_with_nothing_to_wait_for_is_told(run: Run) -> None:
    async def main(loop: SimulatedLoop) -> None:
        await asyncio.Event().wait()

    with pytest.raises(RuntimeError, match="deadlocked"):
        run(main)


@pytest.mark.parametrize("seed", [1, 2])
def test_same_seed_same_order(seed: int) -> None:
    def trace() -> tuple[int, list[str]]:
        loop, order = SimulatedLoop(Random(seed)), []
        for name in "abc":
            process = loop.add_process(name)
            for _ in range(10):
                loop.call_in(process, 0, order.append, name)
        loop.run_until_complete(asyncio.sleep(1))
        found = (loop.trace, list(order))
        loop.end()
        return found

    assert trace() == trace()


def test_end_leaves_nothing_of_what_a_cleanup_starts() -> None:
    loop = SimulatedLoop(Random(7))
    begun: list[Coroutine[Any, Any, None]] = []

    async def late() -> None:
        raise AssertionError("nothing runs in a world that is over")

    async def victim() -> None:
        try:
            await asyncio.Event().wait()
        finally:
            begun.append(late())
            loop.create_task(begun[-1])

    async def main() -> None:
        process = loop.add_process("victim")
        loop.spawn(process, victim())
        await asyncio.sleep(1)
        loop.kill(process)

    loop.run_until_complete(main())
    loop.end()
    (work,) = begun
    assert inspect.getcoroutinestate(work) == inspect.CORO_CLOSED  # else Python warns of it


def test_what_a_killed_process_had_spawned_and_not_begun_is_closed_with_its_world() -> None:
    loop = SimulatedLoop(Random(7))
    spawned: list[Coroutine[Any, Any, None]] = []

    async def work() -> None:
        raise AssertionError("its process was killed before")

    async def owner() -> None:
        scope = TaskScope("owner")
        await scope.start()
        spawned.append(work())
        scope.spawn(spawned[-1])
        loop.kill(process)

    async def main() -> None:
        loop.spawn(process, owner())
        await asyncio.sleep(1)

    process = loop.add_process("victim")
    loop.run_until_complete(main())
    loop.end()
    assert inspect.getcoroutinestate(spawned[0]) == inspect.CORO_CLOSED  # else Python warns of it
