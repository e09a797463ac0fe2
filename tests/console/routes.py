"""Every address of the console, for tests over the whole table."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

from django.urls import URLPattern, URLResolver, get_resolver, reverse


class Route(NamedTuple):
    """`parameters` by the name of their converter."""

    name: str
    parameters: Mapping[str, str]

    def address(self, values: Mapping[str, Any]) -> str:
        return reverse(self.name, kwargs={key: values[key] for key in self.parameters})


def all_routes() -> list[Route]:
    return list(_routes(get_resolver().url_patterns, "", {}))


def unknown_value(converter: str) -> Any:
    """What fits the address and belongs to nothing."""
    return 987_654_321 if "Int" in converter else "nothing-is-called-so"


def _routes(patterns: list[Any], prefix: str, parameters: Mapping[str, str]) -> Iterator[Route]:
    for one in patterns:
        converters = getattr(one.pattern, "converters", {})
        found = {
            **parameters,
            **{key: type(converter).__name__ for key, converter in converters.items()},
        }
        if isinstance(one, URLResolver):
            inner = f"{prefix}{one.namespace}:" if one.namespace else prefix
            yield from _routes(one.url_patterns, inner, found)
        elif isinstance(one, URLPattern) and one.name:
            yield Route(prefix + one.name, found)
