"""The low mark of free space: when produce is refused, and when it is taken again."""

from __future__ import annotations

import pytest

from broker.config.broker import AUTOMATIC
from broker.server.space import (
    CHECK_MS_MAX,
    CHECK_MS_MIN,
    MARK_BYTES_MAX,
    UNCHECKED_BYTES_MAX,
    UNCHECKED_BYTES_MIN,
    check_interval_ms,
    is_low,
    low_mark,
    unchecked_bytes,
)


@pytest.mark.parametrize(
    ("total", "mark"),
    [(16 << 20, (16 << 20) // 20), (1 << 33, (1 << 33) // 20), (1 << 44, MARK_BYTES_MAX)],
)
def test_by_itself_the_mark_is_a_twentieth_of_the_disk_and_a_gibibyte_at_most(
    total: int, mark: int
) -> None:
    assert low_mark(AUTOMATIC, total) == mark


def test_a_set_mark_holds_for_every_disk_and_none_refuses_nothing() -> None:
    assert low_mark(5_000, 1 << 40) == 5_000
    assert low_mark(0, 1 << 40) == 0
    assert not is_low(0, 0, was_low=False)


def test_produce_refused_at_the_mark_is_taken_again_only_above_it() -> None:
    assert not is_low(1_000, 1_000, was_low=False)
    assert is_low(999, 1_000, was_low=False)
    assert is_low(1_249, 1_000, was_low=True), "between the two it stays as it is"
    assert not is_low(1_250, 1_000, was_low=True)


def test_the_next_look_comes_before_a_gigabyte_a_second_could_pass_the_mark() -> None:
    assert check_interval_ms(500 << 20) == 500
    assert check_interval_ms(1 << 50) == CHECK_MS_MAX
    assert check_interval_ms(-5) == CHECK_MS_MIN


def test_the_next_look_comes_before_appends_could_pass_the_mark_by_much() -> None:
    assert unchecked_bytes(64 << 20) == 4 << 20
    assert unchecked_bytes(1 << 40) == UNCHECKED_BYTES_MAX
    assert unchecked_bytes(-5) == UNCHECKED_BYTES_MIN
