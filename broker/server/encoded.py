"""Answers that are encoded before their turn: in slices, so that no step of the loop is long, or
once for many clients.

A message with one long array is encoded as pieces of that array between the bytes before and after
it. Not here: what the answers say.
"""

from __future__ import annotations

import asyncio
import struct
from collections.abc import Sequence
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
    api_key: int, version: int, message: Any, attribute: str, items_per_step: int
) -> EncodedBody:
    """`message` whose last field, before tags alone, is the array `attribute`.

    One step of the loop per slice.
    """
    items: list[Any] = getattr(message, attribute)
    is_flexible = version >= APIS[api_key].flexible_from
    place = ArrayPlace(tail_bytes=1 if is_flexible else 0, is_flexible=is_flexible)
    setattr(message, attribute, [])
    empty = encode_body(api_key, version, message)
    parts: list[bytes] = []
    for start in range(0, len(items), items_per_step):
        chunk = items[start : start + items_per_step]
        setattr(message, attribute, chunk)
        parts.append(place.unwrap(encode_body(api_key, version, message), empty, len(chunk)))
        await asyncio.sleep(0)
    return EncodedBody(place.wrap(empty, parts, len(items)))
