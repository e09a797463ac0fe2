"""Names from the cluster in addresses of pages. Kafka allows almost anything in a group's name;
paths do not.

A plain name stands as it is; any other one is `~` and the base64url of its UTF-8: `..` and `a/b`
survive a browser.
"""

from __future__ import annotations

import base64
import binascii
import re
from typing import Final

PLAIN: Final = re.compile(r"(?!\.{1,2}$)[A-Za-z0-9._-]{1,249}")
ESCAPE: Final = "~"


class NameConverter:
    """Django's path converter protocol; registered as `name` in urls.py."""

    regex = r"~[A-Za-z0-9_-]*|[A-Za-z0-9._-]+"

    def to_python(self, value: str) -> str:
        return decode_name(value)

    def to_url(self, value: str) -> str:
        return encode_name(value)


def encode_name(name: str) -> str:
    """The path segment for `name`."""
    if PLAIN.fullmatch(name):
        return name
    encoded = base64.urlsafe_b64encode(name.encode("utf-8", "surrogatepass")).decode()
    return ESCAPE + encoded.rstrip("=")


def decode_name(segment: str) -> str:
    """The name behind a path segment. Raises ValueError for one that `encode_name` never makes, and
    for names that no database can be asked for: with NUL (PostgreSQL), with half of a surrogate
    pair (no broker has such).
    """
    if not segment.startswith(ESCAPE):
        if not PLAIN.fullmatch(segment):
            raise ValueError(segment)
        return segment
    encoded = segment[1:]
    try:
        raw = base64.urlsafe_b64decode(encoded + "=" * (-len(encoded) % 4))
        name = raw.decode()
    except (binascii.Error, UnicodeDecodeError) as error:
        raise ValueError(segment) from error
    if not is_storable(name) or encode_name(name) != segment:
        raise ValueError(segment)
    return name


def is_storable(name: str) -> bool:
    """Whether every database keeps it as text, and can be asked for it."""
    try:
        return b"\0" not in name.encode()
    except UnicodeEncodeError:
        return False
