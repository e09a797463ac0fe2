"""What metrics are made of: a row's description, the light objects that count, and how a row of a
table is declared (`counter`, `gauge`, `histogram`). Which metrics there are: `broker.metrics`.

Hot paths bind their labels once (`labels(api="Produce")`) and then call `add`, `set` or `observe`
on plain numbers. A metric marked `is_computed` holds nothing: the scrape computes its samples from
the broker's state. Label values are bounded: beyond `CHILDREN_MAX` children of one metric, all
further ones share the child `other`.
"""

from __future__ import annotations

import dataclasses
from bisect import bisect_left
from collections.abc import Callable, Sequence
from enum import StrEnum
from typing import Any, Final, Generic, TypeVar, cast

CHILDREN_MAX: Final = 2_000
OVERFLOW_LABEL: Final = "other"
DURATION_BOUNDS: Final = tuple(round(0.0001 * 2 ** (step / 2), 9) for step in range(40))
"""Seconds, from 0.1 ms to 74 s, each the square root of two above the one before."""
QUANTILES: Final = (0.5, 0.9, 0.99, 0.999)
RECENT_WINDOW_MS: Final = 60_000.0


class MetricKind(StrEnum):
    """Prometheus' types."""

    COUNTER = "counter"
    GAUGE = "gauge"
    HISTOGRAM = "histogram"


@dataclasses.dataclass(frozen=True, slots=True)
class MetricSpec:
    """One row: what is counted, in which unit (the name's ending says it), by which labels."""

    name: str
    kind: MetricKind
    documentation: str
    labels: tuple[str, ...] = ()
    is_computed: bool = False


class Value:
    """One number of a counter or gauge."""

    __slots__ = ("value",)

    def __init__(self) -> None:
        self.value: float = 0

    def add(self, amount: float = 1) -> None:
        """Counters take amounts of 0 and above only."""
        self.value += amount

    def set(self, value: float) -> None:
        """Gauges only."""
        self.value = value


class Distribution:
    """Counts of observations by bucket.

    `counts[i]` lie in (bounds[i-1], bounds[i]], the last one above all bounds.
    """

    __slots__ = ("_earlier", "_mark", "_mark_ms", "counts", "sum")

    def __init__(self) -> None:
        self.counts = [0] * (len(DURATION_BOUNDS) + 1)
        self.sum = 0.0
        self._mark: list[int] = [0] * len(self.counts)
        self._earlier: list[int] = self._mark
        self._mark_ms: float | None = None

    def observe(self, seconds: float, count: int = 1) -> None:
        """`count` observations of `seconds` each."""
        self.counts[bisect_left(DURATION_BOUNDS, seconds)] += count
        self.sum += seconds * count

    @property
    def count(self) -> int:
        return sum(self.counts)

    def recent_counts(self, now_ms: float) -> list[int]:
        """Counts of the last one to two windows (since the start, before the first is over).

        A scrape drives it.
        """
        if self._mark_ms is None:
            self._mark_ms = now_ms
        elif now_ms - self._mark_ms >= RECENT_WINDOW_MS:
            self._earlier, self._mark, self._mark_ms = self._mark, list(self.counts), now_ms
        return [now - then for now, then in zip(self.counts, self._earlier, strict=True)]

    def percentile(self, quantile: float) -> float | None:
        """Seconds below which that share of all observations lies; None without any."""
        return percentile(self.counts, quantile)


C = TypeVar("C", Value, Distribution)


class Metric(Generic[C]):
    """A declared metric and its children by label values."""

    __slots__ = ("_make", "children", "spec")

    def __init__(self, spec: MetricSpec, make: Callable[[], C]) -> None:
        self.spec = spec
        self._make: Callable[[], C] = make
        self.children: dict[tuple[str, ...], C] = (
            {} if spec.labels or spec.is_computed else {(): make()}
        )

    def labels(self, **labels: str) -> C:
        """The child with these label values, made when new; keep it on hot paths."""
        assert len(labels) == len(self.spec.labels), (
            f"{self.spec.name} has the labels {self.spec.labels}"
        )
        key = tuple(labels[name] for name in self.spec.labels)
        child = self.children.get(key)
        if child is None:
            if len(self.children) >= CHILDREN_MAX:
                key = (OVERFLOW_LABEL,) * len(key)
            child = self.children.setdefault(key, self._make())
        return child

    def forget(self, **labels: str) -> None:
        """Drop every child with these values of some of the labels: its object is gone."""
        wanted = {self.spec.labels.index(name): value for name, value in labels.items()}
        for key in [key for key in self.children if all(key[i] == v for i, v in wanted.items())]:
            del self.children[key]


class Counter(Metric[Value]):
    """Only grows."""

    __slots__ = ()

    def add(self, amount: float = 1, **labels: str) -> None:
        (self.labels(**labels) if labels else self.children[()]).value += amount


class Gauge(Metric[Value]):
    """Goes up and down."""

    __slots__ = ()

    def add(self, amount: float = 1, **labels: str) -> None:
        (self.labels(**labels) if labels else self.children[()]).value += amount

    def set(self, value: float, **labels: str) -> None:
        (self.labels(**labels) if labels else self.children[()]).value = value


class Histogram(Metric[Distribution]):
    """Durations in fixed log-scaled buckets."""

    __slots__ = ()

    def observe(self, seconds: float, **labels: str) -> None:
        (self.labels(**labels) if labels else self.children[()]).observe(seconds)


def percentile(counts: Sequence[int], quantile: float) -> float | None:
    """The value below which `quantile` (0 to 1) of the observations lie, interpolated in its
    bucket; None without any.

    An observation above the last bound counts as that bound.
    """
    total = sum(counts)
    if total == 0:
        return None
    rank = quantile * total
    below = 0
    for index, count in enumerate(counts):
        if count and below + count >= rank:
            if index == len(DURATION_BOUNDS):
                break
            low = DURATION_BOUNDS[index - 1] if index else 0.0
            return low + (DURATION_BOUNDS[index] - low) * max(0.0, rank - below) / count
        below += count
    return DURATION_BOUNDS[-1]


def counter(
    name: str, documentation: str, labels: tuple[str, ...] = (), *, computed: bool = False
) -> Counter:
    spec = MetricSpec(name, MetricKind.COUNTER, documentation, labels, computed)
    return _field(spec, lambda: Counter(spec, Value))


def gauge(
    name: str, documentation: str, labels: tuple[str, ...] = (), *, computed: bool = False
) -> Gauge:
    spec = MetricSpec(name, MetricKind.GAUGE, documentation, labels, computed)
    return _field(spec, lambda: Gauge(spec, Value))


def histogram(name: str, documentation: str, labels: tuple[str, ...] = ()) -> Histogram:
    spec = MetricSpec(name, MetricKind.HISTOGRAM, documentation, labels)
    return _field(spec, lambda: Histogram(spec, Distribution))


M = TypeVar("M")


def _field(spec: MetricSpec, make: Callable[[], M]) -> M:
    field: Any = dataclasses.field(default_factory=make, metadata={"spec": spec})
    return cast("M", field)
