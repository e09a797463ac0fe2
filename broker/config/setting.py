"""What a setting is, and how a table of settings is filled from layers (file, environment, flags,
overrides).

A table is a frozen dataclass whose fields are made by `setting(...)` or `section(...)`. Nothing
here reads a file, the environment or a clock. Values are checked when they come from outside
(`resolve`), not by the constructor: code and tests may build any snapshot they like. Attribute
names are the property names with `_` for `.`.
"""

from __future__ import annotations

import dataclasses
import difflib
import functools
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from enum import IntEnum, StrEnum
from typing import Any, Final, NamedTuple, TypeVar, cast

from broker.model import INT32_MAX

T = TypeVar("T")
_SETTING: Final = "setting"
_SECTION: Final = "section"
_TABLES: Final[dict[type[Any], dict[str, Setting]]] = {}


class SettingType(IntEnum):
    """The types of DescribeConfigs (the protocol's numbers)."""

    BOOLEAN = 1
    STRING = 2
    INT = 3
    LONG = 5
    DOUBLE = 6
    LIST = 7


class Scope(StrEnum):
    """For whom one value holds."""

    NODE = "node"
    CLUSTER = "cluster"
    TOPIC = "topic"
    GROUP = "group"
    CLIENT = "client"


class Unit(StrEnum):
    """What a number counts."""

    NONE = ""
    MS = "ms"
    MINUTES = "minutes"
    BYTES = "bytes"
    COUNT = "count"
    RATIO = "ratio"


class Alias(NamedTuple):
    """Another name of a setting.

    A value given under it is multiplied by `factor` (hours to milliseconds).
    """

    name: str
    factor: int


class Mirror(NamedTuple):
    """That a setting says in other words what `name` of the same table says: it is never stored,
    and to set it is to set that one. `values` has this setting's text for each of that one's.
    """

    name: str
    values: Mapping[str, str]

    def source_text(self, text: str) -> str:
        """What the mirrored setting says where this one says `text`, which it can."""
        return next(source for source, own in self.values.items() if own == text)


@dataclasses.dataclass(frozen=True, slots=True)
class Setting:
    """One row of a table. `path` leads from the table's object to the value.

    Bounds are inclusive.
    """

    name: str
    default: Any
    documentation: str
    type: SettingType
    unit: Unit = Unit.NONE
    minimum: int | float | None = None
    maximum: int | float | None = None
    choices: tuple[str, ...] = ()
    scope: Scope = Scope.NODE
    is_live: bool = False
    is_sensitive: bool = False
    aliases: tuple[Alias, ...] = ()
    broker_name: str = ""
    check: Callable[[Any], str | None] | None = None
    mirror: Mirror | None = None
    path: tuple[str, ...] = ()

    def value_in(self, table: Any) -> Any:
        """The setting's value in a snapshot of its table."""
        return functools.reduce(getattr, self.path, table)


class Layer(NamedTuple):
    """Values from one source; a later layer wins. `problems` were found when the layer was made."""

    source: str
    values: Mapping[str, object]
    problems: tuple[str, ...] = ()


class ConfigError(Exception):
    """Every problem found, each with the source it came from."""

    def __init__(self, problems: Sequence[str]) -> None:
        assert problems, "a ConfigError names at least one problem"
        count = f"{len(problems)} problems" if len(problems) > 1 else "1 problem"
        super().__init__(
            f"{count} in the settings:\n" + "\n".join(f"  {text}" for text in problems)
        )
        self.problems = tuple(problems)


def setting(  # noqa: PLR0913 - a row of a table has that many columns
    name: str,
    default: T,
    documentation: str,
    *,
    unit: Unit = Unit.NONE,
    minimum: int | float | None = None,
    maximum: int | float | None = None,
    choices: tuple[str, ...] = (),
    scope: Scope = Scope.NODE,
    live: bool = False,
    sensitive: bool = False,
    aliases: tuple[Alias, ...] = (),
    broker_name: str = "",
    check: Callable[[T], str | None] | None = None,
    mirror: Mirror | None = None,
) -> T:
    """A field of a table. `check` returns what is wrong with a parsed value, or None; of a setting
    with a `mirror` it must refuse what the mirror has no words for.

    `broker_name` is the broker-wide default's name of a topic setting; `aliases` are further names
    of the setting in the broker's table (of the broker-wide default, for a topic setting), in
    falling precedence.
    """
    row = Setting(
        name=name,
        default=default,
        documentation=documentation,
        type=_type_of(default, maximum),
        unit=unit,
        minimum=minimum,
        maximum=maximum,
        choices=choices,
        scope=scope,
        is_live=live,
        is_sensitive=sensitive,
        aliases=aliases,
        broker_name=broker_name,
        check=check,
        mirror=mirror,
    )
    field: Any = dataclasses.field(default=default, metadata={_SETTING: row})
    return cast("T", field)


