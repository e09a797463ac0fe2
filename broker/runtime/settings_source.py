"""Reads the settings of a process from where operators put them: a YAML file, the environment, the
command line.

The one place where a settings file is opened; what the values mean is decided in `broker.config`.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

from broker.config.broker import BrokerSettings
from broker.config.setting import ConfigError, Layer, load
from broker.config.sources import BROKER_PREFIX, environment_layer, file_layer, parse_flags

CONFIG_FLAG: Final = "--config"
CONFIG_VARIABLE: Final = "HERMES_CONFIG"
FILE_BYTES_MAX: Final = 1 << 20


def read_broker_settings(
    arguments: Sequence[str], environment: Mapping[str, str] | None = None
) -> BrokerSettings:
    """The settings of `hermes serve ARGUMENTS`: flags over environment over the file of `--config`
    or HERMES_CONFIG.

    Raises ConfigError with every problem found, also for a file that cannot be read.
    """
    given = os.environ if environment is None else environment
    flags = parse_flags(BrokerSettings, arguments, other_flags=(CONFIG_FLAG,))
    rest = list(flags.rest)
    path = given.get(CONFIG_VARIABLE, "")
    while CONFIG_FLAG in rest:
        position = rest.index(CONFIG_FLAG)
        path = rest[position + 1]
        del rest[position : position + 2]
    layers = [environment_layer(BrokerSettings, BROKER_PREFIX, given), flags.layer]
    if path:
        layers.insert(0, read_yaml_layer(path))
    if rest:
        layers.append(Layer("command line", {}, (f"unexpected argument {rest[0]!r}",)))
    return load(BrokerSettings, layers)


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
