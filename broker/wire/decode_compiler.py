"""Compiles the declaration of a message into one straight-line decoding function per version.

Adjacent fixed-size fields, and the length or count that follows them, are read by one precompiled
Struct. A varint of one byte is read with them; a longer one is read again by `read_uvarint`. Every
length is compared with the bytes left before it is used, every count with the bytes that so many
smallest elements would take, so that time and memory stay proportional to the input; a request's
elements are also counted together. Reading past the end surfaces as struct.error or IndexError,
translated once at the entry.
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from typing import Any

from broker.wire.fields import (
    ALL_VERSIONS,
    ARRAY,
    BYTES,
    FRESH,
    NO_VERSIONS,
    RECORDS,
    STRING,
    STRUCT,
    Field,
    Kind,
)
from broker.wire.primitives import (
    REQUEST_ELEMENTS_MAX,
    STRING_BYTES_MAX,
    TAGS_MAX,
    MalformedMessage,
    malformed_count,
    malformed_length,
    malformed_null,
    malformed_string,
    read_uvarint,
    skip_tags,
    too_many_elements,
)
from broker.wire.source import Source, describe


def compile_decoder(
    message_type: type, version: int
) -> Callable[[memoryview, int], tuple[Any, int]]:
    """The function that `schema.decoder` promises."""
    fields, is_flexible = describe(message_type, version)
    scope = {
        "MalformedMessage": MalformedMessage,
        "failures": (IndexError, struct.error, UnicodeDecodeError),
        "malformed_count": malformed_count,
        "malformed_length": malformed_length,
        "malformed_null": malformed_null,
        "malformed_string": malformed_string,
        "new": object.__new__,
        "read_uvarint": read_uvarint,
        "skip_tags": skip_tags,
        "too_many_elements": too_many_elements,
        "unpack_from": struct.unpack_from,
    }
    source = Source(scope)
    is_request = message_type.__message__.direction == "request"  # type: ignore[attr-defined]
    writer = _DecodeWriter(source, version, is_flexible=is_flexible, is_counted=is_request)
    with source.block("def decode(view, p)"):
        source.line("limit = len(view)")
        if is_request:
            source.line(f"room = {REQUEST_ELEMENTS_MAX}")
        with source.block("try"):
            root = writer.open_struct(message_type)
            writer.struct_fields(fields, root)
            writer.flush()
        with source.block("except failures as error"):
            text = f"{message_type.__name__} version {version}: "
            source.line(f"raise MalformedMessage({text!r} + str(error)) from None")
        source.line(f"return {root}, p")
    return source.function("decode")  # type: ignore[no-any-return]


class _DecodeWriter:
    def __init__(
        self, source: Source, version: int, *, is_flexible: bool, is_counted: bool
    ) -> None:
        self._source = source
        self._is_counted = is_counted
        self._version = version
        self._is_flexible = is_flexible
        self._pending: list[tuple[str, str]] = []  # (struct code, where the value goes)
        self._count = 0

    def open_struct(self, struct_type: type) -> str:
        """Create an object; returns the variable that holds it."""
        name = self._variable("o")
        self._source.line(f"{name} = new({self._source.constant('Struct', struct_type)})")
        return name

    def struct_fields(self, fields: tuple[Field, ...], owner: str) -> None:
        """Every field of `owner`, then the tag section when the version has one."""
        tagged = []
        for field in fields:
            target = f"{owner}.{field.name}"
            if self._version not in field.versions:
                self._source.line(f"{target} = {self._default(field)}")
            elif field.tag is not None:
                self._source.line(f"{target} = {self._default(field)}")
                tagged.append((field, target))
            else:
                self._value(field, target)
        if self._is_flexible:
            self._tags(tagged)

    def flush(self) -> None:
        """Emit the read of all fixed-size fields collected so far."""
        if not self._pending:
            return
        codes = "".join(code for code, _ in self._pending)
        targets = ", ".join(target for _, target in self._pending)
        self._pending.clear()
        if codes == "B":
            self._source.line(f"{targets} = view[p]")
            self._source.line("p += 1")
            return
        layout = struct.Struct(">" + codes)
        unpack = self._source.constant("unpack", layout.unpack_from, key=codes)
        self._source.line(f"{targets}, = {unpack}(view, p)")
        self._source.line(f"p += {layout.size}")

    def _variable(self, prefix: str) -> str:
        self._count += 1
        return f"{prefix}{self._count}"

    def _default(self, field: Field) -> str:
        if field.default is not FRESH:
            return self._source.literal(field.default)
        if field.kind is ARRAY:
            return "[]"
        return f"{self._source.constant('Struct', field.element)}()"

    def _value(self, field: Field, target: str) -> None:
        if field.kind.code:
            self._pending.append((field.kind.code, target))
        elif field.kind is STRUCT:
            self._struct(field, target)
        else:
            self._sized(field, target)

    def _struct(self, field: Field, target: str) -> None:
        element = field.element
        if self._version not in field.nullable:
            name = self.open_struct(element)
            self._source.line(f"{target} = {name}")
            self.struct_fields(element.__fields__, name)
            return
        self._pending.append(("b", "n"))
        self.flush()
        with self._source.block("if n < 0"):
            with self._source.block("if n != -1"):
                self._source.line(f"raise malformed_null({field.name!r}, n)")
            self._source.line(f"{target} = None")
        with self._source.block("else"):
            name = self.open_struct(element)
            self._source.line(f"{target} = {name}")
            self.struct_fields(element.__fields__, name)
            self.flush()

    def _sized(self, field: Field, target: str) -> None:
        """A string, bytes, records or array: its length as n, then its content."""
        if self._is_flexible:
            self._pending.append(("B", "n"))
            self.flush()
            with self._source.block("if n > 127"):
                self._source.line("n, p = read_uvarint(view, p - 1)")
                if field.kind is STRING:
                    with self._source.block(f"if n > {STRING_BYTES_MAX + 1}"):
                        self._source.line(f"raise malformed_string({field.name!r}, n - 1)")
            self._source.line("n -= 1")
        else:
            self._pending.append(("h" if field.kind is STRING else "i", "n"))
            self.flush()
        with self._source.block("if n < 0"):
            if self._version in field.nullable:
                if not self._is_flexible:
                    with self._source.block("if n != -1"):
                        self._source.line(f"raise malformed_null({field.name!r}, n)")
                self._source.line(f"{target} = None")
            else:
                self._source.line(f"raise malformed_null({field.name!r}, n)")
        with self._source.block("else"):
            if field.kind is ARRAY:
                self._array(field, target)
            else:
                self._content(field.kind, target)

    def _content(self, kind: Kind, target: str) -> None:
        self._source.line("e = p + n")
        with self._source.block("if e > limit"):
            self._source.line("raise malformed_length(n, p, limit)")
        forms = {STRING: "str(view[p:e], 'utf-8')", BYTES: "bytes(view[p:e])", RECORDS: "view[p:e]"}
        self._source.line(f"{target} = {forms[kind]}")
        self._source.line("p = e")

    def _array(self, field: Field, target: str) -> None:
        element = field.element
        with self._source.block(f"if n * {self._element_size_min(element)} > limit - p"):
            self._source.line("raise malformed_count(n, p, limit)")
        if self._is_counted:
            self._source.line("room -= n")
            with self._source.block("if room < 0"):
                self._source.line(f"raise too_many_elements({REQUEST_ELEMENTS_MAX})")
        if isinstance(element, Kind) and len(element.code) == 1:
            size = struct.calcsize(">" + element.code)
            self._source.line(f"{target} = list(unpack_from(f'>{{n}}{element.code}', view, p))")
            self._source.line(f"p += {'n' if size == 1 else f'{size} * n'}")
            return
        items = self._variable("a")
        append = self._variable("append")
        self._source.line(f"{target} = {items} = []")
        self._source.line(f"{append} = {items}.append")
        with self._source.block("for _ in range(n)"):
            if isinstance(element, Kind):
                self._value(element_field(element), "x")
                self.flush()
                self._source.line(f"{append}(x)")
            else:
                name = self.open_struct(element)
                self.struct_fields(element.__fields__, name)
                self.flush()
                self._source.line(f"{append}({name})")

    def _tags(self, tagged: list[tuple[Field, str]]) -> None:
        self._pending.append(("B", "n"))
        self.flush()
        if not tagged:
            with self._source.block("if n"):
                self._source.line("p = skip_tags(view, p - 1, limit)")
            return
        end = self._variable("end")
        with self._source.block("if n"):
            self._source.line("n, p = read_uvarint(view, p - 1)")
            with self._source.block(f"if n * 2 > limit - p or n > {TAGS_MAX}"):
                self._source.line("raise malformed_count(n, p, limit)")
            with self._source.block("for _ in range(n)"):
                self._source.line("tag, p = read_uvarint(view, p)")
                self._source.line("n, p = read_uvarint(view, p)")
                self._source.line(f"{end} = p + n")
                with self._source.block(f"if {end} > limit"):
                    self._source.line("raise malformed_length(n, p, limit)")
                for index, (field, target) in enumerate(tagged):
                    with self._source.block(f"{'elif' if index else 'if'} tag == {field.tag}"):
                        self._value(field, target)
                        self.flush()
                        with self._source.block(f"if p != {end}"):
                            self._source.line(f"raise malformed_length({end} - p, p, {end})")
                self._source.line(f"p = {end}")

    def _element_size_min(self, element: Any) -> int:
        if isinstance(element, Kind):
            return self._size_min(element_field(element))
        return max(1, self._struct_size_min(element.__fields__))

    def _struct_size_min(self, fields: tuple[Field, ...]) -> int:
        present = [
            field for field in fields if self._version in field.versions and field.tag is None
        ]
        return sum(self._size_min(field) for field in present) + (1 if self._is_flexible else 0)

    def _size_min(self, field: Field) -> int:
        if field.kind.code:
            return field.kind.size_min
        if field.kind is STRUCT:
            is_nullable = self._version in field.nullable
            return 1 if is_nullable else self._struct_size_min(field.element.__fields__)
        if self._is_flexible:
            return 1
        return 2 if field.kind is STRING else 4


def element_field(kind: Kind) -> Field:
    """An array element that is a primitive, as a field: always present, never null."""
    return Field(
        kind, None, ALL_VERSIONS, NO_VERSIONS, None, None, ignorable=False, name="an array element"
    )
