"""Every key of the metastore, and the JSON value behind it. Nothing else builds a key or parses a
value.

Each value carries `version`, the version of its own schema. A reader refuses a newer version
(`UnreadableValue`); it ignores fields it does not know within a version. Ids are text as Kafka
prints them (22 characters).

| key                             | value            | meaning                                    |
|---------------------------------|------------------|--------------------------------------------|
| cluster                         | ClusterValue     | written once, at the first start           |
| topics/<name>                   | TopicValue       | written last: then the topic exists        |
| partitions/<topic id>/<index>   | PartitionValue   | leadership; changed by compare-and-set     |
| configs/brokers/<id or default> | ConfigValue      | dynamic broker settings                    |
| producer-ids                    | ProducerIdsValue | first id not yet given to a broker         |
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar, Final, Self

from broker.model import format_uuid, parse_uuid

CLUSTER: Final = "cluster"
PRODUCER_IDS: Final = "producer-ids"
TOPICS_PREFIX: Final = "topics/"
PARTITIONS_PREFIX: Final = "partitions/"
BROKER_CONFIGS_PREFIX: Final = "configs/brokers/"
DEFAULT_BROKER: Final = "default"
"""Stands for every broker in `broker_config`, as the empty resource name does in Kafka's config
APIs.
"""


class UnreadableValue(Exception):
    """A value is not what its schema says, or was written by a newer version."""


def topic(name: str) -> str:
    return TOPICS_PREFIX + name


def topic_name(key: str) -> str:
    """The inverse of `topic`."""
    assert key.startswith(TOPICS_PREFIX), f"{key} is not a topic's key"
    return key[len(TOPICS_PREFIX) :]


def partition(topic_id: bytes, index: int) -> str:
    return f"{partitions_of(topic_id)}{index:05d}"


def partitions_of(topic_id: bytes) -> str:
    """The prefix of every partition key of one topic; the keys are in the order of the index."""
    return f"{PARTITIONS_PREFIX}{format_uuid(topic_id)}/"


def broker_config(broker_id: int | None) -> str:
    """None is the default of all brokers."""
    return BROKER_CONFIGS_PREFIX + (DEFAULT_BROKER if broker_id is None else str(broker_id))


@dataclass(frozen=True, slots=True)
class ClusterValue:
    cluster_id: str

    SCHEMA_VERSION: ClassVar[int] = 1

    def encode(self) -> bytes:
        return _encode(self.SCHEMA_VERSION, {"cluster_id": self.cluster_id})

    @classmethod
    def decode(cls, raw: bytes) -> Self:
        value = _decode("cluster", raw, cls.SCHEMA_VERSION)
        return cls(cluster_id=_text(value, "cluster_id"))


@dataclass(frozen=True, slots=True)
class TopicValue:
    """`overrides` maps Kafka's property names to their text, only those that were set."""

    topic_id: bytes
    partition_count: int
    overrides: Mapping[str, str] = field(default_factory=dict)
    is_internal: bool = False

    SCHEMA_VERSION: ClassVar[int] = 1

    def encode(self) -> bytes:
        return _encode(
            self.SCHEMA_VERSION,
            {
                "topic_id": format_uuid(self.topic_id),
                "partition_count": self.partition_count,
                "overrides": dict(sorted(self.overrides.items())),
                "is_internal": self.is_internal,
            },
        )

    @classmethod
    def decode(cls, raw: bytes) -> Self:
        value = _decode("topic", raw, cls.SCHEMA_VERSION)
        return cls(
            topic_id=_uuid(value, "topic_id"),
            partition_count=_integer(value, "partition_count"),
            overrides=_texts(value, "overrides"),
            is_internal=bool(value.get("is_internal", False)),
        )


