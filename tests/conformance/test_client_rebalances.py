"""Groups of every client, and mixed ones, share their partitions and go on without the dead."""

from __future__ import annotations

import itertools
import time
from collections.abc import Callable

from tests.conformance.clients import CLIENTS, PARTITIONS, Client, Member, each_client, orders


@each_client
def test_group_rebalances_when_a_member_joins_leaves_and_dies(
    client: Client, bootstrap: str, new_topic: Callable[[int], str]
) -> None:
    topic = new_topic(PARTITIONS)
    everything = list(range(PARTITIONS))
    with client.member(bootstrap, topic, f"{topic}-group") as first:
        first.wait_until(lambda: first.assignment == everything, "the first member has all")
        with client.member(bootstrap, topic, f"{topic}-group") as second:
            wait_for_split(first, second, everything)
            second.leave()
        first.wait_until(lambda: first.assignment == everything, "all come back after a leave")
        with client.member(bootstrap, topic, f"{topic}-group") as third:
            wait_for_split(first, third, everything)
            third.kill()
        first.wait_until(
            lambda: first.assignment == everything, "all come back after the session of the dead"
        )
        client.produce(bootstrap, topic, orders(80))
        first.wait_until(lambda: len(first.records) >= 80, "the survivor reads everything")
        first.leave()


def wait_for_split(one: Member, other: Member, everything: list[int]) -> None:
    other.wait_until(
        lambda: (
            len(one.assignment) == len(other.assignment) == len(everything) // 2
            and sorted(one.assignment + other.assignment) == everything
        ),
        "two members share the partitions",
    )


def test_members_of_different_clients_share_one_group(
    bootstrap: str, new_topic: Callable[[int], str]
) -> None:
    """Range assignment is common to all but kafkajs, whose only protocol has a name of its own."""
    sharing = [client for client in CLIENTS if client.name not in {"kafkajs", "kcat"}]
    topic = new_topic(PARTITIONS)
    for one, other in itertools.pairwise(sharing):
        group = f"{topic}-{one}-{other}-{time.monotonic_ns()}"
        with (
            one.member(bootstrap, topic, group) as first,
            other.member(bootstrap, topic, group) as second,
        ):
            first.wait_until(lambda m=first: m.assignment != [], "the first joins")
            wait_for_split(first, second, list(range(PARTITIONS)))
            second.leave()
            first.leave()
