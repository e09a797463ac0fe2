"""Reads the settings of a process from where operators put them: a YAML file, the environment, the
command line.

The one place where a settings file is opened; what the values mean is decided in `broker.config`.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final, TypeVar

from broker.config.broker import BrokerSettings
from broker.config.setting import ConfigError, Layer, load
from broker.config.sources import BROKER_PREFIX, environment_layer, file_layer, parse_flags

T = TypeVar("T")

CONFIG_FLAG: Final = "--config"
CONFIG_VARIABLE: Final = "HERMES_CONFIG"
FILE_BYTES_MAX: Final = 1 << 20


def read_broker_settings(
    arguments: Sequence[str], environment: Mapping[str, str] | None = None
) -> BrokerSettings:
    """The settings of `hermes serve ARGUMENTS`, as `read_settings`."""
    return read_settings(BrokerSettings, BROKER_PREFIX, arguments, environment)


def read_settings(
    table: type[T],
    prefix: str,
    arguments: Sequence[str],
    environment: Mapping[str, str] | None = None,
) -> T:
    """A process's settings: flags over environment over the file of `--config` (a broker's also of
    HERMES_CONFIG).

    Raises ConfigError with every problem found, also for a file that cannot be read.
    """
    given = os.environ if environment is None else environment
    flags = parse_flags(table, arguments, other_flags=(CONFIG_FLAG,))
    rest = list(flags.rest)
    path = given.get(CONFIG_VARIABLE, "") if prefix == BROKER_PREFIX else ""
    while CONFIG_FLAG in rest:
        position = rest.index(CONFIG_FLAG)
        path = rest[position + 1]
        del rest[position : position + 2]
    layers = [environment_layer(table, prefix, given), flags.layer]
    if path:
        layers.insert(0, read_yaml_layer(path))
    if rest:
        layers.append(Layer("command line", {}, (f"unexpected argument {rest[0]!r}",)))
    return load(table, layers)


def read_yaml_layer(path: str) -> Layer:
    """The settings of one YAML file. Raises ConfigError when it cannot be read or is not YAML."""
    import yaml  # noqa: PLC0415 - two megabytes that a broker without a file need not hold

    try:
        with Path(path).open("rb") as file:
            text = file.read(FILE_BYTES_MAX + 1)
    except OSError as error:
        raise ConfigError([f"file {path}: cannot be read: {error.strerror}"]) from None
    if len(text) > FILE_BYTES_MAX:
        raise ConfigError(
            [f"file {path}: is larger than {FILE_BYTES_MAX} bytes: is it a settings file?"]
        )
    try:
        return file_layer(path, yaml.safe_load(text))
    except (yaml.YAMLError, UnicodeDecodeError) as error:
        reason = " ".join(str(error).split())
        raise ConfigError([f"file {path}: is not YAML: {reason}"]) from None
