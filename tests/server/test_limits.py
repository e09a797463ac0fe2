"""Budgets and log lines: what is shared is shared fairly and never over its bound for long."""

from broker.server.limits import (
    LOG_INTERVAL_MS,
    LOG_LINES_PER_INTERVAL,
    LogLines,
    MemoryBudget,
)


def test_a_budget_gives_what_it_has() -> None:
    budget = MemoryBudget(100)
    assert budget.try_take(60)
    assert not budget.try_take(41)
    assert budget.try_take(40)
    assert budget.free_bytes == 0


def test_one_holder_of_an_unused_budget_gets_more_than_it_has() -> None:
    budget = MemoryBudget(100)
    assert budget.try_take(1_000), "else a big request could never be served"
    assert not budget.try_take(1)


def test_who_waits_is_asked_in_order_when_bytes_come_back() -> None:
    budget = MemoryBudget(100)
    budget.take(100)
    asked: list[str] = []
    budget.wait(lambda: asked.append("first"))
    budget.wait(lambda: asked.append("second"))
    assert asked == []
    budget.give(10)
    assert asked == ["first", "second"]
    budget.give(10)
    assert asked == ["first", "second"], "each is asked once"


def test_who_waits_again_is_not_asked_for_ever() -> None:
    budget = MemoryBudget(100)
    budget.take(100)
    asked: list[int] = []

    def retry() -> None:
        asked.append(1)
        budget.wait(retry)

    budget.wait(retry)
    budget.give(1)
    assert len(asked) == 1


def test_a_flood_of_lines_is_cut_and_counted() -> None:
    lines = LogLines()
    admitted = [lines.admits(5.0) for _ in range(LOG_LINES_PER_INTERVAL + 7)]
    assert admitted.count(True) == LOG_LINES_PER_INTERVAL
    assert lines.admits(5.0 + LOG_INTERVAL_MS)
    assert lines.take_suppressed() == 7
    assert lines.take_suppressed() == 0
