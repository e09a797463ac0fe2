"""The consumer protocol's bytes against kio, and the range assignor."""

from __future__ import annotations

import importlib
from random import Random

import pytest

from broker.client.assignment import (
    ConsumerProtocolAssignment,
    ConsumerProtocolSubscription,
    MemberSubscription,
    assign_range,
    decode_assignment,
    decode_subscription,
    encode_assignment,
    encode_subscription,
)
from broker.client.failure import ClientError
from broker.model import TopicPartition
from broker.wire.schema import decoder, encoder
from tests.wire.kio_oracle import kio_encode, to_kio
from tests.wire.samples import sample


@pytest.mark.parametrize("version", range(4))
@pytest.mark.parametrize("kind", [ConsumerProtocolSubscription, ConsumerProtocolAssignment])
def test_bytes_equal_kio(kind: type, version: int) -> None:
    package = "consumer_protocol_" + kind.__name__.removeprefix("ConsumerProtocol").lower()
    module = importlib.import_module(f"kio.schema.{package}.v{version}.data")
    random = Random(version)
    for _ in range(30):
        message = sample(kind, version, random)
        expected = kio_encode(to_kio(message, getattr(module, kind.__name__), version))
        out = bytearray()
        encoder(kind, version)(out, message)
        assert out == expected
        assert decoder(kind, version)(memoryview(expected), 0) == (message, len(expected))


@pytest.mark.parametrize("version", range(4))
def test_subscription_and_assignment_read_back(version: int) -> None:
    data = encode_subscription(ConsumerProtocolSubscription(topics=["a", "b"]), version)
    assert decode_subscription(data).topics == ["a", "b"]
    partitions = (TopicPartition("a", 0), TopicPartition("a", 2), TopicPartition("b", 1))
    assert decode_assignment(encode_assignment(reversed(partitions), version)) == partitions
    assert decode_assignment(b"") == ()


def test_a_newer_version_is_read_as_the_newest_known() -> None:
    data = encode_subscription(ConsumerProtocolSubscription(topics=["a"], rack_id="r"), 3)
    newer = b"\0\x63" + data[2:] + b"something new"
    assert decode_subscription(newer).rack_id == "r"


@pytest.mark.parametrize("data", [b"\0", b"\xff\xff", b"\0\1\0\0\0\5", b"\0\0\x7f\xff\xff\xff"])
def test_other_bytes_are_an_error(data: bytes) -> None:
    with pytest.raises(ClientError):
        decode_assignment(data)
    with pytest.raises(ClientError):
        decode_subscription(data)


def test_ranges_are_unbroken_and_the_first_members_get_one_more() -> None:
    members = [MemberSubscription(name, None, ("orders",)) for name in ("c", "a", "b")]
    assigned = assign_range(members, {"orders": 7})
    assert {name: [row.partition for row in rows] for name, rows in assigned.items()} == {
        "a": [0, 1, 2],
        "b": [3, 4],
        "c": [5, 6],
    }


def test_only_subscribers_of_existing_topics_get_partitions() -> None:
    members = [
        MemberSubscription("a", None, ("orders", "payments")),
        MemberSubscription("b", None, ("orders", "missing")),
        MemberSubscription("c", None, ()),
    ]
    assigned = assign_range(members, {"orders": 1, "payments": 2})
    assert assigned == {
        "a": [
            TopicPartition("orders", 0),
            TopicPartition("payments", 0),
            TopicPartition("payments", 1),
        ],
        "b": [],
        "c": [],
    }


def test_static_members_sort_by_instance_id() -> None:
    members = [
        MemberSubscription("a", "2", ("t",)),
        MemberSubscription("z", "1", ("t",)),
        MemberSubscription("b", None, ("t",)),
    ]
    assigned = assign_range(members, {"t": 3})
    assert [assigned[name][0].partition for name in ("z", "a", "b")] == [0, 1, 2]
