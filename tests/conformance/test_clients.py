"""Every client produces, consumes in a group, rebalances, and agrees on the partition of a key."""

from __future__ import annotations

import itertools
import time
from collections import defaultdict
from collections.abc import Callable
from typing import Any

import pytest

from broker.client.partitioner import murmur2_partition
from tests.conformance.clients import CLIENTS, Client, Member

PARTITIONS = 4
each_client = pytest.mark.parametrize("client", CLIENTS, ids=str)


def orders(count: int, *, label: str = "v") -> list[tuple[str, str]]:
    """Records over 40 keys; the value carries the sequence per key."""
    return [(f"order-{i % 40}", f"{label}-{i // 40}") for i in range(count)]


def values_by_key(records: list[dict[str, Any]]) -> dict[str, list[str]]:
    by_key: dict[str, list[str]] = defaultdict(list)
    for record in records:
        by_key[record["key"]].append(record["value"])
    return dict(by_key)


@each_client
def test_client_reads_in_order_per_key_what_it_produced(
    client: Client, bootstrap: str, new_topic: Callable[[int], str]
) -> None:
    topic = new_topic(PARTITIONS)
    sent = orders(400)
    client.produce(bootstrap, topic, sent)
    with client.member(bootstrap, topic, f"{topic}-group") as member:
        member.wait_until(lambda: len(member.records) >= len(sent), "all records are read")
        member.leave()
    expected: dict[str, list[str]] = defaultdict(list)
    for key, value in sent:
        expected[key].append(value)
    assert values_by_key(member.records) == expected


@each_client
def test_committed_offsets_are_where_the_next_member_resumes(
    client: Client, bootstrap: str, new_topic: Callable[[int], str]
) -> None:
    topic = new_topic(PARTITIONS)
    client.produce(bootstrap, topic, orders(200, label="before"))
    with client.member(bootstrap, topic, f"{topic}-group") as first:
        first.wait_until(lambda: len(first.records) >= 200, "the first 200 are read")
        first.leave()
    client.produce(bootstrap, topic, orders(200, label="after"))
    with client.member(bootstrap, topic, f"{topic}-group") as second:
        second.wait_until(lambda: len(second.records) >= 200, "the next 200 are read")
        second.leave()
    assert {record["value"].split("-")[0] for record in second.records} == {"after"}
    assert len(second.records) == 200


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


@each_client
def test_client_puts_a_key_where_murmur2_puts_it(
    client: Client, bootstrap: str, new_topic: Callable[[int], str]
) -> None:
    topic = new_topic(7)
    keys = [f"order-{i:06d}" for i in range(300)]
    client.produce(bootstrap, topic, [(key, "x") for key in keys])
    with client.member(bootstrap, topic, f"{topic}-group") as member:
        member.wait_until(lambda: len(member.records) >= len(keys), "all keys are read")
        member.leave()
    found = {record["key"]: record["partition"] for record in member.records}
    assert found == {key: murmur2_partition(key.encode(), 7) for key in keys}


CODECS = [(client, codec) for client in CLIENTS for codec in client.codecs if codec != "none"]


@pytest.mark.parametrize(("client", "codec"), CODECS, ids=[f"{c}-{codec}" for c, codec in CODECS])
def test_compressed_batches_reach_every_kind_of_reader(
    client: Client, codec: str, bootstrap: str, new_topic: Callable[[int], str]
) -> None:
    topic = new_topic(1)
    client.produce(bootstrap, topic, orders(120), compression=codec)
    readers = [reader for reader in CLIENTS if reader.name in {"confluent-kafka", "kafka-python"}]
    for reader in readers:
        with reader.member(bootstrap, topic, f"{topic}-{reader}") as member:
            member.wait_until(lambda m=member: len(m.records) >= 120, f"{reader} reads {codec}")
        assert [(r["key"], r["value"]) for r in member.records] == orders(120)


@pytest.mark.parametrize("acks", ["0", "1", "all"])
@each_client
def test_every_acks_mode_stores_the_records(
    client: Client, acks: str, bootstrap: str, new_topic: Callable[[int], str]
) -> None:
    topic = new_topic(1)
    client.produce(bootstrap, topic, orders(40), acks=acks)
    with CLIENTS[0].member(bootstrap, topic, f"{topic}-group") as member:
        member.wait_until(lambda: len(member.records) >= 40, "all records are read")
    assert [(r["key"], r["value"]) for r in member.records] == orders(40)


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
