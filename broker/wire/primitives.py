"""The variable-length pieces of the protocol, and the two ways in which a codec can fail.

Unsigned varint: 7 bits a byte, lowest first, top bit = "more follows", at most 5 bytes and 32 bits.
A tag section is a varint count, then per field: varint tag, varint size, that many bytes. Compiled
codecs call this module only for what is rare; the common one-byte case is inlined in them.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from typing import Final

from broker.ports import Buffer

UVARINT_BYTES_MAX: Final = 5
UVARINT_MAX: Final = 2**32 - 1
STRING_BYTES_MAX: Final = 2**15 - 1
"""What an int16 length can say. A varint could say more, but no string of the protocol may."""
REQUEST_ELEMENTS_MAX: Final = 25_000
"""Array elements of a whole request: more than twice the partitions of a node. An element of a few
bytes costs many microseconds to answer, so bytes alone would let one frame stop everybody else.
"""
TAGS_MAX: Final = 16
"""Tagged fields of one section; the protocol's richest has five."""

_INT16: Final = struct.Struct(">h")
_INT32: Final = struct.Struct(">i")


class MalformedMessage(ValueError):
    """The bytes are not a message of that type and version: the connection that sent them is beyond
    repair.
    """


class EncodeError(ValueError):
    """The message cannot be expressed in that version: a bug of ours, never the peer's."""


def read_uvarint(view: Buffer, position: int) -> tuple[int, int]:
    """(value, next position). Raises MalformedMessage for more than 32 bits, IndexError beyond the
    end of `view`.
    """
    value = 0
    for index in range(UVARINT_BYTES_MAX):
        byte = view[position + index]
        value |= (byte & 0x7F) << (7 * index)
        if byte < 0x80:
            if value > UVARINT_MAX:
                break
            return value, position + index + 1
    msg = f"varint at byte {position} has more than 32 bits"
    raise MalformedMessage(msg)


def write_uvarint(out: bytearray, value: int) -> None:
    """Append `value`, 0 or above."""
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)


def uvarint(value: int) -> bytes:
    """`value` (0 or above) as bytes."""
    out = bytearray()
    write_uvarint(out, value)
    return bytes(out)


def skip_tags(view: Buffer, position: int, limit: int) -> int:
    """The position after the tag section that starts at `position`; every field in it is unknown
    and dropped.
    """
    count, position = read_uvarint(view, position)
    if count > (limit - position) // 2 or count > TAGS_MAX:
        raise malformed_count(count, position, limit)
    for _ in range(count):
        _tag, position = read_uvarint(view, position)
        size, position = read_uvarint(view, position)
        position += size
        if position > limit:
            raise malformed_length(size, position - size, limit)
    return position


def write_count(out: bytearray, count: int, *, is_flexible: bool) -> None:
    """Append the count of an array."""
    if is_flexible:
        write_uvarint(out, count + 1)
    else:
        out += _INT32.pack(count)


def write_name(out: bytearray, name: bytes, *, is_flexible: bool) -> None:
    """Append a string that is UTF-8 already."""
    if is_flexible:
        write_uvarint(out, len(name) + 1)
    else:
        out += _INT16.pack(len(name))
    out += name


def write_tags(out: bytearray, fields: Sequence[tuple[int, bytearray]]) -> None:
    """Append a tag section; `fields` are (tag, encoded value) with tags ascending."""
    write_uvarint(out, len(fields))
    for tag, value in fields:
        write_uvarint(out, tag)
        write_uvarint(out, len(value))
        out += value


def join_buffers(value: Buffer | Sequence[Buffer]) -> Buffer:
    """One buffer for a records field: itself, or its pieces put together."""
    if isinstance(value, (bytes, bytearray, memoryview)):
        return value
    return b"".join(value)


def malformed_count(count: int, position: int, limit: int) -> MalformedMessage:
    """The error for an array or tag count that the bytes left cannot hold."""
    return MalformedMessage(
        f"{count} elements announced at byte {position}, only {limit - position} bytes follow"
    )


def too_many_elements(maximum: int) -> MalformedMessage:
    """The error for a request of more array elements than one may have."""
    return MalformedMessage(f"the request has more than {maximum} array elements")


def malformed_length(length: int, position: int, limit: int) -> MalformedMessage:
    """The error for a string or bytes length that the bytes left cannot hold."""
    return MalformedMessage(
        f"{length} bytes announced at byte {position}, only {limit - position} follow"
    )


def malformed_string(name: str, length: int) -> MalformedMessage:
    """The error for a string that is longer than the protocol allows."""
    return MalformedMessage(
        f"{name} has {length} bytes, a string may have {STRING_BYTES_MAX} at most"
    )


def malformed_null(name: str, length: int) -> MalformedMessage:
    """The error for a null (or a negative length) where the field cannot be null."""
    return MalformedMessage(f"{name} is null or has a negative length ({length})")
