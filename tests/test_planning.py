"""Capacity sums, against queues that are played second by second."""

from __future__ import annotations

from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from broker.planning import (
    DAY_S,
    PlanError,
    next_power_of_two,
    plan_backlog,
    plan_partitions,
    plan_storage,
)

RATES = st.integers(0, 2_000)
SOME = st.integers(1, 2_000)


def test_a_sales_first_minute() -> None:
    plan = plan_backlog(
        rush_rate=Fraction(1_000),
        rush_s=Fraction(60),
        capacity=Fraction(400),
        then_rate=Fraction(100),
    )
    assert (plan.peak_count, plan.wait_s, plan.drain_s, plan.empty_s) == (36_000, 90, 120, 180)


def test_forty_workers_need_more_than_thirty_two_partitions() -> None:
    plan = plan_partitions(
        rate=Fraction(2_000),
        worker_rate=Fraction(50),
        message_bytes=Fraction(2_000),
        partition_count=32,
    )
    assert (plan.worker_count, plan.byte_floor, plan.needed_count) == (40, 1, 40)
    assert (plan.capacity, plan.spare, plan.limit) == (1_600, -400, "partitions")
    assert plan.suggested_count == 64


def test_a_billion_messages_a_day() -> None:
    plan = plan_storage(
        rate=Fraction(10**9, DAY_S),
        message_bytes=Fraction(1_000),
        retention_s=Fraction(7 * DAY_S),
        replica_count=3,
        partition_count=100,
        broker_count=3,
    )
    assert plan.bytes_per_day == 10**12
    assert plan.one_copy_bytes == 7 * 10**12
    assert plan.all_copies_bytes == 21 * 10**12
    assert round(plan.partition_rate) == 116
    assert plan.partition_bytes_per_day == 10 * 10**9


@given(rush=RATES, rush_s=st.integers(0, 120), capacity=SOME, then=RATES, waiting=RATES)
def test_a_backlog_is_what_a_played_queue_shows(
    rush: int, rush_s: int, capacity: int, then: int, waiting: int
) -> None:
    plan = plan_backlog(
        rush_rate=Fraction(rush),
        rush_s=Fraction(rush_s),
        capacity=Fraction(capacity),
        then_rate=Fraction(then),
        waiting_count=Fraction(waiting),
    )
    depth = peak = waiting
    for _ in range(rush_s):
        depth = max(0, depth + rush - capacity)
        peak = max(peak, depth)
    assert plan.end_count == depth
    assert plan.peak_count == peak
    assert plan.wait_s == Fraction(peak, capacity)
    if then > capacity or (then == capacity and depth):
        assert plan.drain_s is None
        assert plan.growth == then - capacity
        return
    assert plan.drain_s is not None
    seconds = 0
    while depth and seconds < 5_000:
        depth = max(0, depth + then - capacity)
        seconds += 1
    assert seconds - 1 < plan.drain_s <= seconds or (depth and plan.drain_s > seconds)


@given(rush=RATES, rush_s=st.integers(1, 120), capacity=SOME, waiting=SOME)
def test_a_queue_is_empty_when_a_played_one_is(
    rush: int, rush_s: int, capacity: int, waiting: int
) -> None:
    plan = plan_backlog(
        rush_rate=Fraction(rush),
        rush_s=Fraction(rush_s),
        capacity=Fraction(capacity),
        then_rate=Fraction(0),
        waiting_count=Fraction(waiting),
    )
    assert plan.empty_s is not None
    depth, seconds = waiting, 0
    while depth > 0:
        depth += (rush if seconds < rush_s else 0) - capacity
        seconds += 1
        if seconds > 250_000:
            pytest.fail("the played queue never drains")
    last_s = seconds - 1
    assert last_s <= plan.empty_s <= seconds


@given(
    rate=RATES,
    worker=st.integers(1, 500),
    size=st.integers(0, 100_000),
    partitions=st.integers(1, 300),
)
def test_what_is_needed_suffices_and_one_less_does_not(
    rate: int, worker: int, size: int, partitions: int
) -> None:
    def plan(count: int | None) -> tuple[int, int, Fraction | None]:
        found = plan_partitions(
            rate=Fraction(rate),
            worker_rate=Fraction(worker),
            message_bytes=Fraction(size),
            partition_count=count,
        )
        return found.needed_count, found.suggested_count, found.spare

    needed, suggested, spare = plan(None)
    assert spare is None
    assert suggested >= needed * Fraction(5, 4)
    assert suggested & (suggested - 1) == 0
    enough = plan(needed)[2]
    assert enough is not None
    assert enough >= 0
    if needed > 1:
        short = plan(needed - 1)[2]
        assert short is not None
        assert short < 0
    given_spare = plan(partitions)[2]
    assert given_spare is not None
    assert (given_spare >= 0) == (partitions >= needed)


def test_what_workers_write_to_is_a_limit_that_no_worker_moves() -> None:
    plan = plan_partitions(
        rate=Fraction(8_000),
        worker_rate=Fraction(50),
        message_bytes=Fraction(100),
        downstream_rate=Fraction(5_000),
        partition_count=256,
    )
    assert (plan.capacity, plan.spare, plan.limit) == (5_000, -3_000, "downstream")


def test_bytes_decide_where_messages_are_large() -> None:
    plan = plan_partitions(
        rate=Fraction(1_000),
        worker_rate=Fraction(1_000),
        message_bytes=Fraction(100_000),
        partition_count=4,
    )
    assert (plan.worker_count, plan.byte_floor, plan.needed_count) == (1, 10, 10)
    assert (plan.capacity, plan.limit) == (400, "bytes")


@given(st.fractions(Fraction(1, 1_000), 10**9))
def test_the_next_power_of_two_is_the_least_that_is_enough(least: Fraction) -> None:
    found = next_power_of_two(least)
    assert found >= least
    assert found & (found - 1) == 0
    assert found == 1 or found // 2 < least


def test_questions_without_an_answer_are_told() -> None:
    with pytest.raises(PlanError, match="above 0"):
        plan_backlog(
            rush_rate=Fraction(1), rush_s=Fraction(1), capacity=Fraction(0), then_rate=Fraction(0)
        )
    with pytest.raises(PlanError, match="3 copies need 3 brokers"):
        plan_storage(
            rate=Fraction(1),
            message_bytes=Fraction(1),
            retention_s=Fraction(1),
            replica_count=3,
            partition_count=1,
            broker_count=2,
        )
