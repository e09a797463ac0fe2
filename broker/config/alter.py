"""Changes to dynamic settings, decided: operations on the present overrides give the next ones.
Pure.

SET gives a value; DELETE removes the override, so that the default shows; APPEND and SUBTRACT edit
a list, starting from the value in force. One setting may be changed once per request. A setting
that mirrors another is never stored: its change is a change of that one.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from enum import IntEnum
from typing import NamedTuple

from broker.config.setting import (
    ConfigError,
    Setting,
    SettingType,
    contradiction,
    parse_value,
    to_kafka_value,
    unknown_name,
)


class AlterOperation(IntEnum):
    """The protocol's numbers."""

    SET = 0
    DELETE = 1
    APPEND = 2
    SUBTRACT = 3


class ConfigChange(NamedTuple):
    """One wanted change; `value` is None for DELETE."""

    name: str
    operation: int
    value: str | None


def decide_alter(
    rows: Mapping[str, Setting],
    overrides: Mapping[str, str],
    in_force: Mapping[str, str],
    changes: Sequence[ConfigChange],
) -> dict[str, str]:
    """The overrides after `changes`; `in_force` has the effective text of every row. Raises
    ConfigError, all problems.

    Values are stored as parsed and printed again, so that `" 5"` and `5` are one.
    """
    result = dict(overrides)
    problems: list[str] = []
    seen: set[str] = set()
    outcomes: dict[str, tuple[str, str | None]] = {}  # name of the first change, what it made
    for change in changes:
        try:
            if change.name in seen:
                raise ValueError("is changed twice in one request")
            seen.add(change.name)
            row = rows[change.name]
            source = row if row.mirror is None else rows[row.mirror.name]
            _apply(source, result, in_force, _in_words_of(source, row, change))
            outcome = result.get(source.name)
            first, before = outcomes.setdefault(source.name, (change.name, outcome))
            if before != outcome:
                raise ValueError(contradiction(first))
        except KeyError:
            problems.append(unknown_name(change.name, rows))
        except ValueError as error:
            problems.append(f"{change.name}: {error}")
    if problems:
        raise ConfigError(problems)
    return result


def normalize(rows: Mapping[str, Setting], given: Mapping[str, str | None]) -> dict[str, str]:
    """A new topic's overrides, each checked and printed again.

    Raises ConfigError with every problem.
    """
    changes = [ConfigChange(name, AlterOperation.SET, value) for name, value in given.items()]
    return decide_alter(rows, {}, {}, changes)


def _in_words_of(source: Setting, row: Setting, change: ConfigChange) -> ConfigChange:
    """The change of `source` that the change of `row`, itself or its mirror, stands for. Raises
    ValueError.
    """
    if row.mirror is None or change.operation != AlterOperation.SET or change.value is None:
        return change._replace(name=source.name)
    text = to_kafka_value(parse_value(row, change.value))
    return change._replace(name=source.name, value=row.mirror.source_text(text))


def _apply(
    row: Setting,
    overrides: dict[str, str],
    in_force: Mapping[str, str],
    change: ConfigChange,
) -> None:
    if change.operation not in AlterOperation._value2member_map_:
        raise ValueError(
            f"has no operation {change.operation}; there are SET, DELETE, APPEND and SUBTRACT"
        )
    if change.operation == AlterOperation.DELETE:
        overrides.pop(change.name, None)
        return
    if change.value is None:
        raise ValueError("needs a value; null is none")
    if change.operation == AlterOperation.SET:
        overrides[change.name] = to_kafka_value(parse_value(row, change.value))
        return
    if row.type != SettingType.LIST:
        raise ValueError(
            "is not a list: it can be set or deleted, not appended to or subtracted from"
        )
    items = [item for item in in_force.get(change.name, "").split(",") if item]
    edited = [item.strip() for item in change.value.split(",") if item.strip()]
    if change.operation == AlterOperation.APPEND:
        items += [item for item in edited if item not in items]
    else:
        items = [item for item in items if item not in edited]
    overrides[change.name] = to_kafka_value(parse_value(row, ",".join(items)))
