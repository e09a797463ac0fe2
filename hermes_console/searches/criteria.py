"""What a search looks for, and whether a record, or a whole batch of them, can be it. Pure.

All criteria must hold. There are no regular expressions: every test takes time in proportion to the
bytes it looks at, whatever somebody enters. Most batches are decided by a search for bytes, without
opening a record.
"""

from __future__ import annotations

import base64
import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from decimal import Decimal, InvalidOperation
from typing import Any, Final

from broker.client.batches import Record, encode_varint

NEEDLE_BYTES_MAX: Final = 1_024
INT64_MAX: Final = 2**63 - 1
PATH_CHARACTERS_MAX: Final = 256
STEPS_MAX: Final = 32
PARTITIONS_LISTED_MAX: Final = 10_000
_STEP: Final = re.compile(
    r"""\.?(?P<name>[^.\[\]"'\s]+)|\[(?P<index>[0-9]{1,9})\]|\[(?P<quoted>"(?:[^"\\]|\\.)*")\]"""
)
_ESCAPED: Final = re.compile(r'["\\/\x00-\x1f]')
BACKSLASH: Final = b"\\"


class BadCriteria(ValueError):
    """What is looked for cannot be; `name` is the criterion's."""

    def __init__(self, name: str, text: str) -> None:
        super().__init__(text)
        self.name = name


@dataclass(frozen=True, slots=True)
class Criteria:
    """None: does not matter. Times are [since, until) in ms; `partitions` empty: all. `json_equals`
    is a JSON scalar, or a string as it is.
    """

    value_contains: bytes | None = None
    key_equals: bytes | None = None
    key_contains: bytes | None = None
    header_name: str | None = None
    header_equals: bytes | None = None
    json_path: str | None = None
    json_equals: str | None = None
    since_ms: int | None = None
    until_ms: int | None = None
    partitions: tuple[int, ...] = field(default=())

    def checked(self) -> Criteria:
        """Itself. Raises BadCriteria for what cannot be looked for."""
        for name in ("value_contains", "key_equals", "key_contains", "header_equals"):
            needle = getattr(self, name)
            if needle is not None and len(needle) > NEEDLE_BYTES_MAX:
                raise BadCriteria(name, f"At most {NEEDLE_BYTES_MAX} bytes can be looked for.")
            if name.endswith("contains") and needle == b"":
                raise BadCriteria(name, "Everything contains nothing: enter what to look for.")
        for name in ("header_name", "json_path", "json_equals"):
            text = getattr(self, name) or ""
            if len(text) > NEEDLE_BYTES_MAX or "\0" in text:
                raise BadCriteria(
                    name, f"At most {NEEDLE_BYTES_MAX} characters, and no NUL, can be looked for."
                )
        if (self.header_name is None) != (self.header_equals is None):
            raise BadCriteria("header_name", "A header is looked for by its name and its value.")
        if (self.json_path is None) != (self.json_equals is None):
            raise BadCriteria("json_path", "JSON is looked for by a path and the value there.")
        if self.json_path is not None:
            parse_path(self.json_path)
        if self.since_ms is not None and (self.until_ms or INT64_MAX) <= self.since_ms:
            raise BadCriteria("until", "The end of the time range is not after its beginning.")
        if len(self.partitions) > PARTITIONS_LISTED_MAX:
            raise BadCriteria("partitions", f"At most {PARTITIONS_LISTED_MAX} partitions.")
        if all(
            value is None
            for value in (
                *(self.value_contains, self.key_equals, self.key_contains, self.header_name),
                self.json_path,
            )
        ):
            raise BadCriteria(
                "value_contains", "Say what to look for: in the value, the key, a header or JSON."
            )
        return self

    def to_json(self) -> dict[str, Any]:
        """For the database; bytes as base64."""
        values: dict[str, Any] = {}
        for name in self.__slots__:
            value = getattr(self, name)
            if isinstance(value, bytes):
                value = {"base64": base64.b64encode(value).decode()}
            if value is not None and value != ():
                values[name] = list(value) if isinstance(value, tuple) else value
        return values

    @classmethod
    def from_json(cls, values: Mapping[str, Any]) -> Criteria:
        """What `to_json` made."""
        found: dict[str, Any] = {
            name: base64.b64decode(value["base64"]) if isinstance(value, dict) else value
            for name, value in values.items()
        }
        found["partitions"] = tuple(found.get("partitions", ()))
        return cls(**found)


