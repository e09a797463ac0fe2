"""When a sync round waits for the requests that the answers of the last one bring."""

from __future__ import annotations

import pytest

from broker.server.syncing import waits_for_more


@pytest.mark.parametrize(
    ("elapsed_ms", "idle_ms", "waits"),
    [
        (0.4, 0.4, False),  # a fast device: the broker works on one half meanwhile
        (2.0, 0.2, False),  # a slow one, but requests keep coming
        (2.0, 0.9, False),
        (2.0, 1.1, True),  # everybody who may send has sent, and waits
        (2.0, 2.5, True),  # all of them are in this round
        (40.0, 39.0, True),
    ],
)
def test_a_round_waits_only_behind_a_slow_one_in_which_the_broker_was_idle(
    elapsed_ms: float, idle_ms: float, *, waits: bool
) -> None:
    assert waits_for_more(elapsed_ms, idle_ms) == waits