def section(table: type[T]) -> T:
    """A field that holds another table.

    Topic settings appear under their broker names, others under their own.
    """
    field: Any = dataclasses.field(default_factory=table, metadata={_SECTION: table})
    return cast("T", field)


def settings_of(table: type[Any]) -> Mapping[str, Setting]:
    """The rows of a table by name, sections included, in declaration order."""
    rows = _TABLES.get(table)
    if rows is not None:
        return rows
    rows = _TABLES[table] = {}
    for row in _rows(table):
        assert row.name not in rows, f"setting {row.name} is declared twice"
        rows[row.name] = row
    return rows


def resolve(base: T, layers: Sequence[Layer]) -> T:
    """A copy of `base` with the layers' values, later layers winning. Raises ConfigError naming
    every problem.

    Within a layer the setting's own name wins over its aliases, in their order; it and its mirror
    may both be there when they say the same.
    """
    rows = settings_of(type(base))
    known = {
        name: row for row in rows.values() for name in (row.name, *(a.name for a in row.aliases))
    }
    values: dict[tuple[str, ...], Any] = {}
    problems: list[str] = []
    for layer in layers:
        problems.extend(f"{layer.source}: {text}" for text in layer.problems)
        problems.extend(
            f"{layer.source}: {unknown_name(name, known)}"
            for name in layer.values
            if name not in known
        )
        for row in rows.values():
            if row.mirror is None:
                _read_row(row, layer, values, problems)
            else:
                _read_mirror(row, row.mirror, rows[row.mirror.name], layer, values, problems)
    result = _with_mirrors(_with_values(base, values), rows)
    problems.extend(broken_rules(result))
    if problems:
        raise ConfigError(problems)
    return result


def load(table: type[T], layers: Sequence[Layer]) -> T:
    """The table's defaults with the layers' values, later layers winning. Raises ConfigError."""
    return resolve(table(), layers)


def broken_rules(table: object) -> list[str]:
    """What is wrong between settings, by the `rules` method of the table and of its sections."""
    problems: list[str] = list(table.rules()) if hasattr(table, "rules") else []
    for field in dataclasses.fields(cast("Any", table)):
        if _SECTION in field.metadata:
            problems.extend(broken_rules(getattr(table, field.name)))
    return problems


def parse_value(row: Setting, raw: object) -> Any:
    """`raw` (text, or what YAML gives) as the setting's type, within its bounds.

    Raises ValueError with a sentence.
    """
    value = _PARSERS[row.type](raw)
    if row.minimum is not None and value < row.minimum:
        raise ValueError(f"must be at least {_with_unit(row, row.minimum)}, found {value}")
    if row.maximum is not None and value > row.maximum:
        raise ValueError(f"must be at most {_with_unit(row, row.maximum)}, found {value}")
    if row.choices:
        for item in value if isinstance(value, tuple) else (to_kafka_value(value),):
            if item not in row.choices:
                raise ValueError(f"must be {_one_of(row.choices)}, found {item!r}")
    problem = row.check(value) if row.check is not None else None
    if problem is not None:
        raise ValueError(problem)
    return value


def to_kafka_value(value: object) -> str:
    """A parsed value as Kafka's tools write it."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, tuple):
        return ",".join(value)
    return str(value)


def unknown_name(name: object, known: Mapping[str, Any] | Sequence[str]) -> str:
    """A sentence about an unknown name, with the nearest known one."""
    nearest = difflib.get_close_matches(str(name), list(known), n=1, cutoff=0.6)
    return f"{name}: unknown setting" + (f"; did you mean {nearest[0]}?" if nearest else "")


def _rows(table: type[Any]) -> Iterator[Setting]:
    for field in dataclasses.fields(table):
        if _SETTING in field.metadata:
            row: Setting = field.metadata[_SETTING]
            aliases = () if row.broker_name else row.aliases
            yield dataclasses.replace(row, path=(field.name,), aliases=aliases)
        elif _SECTION in field.metadata:
            inner: list[Setting] = [
                each.metadata[_SETTING] for each in dataclasses.fields(field.metadata[_SECTION])
            ]
            names = {row.name: row.broker_name or row.name for row in inner}
            for row in inner:
                attribute = row.name.replace(".", "_").replace("-", "_")
                path = (field.name, attribute)
                scope = Scope.CLUSTER if row.broker_name else row.scope
                mirror = row.mirror and row.mirror._replace(name=names[row.mirror.name])
                yield dataclasses.replace(
                    row, name=names[row.name], path=path, scope=scope, mirror=mirror
                )


def _read_row(
    row: Setting, layer: Layer, values: dict[tuple[str, ...], Any], problems: list[str]
) -> None:
    for name, factor in ((row.name, 1), *row.aliases):
        if name not in layer.values:
            continue
        try:
            values[row.path] = _parse_scaled(row, layer.values[name], factor)
        except ValueError as error:
            problems.append(f"{layer.source}: {name}: {error}")
        return


def _read_mirror(
    row: Setting,
    mirror: Mirror,
    source: Setting,
    layer: Layer,
    values: dict[tuple[str, ...], Any],
    problems: list[str],
) -> None:
    if row.name not in layer.values:
        return
    try:
        text = to_kafka_value(parse_value(row, layer.values[row.name]))
        wanted = parse_value(source, mirror.source_text(text))
        if source.name in layer.values and values.get(source.path) != wanted:
            raise ValueError(contradiction(source.name))
        values[source.path] = wanted
    except ValueError as error:
        problems.append(f"{layer.source}: {row.name}: {error}")


def contradiction(other: str) -> str:
    """What is wrong with a setting's value when `other` says in other words something else."""
    return f"contradicts {other}, which sets the same in other words: give one of the two"


