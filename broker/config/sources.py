"""Layers of settings from what a process was given: a parsed file, its environment, its command
line. Pure.

| source      | name of `log.segment.bytes`                    |
|-------------|------------------------------------------------|
| YAML file   | `log.segment.bytes: 1073741824`, one flat line |
| environment | `HERMES_BROKER_LOG_SEGMENT_BYTES`              |
| flag        | `--log-segment-bytes 1073741824`, or with `=`  |

A flag wins over the environment, the environment over the file.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final, NamedTuple

from broker.config.setting import Layer, Setting, settings_of, unknown_name

BROKER_PREFIX: Final = "HERMES_BROKER_"
GATEWAY_PREFIX: Final = "HERMES_GATEWAY_"


class Flags(NamedTuple):
    """What a command line holds: settings, and the arguments that are none (in order)."""

    layer: Layer
    rest: tuple[str, ...]


def environment_name(prefix: str, name: str) -> str:
    """The variable of a setting."""
    return prefix + name.upper().replace(".", "_")


def flag_name(name: str) -> str:
    """The flag of a setting."""
    return "--" + name.replace(".", "-")


def file_layer(path: str, document: object) -> Layer:
    """A parsed YAML document. An empty file has no settings.

    Anything but a flat mapping is a problem.
    """
    source = f"file {path}"
    if document is None:
        return Layer(source, {})
    if not isinstance(document, dict):
        return Layer(source, {}, ("must hold lines like `log.segment.bytes: 1073741824`",))
    problems = tuple(
        f"{name}: holds further names; write each setting in one line, as `{name}.…: value`"
        for name, value in document.items()
        if isinstance(value, dict)
    )
    flat = {str(name): value for name, value in document.items() if not isinstance(value, dict)}
    return Layer(source, flat, problems)


def environment_layer(table: type[Any], prefix: str, environment: Mapping[str, str]) -> Layer:
    """The variables that begin with `prefix`; any other variable is left alone."""
    names = {environment_name(prefix, name): name for name in _names(table)}
    given = {name: value for name, value in environment.items() if name.startswith(prefix)}
    values = {names[name]: value for name, value in given.items() if name in names}
    problems = tuple(unknown_name(name, names) for name in given if name not in names)
    return Layer("environment", values, problems)


def parse_flags(
    table: type[Any], arguments: Sequence[str], *, other_flags: Sequence[str] = ()
) -> Flags:
    """Settings of a command line; `other_flags` take a value too and stay, with it, in the rest.

    Any other `--flag` is a problem of the layer. What does not begin with `--` is rest.
    """
    names = {flag_name(name): name for name in _names(table)}
    values: dict[str, object] = {}
    problems: list[str] = []
    rest: list[str] = []
    pending = list(reversed(arguments))
    while pending:
        flag, equals, value = (argument := pending.pop()).partition("=")
        if not flag.startswith("--"):
            rest.append(argument)
            continue
        if not equals and (flag in names or flag in other_flags):
            if not pending:
                problems.append(f"{flag}: needs a value")
                continue
            value = pending.pop()
        if flag in other_flags:
            rest += [flag, value]
        elif flag in names:
            values[names[flag]] = value
        else:
            problems.append(unknown_name(flag, [*names, *other_flags]))
    return Flags(Layer("flag", values, tuple(problems)), tuple(rest))


def _names(table: type[Any]) -> list[str]:
    rows: Mapping[str, Setting] = settings_of(table)
    return [name for row in rows.values() for name in (row.name, *(a.name for a in row.aliases))]
