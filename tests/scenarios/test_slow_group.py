"""A group whose process stands still: producers and other groups go on, then it catches up.

The bounds tell a broker that waits for the group from one that does not, on a busy machine too:
whoever waits does so for the whole stall.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka.admin import AdminClient, NewTopic

from broker.bench.running import Options
from broker.bench.stalled_group import Outcome, observe
from broker.bench.target import Target
from tests.support.broker_process import BrokerProcess

TOPIC = "orders"
PARTITIONS = 3
RATE = 2_000
STALL_S = 8.0
LATE_MS_MAX = 1_000 * STALL_S / 4


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[BrokerProcess]:
    with BrokerProcess(tmp_path, {"group.initial.rebalance.delay.ms": 0}) as broker:
        yield broker


@pytest.mark.timeout(240)
def test_a_stalled_group_slows_nobody_and_loses_nothing(broker: BrokerProcess) -> None:
    admin = AdminClient({"bootstrap.servers": broker.bootstrap})
    admin.create_topics([NewTopic(TOPIC, PARTITIONS, 1)])[TOPIC].result(20)

    outcome = observe(  # fails when a group misses a record, or does not commit all of them
        Target(broker.bootstrap, None), Options(0, PARTITIONS, 1024, "all", STALL_S), TOPIC, RATE
    )

    print(outcome)
    assert outcome.rate_during > RATE / 2
    for name in ("A", "B"):
        reader = outcome.readers[name]
        assert reader.during["p99_ms"] < LATE_MS_MAX, name
        assert reader.during["count"] > RATE * STALL_S / 2, name
    assert_the_stalled_group_stood_still_and_drained(outcome)


def assert_the_stalled_group_stood_still_and_drained(outcome: Outcome) -> None:
    at_stop, at_continue = outcome.committed
    assert at_stop == at_continue > 0, "the group's offsets stayed where they were"
    assert outcome.lag_peak > RATE * STALL_S / 2
    assert outcome.readers["C"].caught_up_s is not None
    assert outcome.drained_s < STALL_S
