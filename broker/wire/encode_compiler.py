"""Compiles the declaration of a message into one straight-line encoding function per version.

The mirror of decode_compiler: adjacent fixed-size fields, and the length or count after them, are
written by one precompiled Struct. Tagged fields that equal their default are left out; fields that
the version lacks must equal their default unless they are ignorable. Whatever a value does to the
generated code surfaces as EncodeError at the entry.
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from typing import Any

from broker.wire.decode_compiler import element_field
from broker.wire.fields import ARRAY, FRESH, RECORDS, STRING, STRUCT, UUID, Field, Kind
from broker.wire.primitives import EncodeError, join_buffers, write_tags, write_uvarint
from broker.wire.source import Source, describe


def compile_encoder(message_type: type, version: int) -> Callable[[bytearray, Any], None]:
    """The function that `schema.encoder` promises."""
    fields, is_flexible = describe(message_type, version)
    scope = {
        "EncodeError": EncodeError,
        "failures": (AttributeError, TypeError, struct.error, UnicodeEncodeError),
        "join_buffers": join_buffers,
        "pack": struct.pack,
        "write_tags": write_tags,
        "write_uvarint": write_uvarint,
    }
    source = Source(scope)
    writer = _EncodeWriter(source, version, is_flexible=is_flexible)
    with source.block("def encode(out, o)"):
        with source.block("try"):
            source.line("pass")
            writer.struct_fields(fields, "o")
            writer.flush()
        with source.block("except failures as error"):
            text = f"{message_type.__name__} version {version}: "
            source.line(f"raise EncodeError({text!r} + str(error)) from error")
    return source.function("encode")  # type: ignore[no-any-return]


class _EncodeWriter:
    def __init__(self, source: Source, version: int, *, is_flexible: bool) -> None:
        self._source = source
        self._version = version
        self._is_flexible = is_flexible
        self._pending: list[tuple[str, str]] = []  # (struct code, expression)
        self._out = "out"
        self._count = 0

    def struct_fields(self, fields: tuple[Field, ...], owner: str) -> None:
        """Every field of `owner`, then the tag section when the version has one."""
        tagged = []
        for field in fields:
            value = f"{owner}.{field.name}"
            if self._version not in field.versions:
                if not field.ignorable:
                    self._refuse_unless_default(field, value)
            elif field.tag is not None:
                tagged.append((field, value))
            else:
                self._value(field, value)
        if self._is_flexible:
            self._tags(tagged)

    def flush(self, extra: tuple[str, str] | None = None) -> None:
        """Emit the write of all fixed-size fields collected so far, and of `extra` after them."""
        batch = [*self._pending, extra] if extra else self._pending
        if not batch:
            return
        codes = "".join(code for code, _ in batch)
        values = ", ".join(value for _, value in batch)
        if codes == "B":
            self._source.line(f"{self._out}.append({values})")
        else:
            pack = self._source.constant("pack", struct.Struct(">" + codes).pack, key=codes)
            self._source.line(f"{self._out} += {pack}({values})")
        if extra is None:
            self._pending.clear()

    def _variable(self, prefix: str) -> str:
        self._count += 1
        return f"{prefix}{self._count}"

    def _refuse_unless_default(self, field: Field, value: str) -> None:
        with self._source.block(f"if {self._is_given(field, value)}"):
            text = f"{field.name} cannot be expressed in version {self._version}"
            self._source.line(f"raise EncodeError({text!r})")

    def _is_given(self, field: Field, value: str) -> str:
        """An expression that is true when `value` differs from the field's default."""
        if field.default is None:
            return f"{value} is not None"
        if field.default is not FRESH:
            return f"{value} != {self._source.literal(field.default)}"
        if field.kind is ARRAY:
            return f"{value} != []"
        inner: tuple[Field, ...] = field.element.__fields__
        if all(part.kind.code for part in inner):
            return " or ".join(
                f"{value}.{part.name} != {self._source.literal(part.default)}" for part in inner
            )
        return f"{value} != {self._source.constant('default', field.element(), key=field.element)}"

    def _value(self, field: Field, value: str) -> None:
        if field.kind.code:
            if field.kind is UUID:
                with self._source.block(f"if len({value}) != 16"):
                    self._source.line(
                        f"raise EncodeError({f'{field.name} does not have 16 bytes'!r})"
                    )
            self._pending.append((field.kind.code, value))
        elif field.kind is STRUCT:
            self._struct(field, value)
        elif field.kind is ARRAY:
            self._array(field, value)
        else:
            self._content(field, value)

    def _struct(self, field: Field, value: str) -> None:
        name = self._variable("o")
        self._source.line(f"{name} = {value}")
        if self._version not in field.nullable:
            self.struct_fields(field.element.__fields__, name)
            return
        self.flush()
        with self._source.block(f"if {name} is None"):
            self._source.line(f"{self._out}.append(255)")
        with self._source.block("else"):
            self._pending.append(("b", "1"))
            self.struct_fields(field.element.__fields__, name)
            self.flush()

    def _content(self, field: Field, value: str) -> None:
        """A string, bytes or records field."""
        form = "s.encode()" if field.kind is STRING else "s"
        extra = " + 1" if self._is_flexible else ""
        self._source.line(f"s = {value}")
        if field.kind is RECORDS:
            self._source.line("if s is not None: s = join_buffers(s)")
        if self._version in field.nullable:
            null = "0" if self._is_flexible else "-1"
            with self._source.block("if s is None"):
                self._source.line("s = b''")
                self._source.line(f"n = {null}")
            with self._source.block("else"):
                self._source.line(f"s = {form}")
                self._source.line(f"n = len(s){extra}")
        else:
            if field.kind is STRING:
                self._source.line(f"s = {form}")
            self._source.line(f"n = len(s){extra}")
        self._length("h" if field.kind is STRING else "i")
        self._source.line(f"{self._out} += s")

    def _length(self, code: str) -> None:
        """Write n, together with what is pending."""
        if not self._is_flexible:
            self._pending.append((code, "n"))
            self.flush()
            return
        with self._source.block("if n < 128"):
            self.flush(("B", "n"))
        with self._source.block("else"):
            self.flush()
            self._source.line(f"write_uvarint({self._out}, n)")

    def _array(self, field: Field, value: str) -> None:
        element = field.element
        items = self._variable("a")
        extra = " + 1" if self._is_flexible else ""
        self._source.line(f"{items} = {value}")
        if self._version in field.nullable:
            null = "0" if self._is_flexible else "-1"
            self._source.line(f"n = {null} if {items} is None else len({items}){extra}")
            self._length("i")
            with self._source.block(f"if {items}"):
                self._elements(element, items)
            return
        self._source.line(f"n = len({items}){extra}")
        self._length("i")
        self._elements(element, items)

    def _elements(self, element: Any, items: str) -> None:
        if isinstance(element, Kind) and len(element.code) == 1:
            self._source.line(f"{self._out} += pack(f'>{{len({items})}}{element.code}', *{items})")
            return
        name = self._variable("o")
        with self._source.block(f"for {name} in {items}"):
            if isinstance(element, Kind):
                self._value(element_field(element), name)
            else:
                self.struct_fields(element.__fields__, name)
            self.flush()

    def _tags(self, tagged: list[tuple[Field, str]]) -> None:
        if not tagged:
            self._pending.append(("B", "0"))
            return
        fields = self._variable("tagged")
        outer = self._out
        self._source.line(f"{fields} = None")
        pending, self._pending = self._pending, []
        for field, value in sorted(tagged, key=lambda pair: pair[0].tag or 0):
            given = self._variable("x")
            self._source.line(f"{given} = {value}")
            with self._source.block(f"if {self._is_given(field, given)}"):
                self._out = self._variable("out")
                self._source.line(f"{self._out} = bytearray()")
                self._value(field, given)
                self.flush()
                with self._source.block(f"if {fields} is None"):
                    self._source.line(f"{fields} = []")
                self._source.line(f"{fields}.append(({field.tag}, {self._out}))")
                self._out = outer
        self._pending = pending
        with self._source.block(f"if {fields} is None"):
            self.flush(("B", "0"))
        with self._source.block("else"):
            self.flush()
            self._source.line(f"write_tags({self._out}, {fields})")
        self._pending.clear()
