"""Bodies of requests: JSON that is not nested deeper than any of ours could be."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from rest_framework.exceptions import ParseError
from rest_framework.parsers import JSONParser

DEPTH_MAX: Final = 32
TOO_DEEP: Final = f"The body is nested too deep: {DEPTH_MAX} levels are taken."


class BoundedJsonParser(JSONParser):
    """Django REST framework's, which fails (a 500) on thousands of brackets."""

    def parse(
        self,
        stream: Any,
        media_type: str | None = None,
        parser_context: Mapping[str, Any] | None = None,
    ) -> Any:
        """Raises ParseError."""
        try:
            body = super().parse(stream, media_type, parser_context)
        except RecursionError as error:
            raise ParseError(TOO_DEEP) from error
        if is_deeper(body, DEPTH_MAX):
            raise ParseError(TOO_DEEP)
        return body


def is_deeper(value: Any, depth_max: int) -> bool:
    """Whether lists and objects are nested in more than `depth_max` levels. Recurses nowhere."""
    level = [value]
    for _ in range(depth_max + 1):
        level = [
            inner
            for one in level
            if isinstance(one, dict | list)
            for inner in (one.values() if isinstance(one, dict) else one)
        ]
        if not level:
            return False
    return True
