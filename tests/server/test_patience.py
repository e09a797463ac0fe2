"""Lateness is counted in looks, and only while the same thing is owed."""

from broker.server.limits import SWEEP_INTERVAL_MS
from broker.server.patience import FRAME, READ, Owed, Patience


def test_each_look_at_the_same_debt_counts_for_one_interval() -> None:
    patience = Patience()
    waited = [patience.on_look(Owed(FRAME, 5.0)) for _ in range(3)]
    assert waited == [0, SWEEP_INTERVAL_MS, 2 * SWEEP_INTERVAL_MS]


def test_progress_and_another_debt_begin_anew() -> None:
    patience = Patience()
    patience.on_look(Owed(READ, 100))
    assert patience.on_look(Owed(READ, 100)) == SWEEP_INTERVAL_MS
    assert patience.on_look(Owed(READ, 99)) == 0
    assert patience.on_look(Owed(FRAME, 99)) == 0
