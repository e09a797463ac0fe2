"""Which half of the journal takes a record, and when a place is given again."""

from __future__ import annotations

import pytest

from broker.log.journal import BLOCK_BYTES, FIRST_RECORD, RECORD_BYTES_MAX
from broker.runtime.ring_file import RING_BYTES
from broker.server.journal_halves import HALF_BYTES, OPEN_MS_MIN, Halves
from broker.simulator.ring import RING_BYTES as SIMULATED_RING_BYTES

SIZE = FIRST_RECORD + 40 * BLOCK_BYTES
MIDDLE = FIRST_RECORD + 20 * BLOCK_BYTES
LATER_MS = 9_999


def fill(halves: Halves[str], log: str) -> None:
    while halves.has_place(BLOCK_BYTES):
        halves.place(BLOCK_BYTES, [log])


def test_records_follow_each_other_in_whole_blocks() -> None:
    halves: Halves[str] = Halves(SIZE)
    found = [halves.place(size, ["a"]) for size in (1, BLOCK_BYTES + 1, 1)]
    assert [(each - FIRST_RECORD) / BLOCK_BYTES for each in found] == [0, 1, 3]


def test_no_record_reaches_beyond_its_half() -> None:
    halves: Halves[str] = Halves(SIZE)
    for _ in range(19):
        halves.place(1, ["a"])
    assert halves.has_place(BLOCK_BYTES)
    assert not halves.has_place(BLOCK_BYTES + 1)


def test_a_half_with_enough_bytes_takes_no_more_although_it_is_not_full() -> None:
    halves: Halves[str] = Halves(RING_BYTES)
    for _ in range(HALF_BYTES // 32_768):
        assert halves.has_place(1)
        halves.place(32_768, ["a"])
    assert not halves.has_place(1)


def test_a_half_is_written_to_again_only_when_its_logs_are_synced_and_after_a_while() -> None:
    halves: Halves[str] = Halves(SIZE)
    fill(halves, "a")
    halves.leave(1_000)
    assert halves.settling == ("a",)
    assert halves.place(1, ["b"]) == MIDDLE
    assert not halves.may_leave(LATER_MS), "not settled"
    assert halves.note_settled(["a"])
    assert not halves.may_leave(1_000 + OPEN_MS_MIN - 1)
    halves.leave(1_000 + OPEN_MS_MIN)
    assert halves.settling == ("b",)
    assert halves.place(1, ["c"]) == FIRST_RECORD


def test_a_log_that_was_not_synced_keeps_both_halves() -> None:
    halves: Halves[str] = Halves(SIZE)
    halves.place(1, ["a", "b"])
    halves.leave(0)
    assert not halves.note_settled(["a"])
    assert halves.settling == ("b",)
    assert not halves.may_leave(LATER_MS)
    assert not halves.is_all_settled


def test_a_log_deleted_while_it_is_synced_opens_no_half_before_that_ends() -> None:
    halves: Halves[str] = Halves(SIZE)
    halves.place(1, ["a"])
    halves.leave(0)
    halves.place(1, ["b"])
    halves.forget("a")
    assert not halves.may_leave(LATER_MS)
    assert halves.note_settled(["a"])
    halves.leave(LATER_MS)
    assert halves.settling == ("b",)


def test_leaving_both_owes_the_logs_of_both() -> None:
    halves: Halves[str] = Halves(SIZE)
    halves.place(1, ["a"])
    halves.leave(0)
    halves.place(1, ["b"])
    halves.leave_both()
    assert halves.settling == ("a", "b")
    assert not halves.may_leave(LATER_MS)
    assert not halves.is_all_settled
    assert halves.note_settled(["a", "b"])
    assert halves.is_all_settled


def test_what_only_the_open_half_has_is_not_settled() -> None:
    halves: Halves[str] = Halves(SIZE)
    assert halves.is_all_settled
    halves.place(1, ["a"])
    assert not halves.is_all_settled


@pytest.mark.parametrize("size", [RING_BYTES, SIMULATED_RING_BYTES])
def test_a_half_of_every_ring_takes_the_longest_record(size: int) -> None:
    halves: Halves[str] = Halves(size)
    for now_ms in (0, LATER_MS):
        halves.place(RECORD_BYTES_MAX, ["a"])
        halves.leave(now_ms)
        halves.note_settled(["a"])
