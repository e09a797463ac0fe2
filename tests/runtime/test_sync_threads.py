"""Calls in threads, side by side, with one wake-up of the loop."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from broker.runtime.sync_threads import THREADS, SyncThreads

PATIENCE_S = 20.0


@pytest.fixture
def threads() -> Iterator[SyncThreads]:
    made = SyncThreads()
    yield made
    made.close()


async def test_results_come_in_the_order_of_the_calls_however_many_they_are(
    threads: SyncThreads,
) -> None:
    for count in (1, 2, THREADS, 3 * THREADS + 1):
        works = [lambda number=number: number * number for number in range(count)]
        assert await threads.run(works) == [number * number for number in range(count)]


async def test_calls_run_side_by_side(threads: SyncThreads) -> None:
    all_here = threading.Barrier(THREADS, timeout=PATIENCE_S)
    assert len(set(await threads.run([all_here.wait] * THREADS))) == THREADS


async def test_a_call_waits_for_no_other_while_a_thread_is_idle(threads: SyncThreads) -> None:
    may_end = threading.Event()
    slow = [asyncio.ensure_future(threads.run([may_end.wait])) for _ in range(THREADS - 1)]
    await asyncio.sleep(0)
    try:
        async with asyncio.timeout(PATIENCE_S):
            assert await threads.run([int]) == [0]
            assert await threads.run([int, int]) == [0, 0]
    finally:
        may_end.set()
    assert await asyncio.gather(*slow) == [[True]] * (THREADS - 1)


async def test_the_loop_is_woken_once_for_all_calls(
    threads: SyncThreads, monkeypatch: pytest.MonkeyPatch
) -> None:
    loop = asyncio.get_running_loop()
    wake, woken = loop.call_soon_threadsafe, 0

    def counted(callback: Callable[..., Any], *arguments: Any) -> asyncio.Handle:
        nonlocal woken
        woken += 1
        return wake(callback, *arguments)

    monkeypatch.setattr(loop, "call_soon_threadsafe", counted)
    await threads.run([threading.get_ident] * THREADS)
    assert woken == 1


async def test_an_error_is_raised_when_all_calls_have_ended(threads: SyncThreads) -> None:
    failed, ended = threading.Event(), []

    def fail() -> None:
        failed.set()
        raise ValueError("no")

    def end() -> None:
        assert failed.wait(PATIENCE_S)
        ended.append(True)

    with pytest.raises(ValueError, match="no"):
        await threads.run([fail, end])
    assert ended == [True]


async def test_a_caller_that_is_cancelled_leaves_its_call_running(threads: SyncThreads) -> None:
    may_end, ended = threading.Event(), threading.Event()

    def work() -> None:
        assert may_end.wait(PATIENCE_S)
        ended.set()

    caller = asyncio.ensure_future(threads.run([work]))
    await asyncio.sleep(0)
    caller.cancel()
    with pytest.raises(asyncio.CancelledError):
        await caller
    may_end.set()
    assert await threads.run([lambda: ended.wait(PATIENCE_S)]) == [True]


async def test_closing_waits_for_no_call_and_nothing_more_is_taken() -> None:
    threads = SyncThreads()
    has_begun, may_end, came = threading.Event(), threading.Event(), threading.Event()

    def work() -> None:
        has_begun.set()
        assert may_end.wait(PATIENCE_S)

    first = asyncio.ensure_future(threads.run([work]))
    await asyncio.sleep(0)
    assert has_begun.wait(PATIENCE_S)
    threads.close()
    with pytest.raises(RuntimeError, match="closed"):
        await threads.run([came.set])
    may_end.set()
    await first
    names = {f"disk-round_{number}" for number in range(THREADS)}
    deadline = asyncio.get_running_loop().time() + PATIENCE_S
    while any(thread.name in names for thread in threading.enumerate()):
        assert asyncio.get_running_loop().time() < deadline, "the thread ends"
        await asyncio.sleep(0.01)
    assert not came.is_set()


async def test_a_pause_ends_with_the_round_that_it_met(threads: SyncThreads) -> None:
    is_synced = threading.Event()
    round_ = asyncio.ensure_future(threads.run([lambda: is_synced.wait(20)]))
    pause = asyncio.ensure_future(threads.pause(60))
    for _ in range(10):
        await asyncio.sleep(0)
    assert not pause.done()
    is_synced.set()
    await asyncio.wait_for(pause, 20)
    assert await round_ == [True]
    await asyncio.wait_for(threads.pause(60), 5)


async def test_a_pause_is_over_in_time_where_the_round_is_not(threads: SyncThreads) -> None:
    is_synced = threading.Event()
    round_ = asyncio.ensure_future(threads.run([lambda: is_synced.wait(20)]))
    await asyncio.sleep(0)
    await asyncio.wait_for(threads.pause(0.01), 10)
    assert not round_.done()
    is_synced.set()
    assert await round_ == [True]


async def test_nobody_waits_for_a_call_that_is_never_made(threads: SyncThreads) -> None:
    async with asyncio.timeout(PATIENCE_S):
        assert await threads.run([]) == []
        threads.close()
        with pytest.raises(RuntimeError, match="closed"):
            await threads.run([lambda: None])
