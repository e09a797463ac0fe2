"""Deadlines: once, in order, never after a cancel."""

import asyncio

from broker.runtime.clock import SystemClock
from broker.server.waiting import CANCELLED_COUNT_MIN, Deadlines


async def test_deadlines_fire_in_order_and_settle_once() -> None:
    fired: list[str] = []
    deadlines = Deadlines(SystemClock(), lambda: fired.append("settled"))
    deadlines.add(20, lambda: fired.append("late"))
    deadlines.add(1, lambda: fired.append("early"))
    deadlines.add(-5, lambda: fired.append("past"))
    await asyncio.sleep(0.1)
    assert [name for name in fired if name != "settled"] == ["past", "early", "late"]
    assert fired[-1] == "settled"
    assert len(deadlines) == 0


async def test_a_cancelled_deadline_never_fires() -> None:
    fired: list[str] = []
    deadlines = Deadlines(SystemClock(), lambda: None)
    deadline = deadlines.add(1, lambda: fired.append("wrong"))
    deadlines.add(2, lambda: fired.append("right"))
    deadline.cancel()
    deadline.cancel()
    await asyncio.sleep(0.05)
    assert fired == ["right"]
    deadline.cancel()
    assert len(deadlines) == 0


async def test_a_callback_may_add_a_deadline() -> None:
    fired: list[int] = []
    deadlines = Deadlines(SystemClock(), lambda: None)
    deadlines.add(1, lambda: deadlines.add(1, lambda: fired.append(2)))
    await asyncio.sleep(0.05)
    assert fired == [2]


async def test_cancelled_entries_do_not_pile_up() -> None:
    deadlines = Deadlines(SystemClock(), lambda: None)
    for _ in range(CANCELLED_COUNT_MIN * 4):
        deadlines.add(60_000, lambda: None).cancel()
    assert len(deadlines._heap) <= CANCELLED_COUNT_MIN * 2
    deadlines.close()


async def test_nothing_fires_after_close() -> None:
    fired: list[int] = []
    deadlines = Deadlines(SystemClock(), lambda: None)
    deadlines.add(1, lambda: fired.append(1))
    deadlines.close()
    await asyncio.sleep(0.02)
    assert fired == []


async def test_a_far_deadline_added_by_a_callback_does_not_hold_up_a_near_one() -> None:
    fired = asyncio.Event()
    deadlines = Deadlines(SystemClock(), lambda: None)

    def add_a_far_one() -> None:
        deadlines.add(60_000, lambda: None)

    deadlines.add(1, add_a_far_one)
    deadlines.add(60, fired.set)
    await asyncio.wait_for(fired.wait(), 20)
    deadlines.close()
