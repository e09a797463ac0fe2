"""When was an offset produced, told from sampled ends."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hermes_console.live.endhistory import TIERS, EndHistory


def history(*samples: tuple[int, int]) -> EndHistory:
    made = EndHistory()
    for at_s, end in samples:
        made.add(at_s * 1000, end)
    return made


def test_offset_between_two_samples_is_interpolated() -> None:
    produced = history((0, 0), (10, 100)).produced_at(25)
    assert produced is not None
    assert produced.at_ms == pytest.approx(2_500)
    assert not produced.is_at_least


def test_offset_at_the_end_was_not_produced_yet() -> None:
    assert history((0, 0), (10, 100)).produced_at(100) is None


def test_without_samples_nothing_is_known() -> None:
    assert EndHistory().produced_at(0) is None


def test_offset_older_than_watching_is_at_least_as_old_as_the_first_sample() -> None:
    produced = history((50, 1_000), (60, 1_100)).produced_at(10)
    assert produced is not None
    assert produced == (50_000, True)


def test_first_record_after_an_idle_hour_is_dated_to_the_second() -> None:
    idle = EndHistory()
    for second in range(3_601):
        idle.add(second * 1000, 500)
    idle.add(3_601_000, 501)
    produced = idle.produced_at(500)
    assert produced is not None
    assert 3_600_000 <= produced.at_ms <= 3_601_000


def test_recreated_topic_begins_anew() -> None:
    again = history((0, 0), (1, 900), (2, 3), (3, 10))
    produced = again.produced_at(5)
    assert produced is not None
    assert 2_000 < produced.at_ms < 3_000
    assert again.produced_at(950) is None


def test_sample_that_is_not_later_is_ignored() -> None:
    late = history((5, 50), (5, 60), (4, 70))
    assert late.produced_at(55) is None


def test_hours_of_growth_take_bounded_memory_and_stay_dated() -> None:
    long = EndHistory()
    for second in range(4 * 3_600):
        long.add(second * 1000, second * 10)
    assert sum(len(tier) for tier in long._tiers) <= sum(kept for _, kept in TIERS)
    produced = long.produced_at((4 * 3_600 - 1_800) * 10)
    assert produced is not None
    assert produced.at_ms / 1000 == pytest.approx(4 * 3_600 - 1_800, abs=61)


@given(st.lists(st.integers(0, 50), min_size=2, max_size=200), st.data())
def test_every_unread_offset_is_dated_between_the_first_sample_and_now(
    growth: list[int], data: st.DataObject
) -> None:
    grown = EndHistory()
    end = 0
    for second, amount in enumerate(growth):
        end += amount
        grown.add(second * 1000, end)
    offset = data.draw(st.integers(0, end))
    produced = grown.produced_at(offset)
    if offset >= end:
        assert produced is None
    else:
        assert produced is not None
        assert 0 <= produced.at_ms <= (len(growth) - 1) * 1000
