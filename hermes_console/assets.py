"""Addresses of static files that change with their content, without a build step or a collected
copy.
"""

from __future__ import annotations

import hashlib
from functools import cache
from pathlib import Path

from django.contrib.staticfiles import finders
from django.contrib.staticfiles.storage import StaticFilesStorage


class VersionedStaticStorage(StaticFilesStorage):
    """`/static/x.css?v=<hash of its bytes>`: a new release is fetched at once, an old one stays
    cached.
    """

    def url(self, name: str | None) -> str:
        address = super().url(name)
        version = _version(name) if name else None
        return f"{address}?v={version}" if version else address


@cache
def _version(name: str) -> str | None:
    found = finders.find(name)
    if not isinstance(found, str):
        return None
    return hashlib.sha256(Path(found).read_bytes()).hexdigest()[:10]
