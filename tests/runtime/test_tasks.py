"""Background tasks end with their owner, and a crash stays with its owner."""

from __future__ import annotations

import asyncio
import inspect

import pytest
import structlog

from broker.runtime.tasks import TaskScope


async def test_close_cancels_every_task_and_waits_for_them() -> None:
    scope, ended = TaskScope("owner"), []

    async def forever(name: str) -> None:
        try:
            await asyncio.Event().wait()
        finally:
            ended.append(name)

    await scope.start()
    scope.spawn(forever("a"))
    scope.spawn(forever("b"))
    await asyncio.sleep(0)
    await scope.close()
    await scope.close()
    assert sorted(ended) == ["a", "b"]  # a TaskGroup cancels in no order


async def test_crash_is_logged_with_its_name_and_the_others_go_on() -> None:
    scope = TaskScope("broker")
    going = asyncio.Event()

    async def crash() -> None:
        raise ValueError("boom")

    async def other() -> None:
        await asyncio.sleep(0)
        going.set()

    await scope.start()
    with structlog.testing.capture_logs() as lines:
        scope.spawn(crash(), name="cleaner")
        scope.spawn(other())
        await going.wait()
    await scope.close()
    (line,) = lines
    assert line["task"] == "broker/cleaner"
    assert isinstance(line["exc_info"], ValueError)


async def test_task_outside_its_owners_life_is_a_bug() -> None:
    async def work() -> None: ...

    scope, late = TaskScope("owner"), work()
    with pytest.raises(AssertionError, match="not running"):
        scope.spawn(late)
    late.close()


async def test_work_that_is_cancelled_before_its_first_step_leaves_no_warning() -> None:
    async def never() -> None:
        raise AssertionError("it was cancelled before it began")

    scope = TaskScope("owner")
    await scope.start()
    work = never()
    task = scope.spawn(work)
    task.cancel()
    await asyncio.wait([task])
    assert inspect.getcoroutinestate(work) == inspect.CORO_CLOSED  # else Python warns of it
    await scope.close()
