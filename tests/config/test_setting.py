"""The tables of settings, and how a snapshot is made of layers."""

from __future__ import annotations

import dataclasses

import pytest
from hypothesis import given
from hypothesis import strategies as st

from broker.config.broker import BrokerSettings, parse_listener
from broker.config.client import ClientSettings
from broker.config.group import GroupSettings
from broker.config.setting import (
    ConfigError,
    Layer,
    Setting,
    SettingType,
    Unit,
    load,
    parse_value,
    settings_of,
    to_kafka_value,
)
from broker.config.topic import TopicSettings

TABLES = (BrokerSettings, TopicSettings, GroupSettings, ClientSettings)
ROWS = [(table, row) for table in TABLES for row in settings_of(table).values()]
row_ids = [f"{table.__name__}-{row.name}" for table, row in ROWS]


@pytest.mark.parametrize(("table", "row"), ROWS, ids=row_ids)
def test_every_row_is_complete_and_its_default_is_allowed(table: type, row: Setting) -> None:
    assert row.documentation.endswith("."), "documentation is a sentence"
    is_number = row.type in (SettingType.INT, SettingType.LONG, SettingType.DOUBLE)
    assert not is_number or (row.minimum is not None and row.maximum is not None)
    assert is_number or row.unit is Unit.NONE
    assert parse_value(row, to_kafka_value(row.default)) == row.default
    assert row.value_in(table()) == row.default


@pytest.mark.parametrize("table", TABLES)
def test_attributes_are_the_property_names_with_underscores(table: type) -> None:
    for field in dataclasses.fields(table):
        row = field.metadata.get("setting")
        assert row is None or field.name == row.name.replace(".", "_")


def test_every_topic_setting_has_a_broker_wide_default() -> None:
    broker = settings_of(BrokerSettings)
    for row in settings_of(TopicSettings).values():
        assert row.broker_name in broker
        assert broker[row.broker_name].default == row.default


def test_numbers_at_their_bounds_pass_and_beyond_them_fail() -> None:
    row = settings_of(TopicSettings)["segment.bytes"]
    assert parse_value(row, "1024") == 1024
    assert parse_value(row, 2**31 - 1) == 2**31 - 1
    with pytest.raises(ValueError, match="at least 1024 bytes, found 1023"):
        parse_value(row, 1023)
    with pytest.raises(ValueError, match="at most 2147483647 bytes"):
        parse_value(row, 2**31)


@pytest.mark.parametrize("raw", ["", "1k", "1.5", "0x10", True, None, [1], "٣", "9" * 30, 1e3])
def test_what_is_no_whole_number_is_refused(raw: object) -> None:
    with pytest.raises(ValueError, match="must"):
        parse_value(settings_of(TopicSettings)["retention.ms"], raw)


@pytest.mark.parametrize("raw", ["nan", "inf", "-inf", "x", True, None])
def test_what_is_no_finite_number_is_refused(raw: object) -> None:
    with pytest.raises(ValueError, match="must be a number"):
        parse_value(settings_of(TopicSettings)["min.cleanable.dirty.ratio"], raw)


def test_lists_come_as_text_or_as_yaml_lists_without_repetition() -> None:
    row = settings_of(TopicSettings)["cleanup.policy"]
    assert parse_value(row, "compact, delete") == ("compact", "delete")
    assert parse_value(row, ["delete", "delete"]) == ("delete",)
    for wrong in ("", "keep", "delete,keep"):
        with pytest.raises(ValueError, match="must"):
            parse_value(row, wrong)


@given(
    st.sampled_from([row for _, row in ROWS]), st.text() | st.integers() | st.floats() | st.none()
)
def test_parsing_gives_a_value_or_a_sentence_and_never_anything_else(
    row: Setting, raw: object
) -> None:
    try:
        value = parse_value(row, raw)
    except ValueError:
        return
    assert parse_value(row, to_kafka_value(value)) == value


def test_later_layers_win_and_names_win_over_aliases() -> None:
    settings = load(
        BrokerSettings,
        [
            Layer("file", {"log.retention.hours": 1, "log.retention.ms": 5, "num.partitions": 3}),
            Layer("environment", {"log.retention.minutes": "2"}),
            Layer("flag", {"num.partitions": "4"}),
        ],
    )
    assert settings.topic_defaults.retention_ms == 120_000
    assert settings.num_partitions == 4
    unlimited = load(BrokerSettings, [Layer("file", {"log.retention.hours": -1})])
    assert unlimited.topic_defaults.retention_ms == -1


def test_every_problem_is_named_with_its_source_and_the_nearest_name() -> None:
    layers = [
        Layer("file a.yaml", {"log.segment.byte": 1, "num.partitions": 0}),
        Layer("flag", {"group.min.session.timeout.ms": 9_000_000}),
    ]
    with pytest.raises(ConfigError) as caught:
        load(BrokerSettings, layers)
    assert caught.value.problems == (
        "file a.yaml: log.segment.byte: unknown setting; did you mean log.segment.bytes?",
        "file a.yaml: num.partitions: must be at least 1, found 0",
        "group.min.session.timeout.ms (9000000) must not be above "
        "group.max.session.timeout.ms (1800000)",
    )


def test_the_requirements_defaults() -> None:
    topic = BrokerSettings().topic_defaults
    assert topic.retention_ms == 7 * 24 * 3600 * 1000
    assert topic.segment_bytes == 1 << 30
    assert topic.durability == "fsync"
    assert topic.flush_messages == 1
    assert topic.record_validation == "header"


@pytest.mark.parametrize(
    "text",
    [
        "",
        "127.0.0.1:9092",
        "SSL://127.0.0.1:9092",
        "PLAINTEXT://:9092",
        "PLAINTEXT://h:x",
        "PLAINTEXT://h:70000",
    ],
)
def test_a_listener_that_is_none_is_refused_with_a_sentence(text: str) -> None:
    with pytest.raises(ValueError, match="PLAINTEXT"):
        parse_listener(text)


def test_only_addresses_of_this_machine_until_there_is_authentication() -> None:
    for host in ("127.0.0.1", "[::1]", "localhost"):
        load(BrokerSettings, [Layer("flag", {"listeners": f"PLAINTEXT://{host}:9092"})])
    for host in ("0.0.0.0", "10.0.0.1", "example.org", "[::]"):
        for flag in ({"listeners": f"PLAINTEXT://{host}:9092"}, {"hermes.metrics.host": host}):
            with pytest.raises(ConfigError, match="of this machine alone"):
                load(BrokerSettings, [Layer("flag", flag)])