def _with_mirrors(table: T, rows: Mapping[str, Setting]) -> T:
    """The table with every mirror saying what its source says."""
    values: dict[tuple[str, ...], Any] = {}
    for row in rows.values():
        if row.mirror is not None:
            text = to_kafka_value(rows[row.mirror.name].value_in(table))
            values[row.path] = parse_value(row, row.mirror.values[text])
    return _with_values(table, values) if values else table


def _parse_scaled(row: Setting, raw: object, factor: int) -> Any:
    if factor == 1:
        return parse_value(row, raw)
    number = _parse_integer(raw)
    return parse_value(row, number * factor if number > 0 else number)


def _with_values(base: T, values: Mapping[tuple[str, ...], Any]) -> T:
    changes: dict[str, Any] = {path[0]: value for path, value in values.items() if len(path) == 1}
    for name in {path[0] for path in values if len(path) > 1}:
        inner = {path[1:]: value for path, value in values.items() if path[0] == name}
        changes[name] = _with_values(getattr(base, name), inner)
    return cast("T", dataclasses.replace(cast("Any", base), **changes))


def _type_of(default: object, maximum: int | float | None) -> SettingType:
    if isinstance(default, bool):
        return SettingType.BOOLEAN
    if isinstance(default, int):
        is_int32 = maximum is not None and maximum <= INT32_MAX
        return SettingType.INT if is_int32 else SettingType.LONG
    if isinstance(default, float):
        return SettingType.DOUBLE
    return SettingType.LIST if isinstance(default, tuple) else SettingType.STRING


def _parse_boolean(raw: object) -> bool:
    text = str(raw).strip().lower()
    if text not in ("true", "false"):
        raise ValueError(f"must be true or false, found {raw!r}")
    return text == "true"


def _parse_integer(raw: object) -> int:
    text = str(raw).strip()
    digits = text[1:] if text[:1] in ("-", "+") else text
    if isinstance(raw, bool) or not (digits.isascii() and digits.isdigit()) or len(digits) > 19:
        raise ValueError(f"must be a whole number, found {raw!r}")
    number = int(text)
    if not -(2**63) <= number < 2**63:
        raise ValueError(f"must fit 64 bits, found {raw!r}")
    return number


def _parse_float(raw: object) -> float:
    try:
        number = math.nan if isinstance(raw, bool) else float(str(raw))
    except ValueError:
        number = math.nan
    if not math.isfinite(number):
        raise ValueError(f"must be a number, found {raw!r}")
    return number


def _parse_text(raw: object) -> str:
    if isinstance(raw, list | tuple | dict) or raw is None:
        raise ValueError(f"must be text, found {raw!r}")
    return to_kafka_value(raw).strip()


def _parse_list(raw: object) -> tuple[str, ...]:
    items = raw if isinstance(raw, list | tuple) else _parse_text(raw).split(",")
    return tuple(dict.fromkeys(_parse_text(item) for item in items if _parse_text(item)))


_PARSERS: Final[Mapping[SettingType, Callable[[object], Any]]] = {
    SettingType.BOOLEAN: _parse_boolean,
    SettingType.STRING: _parse_text,
    SettingType.INT: _parse_integer,
    SettingType.LONG: _parse_integer,
    SettingType.DOUBLE: _parse_float,
    SettingType.LIST: _parse_list,
}


def _with_unit(row: Setting, bound: int | float) -> str:
    return (
        f"{bound} {row.unit}".strip()
        if row.unit in (Unit.MS, Unit.BYTES, Unit.MINUTES)
        else str(bound)
    )


def _one_of(choices: Sequence[str]) -> str:
    return choices[0] if len(choices) == 1 else f"one of {', '.join(choices)}"
