"""Where values come from, and how dynamic changes are decided."""

from __future__ import annotations

import contextlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from broker.config.alter import AlterOperation, ConfigChange, decide_alter, normalize
from broker.config.broker import BrokerSettings
from broker.config.effective import (
    BrokerConfig,
    ConfigSource,
    effective_broker_config,
    effective_topic_config,
    topic_settings,
)
from broker.config.setting import ConfigError, Layer, load, settings_of
from broker.config.topic import TopicSettings
from broker.model import INT64_MAX

TOPIC = settings_of(TopicSettings)
BROKER = settings_of(BrokerSettings)


def test_a_topic_value_shows_every_place_it_could_come_from() -> None:
    static = load(BrokerSettings, [Layer("file", {"log.segment.bytes": 2048})])
    layers = BrokerConfig(static, {"log.segment.bytes": "4096"}, {"log.segment.bytes": "8192"})
    found = effective_topic_config(TOPIC["segment.bytes"], {"segment.bytes": "1024"}, layers)
    assert found.value == "1024"
    assert [(link.name, link.value, link.source) for link in found.chain] == [
        ("segment.bytes", "1024", ConfigSource.TOPIC),
        ("log.segment.bytes", "8192", ConfigSource.DYNAMIC_BROKER),
        ("log.segment.bytes", "4096", ConfigSource.DYNAMIC_DEFAULT_BROKER),
        ("log.segment.bytes", "2048", ConfigSource.STATIC_BROKER),
        ("log.segment.bytes", str(1 << 30), ConfigSource.DEFAULT),
    ]
    assert layers.snapshot().topic_defaults.segment_bytes == 8192


def test_a_value_nobody_gave_is_the_default_and_restart_settings_are_read_only() -> None:
    layers = BrokerConfig(BrokerSettings(), {}, {})
    found = effective_broker_config(BROKER["log.dir"], layers)
    assert (found.source, found.is_read_only) == (ConfigSource.DEFAULT, True)
    assert not effective_broker_config(BROKER["num.partitions"], layers).is_read_only


NEVER = str(2**63 - 1)


def test_kafkas_word_for_durability_shows_the_same_values_from_the_same_places() -> None:
    static = load(BrokerSettings, [Layer("file", {"log.flush.interval.messages": NEVER})])
    layers = BrokerConfig(static, {"hermes.durability": "fsync"}, {})
    overrides = {"durability": "replicated"}
    found = effective_topic_config(TOPIC["flush.messages"], overrides, layers)
    assert found.chain == (
        ("flush.messages", NEVER, ConfigSource.TOPIC),
        ("log.flush.interval.messages", "1", ConfigSource.DYNAMIC_DEFAULT_BROKER),
        ("log.flush.interval.messages", NEVER, ConfigSource.STATIC_BROKER),
        ("log.flush.interval.messages", "1", ConfigSource.DEFAULT),
    )
    ours = effective_topic_config(TOPIC["durability"], overrides, layers)
    assert [link.value for link in ours.chain] == ["replicated", "fsync", "replicated", "fsync"]
    broker = effective_broker_config(BROKER["log.flush.interval.messages"], layers)
    assert (broker.value, broker.source) == ("1", ConfigSource.DYNAMIC_DEFAULT_BROKER)
    assert not topic_settings(layers.snapshot().topic_defaults, overrides).needs_sync


def test_kafkas_word_for_durability_is_stored_as_durability() -> None:
    said = [change("flush.messages", AlterOperation.SET, "1")]
    assert decide_alter(TOPIC, {}, {}, said) == {"durability": "fsync"}
    unsaid = [change("flush.messages", AlterOperation.SET, NEVER)]
    assert decide_alter(TOPIC, {"durability": "fsync"}, {}, unsaid) == {"durability": "replicated"}
    gone = [change("flush.messages", AlterOperation.DELETE)]
    assert decide_alter(TOPIC, {"durability": "fsync"}, {}, gone) == {}
    default = [change("log.flush.interval.messages", AlterOperation.SET, "1")]
    assert decide_alter(BROKER, {}, {}, default) == {"hermes.durability": "fsync"}


def test_both_words_for_durability_may_be_given_when_they_agree() -> None:
    both = {"durability": "fsync", "flush.messages": "1"}
    assert normalize(TOPIC, both) == {"durability": "fsync"}
    for pair in (("durability", "flush.messages"), ("flush.messages", "durability")):
        given = {"durability": "fsync", "flush.messages": NEVER}
        told = f"{pair[1]}: contradicts {pair[0]}, .* give one of the two"
        with pytest.raises(ConfigError, match=told):
            normalize(TOPIC, {name: given[name] for name in pair})
    told = "log.flush.interval.messages: contradicts hermes.durability, .* give one of the two"
    with pytest.raises(ConfigError, match=told):
        load(
            BrokerSettings,
            [Layer("file", {"hermes.durability": "fsync", "log.flush.interval.messages": NEVER})],
        )


