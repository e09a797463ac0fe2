"""ETags: a version of what a GET showed, so that a change says which version it changes. Pure."""

from __future__ import annotations

import hashlib
import json
from typing import Any, Final

ANY: Final = "*"


def etag_of(value: Any) -> str:
    """A strong ETag of the JSON `value`, with its quotes."""
    text = json.dumps(value, sort_keys=True, separators=(",", ":"), default=str)
    return f'"{hashlib.sha256(text.encode()).hexdigest()[:32]}"'


def is_named(header: str, etag: str) -> bool:
    """Whether an If-Match or If-None-Match header names the version. Weak ones never match."""
    named = [part.strip() for part in header.split(",")]
    return ANY in named or etag in named
