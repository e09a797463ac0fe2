"""Keys and values round-trip; values of a newer version or of another shape are refused."""

from __future__ import annotations

import pytest

from broker.metastore import keys

TOPIC_ID = bytes(range(16))
VALUES = [
    keys.ClusterValue("abc"),
    keys.TopicValue(TOPIC_ID, 3, {"retention.ms": "7"}, is_internal=True),
    keys.PartitionValue((1, 2), 1, 4, (1,), 9),
    keys.ConfigValue({"a": "b"}),
    keys.ProducerIdsValue(1_000),
]


@pytest.mark.parametrize("value", VALUES, ids=lambda value: type(value).__name__)
def test_value_round_trips(value: keys.TopicValue) -> None:
    assert type(value).decode(value.encode()) == value


@pytest.mark.parametrize("value", VALUES, ids=lambda value: type(value).__name__)
def test_newer_version_is_refused(value: keys.TopicValue) -> None:
    newer = value.encode().replace(b'"version":1', b'"version":2')
    with pytest.raises(keys.UnreadableValue, match="version 2"):
        type(value).decode(newer)


@pytest.mark.parametrize(
    "raw", [b"", b"[]", b"{}", b'{"version":1}', b'{"version":1,"topic_id":"x"}']
)
def test_unknown_shape_is_refused(raw: bytes) -> None:
    with pytest.raises(keys.UnreadableValue):
        keys.TopicValue.decode(raw)


def test_topic_key_gives_its_name_back() -> None:
    assert keys.topic_name(keys.topic("a.b")) == "a.b"


def test_partition_keys_sort_by_index() -> None:
    found = [keys.partition(TOPIC_ID, index) for index in (2, 10, 99_999)]
    assert found == sorted(found)
    assert all(key.startswith(keys.partitions_of(TOPIC_ID)) for key in found)