@pytest.mark.parametrize(
    ("name", "value", "reason"),
    [
        ("flush.messages", "1000", "must be 1 .* or 9223372036854775807 .*, found 1000"),
        ("flush.messages", "0", "must be at least 1"),
        ("flush.ms", "1000", "there are no timed syncs; set durability=fsync"),
        ("durability", "disk", "must be one of fsync, replicated"),
    ],
)
def test_what_durability_cannot_say_is_refused_with_what_to_set(
    name: str, value: str, reason: str
) -> None:
    with pytest.raises(ConfigError, match=reason):
        normalize(TOPIC, {name: value})


def test_topic_settings_fall_back_to_the_brokers_defaults() -> None:
    defaults = TopicSettings(retention_ms=5)
    settings = topic_settings(defaults, {"segment.bytes": "2048"})
    assert (settings.retention_ms, settings.segment_bytes) == (5, 2048)
    assert topic_settings(defaults, {}) is defaults


def change(name: str, operation: int, value: str | None = None) -> ConfigChange:
    return ConfigChange(name, operation, value)


def test_set_delete_append_and_subtract() -> None:
    in_force = {"cleanup.policy": "delete"}
    appended = decide_alter(
        TOPIC, {}, in_force, [change("cleanup.policy", AlterOperation.APPEND, "compact")]
    )
    assert appended == {"cleanup.policy": "delete,compact"}
    subtracted = decide_alter(
        TOPIC, appended, appended, [change("cleanup.policy", AlterOperation.SUBTRACT, "delete")]
    )
    assert subtracted == {"cleanup.policy": "compact"}
    changes = [
        change("cleanup.policy", AlterOperation.DELETE),
        change("retention.ms", AlterOperation.SET, " 10 "),
    ]
    assert decide_alter(TOPIC, subtracted, subtracted, changes) == {"retention.ms": "10"}


@pytest.mark.parametrize(
    ("wrong", "reason"),
    [
        (change("retention.m", 0, "1"), "did you mean retention.ms"),
        (change("retention.ms", 0, None), "needs a value"),
        (change("retention.ms", 2, "1"), "is not a list"),
        (change("retention.ms", 9, "1"), "has no operation 9"),
        (change("cleanup.policy", 3, "delete"), "must name at least one"),
        (
            change("compression.type", 0, "rar"),
            "must be one of producer, uncompressed, gzip, snappy, lz4, zstd, found 'rar'",
        ),
    ],
)
def test_a_wrong_change_is_refused_with_a_sentence(wrong: ConfigChange, reason: str) -> None:
    with pytest.raises(ConfigError, match=reason):
        decide_alter(TOPIC, {}, {"cleanup.policy": "delete"}, [wrong])


def test_one_setting_is_changed_once_per_request() -> None:
    twice = [change("retention.ms", 0, "1"), change("retention.ms", 1)]
    with pytest.raises(ConfigError, match="twice"):
        decide_alter(TOPIC, {}, {}, twice)


@given(st.dictionaries(st.sampled_from(sorted(TOPIC)), st.text() | st.none()))
def test_new_overrides_are_refused_or_valid_and_stable(
    given_overrides: dict[str, str | None],
) -> None:
    try:
        texts = normalize(TOPIC, given_overrides)
    except ConfigError:
        return
    assert normalize(TOPIC, dict(texts)) == texts
    for name in ("delivery.delay.ms", "delivery.ttl.ms"):  # they need other settings
        texts.pop(name, None)
    is_together_good = int(texts.get("min.compaction.lag.ms", 0)) <= int(
        texts.get("max.compaction.lag.ms", INT64_MAX)
    )
    with contextlib.nullcontext() if is_together_good else pytest.raises(ConfigError):
        topic_settings(TopicSettings(), texts)


def test_a_minimum_lag_above_the_maximum_is_refused() -> None:
    for name, value in (("min.compaction.lag.ms", "100"), ("max.compaction.lag.ms", "100")):
        topic_settings(TopicSettings(), {name: value})
    both = {"min.compaction.lag.ms": "101", "max.compaction.lag.ms": "100"}
    with pytest.raises(ConfigError, match=r"min\.compaction\.lag\.ms"):
        topic_settings(TopicSettings(), both)
