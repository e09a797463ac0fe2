"""How a cost grows, drawn: a few lines of text for a terminal, a few of SVG for a page. Pure.

Both axes begin at zero or grow by tens: x is logarithmic, since series go 1, 10, 100, …
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from html import escape
from math import log10
from typing import Final, NamedTuple

BAR_CHARACTERS: Final = 40
WIDTH: Final = 560
HEIGHT: Final = 240
LEFT: Final = 70
BOTTOM: Final = 40
TOP: Final = 30
_FONT: Final = 'font-family="system-ui, sans-serif" font-size="12" fill="#444"'


class Series(NamedTuple):
    """`points` are (x, y), x at least 1 and growing, y at least 0."""

    name: str
    x_name: str
    unit: str
    points: tuple[tuple[float, float], ...]


def bars(series: Series) -> Iterator[str]:
    """A line for each point, its bar as long as its share of the largest."""
    largest = max((y for _, y in series.points), default=0.0)
    yield f"{series.name}, {series.unit}, by {series.x_name}"
    for x, y in series.points:
        length = round(BAR_CHARACTERS * y / largest) if largest else 0
        yield f"{x:>10,g} {y:>12,.1f} {'█' * length}"


def svg(series: Sequence[Series]) -> str:
    """One chart below the other."""
    height = HEIGHT * len(series)
    charts = "".join(_chart(one, HEIGHT * number) for number, one in enumerate(series))
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" '
        f'width="{WIDTH}" height="{height}">\n'
        f'<rect width="{WIDTH}" height="{height}" fill="#fff"/>\n{charts}</svg>\n'
    )


def _chart(series: Series, top: int) -> str:
    largest = _nice(max((y for _, y in series.points), default=0.0))
    decades = max((log10(x) for x, _ in series.points), default=0.0) or 1.0
    floor, ceiling = top + HEIGHT - BOTTOM, top + TOP

    def place(x: float, y: float) -> tuple[float, float]:
        across = LEFT + (WIDTH - LEFT - 20) * log10(x) / decades
        return round(across, 1), round(floor - (floor - ceiling) * y / largest, 1)

    lines = [
        f'<text x="{LEFT}" y="{top + 18}" {_FONT} font-weight="600">'
        f"{escape(f'{series.name}, {series.unit}')}</text>\n",
        f'<text x="{WIDTH - 20}" y="{floor + 32}" {_FONT} text-anchor="end">'
        f"{escape(series.x_name)}</text>\n",
    ]
    for share in (0.0, 0.5, 1.0):
        _, y = place(1, largest * share)
        lines.append(
            f'<path d="M{LEFT} {y}H{WIDTH - 20}" stroke="#ddd"/>\n'
            f'<text x="{LEFT - 8}" y="{y + 4}" {_FONT} text-anchor="end">{largest * share:,g}'
            "</text>\n"
        )
    places = [place(*point) for point in series.points]
    path = " ".join(f"{x},{y}" for x, y in places)
    lines.append(f'<polyline points="{path}" fill="none" stroke="#2563eb" stroke-width="2"/>\n')
    for (x, y), point in zip(places, series.points, strict=True):
        lines.append(
            f'<circle cx="{x}" cy="{y}" r="3" fill="#2563eb"/>\n'
            f'<text x="{x}" y="{floor + 16}" {_FONT} text-anchor="middle">{point[0]:,g}</text>\n'
        )
    return "".join(lines)


def _nice(value: float) -> float:
    """The next of 1, 2, 5 × a power of ten; 1 for nothing."""
    if value <= 0:
        return 1.0
    power: float = 10.0 ** int(log10(value) - (value < 1))
    return next(step * power for step in (1, 2, 5, 10) if step * power >= value)
