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