class Matcher:
    """Criteria made ready for many records."""

    def __init__(self, criteria: Criteria) -> None:
        self._criteria = criteria
        self._needles = list(_needles(criteria))
        self._steps = () if criteria.json_path is None else parse_path(criteria.json_path)
        self._wanted = _wanted(criteria.json_equals or "")
        self._soft_needles = _soft_needles(self._steps, criteria.json_equals)

    def may_match(self, unpacked: bytes, max_timestamp_ms: int) -> bool:
        """Whether any of a batch's records can be one; False is certain."""
        since_ms = self._criteria.since_ms
        if since_ms is not None and max_timestamp_ms < since_ms:
            return False
        if not all(needle in unpacked for needle in self._needles):
            return False
        if all(needle in unpacked for needle in self._soft_needles):
            return True
        return BACKSLASH in unpacked

    def matches(self, record: Record) -> bool:
        """Whether the record is one."""
        criteria = self._criteria
        value, key = record.value, record.key
        if criteria.since_ms is not None and record.timestamp < criteria.since_ms:
            return False
        if criteria.until_ms is not None and record.timestamp >= criteria.until_ms:
            return False
        if criteria.value_contains is not None and (
            value is None or criteria.value_contains not in value
        ):
            return False
        if criteria.key_equals is not None and key != criteria.key_equals:
            return False
        if criteria.key_contains is not None and (key is None or criteria.key_contains not in key):
            return False
        if criteria.header_name is not None and not any(
            name == criteria.header_name and content == criteria.header_equals
            for name, content in record.headers
        ):
            return False
        return criteria.json_path is None or self._json_matches(value)

    def _json_matches(self, value: bytes | None) -> bool:
        if value is None:
            return False
        if not all(needle in value for needle in self._soft_needles) and BACKSLASH not in value:
            return False
        try:
            found = json.loads(
                value,
                parse_int=_number,
                parse_float=_number,
                parse_constant=_refuse,
                object_pairs_hook=_Pairs,
            )
        except (ValueError, RecursionError):
            return False
        return any(one in self._wanted for one in _at(found, self._steps) if _is_scalar(one))


def parse_path(text: str) -> tuple[str | int, ...]:
    """`$.order.lines[0]["unit price"]` as steps; the `$` may be left out. Raises BadCriteria."""
    if len(text) > PATH_CHARACTERS_MAX:
        raise BadCriteria("json_path", f"A path has at most {PATH_CHARACTERS_MAX} characters.")
    rest = text.strip().removeprefix("$")
    steps: list[str | int] = []
    position = 0
    while position < len(rest):
        found = _STEP.match(rest, position)
        if found is None or len(steps) >= STEPS_MAX:
            break
        position = found.end()
        if found["index"] is not None:
            steps.append(int(found["index"]))
        elif found["quoted"] is not None:
            steps.append(_unquoted(found["quoted"]))
        else:
            steps.append(found["name"])
    if position < len(rest) or not text.strip():
        raise BadCriteria(
            "json_path", 'Not a path. Expected for example order.lines[0]["unit price"].'
        )
    return tuple(steps)


def _unquoted(text: str) -> str:
    try:
        return str(json.loads(text))
    except ValueError as error:
        raise BadCriteria("json_path", f"{text} is not a JSON string.") from error


class _Pairs(list[tuple[str, Any]]):
    """An object with all its members, equal names too."""


def _at(value: Any, steps: tuple[str | int, ...]) -> list[Any]:
    """The values at the path: several when an object has a name twice."""
    found = [value]
    for step in steps:
        following: list[Any] = []
        for one in found:
            if isinstance(one, _Pairs):
                following += [content for name, content in one if name == step]
            elif isinstance(one, list) and isinstance(step, int) and step < len(one):
                following.append(one[step])
        found = following
    return found


def _wanted(text: str) -> list[Any]:
    """What equals `text`: the JSON scalar that it is, and the string that it is."""
    wanted: list[Any] = [_Text(text)]
    try:
        scalar = json.loads(text, parse_int=_number, parse_float=_number, parse_constant=_refuse)
    except (ValueError, RecursionError):
        return wanted
    if isinstance(scalar, str):
        return [_Text(scalar)]
    return [*wanted, _Exactly(scalar)] if _is_scalar(scalar) else wanted


class _Text:
    """Equals that string, and nothing but strings."""

    def __init__(self, text: str) -> None:
        self._text = text

    def __eq__(self, other: object) -> bool:
        return isinstance(other, str) and other == self._text

    __hash__ = None  # type: ignore[assignment]


class _Exactly:
    """Equals a value of the same kind: 1 is not true."""

    def __init__(self, value: object) -> None:
        self._value = value

    def __eq__(self, other: object) -> bool:
        return type(other) is type(self._value) and other == self._value

    __hash__ = None  # type: ignore[assignment]


def _is_scalar(value: object) -> bool:
    return value is None or isinstance(value, str | bool | Decimal)


def _number(text: str) -> Decimal:
    try:
        return Decimal(text)
    except InvalidOperation as error:
        raise ValueError("the number's exponent is out of all bounds") from error


def _refuse(text: str) -> None:
    raise ValueError(f"{text} is not JSON")


def _needles(criteria: Criteria) -> list[bytes]:
    """Bytes that must be in an unpacked batch that has such a record."""
    needles = []
    if criteria.key_equals is not None:
        needles.append(encode_varint(len(criteria.key_equals)) + criteria.key_equals)
    if criteria.header_name is not None and criteria.header_equals is not None:
        name, value = criteria.header_name.encode(), criteria.header_equals
        needles.append(encode_varint(len(name)) + name + encode_varint(len(value)) + value)
    needles += [one for one in (criteria.value_contains, criteria.key_contains) if one is not None]
    return needles


def _soft_needles(steps: tuple[str | int, ...], equals: str | None) -> list[bytes]:
    """Bytes that must be in JSON with that value there, unless it has a backslash: an escape may
    write any character.
    """
    needles = [step.encode() for step in steps if isinstance(step, str) and _is_plain(step)]
    if equals is not None and len(_wanted(equals)) == 1:
        try:
            text = json.loads(equals)
        except ValueError:
            text = equals
        if isinstance(text, str) and _is_plain(text):
            needles.append(text.encode())
    return needles


def _is_plain(text: str) -> bool:
    """Written in JSON as it is, if no escape is used."""
    return not _ESCAPED.search(text) and text.isprintable()
