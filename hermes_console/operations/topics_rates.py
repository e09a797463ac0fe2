"""How many messages came in over time, told by the log itself: offsets at points in time.

It needs no history of ours, so it reaches back to before the console was there. A stretch whose
records were deleted meanwhile is unknown, never 0.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import Final, NamedTuple

from broker.client.blocking import EARLIEST, LATEST, OffsetAtTime, TopicPartition
from hermes_console.clusters import Cluster
from hermes_console.connect import client_for

POINTS: Final = 30
POINTS_MIN: Final = 6
LOOKUPS_MAX: Final = 3_000
"""Offsets looked up for one chart: partitions times points."""


class RatePoint(NamedTuple):
    """Messages per second in the interval that begins at `at_s`; None is unknown."""

    at_s: int
    per_s: float | None


def count_points(partition_count: int) -> int:
    """How many intervals a chart of that many partitions has; 0: too many partitions for one."""
    points = min(POINTS, LOOKUPS_MAX // max(1, partition_count) - 1)
    return points if points >= POINTS_MIN else 0


def read_rate_history(
    cluster: Cluster,
    topic: str,
    partition_count: int,
    *,
    span_s: int,
    now_s: int,
    is_whole_log: bool = False,
) -> list[RatePoint]:
    """The last `span_s`, oldest first; [] when the topic has too many partitions. `is_whole_log`
    counts what a delivery window hides, too. Raises ClientError.
    """
    points = count_points(partition_count)
    if not points:
        return []
    client = client_for(cluster)
    partitions = [TopicPartition(topic, index) for index in range(partition_count)]
    step_s = span_s / points
    bounds_s = [int(now_s - span_s + step_s * index) for index in range(points + 1)]

    def ask(timestamp: int) -> Mapping[TopicPartition, OffsetAtTime]:
        return client.offsets(dict.fromkeys(partitions, timestamp), is_whole_log=is_whole_log)

    starts, ends = ask(EARLIEST), ask(LATEST)
    at_bounds = []
    for at_s in bounds_s[:-1]:
        found = ask(at_s * 1000)
        at_bounds.append({one: answer.offset for one, answer in found.items()})
    at_bounds.append(dict.fromkeys(partitions, -1))
    return rates_between(
        bounds_s,
        at_bounds,
        starts={one: answer.offset for one, answer in starts.items()},
        ends={one: answer.offset for one, answer in ends.items()},
    )


def rates_between(
    bounds_s: Sequence[int],
    at_bounds: Sequence[Mapping[TopicPartition, int]],
    *,
    starts: Mapping[TopicPartition, int],
    ends: Mapping[TopicPartition, int],
) -> list[RatePoint]:
    """Rates between neighbouring bounds. An offset of -1 at a bound means that nothing is that
    young: the end. Pure.
    """
    points = []
    for index, (since_s, until_s) in enumerate(pairwise(bounds_s)):
        counts = [
            _count(one, at_bounds[index], at_bounds[index + 1], starts, end)
            for one, end in ends.items()
        ]
        known = [count for count in counts if count is not None]
        rate = sum(known) / max(1, until_s - since_s) if len(known) == len(counts) else None
        points.append(RatePoint(since_s, rate))
    return points


def _count(
    one: TopicPartition,
    first: Mapping[TopicPartition, int],
    second: Mapping[TopicPartition, int],
    starts: Mapping[TopicPartition, int],
    end: int,
) -> int | None:
    if one not in first or one not in second or one not in starts:
        return None
    since = first[one] if first[one] >= 0 else end
    until = second[one] if second[one] >= 0 else end
    if since == starts[one] and since > 0:
        return None  # what came before its first record was deleted
    return max(0, until - since)
