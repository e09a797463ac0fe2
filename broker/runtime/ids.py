"""Random identifiers from the operating system."""

from __future__ import annotations

import os
import secrets

from broker.model import NO_TOPIC_ID


class SystemIds:
    """Implements `ports.IdSource`."""

    def uuid(self) -> bytes:
        """16 bytes, UUID version 4, never all zero, never printed with a leading `-`."""
        while True:
            value = as_uuid4(os.urandom(16))
            if is_printable_id(value):
                return value

    def below(self, bound: int) -> int:
        """A uniformly random int in [0, bound)."""
        return secrets.randbelow(bound)


def as_uuid4(raw: bytes) -> bytes:
    """`raw` (16 bytes) with the version and variant bits of RFC 9562 section 5.4."""
    patched = bytearray(raw)
    patched[6] = (patched[6] & 0x0F) | 0x40
    patched[8] = (patched[8] & 0x3F) | 0x80
    return bytes(patched)


def is_printable_id(value: bytes) -> bool:
    """Whether tools can take the id as an argument: not the absent id, and its base64 form begins
    without `-`.
    """
    return value != NO_TOPIC_ID and value[0] >> 2 != _DASH_SEXTET


_DASH_SEXTET = 62  # URL-safe base64 prints the six bits 111110 as `-`
