"""Verdicts of partitions and groups: stopped, rewound, stalled, falling behind, fine; bursts are
not trends.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

import pytest

from hermes_console.live.clusterstate import ClusterState
from hermes_console.live.observation import (
    ClusterObserved,
    GroupObserved,
    MemberObserved,
    MetricsObserved,
    OffsetRange,
    TopicPartition,
)
from hermes_console.live.progress import STALLED_AFTER_MS, advance, judge_partition, lag_of
from hermes_console.live.trend import Rate, Trend, TrendSample, drain_seconds
from hermes_console.samples.snapshot import ClusterSnapshot, GroupDetail, Verdict

ORDERS = TopicPartition("orders", 0)


def look(
    at_s: float,
    *,
    end: int,
    committed: int | None,
    members: int = 1,
    state: str = "Stable",
    topic_id: str = "t1",
    metrics: MetricsObserved | None = None,
) -> ClusterObserved:
    return ClusterObserved(
        at_ms=int(at_s * 1000),
        cluster_id="c",
        brokers=(),
        topic_ids={"orders": topic_id},
        partition_count=1,
        offsets={ORDERS: OffsetRange(0, end)},
        groups=(
            GroupObserved(
                "app",
                state,
                "range",
                tuple(
                    MemberObserved(f"m{n}", "", "app", "h", (ORDERS,) if n == 0 else ())
                    for n in range(members)
                ),
                {} if committed is None else {ORDERS: committed},
            ),
        ),
        metrics=metrics,
    )


def watch(looks: Iterable[ClusterObserved]) -> tuple[ClusterSnapshot, GroupDetail]:
    state = ClusterState()
    for one in looks:
        snapshot, details = state.absorb(one)
    return snapshot, details[0]


def seconds(
    count: int, end: Callable[[int], int], committed: Callable[[int], int | None], **more: int
) -> list[ClusterObserved]:
    return [look(s, end=end(s), committed=committed(s), **more) for s in range(count)]


def test_lag_is_never_below_zero() -> None:
    assert lag_of(committed=12, end=10) == 0
    assert lag_of(committed=2, end=10, start=7) == 3, "what is gone below the start does not wait"


def test_no_commit_is_unknown_and_not_zero() -> None:
    _, detail = watch(seconds(90, lambda s: s * 10, lambda _: None))
    assert detail.summary.verdict is Verdict.UNKNOWN
    assert detail.summary.lag is None
    assert detail.summary.lag_seconds is None
    assert detail.summary.unknown_count == 1
    assert detail.partitions[0].lag is None


def test_group_that_reads_everything_at_once_is_fine() -> None:
    _, detail = watch(seconds(90, lambda s: s * 10, lambda s: s * 10))
    assert (detail.summary.verdict, detail.summary.lag) == (Verdict.FINE, 0)
    assert detail.summary.reason == "Caught up."
    assert detail.summary.drain_seconds == 0


def test_group_without_members_and_with_records_waiting_is_stopped_at_once() -> None:
    _, detail = watch([look(0, end=50, committed=8, members=0, state="Empty")])
    assert detail.summary.verdict is Verdict.STOPPED
    assert detail.summary.reason == "No member is connected; 42 messages wait."
    assert detail.partitions[0].verdict is Verdict.STOPPED


def test_one_waiting_record_waits() -> None:
    _, detail = watch([look(0, end=9, committed=8, members=0, state="Empty")])
    assert detail.summary.reason == "No member is connected; 1 message waits."


def test_group_without_members_that_has_read_everything_is_fine() -> None:
    _, detail = watch([look(0, end=50, committed=50, members=0, state="Empty")])
    assert detail.summary.verdict is Verdict.FINE
    assert "no member" in detail.summary.reason


def test_commit_that_stands_still_while_records_wait_is_stalled() -> None:
    stalled_s = STALLED_AFTER_MS // 1000
    _, before = watch(seconds(stalled_s, lambda s: 10 + s, lambda _: 5))
    _, after = watch(seconds(stalled_s + 1, lambda s: 10 + s, lambda _: 5))
    assert before.summary.verdict is Verdict.FINE
    assert after.summary.verdict is Verdict.STALLED
    assert "orders-0" in after.summary.reason


def two_partitions(second: int, stuck_at: int) -> ClusterObserved:
    """Partition 0 stands still, partition 1 moves; both have records waiting."""
    one = TopicPartition("orders", 1)
    return ClusterObserved(
        second * 1000,
        "c",
        (),
        {"orders": "t"},
        2,
        {ORDERS: OffsetRange(0, 10_000), one: OffsetRange(0, 10_000)},
        (
            GroupObserved(
                "app",
                "Stable",
                "range",
                (MemberObserved("m", "", "app", "h", (ORDERS, one)),),
                {ORDERS: stuck_at, one: second},
            ),
        ),
    )


def test_partition_that_waits_for_its_turn_is_not_stalled_but_a_stuck_one_is() -> None:
    looks = [two_partitions(s, stuck_at=5) for s in range(92)]
    _, waiting = watch(looks[:60])
    _, stuck = watch(looks)
    assert waiting.summary.verdict is Verdict.FINE
    assert [one.verdict for one in stuck.partitions] == [Verdict.STALLED, Verdict.FINE]
    assert stuck.summary.verdict is Verdict.STALLED


def test_group_that_has_begun_to_drain_no_longer_falls_behind() -> None:
    def committed(s: int) -> int:
        return s * 40 if s < 120 else 120 * 40 + (s - 120) * 300

    looks = seconds(160, lambda s: s * 100, committed)
    _, growing = watch(looks[:120])
    _, draining = watch(looks)
    assert growing.summary.verdict is Verdict.FALLING_BEHIND
    assert draining.summary.verdict is Verdict.FINE
    assert draining.summary.drain_seconds is not None


def test_idle_topic_is_not_stalled() -> None:
    _, detail = watch(seconds(600, lambda _: 100, lambda _: 100))
    assert detail.summary.verdict is Verdict.FINE


def test_record_after_a_long_idle_time_starts_the_stall_clock_then() -> None:
    _, detail = watch(seconds(605, lambda s: 100 if s < 600 else 101, lambda _: 100))
    assert detail.summary.verdict is Verdict.FINE


def test_slow_commits_that_move_are_not_stalled() -> None:
    _, detail = watch(seconds(300, lambda s: s * 10, lambda s: s // 25 * 250))
    assert detail.summary.verdict is Verdict.FINE


def test_offset_that_goes_back_is_rewound_until_it_caught_up() -> None:
    def committed(s: int) -> int:
        return 1_000 + s if s < 100 else 200 + (s - 100) * 50

    looks = seconds(160, lambda s: 1_000 + s, committed)
    _, during = watch(looks[:105])
    _, after = watch(looks[:125])
    assert during.summary.verdict is Verdict.REWOUND
    assert "went back below 1,099" in during.summary.reason
    assert after.summary.verdict is Verdict.FINE


def test_group_that_reads_slower_than_arrives_falls_behind() -> None:
    _, detail = watch(seconds(90, lambda s: s * 100, lambda s: s * 40))
    summary = detail.summary
    assert summary.verdict is Verdict.FALLING_BEHIND
    assert summary.slope_per_s == pytest.approx(60)
    assert summary.drain_seconds is None
    assert detail.partitions[0].verdict is Verdict.FALLING_BEHIND


def test_trend_needs_a_minute() -> None:
    _, detail = watch(seconds(55, lambda s: s * 100, lambda s: s * 40))
    assert detail.summary.verdict is Verdict.FINE


def test_burst_that_drains_is_not_falling_behind() -> None:
    """A minute of ten times the load every six minutes, read at three times the usual rate."""
    ends = [0]
    read = [0]
    for s in range(1, 1_200):
        ends.append(ends[-1] + (1_000 if s % 360 < 20 else 100))
        read.append(min(ends[-1], read[-1] + 400))
    state = ClusterState()
    found = set()
    for s in range(1_200):
        _, details = state.absorb(look(s, end=ends[s], committed=read[s]))
        found.add(details[0].summary.verdict)
    assert found == {Verdict.FINE}


def test_sawtooth_of_periodic_commits_is_not_falling_behind() -> None:
    state = ClusterState()
    found = set()
    for s in range(600):
        _, details = state.absorb(look(s, end=s * 97, committed=s // 5 * 5 * 97))
        found.add(details[0].summary.verdict)
    assert found == {Verdict.FINE}


def test_draining_group_is_fine_and_says_when_it_is_done() -> None:
    _, detail = watch(seconds(60, lambda s: 10_000 + s * 10, lambda s: s * 110))
    summary = detail.summary
    assert summary.verdict is Verdict.FINE
    assert summary.drain_seconds == pytest.approx(summary.lag / 100)
    assert summary.reason.startswith("Catches up in about")


def test_seconds_behind_come_from_when_the_oldest_unread_record_was_produced() -> None:
    _, detail = watch(seconds(61, lambda s: s * 10, lambda _: 200))
    assert detail.summary.lag_seconds == pytest.approx(40, abs=0.2)
    assert not detail.summary.is_at_least


def test_record_older_than_watching_is_at_least_that_late() -> None:
    _, detail = watch(seconds(31, lambda s: 1_000 + s, lambda _: 5))
    assert detail.summary.lag_seconds == pytest.approx(30)
    assert detail.summary.is_at_least


def test_brokers_own_answer_for_seconds_behind_is_preferred() -> None:
    metrics = MetricsObserved(oldest_unread_seconds={("app", ORDERS): 77.5})
    _, detail = watch([look(0, end=10, committed=5, metrics=metrics)])
    assert (detail.summary.lag_seconds, detail.summary.is_at_least) == (77.5, False)


def test_recreated_topic_is_no_rewind() -> None:
    state = ClusterState()
    state.absorb(look(0, end=500, committed=500))
    _, details = state.absorb(look(1, end=10, committed=0, topic_id="t2"))
    assert details[0].summary.verdict is Verdict.FINE


def test_commit_for_a_deleted_topic_is_left_out() -> None:
    observed = look(0, end=10, committed=5)
    gone = {**observed.groups[0].committed, TopicPartition("gone", 3): 9}
    with_gone = GroupObserved("app", "Stable", "range", observed.groups[0].members, gone)
    state = ClusterState()
    _, details = state.absorb(
        ClusterObserved(0, "c", (), observed.topic_ids, 1, observed.offsets, (with_gone,))
    )
    assert [one.topic for one in details[0].partitions] == ["orders"]


def test_failed_look_keeps_the_last_known_with_its_age() -> None:
    state = ClusterState()
    good, _ = state.absorb(look(10, end=50, committed=8))
    missed = state.miss(13_000, "Tried a:1: refused.")
    assert missed.sequence == good.sequence + 1
    assert (missed.at_ms, missed.reached_at_ms) == (13_000, 10_000)
    assert missed.groups == good.groups
    assert missed.trouble == "Tried a:1: refused."


def test_rates_need_two_looks_and_survive_a_restart_of_the_broker() -> None:
    state = ClusterState()

    def rate(at_s: int, total: float) -> float | None:
        metrics = MetricsObserved(records_in_total=total)
        return state.absorb(look(at_s, end=1, committed=1, metrics=metrics))[0].rates.messages_in

    assert rate(0, 100) is None
    assert rate(2, 300) == 100
    assert rate(3, 5) is None
    assert rate(4, 55) == 50


def test_partition_without_state_is_unknown() -> None:
    assert judge_partition(None, 0) is Verdict.UNKNOWN


def test_progress_starts_when_watching_starts() -> None:
    progress = advance(None, 5, 100, 1_000_000)
    assert judge_partition(progress, 1_000_000 + STALLED_AFTER_MS - 1) is Verdict.FINE


@pytest.mark.parametrize(
    ("lag", "rate", "expected"),
    [
        (0, None, 0.0),
        (None, Rate(1, 2), None),
        (10, None, None),
        (10, Rate(5, 5), None),
        (10, Rate(5, 4), None),
        (10, Rate(0, 5), 2.0),
        (10, Rate(0, 0), None),
        (100, Rate(10, 20), 10.0),
    ],
)
def test_time_to_drain(lag: int | None, rate: Rate | None, expected: float | None) -> None:
    assert drain_seconds(lag, rate) == expected


def test_trend_starts_anew_when_partitions_join() -> None:
    trend = Trend()
    for s in range(90):
        trend.add(TrendSample(s * 1000, 1, s * 40, s * 100, s * 60))
    assert trend.is_falling_behind()
    trend.add(TrendSample(90_000, 2, 9_000, 20_000, 11_000))
    assert not trend.is_falling_behind()
    assert trend.rate() is None


def test_growth_too_young_to_be_a_trend_is_not_called_keeping_up() -> None:
    _, detail = watch(seconds(40, lambda s: s * 100, lambda s: s * 40))
    assert detail.summary.verdict is Verdict.FINE
    assert detail.summary.reason == ("Its lag grows by 60.0/s: a burst, or the start of a trend.")
    assert not detail.summary.keeps_up
