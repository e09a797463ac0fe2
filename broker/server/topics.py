"""What the catalog knows of a topic: an immutable image, exchanged as a whole at every change."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Final

import structlog

from broker.config.effective import topic_settings
from broker.config.setting import ConfigError
from broker.config.topic import TopicSettings
from broker.metastore.keys import PartitionValue, TopicValue
from broker.model import NO_TOPIC_ID, TopicId
from broker.server.topic_store import StoredTopic

_log = structlog.get_logger("hermes.catalog")
_NO_WINDOW: Final = {"delivery.delay.ms": "0", "delivery.ttl.ms": "-1"}
"""Of topics that the broker reads itself, and where a window does not go with other settings."""
_LENIENT_PASSES: Final = 2
"""What needs another setting may stand before it."""


@dataclass(frozen=True, slots=True)
class PartitionState:
    """Leadership of one partition, as its metastore key has it."""

    index: int
    leader: int
    leader_epoch: int
    replicas: tuple[int, ...]
    in_sync_replicas: tuple[int, ...]
    partition_epoch: int


@dataclass(frozen=True, slots=True)
class Topic:
    """One incarnation of a topic; `version` is that of its metastore key, 0 before it exists.

    `overrides` are Kafka's names to text; `settings` is the effective snapshot.
    """

    name: str
    partitions: tuple[PartitionState, ...]
    overrides: Mapping[str, str]
    settings: TopicSettings
    is_internal: bool = False
    topic_id: TopicId = NO_TOPIC_ID
    version: int = 0

    @property
    def partition_count(self) -> int:
        return len(self.partitions)

    def to_value(self) -> TopicValue:
        """As the metastore keeps it."""
        return TopicValue(
            self.topic_id, self.partition_count, dict(self.overrides), self.is_internal
        )


class Topics:
    """Every topic by name and by id.

    `generation` rises with every change that clients could see.
    """

    def __init__(self) -> None:
        self._by_name: dict[str, Topic] = {}
        self._by_id: dict[bytes, Topic] = {}
        self._in_order: tuple[Topic, ...] | None = ()
        self.partition_count = 0
        self.generation = 0

    def get(self, name: str) -> Topic | None:
        return self._by_name.get(name)

    def get_by_id(self, topic_id: bytes) -> Topic | None:
        return self._by_id.get(topic_id)

    def all(self) -> tuple[Topic, ...]:
        """In name order."""
        if self._in_order is None:
            self._in_order = tuple(self._by_name[name] for name in sorted(self._by_name))
        return self._in_order

    def names(self) -> Mapping[str, Topic]:
        """Every name, for a look without a copy."""
        return self._by_name

    def show(self, topic: Topic) -> None:
        """Add the topic, or exchange its image."""
        self.hide(topic.name)
        self._by_name[topic.name] = topic
        self._by_id[topic.topic_id] = topic
        self._in_order = None
        self.partition_count += topic.partition_count
        self.generation += 1

    def hide(self, name: str) -> None:
        """Forget the topic of that name, if there is one."""
        topic = self._by_name.pop(name, None)
        if topic is not None:
            del self._by_id[topic.topic_id]
            self._in_order = None
            self.partition_count -= topic.partition_count
            self.generation += 1


def topic_from_store(stored: StoredTopic, defaults: TopicSettings) -> Topic:
    """The image of a stored topic."""
    value = stored.value
    return Topic(
        name=stored.name,
        partitions=tuple(state_from_value(i, v) for i, v in enumerate(stored.partitions)),
        overrides=value.overrides,
        settings=lenient_settings(
            stored.name, defaults, in_force(value.overrides, is_internal=value.is_internal)
        ),
        is_internal=value.is_internal,
        topic_id=TopicId(value.topic_id),
        version=stored.version,
    )


def state_from_value(index: int, value: PartitionValue) -> PartitionState:
    """The image of a stored partition."""
    return PartitionState(
        index,
        value.leader,
        value.leader_epoch,
        value.replicas,
        value.in_sync_replicas,
        value.partition_epoch,
    )


def with_overrides(topic: Topic, defaults: TopicSettings, overrides: Mapping[str, str]) -> Topic:
    """The topic with other overrides."""
    texts = in_force(overrides, is_internal=topic.is_internal)
    settings = lenient_settings(topic.name, defaults, texts)
    return replace(topic, overrides=dict(overrides), settings=settings)


def in_force(overrides: Mapping[str, str], *, is_internal: bool) -> Mapping[str, str]:
    """A topic's overrides, with those that every internal topic has."""
    return {**overrides, **_NO_WINDOW} if is_internal else overrides


def clashes(topic: Topic, present: TopicSettings, wanted: TopicSettings) -> Sequence[str]:
    """What is wrong between the topic's overrides and `wanted` defaults; nothing when that was so
    with the `present` ones.
    """
    texts = in_force(topic.overrides, is_internal=topic.is_internal)
    try:
        topic_settings(wanted, texts)
    except ConfigError as error:
        try:
            topic_settings(present, texts)
        except ConfigError:
            return ()
        return error.problems
    return ()


def lenient_settings(
    topic: str, defaults: TopicSettings, overrides: Mapping[str, str]
) -> TopicSettings:
    """Stored overrides that this version does not accept are left out and logged.

    The topic must serve.
    """
    try:
        return topic_settings(defaults, overrides)
    except ConfigError as error:
        _log.error("stored settings are left out", topic=topic, problems=error.problems)
    with suppress(ConfigError):  # the window goes before what retention and compaction follow
        return topic_settings(defaults, {**overrides, **_NO_WINDOW})
    settings = topic_settings(defaults, _NO_WINDOW)
    for name, value in [*overrides.items()] * _LENIENT_PASSES:
        try:
            settings = topic_settings(settings, {name: value})
        except ConfigError:
            continue
    return settings
