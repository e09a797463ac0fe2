"""Answers that are encoded before their turn: in slices, so that no step of the loop is long, or
once for many clients.

A message with one long array is encoded as pieces of that array between the bytes before and after
it. Not here: what the answers say.
"""

from __future__ import annotations

import asyncio
import struct
from collections.abc import Callable, Iterator, Sequence
from typing import Any, Final, NamedTuple

from broker.wire.api import APIS, response_header_version
from broker.wire.primitives import write_uvarint
from broker.wire.schema import encoder

_HEAD: Final = struct.Struct(">ii")
_INT32: Final = struct.Struct(">i")
_CORRELATION_BYTES: Final = 4


class EncodedBody(NamedTuple):
    """A response body as bytes, for the version of the request.

    A handler may return it for its message.
    """

    body: bytes

    def frame(self, api_key: int, version: int, correlation_id: int) -> list[bytes]:
        """The response's frame in parts, size included; the body is not copied."""
        tags = b"\x00" if response_header_version(api_key, version) == 1 else b""
        size = _CORRELATION_BYTES + len(tags) + len(self.body)
        return [_HEAD.pack(size, correlation_id) + tags, self.body]


class ArrayPlace(NamedTuple):
    """Where a message's array stands.

    `tail_bytes` are the bytes after it, `is_flexible` tells how it is counted.
    """

    tail_bytes: int
    is_flexible: bool

    def wrap(self, encoded_empty: bytes, parts: Sequence[bytes], count: int) -> bytes:
        """`encoded_empty`, a message with an empty array there, with `count` items of `parts` in
        it.
        """
        cut = len(encoded_empty) - self.tail_bytes
        before = encoded_empty[: cut - len(self._count(0))]
        return b"".join([before, self._count(count), *parts, encoded_empty[cut:]])

    def unwrap(self, encoded: bytes, encoded_empty: bytes, count: int) -> bytes:
        """The bytes of the `count` items in `encoded`, which is otherwise as `encoded_empty`."""
        before = len(encoded_empty) - self.tail_bytes - len(self._count(0))
        return encoded[before + len(self._count(count)) : len(encoded) - self.tail_bytes]

    def _count(self, count: int) -> bytes:
        if not self.is_flexible:
            return _INT32.pack(count)
        out = bytearray()
        write_uvarint(out, count + 1)
        return bytes(out)


def encode_body(api_key: int, version: int, message: Any) -> bytes:
    """A response body. Raises EncodeError."""
    out = bytearray()
    encoder(APIS[api_key].response_type, version)(out, message)
    return bytes(out)


async def encode_sliced(
    api_key: int, version: int, message: Any, path: Sequence[str], leaves_per_step: int
) -> EncodedBody:
    """`message` with its long array at `path`: one attribute for an array of the message itself,
    two for an array inside each of its items, and so on.

    One step of the loop encodes about `leaves_per_step` of the innermost items.
    """
    is_flexible = version >= APIS[api_key].flexible_from
    attribute, *deeper = path
    items: list[Any] = getattr(message, attribute)

    def encode(part: Sequence[Any]) -> bytes:
        setattr(message, attribute, part)
        return encode_body(api_key, version, message)

    body = await _encode_array(encode, items, deeper, leaves_per_step, is_flexible=is_flexible)
    setattr(message, attribute, items)
    return EncodedBody(body)


async def _encode_array(
    encode: Callable[[Sequence[Any]], bytes],
    items: Sequence[Any],
    deeper: Sequence[str],
    leaves_per_step: int,
    *,
    is_flexible: bool,
) -> bytes:
    """What `encode(items)` would return, in steps; `encode` puts items into the array and encodes
    all that is around it.
    """
    empty = encode([])
    place: ArrayPlace | None = None
    parts: list[bytes] = []
    for run, is_big in _runs(items, deeper, leaves_per_step):
        if is_big:
            encoded = await _encode_item(
                encode, run[0], deeper, leaves_per_step, is_flexible=is_flexible
            )
        else:
            encoded = encode(run)
        place = place or _place_of(empty, encoded, len(run), is_flexible=is_flexible)
        parts.append(place.unwrap(encoded, empty, len(run)))
        await asyncio.sleep(0)
    return empty if place is None else place.wrap(empty, parts, len(items))


async def _encode_item(
    encode: Callable[[Sequence[Any]], bytes],
    item: Any,
    deeper: Sequence[str],
    leaves_per_step: int,
    *,
    is_flexible: bool,
) -> bytes:
    """`encode([item])`, whose own array is long."""
    attribute, *rest = deeper
    inner: list[Any] = getattr(item, attribute)

    def encode_inner(part: Sequence[Any]) -> bytes:
        setattr(item, attribute, part)
        return encode([item])

    encoded = await _encode_array(
        encode_inner, inner, rest, leaves_per_step, is_flexible=is_flexible
    )
    setattr(item, attribute, inner)
    return encoded


def _runs(
    items: Sequence[Any], deeper: Sequence[str], leaves_per_step: int
) -> Iterator[tuple[Sequence[Any], bool]]:
    """Neighbours that are encoded in one step; an item that is too much for one stands alone, with
    True.
    """
    first = weight = 0
    for index, item in enumerate(items):
        item_weight = _weight(item, deeper)
        is_big = bool(deeper) and item_weight > leaves_per_step
        if index > first and (is_big or weight + item_weight > leaves_per_step):
            yield items[first:index], False
            first, weight = index, 0
        weight += item_weight
        if is_big:
            yield items[index : index + 1], True
            first, weight = index + 1, 0
    if first < len(items):
        yield items[first:], False


def _weight(item: Any, deeper: Sequence[str]) -> int:
    """The item itself, and what is in it."""
    if not deeper:
        return 1
    attribute, *rest = deeper
    inner: list[Any] = getattr(item, attribute)
    return 1 + (sum(_weight(each, rest) for each in inner) if rest else len(inner))


def _place_of(empty: bytes, filled: bytes, count: int, *, is_flexible: bool) -> ArrayPlace:
    """The place of the array in which alone the two differ: they part in its count, which is 0 in
    `empty` and `count` in `filled`.
    """
    parting = next(index for index, byte in enumerate(empty) if byte != filled[index])
    if is_flexible:
        end_of_count = parting + 1
    else:
        leading_zeros = next(i for i, byte in enumerate(_INT32.pack(count)) if byte)
        end_of_count = parting - leading_zeros + _INT32.size
    return ArrayPlace(tail_bytes=len(empty) - end_of_count, is_flexible=is_flexible)
