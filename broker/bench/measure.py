"""Numbers of a benchmark and what they are held against. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from statistics import median
from typing import Final, NamedTuple

from broker.bench.plot import Series

LOAD_CPU_PERCENT_MAX: Final = 80.0
"""Above this share of a core the load generator itself may be what is measured."""

DRIFT_VALUES_MIN: Final = 8


class Measure(NamedTuple):
    """One number. `bound` is None when nothing is promised; `is_floor` says which side is good."""

    name: str
    value: float
    unit: str
    bound: float | None = None
    is_floor: bool = False

    @property
    def is_met(self) -> bool | None:
        """None without a bound."""
        if self.bound is None:
            return None
        return self.value >= self.bound if self.is_floor else self.value <= self.bound


class Row(NamedTuple):
    """One scenario's outcome. CPU is in percent of one core, None where it cannot be read."""

    scenario: str
    measures: tuple[Measure, ...]
    broker_cpu_percent: float | None
    load_cpu_percent: float
    notes: tuple[str, ...] = ()
    series: tuple[Series, ...] = ()

    @property
    def is_load_bound(self) -> bool:
        return self.load_cpu_percent > LOAD_CPU_PERCENT_MAX


def percentile(sorted_values: Sequence[float], share: float) -> float:
    """The smallest value that at least `share` (0 to 1) of the values do not exceed."""
    assert sorted_values, "a percentile needs a value"
    position = max(0, min(len(sorted_values) - 1, int(share * len(sorted_values) + 0.999999) - 1))
    return sorted_values[position]


def drift(values: Sequence[float]) -> float | None:
    """The median of the last quarter over that of the second one: the first warms up. None for
    fewer than eight values.
    """
    quarter = len(values) // 4
    if quarter < DRIFT_VALUES_MIN // 4:
        return None
    before = median(values[quarter : 2 * quarter])
    return median(values[-quarter:]) / before if before else None


def parse_buckets(exposition: str, name: str) -> dict[float, float]:
    """The cumulative buckets of a histogram without labels in Prometheus text: bound to count."""
    pattern = re.compile(rf'^{re.escape(name)}_bucket\{{le="([^"]+)"\}} (\S+)', re.MULTILINE)
    return {float(bound): float(count) for bound, count in pattern.findall(exposition)}


def parse_samples(exposition: str, name: str) -> dict[str, float]:
    """A metric's samples in Prometheus text: its labels as written, "" without, to value."""
    pattern = re.compile(rf"^{re.escape(name)}(?:\{{(.*)\}})? (\S+)", re.MULTILINE)
    return {labels: float(value) for labels, value in pattern.findall(exposition)}


def quantile_between(
    before: Mapping[float, float], after: Mapping[float, float], share: float
) -> float | None:
    """An upper bound of the quantile of what was observed between two scrapes; None for nothing."""
    counts = [(bound, after[bound] - before.get(bound, 0.0)) for bound in sorted(after)]
    if not counts or counts[-1][1] <= 0:
        return None
    wanted = share * counts[-1][1]
    return next(bound for bound, count in counts if count >= wanted)


def has_failed(rows: Iterable[Row]) -> bool:
    """Whether any promise was missed."""
    return any(measure.is_met is False for row in rows for measure in row.measures)
