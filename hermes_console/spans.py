"""How far back a chart looks: the choices of its buttons, and the points it is drawn from. Pure."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any, Final, NamedTuple


class Span(NamedTuple):
    """`step_s` is the interval of the table beside the chart."""

    key: str
    title: str
    seconds: int
    step_s: int


SPANS: Final = (
    Span("15m", "15 min", 900, 60),
    Span("1h", "1 h", 3_600, 300),
    Span("6h", "6 h", 21_600, 1_800),
    Span("7d", "7 days", 604_800, 43_200),
)
SPAN_DEFAULT: Final = SPANS[0]


def requested_span(parameters: Mapping[str, str]) -> Span:
    """The span named by `span`; the shortest when none or an unknown one is."""
    wanted = parameters.get("span")
    return next((span for span in SPANS if span.key == wanted), SPAN_DEFAULT)


class Line(NamedTuple):
    """A line of a chart: `axis` is left or right."""

    label: str
    unit: str
    axis: str = "left"


def chart_lines(*lines: Line) -> str:
    """The lines as JSON, for the chart's data attribute."""
    return json.dumps([line._asdict() for line in lines])


def chart_number(value: float | None) -> str | float | None:
    """For JSON: a whole number as text (it may exceed 2^53), a fraction as a number, unknown as
    null.
    """
    if value is None:
        return None
    return str(value) if isinstance(value, int) else round(value, 3)


def chart_points(rows: Sequence[Sequence[float | None]]) -> list[list[Any]]:
    """[[seconds since 1970, value, …], …] ready for JSON."""
    return [[int(row[0] or 0), *(chart_number(value) for value in row[1:])] for row in rows]