@dataclass(frozen=True, slots=True)
class PartitionValue:
    """`partition_epoch` rises with every change of the value; `leader` -1 means none."""

    replicas: tuple[int, ...]
    leader: int
    leader_epoch: int
    in_sync_replicas: tuple[int, ...]
    partition_epoch: int

    SCHEMA_VERSION: ClassVar[int] = 1

    def encode(self) -> bytes:
        return _encode(
            self.SCHEMA_VERSION,
            {
                "replicas": list(self.replicas),
                "leader": self.leader,
                "leader_epoch": self.leader_epoch,
                "in_sync_replicas": list(self.in_sync_replicas),
                "partition_epoch": self.partition_epoch,
            },
        )

    @classmethod
    def decode(cls, raw: bytes) -> Self:
        value = _decode("partition", raw, cls.SCHEMA_VERSION)
        return cls(
            replicas=_integers(value, "replicas"),
            leader=_integer(value, "leader"),
            leader_epoch=_integer(value, "leader_epoch"),
            in_sync_replicas=_integers(value, "in_sync_replicas"),
            partition_epoch=_integer(value, "partition_epoch"),
        )


@dataclass(frozen=True, slots=True)
class ConfigValue:
    """Dynamic settings of a broker or group: Kafka's property names to their text."""

    overrides: Mapping[str, str] = field(default_factory=dict)

    SCHEMA_VERSION: ClassVar[int] = 1

    def encode(self) -> bytes:
        return _encode(self.SCHEMA_VERSION, {"overrides": dict(sorted(self.overrides.items()))})

    @classmethod
    def decode(cls, raw: bytes) -> Self:
        return cls(overrides=_texts(_decode("config", raw, cls.SCHEMA_VERSION), "overrides"))


@dataclass(frozen=True, slots=True)
class ProducerIdsValue:
    """Producer ids below `next_producer_id` were given away, in blocks, and are never given
    again.
    """

    next_producer_id: int

    SCHEMA_VERSION: ClassVar[int] = 1

    def encode(self) -> bytes:
        return _encode(self.SCHEMA_VERSION, {"next_producer_id": self.next_producer_id})

    @classmethod
    def decode(cls, raw: bytes) -> Self:
        return cls(
            next_producer_id=_integer(
                _decode("producer-ids", raw, cls.SCHEMA_VERSION), "next_producer_id"
            )
        )


def _encode(version: int, fields: Mapping[str, Any]) -> bytes:
    return json.dumps(
        {"version": version, **fields}, separators=(",", ":"), ensure_ascii=False
    ).encode()


def _decode(kind: str, raw: bytes, version_max: int) -> dict[str, Any]:
    try:
        value = json.loads(raw)
    except ValueError as error:
        msg = f"the metastore's {kind} value is not JSON: {error}"
        raise UnreadableValue(msg) from None
    if not isinstance(value, dict) or type(value.get("version")) is not int:
        msg = f"the metastore's {kind} value has no version: {raw[:80]!r}"
        raise UnreadableValue(msg)
    if value["version"] > version_max:
        msg = (
            f"the metastore's {kind} value has version {value['version']}, this HermesMQ "
            f"reads up to {version_max}: run the version that wrote it, or a newer one"
        )
        raise UnreadableValue(msg)
    return value


def _field(value: Mapping[str, Any], name: str, kind: type) -> Any:
    found = value.get(name)
    if type(found) is not kind:
        msg = f"the metastore's value has {name}={found!r}, expected {kind.__name__}: {value!r}"
        raise UnreadableValue(msg)
    return found


def _text(value: Mapping[str, Any], name: str) -> str:
    return str(_field(value, name, str))


def _integer(value: Mapping[str, Any], name: str) -> int:
    return int(_field(value, name, int))


def _integers(value: Mapping[str, Any], name: str) -> tuple[int, ...]:
    return tuple(int(item) for item in _field(value, name, list))


def _texts(value: Mapping[str, Any], name: str) -> dict[str, str]:
    return {str(key): str(text) for key, text in _field(value, name, dict).items()}


def _uuid(value: Mapping[str, Any], name: str) -> bytes:
    text = _text(value, name)
    try:
        return parse_uuid(text)
    except ValueError as error:
        raise UnreadableValue(str(error)) from None
