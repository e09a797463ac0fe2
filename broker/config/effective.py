"""Where an effective value comes from: the chain that DescribeConfigs shows. Pure.

A topic's value is its own override, else the broker-wide default; that one is the node's dynamic
value, else the cluster's dynamic value, else the static one (file, environment or flag), else the
built-in default.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import IntEnum
from typing import Final, NamedTuple

from broker.config.broker import BrokerSettings
from broker.config.setting import Layer, Mirror, Setting, resolve, settings_of, to_kafka_value
from broker.config.topic import TopicSettings


class ConfigSource(IntEnum):
    """The protocol's numbers."""

    TOPIC = 1
    DYNAMIC_BROKER = 2
    DYNAMIC_DEFAULT_BROKER = 3
    STATIC_BROKER = 4
    DEFAULT = 5


class ConfigSynonym(NamedTuple):
    """One link of the chain, highest precedence first."""

    name: str
    value: str
    source: ConfigSource


class EffectiveConfig(NamedTuple):
    """What is in force and why; `chain[0]` is in force. A sensitive value is shown to nobody: it
    reads as None.
    """

    setting: Setting
    name: str
    value: str | None
    source: ConfigSource
    is_read_only: bool
    chain: tuple[ConfigSynonym, ...]


@dataclass(frozen=True, slots=True)
class BrokerConfig:
    """A broker's settings by layer: `static` from file, environment and flags.

    Overrides are Kafka names to text.
    """

    static: BrokerSettings
    cluster_overrides: Mapping[str, str]
    node_overrides: Mapping[str, str]

    def snapshot(self) -> BrokerSettings:
        """The effective settings. Raises ConfigError when an override is not valid (any more)."""
        return resolve(
            self.static,
            [
                Layer("dynamic default of all brokers", self.cluster_overrides),
                Layer("dynamic setting of this broker", self.node_overrides),
            ],
        )


BROKER_DEFAULTS: Final = BrokerSettings()


def topic_settings(defaults: TopicSettings, overrides: Mapping[str, str]) -> TopicSettings:
    """A topic's effective settings.

    Raises ConfigError for an unknown name or a value out of bounds.
    """
    return resolve(defaults, [Layer("topic", overrides)]) if overrides else defaults


def effective_topic_config(
    row: Setting, overrides: Mapping[str, str], broker: BrokerConfig
) -> EffectiveConfig:
    """One setting of a topic; `row` is from `settings_of(TopicSettings)`."""
    default = settings_of(BrokerSettings)[row.broker_name]
    if row.mirror is not None:
        source = settings_of(TopicSettings)[row.mirror.name]
        shown = effective_topic_config(source, overrides, broker)
        names = {source.name: row.name, source.broker_name: default.name}
        return _mirrored(row, row.mirror, names, shown)
    own: tuple[ConfigSynonym, ...] = ()
    if row.name in overrides:
        own = (ConfigSynonym(row.name, overrides[row.name], ConfigSource.TOPIC),)
    return _effective(row, row.name, (*own, *_broker_chain(default, broker)))


def effective_broker_config(row: Setting, broker: BrokerConfig) -> EffectiveConfig:
    """One setting of a broker; `row` is from `settings_of(BrokerSettings)`."""
    if row.mirror is not None:
        source = settings_of(BrokerSettings)[row.mirror.name]
        shown = effective_broker_config(source, broker)
        return _mirrored(row, row.mirror, {source.name: row.name}, shown)
    return _effective(row, row.name, tuple(_broker_chain(row, broker)))


def _mirrored(
    row: Setting, mirror: Mirror, names: Mapping[str, str], shown: EffectiveConfig
) -> EffectiveConfig:
    """What is shown of the mirrored setting, in the words of `row`."""
    chain = tuple(
        ConfigSynonym(names[link.name], mirror.values[link.value], link.source)
        for link in shown.chain
    )
    return _effective(row, row.name, chain)


def _effective(row: Setting, name: str, chain: tuple[ConfigSynonym, ...]) -> EffectiveConfig:
    value = None if row.is_sensitive else chain[0].value
    return EffectiveConfig(row, name, value, chain[0].source, not row.is_live, chain)


def _broker_chain(row: Setting, broker: BrokerConfig) -> list[ConfigSynonym]:
    chain: list[ConfigSynonym] = []
    if row.name in broker.node_overrides:
        value = broker.node_overrides[row.name]
        chain.append(ConfigSynonym(row.name, value, ConfigSource.DYNAMIC_BROKER))
    if row.name in broker.cluster_overrides:
        value = broker.cluster_overrides[row.name]
        chain.append(ConfigSynonym(row.name, value, ConfigSource.DYNAMIC_DEFAULT_BROKER))
    static = row.value_in(broker.static)
    default = row.value_in(BROKER_DEFAULTS)
    if static != default:
        chain.append(ConfigSynonym(row.name, to_kafka_value(static), ConfigSource.STATIC_BROKER))
    chain.append(ConfigSynonym(row.name, to_kafka_value(default), ConfigSource.DEFAULT))
    return chain
