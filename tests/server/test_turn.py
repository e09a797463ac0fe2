"""One turn: writes, then answers, then a slice of who may go on."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from broker.server.limits import (
    ALONE_TURNS_MAX,
    READY_PER_TURN_MAX,
    SHARED_TURN_BYTES_MAX,
    UNSHARED_TURNS,
)
from broker.server.turn import Turn


class Step:
    """A partition or a connection of this test: notes when it is asked to work."""

    def __init__(
        self, notes: list[str], name: str, then: Callable[[], None] = lambda: None
    ) -> None:
        self._notes = notes
        self._name = name
        self._then = then

    def flush(self) -> None:
        self._notes.append(f"write {self._name}")
        self._then()

    def send(self) -> None:
        self._notes.append(f"send {self._name}")
        self._then()

    def abort(self) -> None:
        self._notes.append(f"abort {self._name}")


async def test_writes_come_first_then_answers_then_who_may_go_on() -> None:
    notes: list[str] = []
    turn = Turn()
    turn.open()
    turn.add_ready(lambda: notes.append("go on"))
    turn.add_sender(Step(notes, "c"))
    turn.add_dirty(Step(notes, "p"))
    assert turn.has_dirty
    turn.settle()
    assert notes == ["write p", "send c", "go on"]
    assert not turn.has_dirty


async def test_a_connection_that_cannot_send_ends_alone() -> None:
    def fail() -> None:
        raise RuntimeError("a bug")

    notes: list[str] = []
    turn = Turn()
    turn.add_sender(Step(notes, "broken", fail))
    turn.add_sender(Step(notes, "other"))
    turn.settle()
    assert notes == ["send broken", "abort broken", "send other"]


async def test_what_a_write_stages_is_written_in_the_same_turn() -> None:
    notes: list[str] = []
    turn = Turn()
    second = Step(notes, "second")
    turn.add_dirty(Step(notes, "first", lambda: turn.add_dirty(second)))
    turn.settle()
    assert notes == ["write first", "write second"]


async def test_many_who_may_go_on_do_so_in_slices() -> None:
    notes: list[int] = []
    turn = Turn()
    for number in range(3 * READY_PER_TURN_MAX):
        turn.add_ready(lambda number=number: notes.append(number))
    turn.settle()
    assert len(notes) == READY_PER_TURN_MAX
    await asyncio.sleep(0.01)
    assert notes == list(range(3 * READY_PER_TURN_MAX))


async def test_a_turn_that_nobody_settles_settles_itself() -> None:
    notes: list[str] = []
    turn = Turn()
    turn.add_dirty(Step(notes, "p"))
    assert notes == []
    await asyncio.sleep(0.01)
    assert notes == ["write p"]


def read(turn: Turn, partition: Step, received_end: int = 100) -> None:
    """A connection's read that stages something for `partition`."""
    turn.open()
    turn.add_dirty(partition)
    turn.close(received_end)


async def test_connections_read_in_one_round_share_a_turn() -> None:
    notes: list[str] = []
    turn = Turn()
    read(turn, Step(notes, "first"), 100)
    assert turn.received_end == 100, "these bytes of the receive buffer stay as they are"
    read(turn, Step(notes, "second"), 250)
    assert turn.received_end == 250
    assert notes == []
    await asyncio.sleep(0)
    assert notes == ["write first", "write second"]
    assert turn.received_end == 0


async def test_a_turn_ends_when_it_holds_much_of_the_receive_buffer() -> None:
    notes: list[str] = []
    turn = Turn()
    read(turn, Step(notes, "first"))
    read(turn, Step(notes, "second"), SHARED_TURN_BYTES_MAX + 1)
    assert notes == ["write first", "write second"]
    assert turn.received_end == 0


async def test_a_read_that_stages_nothing_is_answered_at_once() -> None:
    notes: list[str] = []
    turn = Turn()
    turn.open()
    turn.add_sender(Step(notes, "c"))
    turn.close(100)
    assert notes == ["send c"]


async def test_a_connection_that_is_alone_does_not_wait_for_others() -> None:
    notes: list[str] = []
    turn = Turn()
    waited: list[bool] = []
    for _ in range(ALONE_TURNS_MAX + 2 * UNSHARED_TURNS):
        notes.clear()
        read(turn, Step(notes, "p"))
        waited.append(not notes)
        await asyncio.sleep(0)
        assert notes == ["write p"]
    assert waited.count(True) <= 3 * ALONE_TURNS_MAX
    for _ in range(UNSHARED_TURNS + 1):  # now there are two
        read(turn, Step(notes, "p"))
        read(turn, Step(notes, "q"))
        await asyncio.sleep(0)
    notes.clear()
    read(turn, Step(notes, "p"))
    assert notes == [], "it is noticed"
    await asyncio.sleep(0)
