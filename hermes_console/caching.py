"""How long browsers keep static files. Pure."""

from __future__ import annotations

from collections.abc import MutableMapping
from typing import Final

MODULES: Final = "/console/js/"


def ask_for_modules(headers: MutableMapping[str, str], _path: str, url: str) -> None:
    """Modules import each other by addresses without a version: a browser that kept one would mix
    it with those of a newer release. So it asks each time; the answer is mostly 304.
    """
    if MODULES in url:
        headers["Cache-Control"] = "no-cache"
