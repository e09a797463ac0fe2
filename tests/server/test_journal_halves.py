"""Which half of the journal takes a record, and when a place is given again."""

from __future__ import annotations

import pytest

from broker.log.journal import BLOCK_BYTES, FIRST_RECORD, RECORD_BYTES_MAX
from broker.runtime.ring_file import RING_BYTES
from broker.server.journal_halves import (
    OPEN_MS_MIN,
    REST_MS_MAX,
    SETTLE_MS_MAX,
    SETTLE_SHARE,
    Halves,
)
from broker.simulator.ring import RING_BYTES as SIMULATED_RING_BYTES
from broker.simulator.ring import RING_RECORD_BYTES

SIZE = FIRST_RECORD + 40 * BLOCK_BYTES
MIDDLE = FIRST_RECORD + 20 * BLOCK_BYTES
LATER_MS = 9_999
CHUNK = 64 * 1024
ENOUGH = 8 * CHUNK
"""For the half of a real ring."""


def real_halves() -> Halves[str]:
    return Halves(RING_BYTES, RECORD_BYTES_MAX)


def fill(halves: Halves[str], log: str = "a", at_once: int = 1) -> int:
    """How many bytes it took."""
    size = 0
    while halves.has_place(at_once):
        halves.place(at_once, [log])
        size += at_once
    return size


def test_records_follow_each_other_in_whole_blocks() -> None:
    halves = real_halves()
    found = [halves.place(size, ["a"]) for size in (1, BLOCK_BYTES + 1, 1)]
    assert [(each - FIRST_RECORD) / BLOCK_BYTES for each in found] == [0, 1, 3]


def test_no_record_reaches_beyond_its_half() -> None:
    halves: Halves[str] = Halves(SIZE, 16 * BLOCK_BYTES)
    for _ in range(19):
        assert halves.has_place(BLOCK_BYTES)
        halves.place(1, ["a"])
    assert halves.has_place(BLOCK_BYTES)
    assert not halves.has_place(BLOCK_BYTES + 1)
    assert halves.is_to_be_left(BLOCK_BYTES + 1, 0)


def test_a_half_with_enough_is_left_as_soon_as_the_other_one_is_settled() -> None:
    halves = real_halves()
    halves.place(ENOUGH - CHUNK, ["a"])
    assert not halves.is_to_be_left(1, LATER_MS)
    halves.place(CHUNK, ["a"])
    assert halves.is_to_be_left(1, LATER_MS)
    halves.leave(LATER_MS)
    halves.place(ENOUGH, ["b"])
    assert not halves.is_to_be_left(1, 2 * LATER_MS), "not settled"
    halves.note_settled(["a"], LATER_MS + 1)
    assert halves.is_to_be_left(1, 2 * LATER_MS)


def test_a_half_stays_open_three_times_as_long_as_the_one_before_took() -> None:
    halves = real_halves()
    halves.leave(1_000)
    halves.note_settled([], 1_000 + 50)
    halves.place(ENOUGH, ["a"])
    assert not halves.is_to_be_left(1, 1_000 + SETTLE_SHARE * 50 - 1)
    assert halves.is_to_be_left(1, 1_000 + SETTLE_SHARE * 50)


def test_a_sync_that_stood_still_keeps_a_half_open_for_a_second_more_at_most() -> None:
    halves = real_halves()
    halves.leave(0)
    halves.note_settled([], 20_000)
    assert not halves.may_leave(20_000 + REST_MS_MAX - 1)
    assert halves.may_leave(20_000 + REST_MS_MAX)


def settle_in(halves: Halves[str], now_ms: float, took_ms: float) -> float:
    """Leave it; the time at which it was settled."""
    halves.leave(now_ms)
    halves.note_settled(["a"], now_ms + took_ms)
    return now_ms + took_ms


def test_a_half_takes_what_the_files_are_synced_with_in_a_while_and_enough_at_least() -> None:
    halves = real_halves()
    now_ms = 0.0
    for _ in range(10):
        size = fill(halves, at_once=CHUNK)
        now_ms = settle_in(halves, now_ms + LATER_MS, size / 100_000)  # 100 MB/s
    assert abs(fill(halves, at_once=CHUNK) - SETTLE_MS_MAX * 100_000) <= CHUNK
    now_ms = settle_in(halves, now_ms + LATER_MS, 2_000)
    assert fill(halves, at_once=CHUNK) == ENOUGH


def test_syncs_that_take_no_time_let_a_half_grow_in_steps() -> None:
    halves = real_halves()
    found, now_ms = [], 0.0
    for _ in range(8):
        found.append(fill(halves, at_once=CHUNK) // ENOUGH)
        now_ms = settle_in(halves, now_ms + LATER_MS, 0)
    assert found == [1, 2, 4, 8, 16, 31, 31, 31], "to what it has room for"


def test_a_half_is_written_to_again_only_when_its_logs_are_synced_and_after_a_while() -> None:
    halves: Halves[str] = Halves(SIZE, 16 * BLOCK_BYTES)
    fill(halves, "a")
    halves.leave(1_000)
    assert halves.settling == ("a",)
    assert halves.place(1, ["b"]) == MIDDLE
    assert not halves.may_leave(LATER_MS), "not settled"
    assert halves.note_settled(["a"], 1_000)
    assert not halves.may_leave(1_000 + OPEN_MS_MIN - 1)
    halves.leave(1_000 + OPEN_MS_MIN)
    assert halves.settling == ("b",)
    assert halves.place(1, ["c"]) == FIRST_RECORD


def test_a_log_that_was_not_synced_keeps_both_halves() -> None:
    halves: Halves[str] = Halves(SIZE, 16 * BLOCK_BYTES)
    halves.place(1, ["a", "b"])
    halves.leave(0)
    assert not halves.note_settled(["a"], 1)
    assert halves.settling == ("b",)
    assert not halves.may_leave(LATER_MS)
    assert not halves.is_all_settled


def test_a_log_deleted_while_it_is_synced_opens_no_half_before_that_ends() -> None:
    halves: Halves[str] = Halves(SIZE, 16 * BLOCK_BYTES)
    halves.place(1, ["a"])
    halves.leave(0)
    halves.place(1, ["b"])
    halves.forget("a")
    assert not halves.may_leave(LATER_MS)
    assert halves.note_settled(["a"], 1)
    halves.leave(LATER_MS)
    assert halves.settling == ("b",)


def test_leaving_both_owes_the_logs_of_both() -> None:
    halves: Halves[str] = Halves(SIZE, 16 * BLOCK_BYTES)
    halves.place(1, ["a"])
    halves.leave(0)
    halves.place(1, ["b"])
    halves.leave_both()
    assert halves.settling == ("a", "b")
    assert not halves.may_leave(LATER_MS)
    assert not halves.is_all_settled
    assert halves.note_settled(["a", "b"], LATER_MS)
    assert halves.is_all_settled


def test_what_only_the_open_half_has_is_not_settled() -> None:
    halves: Halves[str] = Halves(SIZE, 16 * BLOCK_BYTES)
    assert halves.is_all_settled
    halves.place(1, ["a"])
    assert not halves.is_all_settled


@pytest.mark.parametrize(
    ("size", "longest"),
    [(RING_BYTES, RECORD_BYTES_MAX), (SIMULATED_RING_BYTES, RING_RECORD_BYTES)],
)
def test_a_half_of_every_ring_takes_the_longest_record(size: int, longest: int) -> None:
    halves: Halves[str] = Halves(size, longest)
    for now_ms in (0, LATER_MS):
        halves.place(longest, ["a"])
        halves.leave(now_ms)
        halves.note_settled(["a"], now_ms)
