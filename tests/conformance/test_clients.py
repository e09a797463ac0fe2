"""Every client produces, consumes in a group, and agrees on the partition of a key."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable
from typing import Any

import pytest

from broker.client.partitioner import murmur2_partition
from tests.conformance.clients import CLIENTS, PARTITIONS, Client, each_client, orders


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
