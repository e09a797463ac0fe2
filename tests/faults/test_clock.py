"""A wall clock that jumps by a day ends no session and hangs no timer: deadlines are monotonic."""

from __future__ import annotations

import time
from pathlib import Path

import pytest
from confluent_kafka.admin import AdminClient, NewTopic

from tests.conformance.clients import CLIENTS
from tests.support.broker_process import BrokerProcess

LIBRARY = "/usr/lib/x86_64-linux-gnu/faketime/libfaketime.so.1"
SESSION_S = 6


@pytest.mark.apt("faketime")
@pytest.mark.parametrize("jump", ["-1d", "+1d"])
def test_members_outlive_a_jump_of_the_wall_clock(tmp_path: Path, jump: str) -> None:
    offset = tmp_path / "offset"
    offset.write_text("+0")
    environment = {
        "LD_PRELOAD": LIBRARY,
        "FAKETIME_TIMESTAMP_FILE": str(offset),
        "FAKETIME_NO_CACHE": "1",
        "FAKETIME_DONT_FAKE_MONOTONIC": "1",
    }
    client = CLIENTS[0]
    settings = {"group.initial.rebalance.delay.ms": 0}
    with BrokerProcess(tmp_path, settings, environment=environment) as broker:
        admin = AdminClient({"bootstrap.servers": broker.bootstrap})
        # The producer's clock stays: for a broker a day behind, its records are of tomorrow.
        tolerant = {"message.timestamp.after.max.ms": str(2**62)}
        admin.create_topics([NewTopic("orders", 2, 1, config=tolerant)])["orders"].result(20)
        with client.member(broker.bootstrap, "orders", "g") as member:
            member.wait_until(lambda: member.assignment == [0, 1], "the member has both")
            client.produce(broker.bootstrap, "orders", [("a", "1"), ("b", "2")])
            offset.write_text(jump)
            time.sleep(SESSION_S + 2)
            client.produce(broker.bootstrap, "orders", [("a", "3"), ("b", "4")])
            member.wait_until(lambda: len(member.records) == 4, "records arrive after the jump")
            assert member.assignments == [[0, 1]], "no rebalance"
            with client.member(broker.bootstrap, "orders", "g") as other:
                other.wait_until(lambda: len(other.assignment) == 1, "a rebalance ends")
                other.kill()
            member.wait_until(
                lambda: member.assignment == [0, 1],
                "the dead member's session ends",
                timeout=SESSION_S + 6,
            )
