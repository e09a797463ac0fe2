"""Settings from a file, the environment and the command line."""

from __future__ import annotations

from pathlib import Path

import pytest

from broker.config.broker import BrokerSettings
from broker.config.setting import ConfigError, load, settings_of
from broker.config.sources import (
    BROKER_PREFIX,
    environment_layer,
    environment_name,
    file_layer,
    flag_name,
    parse_flags,
)
from broker.runtime.settings_source import read_broker_settings


def test_every_setting_has_its_own_variable_and_flag() -> None:
    names = list(settings_of(BrokerSettings))
    assert len({environment_name(BROKER_PREFIX, name) for name in names}) == len(names)
    assert len({flag_name(name) for name in names}) == len(names)


def test_the_environment_is_read_by_prefix_and_unknown_names_are_refused() -> None:
    layer = environment_layer(
        BrokerSettings,
        BROKER_PREFIX,
        {
            "HERMES_BROKER_NUM_PARTITIONS": "7",
            "HERMES_HOME": "x",
            "HERMES_BROKER_NUM_PARTITION": "8",
        },
    )
    assert layer.values == {"num.partitions": "7"}
    assert layer.problems == (
        "HERMES_BROKER_NUM_PARTITION: unknown setting; did you mean HERMES_BROKER_NUM_PARTITIONS?",
    )


def test_flags_take_a_value_with_a_space_or_an_equals_sign() -> None:
    flags = parse_flags(
        BrokerSettings,
        ["serve", "--num-partitions", "3", "--log-dir=x=y", "--other", "v"],
        other_flags=["--other"],
    )
    assert flags.layer.values == {"num.partitions": "3", "log.dir": "x=y"}
    assert flags.rest == ("serve", "--other", "v")


@pytest.mark.parametrize(
    ("arguments", "problem"),
    [
        (["--num-partitions"], "--num-partitions: needs a value"),
        (["--num-partition=1"], "--num-partition: unknown setting; did you mean --num-partitions?"),
    ],
)
def test_wrong_flags_are_problems(arguments: list[str], problem: str) -> None:
    assert parse_flags(BrokerSettings, arguments).layer.problems == (problem,)


def test_a_file_is_flat() -> None:
    layer = file_layer("a.yaml", {"log": {"dir": "x"}, "num.partitions": 2})
    assert layer.values == {"num.partitions": 2}
    assert "write each setting in one line" in layer.problems[0]
    assert file_layer("a.yaml", None).values == {}
    assert file_layer("a.yaml", ["x"]).problems


def test_a_flag_wins_over_the_environment_and_that_over_the_file(tmp_path: Path) -> None:
    path = tmp_path / "hermes.yaml"
    path.write_text("num.partitions: 2\nlog.retention.hours: 3\nmax.connections: 9\n")
    settings = read_broker_settings(
        ["--config", str(path), "--num-partitions", "5"],
        {"HERMES_BROKER_NUM_PARTITIONS": "4", "HERMES_BROKER_MAX_CONNECTIONS": "10"},
    )
    assert settings.num_partitions == 5
    assert settings.max_connections == 10
    assert settings.topic_defaults.retention_ms == 3 * 3_600_000
    assert read_broker_settings([], {"HERMES_CONFIG": str(path)}).num_partitions == 2


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (None, "cannot be read"),
        (b"a: [", "is not YAML"),
        (b"\xff\xfe\x00", "is not YAML"),
        (b"- x", "must hold lines"),
    ],
)
def test_a_file_that_is_none_is_one_clear_sentence(
    tmp_path: Path, content: bytes | None, reason: str
) -> None:
    path = tmp_path / "hermes.yaml"
    if content is not None:
        path.write_bytes(content)
    with pytest.raises(ConfigError, match=reason) as caught:
        read_broker_settings(["--config", str(path)], {})
    assert str(path) in str(caught.value)


def test_a_stray_argument_is_refused() -> None:
    with pytest.raises(ConfigError, match="unexpected argument 'x'"):
        read_broker_settings(["x"], {})


def test_all_sources_are_named_in_one_error() -> None:
    layers = [
        file_layer("a.yaml", {"x": 1}),
        environment_layer(BrokerSettings, BROKER_PREFIX, {"HERMES_BROKER_NODE_ID": "-1"}),
        parse_flags(BrokerSettings, ["--y", "1"]).layer,
    ]
    with pytest.raises(ConfigError) as caught:
        load(BrokerSettings, layers)
    assert [problem.split(":")[0] for problem in caught.value.problems] == [
        "file a.yaml",
        "environment",
        "flag",
    ]
