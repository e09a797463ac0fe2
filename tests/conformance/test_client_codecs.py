"""What a client compressed is read by every kind of reader."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.conformance.clients import CLIENTS, Client, orders

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
