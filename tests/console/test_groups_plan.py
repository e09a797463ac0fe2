"""Where a group would read on: targets, clamping, counts, what a form may say."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hermes_console.operations.groups_plan import (
    ABOVE_END,
    BELOW_START,
    NO_COMMIT,
    NOTHING_THAT_YOUNG,
    BadTarget,
    Facts,
    Move,
    Place,
    Target,
    Where,
    make_token,
    moves_text,
    plan_move,
    read_moves,
    read_partitions,
    read_target,
    totals,
)

WHERE = Where("orders", 3)
OFFSETS = st.integers(0, 2**63 - 1)


def move(target: Target, *, committed: int | None = 50, at_time: int | None = None) -> Move:
    return plan_move(WHERE, Facts(committed, log_start=10, end=100, at_time=at_time), target)


@pytest.mark.parametrize(
    ("target", "after", "skipped", "read_again"),
    [
        (Target(Place.EARLIEST), 10, 0, 40),
        (Target(Place.LATEST), 100, 50, 0),
        (Target(Place.OFFSET, 60), 60, 10, 0),
        (Target(Place.SHIFT, -20), 30, 0, 20),
        (Target(Place.SHIFT, 20), 70, 20, 0),
        (Target(Place.OFFSET, 50), 50, 0, 0),
    ],
)
def test_each_place_moves_the_commit_and_counts_what_that_means(
    target: Target, after: int, skipped: int, read_again: int
) -> None:
    found = move(target)
    assert (found.after, found.skipped_count, found.read_again_count) == (
        after,
        skipped,
        read_again,
    )
    assert found.is_change is (after != 50)
    assert found.note == ""


def test_offset_outside_of_the_log_is_clamped_and_says_so() -> None:
    below, above = move(Target(Place.OFFSET, 3)), move(Target(Place.SHIFT, 1_000))
    assert (below.after, below.note) == (10, BELOW_START)
    assert (above.after, above.note) == (100, ABOVE_END)


def test_time_goes_to_its_record_and_to_the_end_when_nothing_is_that_young() -> None:
    target = Target(Place.TIME, 1_000)
    assert move(target, at_time=42).after == 42
    young = move(target, at_time=-1)
    assert (young.after, young.note) == (100, NOTHING_THAT_YOUNG)


def test_partition_without_a_commit_cannot_be_shifted_but_be_set() -> None:
    left = move(Target(Place.SHIFT, 5), committed=None)
    assert (left.after, left.is_change, left.note) == (None, False, NO_COMMIT)
    new = move(Target(Place.LATEST), committed=None)
    assert (new.after, new.is_change, new.delta, new.skipped_count) == (100, True, None, None)


def test_records_that_retention_deleted_are_not_counted_as_skipped() -> None:
    lost = move(Target(Place.OFFSET, 20), committed=2)
    assert (lost.delta, lost.skipped_count) == (18, 10)
    assert "gone" in lost.note


@given(committed=OFFSETS | st.none(), start=OFFSETS, span=st.integers(0, 2**40), value=OFFSETS)
def test_new_offset_always_exists_in_the_log(
    committed: int | None, start: int, span: int, value: int
) -> None:
    facts = Facts(committed, start, start + span, at_time=value)
    for place in (Place.EARLIEST, Place.LATEST, Place.OFFSET):
        found = plan_move(WHERE, facts, Target(place, value))
        assert found.after is not None
        assert start <= found.after <= start + span
        if committed is not None:
            assert min(found.skipped_count or 0, found.read_again_count or 0) == 0


def test_totals_count_only_what_changes() -> None:
    moves = [
        move(Target(Place.LATEST)),
        move(Target(Place.OFFSET, 50)),
        move(Target(Place.EARLIEST)),
    ]
    assert totals(moves) == (2, 50, 40, 90)


def test_moves_survive_the_database_without_loss_above_2_to_53() -> None:
    big = Move("orders", 0, 2**62 + 1, None, 0, 0)
    assert read_moves(moves_text([big])) == [(Where("orders", 0), 2**62 + 1, None)]


def test_token_changes_with_a_commit_a_topic_and_the_group() -> None:
    commits = {WHERE: 50}
    first = make_token("g", {"orders": "aa"}, commits)
    assert first == make_token("g", {"orders": "aa"}, dict(commits))
    others = {
        make_token("h", {"orders": "aa"}, commits),
        make_token("g", {"orders": "bb"}, commits),
        make_token("g", {"orders": "aa"}, {WHERE: 51}),
        make_token("g", {"orders": "aa"}, {}),
    }
    assert first not in others
    assert len(others) == 4


@pytest.mark.parametrize(
    ("place", "value"),
    [
        ("nowhere", ""),
        ("offset", "-1"),
        ("offset", "1e3"),
        ("offset", "١٢"),
        ("offset", "9223372036854775808"),
        ("shift", "many"),
        ("shift", ""),
        ("time", "yesterday"),
        ("time", "1969-12-31T00:00:00Z"),
        ("time", "2026-13-01"),
    ],
)
def test_target_that_makes_no_sense_is_refused_with_what_to_give(place: str, value: str) -> None:
    with pytest.raises(BadTarget):
        read_target(place, value)


def test_partitions_are_given_as_ranges() -> None:
    assert read_partitions("0-2, 7,7") == (0, 1, 2, 7)
    assert read_partitions(" all ") is None
    assert read_partitions("") is None


@pytest.mark.parametrize("text", ["3-1", "a", "1,,2", "0-99999999", "-1", "0-1000000"])
def test_partitions_that_make_no_sense_are_refused(text: str) -> None:
    with pytest.raises(BadTarget):
        read_partitions(text)
