"""Field kinds: how one value of a message looks on the wire, in which versions, and what stands for
"not given".

Each function here is used as a class attribute in a declaration (see `schema.struct`). Its result
is typed Any so that the attribute keeps the type of its annotation. `versions` are message versions
("3", "0-12", "13+"; default all); `nullable` the versions in which null is allowed; a field with a
`tag` is written in the tag section of flexible versions, only when it differs from its default;
`ignorable` = dropped silently by versions that lack the field.
"""

from __future__ import annotations

import functools
from typing import Any, Final, NamedTuple

VERSION_MAX: Final = 32767


class Versions(NamedTuple):
    """An inclusive range of message versions; empty when `first > last`."""

    first: int
    last: int

    def __contains__(self, version: object) -> bool:
        return isinstance(version, int) and self.first <= version <= self.last


NO_VERSIONS: Final = Versions(1, 0)
ALL_VERSIONS: Final = Versions(0, VERSION_MAX)


@functools.lru_cache(maxsize=256)
def parse_versions(text: str) -> Versions:
    """ "none", "3", "0-12" or "13+". Raises ValueError for anything else."""
    if text == "none":
        return NO_VERSIONS
    if text.endswith("+"):
        return Versions(int(text[:-1]), VERSION_MAX)
    first, separator, last = text.partition("-")
    return Versions(int(first), int(last) if separator else int(first))


class Kind(NamedTuple):
    """A primitive: its `struct` code when the size is fixed ("" otherwise) and the fewest bytes it
    takes.
    """

    name: str
    code: str
    size_min: int


BOOLEAN: Final = Kind("boolean", "?", 1)
INT8: Final = Kind("int8", "b", 1)
INT16: Final = Kind("int16", "h", 2)
INT32: Final = Kind("int32", "i", 4)
INT64: Final = Kind("int64", "q", 8)
UINT16: Final = Kind("uint16", "H", 2)
UINT32: Final = Kind("uint32", "I", 4)
FLOAT64: Final = Kind("float64", "d", 8)
UUID: Final = Kind("uuid", "16s", 16)
STRING: Final = Kind("string", "", 1)
BYTES: Final = Kind("bytes", "", 1)
RECORDS: Final = Kind("records", "", 1)
ARRAY: Final = Kind("array", "", 1)
STRUCT: Final = Kind("struct", "", 0)

ZERO_UUID: Final = bytes(16)


class Field(NamedTuple):
    """One declared field. `element` is a Kind or a struct class for arrays, a struct class for
    structs, else None.

    `default` is the value that stands for "not given"; for arrays and structs that are not null by
    default it is FRESH: a new empty one for every message.
    """

    kind: Kind
    element: Any
    versions: Versions
    nullable: Versions
    tag: int | None
    default: Any
    ignorable: bool
    name: str = ""


class _Fresh:
    def __repr__(self) -> str:
        return "a new one"


FRESH: Final = _Fresh()


def _field(
    kind: Kind,
    default: object,
    *,
    element: object = None,
    versions: str = "0+",
    nullable: str = "none",
    tag: int | None = None,
    ignorable: bool = False,
) -> Any:
    return Field(
        kind, element, parse_versions(versions), parse_versions(nullable), tag, default, ignorable
    )


def boolean(*, default: bool = False, **properties: Any) -> Any:
    """One byte; anything but 0 reads as True."""
    return _field(BOOLEAN, default, **properties)


def int8(default: int = 0, **properties: Any) -> Any:
    """Signed, one byte."""
    return _field(INT8, default, **properties)


def int16(default: int = 0, **properties: Any) -> Any:
    """Signed, big-endian, two bytes. Error codes are this."""
    return _field(INT16, default, **properties)


def int32(default: int = 0, **properties: Any) -> Any:
    """Signed, big-endian, four bytes."""
    return _field(INT32, default, **properties)


def int64(default: int = 0, **properties: Any) -> Any:
    """Signed, big-endian, eight bytes."""
    return _field(INT64, default, **properties)


def uint16(default: int = 0, **properties: Any) -> Any:
    """Unsigned, big-endian, two bytes."""
    return _field(UINT16, default, **properties)


def uint32(default: int = 0, **properties: Any) -> Any:
    """Unsigned, big-endian, four bytes."""
    return _field(UINT32, default, **properties)


def float64(default: float = 0.0, **properties: Any) -> Any:
    """IEEE 754 double, big-endian."""
    return _field(FLOAT64, default, **properties)


def uuid(default: bytes = ZERO_UUID, **properties: Any) -> Any:
    """16 raw bytes; all zero means none."""
    return _field(UUID, default, **properties)


def string(default: str | None = "", **properties: Any) -> Any:
    """UTF-8 with a length: int16, or varint(n + 1) in flexible versions."""
    return _field(STRING, default, **properties)


def bytes_(default: bytes | None = b"", **properties: Any) -> Any:
    """Bytes with a length: int32, or varint(n + 1) in flexible versions. Copied on decode."""
    return _field(BYTES, default, **properties)


def records(default: None = None, **properties: Any) -> Any:
    """Record batches: like bytes, but decoded to a memoryview of the input, and encoded from any
    buffer or buffers.
    """
    return _field(RECORDS, default, **properties)


def array(element: object, default: Any = FRESH, **properties: Any) -> Any:
    """A list of `element` (a struct class or a Kind) with a count: int32, or varint(n + 1) in
    flexible versions.
    """
    return _field(ARRAY, default, element=element, **properties)


def nested(struct_type: type, default: Any = FRESH, **properties: Any) -> Any:
    """A struct in place; when nullable, one byte before it says -1 for null, 1 for present."""
    return _field(STRUCT, default, element=struct_type, **properties)
