"""What the page of benchmarks holds: sections of rows against Apache Kafka, and what our broker
does alone. A new row is a line here.
"""

from __future__ import annotations

from typing import NamedTuple

from broker.bench.contests import CONTESTS, Contest
from broker.bench.ratios import Goal


class Section(NamedTuple):
    """Rows of `broker.bench.contests` under the same settings. `goals` replace those of a row."""

    name: str
    title: str
    rows: tuple[str, ...]
    durability: str | None = None
    validation: str | None = None
    is_peer_flushed: bool = False
    goals: tuple[tuple[str, float | None], ...] = ()

    def contests(self) -> list[Contest]:
        """The rows, with this section's targets, in their order."""
        targets = dict(self.goals)
        by_name = {contest.name: contest for contest in CONTESTS}
        return [
            by_name[name]._replace(
                goals=tuple(
                    goal._replace(target=targets.get(goal.measure, goal.target))
                    for goal in by_name[name].goals
                )
            )
            for name in self.rows
        ]


PRODUCE = tuple(contest.name for contest in CONTESTS if contest.name.startswith("produce-"))
SMALL = ("small-pipelined", "small-ping-pong")
START = Goal("first record", 0.1, is_floor=False)
FSYNCED_TARGET = 3.0
SECTIONS = (
    Section(
        "defaults",
        "Defaults against defaults: ours answers from the disk, Kafka from memory",
        ("idle", "latency", *SMALL, *PRODUCE, "consume", "consume-live"),
    ),
    Section(
        "replicated",
        "`durability=replicated`, which promises what Kafka promises",
        ("latency", *SMALL, *PRODUCE),
        durability="replicated",
    ),
    Section(
        "fsync",
        "`durability=fsync` against Kafka with `log.flush.interval.messages=1`",
        ("latency", "small-pipelined", "produce-1kb-16kb", "produce-1kb-128kb"),
        durability="fsync",
        is_peer_flushed=True,
        goals=(("produced", FSYNCED_TARGET),),
    ),
    Section(
        "header",
        "`durability=replicated` with `record.validation=header`",
        ("produce-1kb-16kb", "produce-100b-16kb"),
        durability="replicated",
        validation="header",
    ),
    Section(
        "full",
        "`durability=replicated` with `record.validation=full`: every record is opened",
        ("produce-1kb-16kb", "produce-100b-16kb"),
        durability="replicated",
        validation="full",
        goals=(("produced", None), ("CPU a GB", None)),
    ),
)
ALONE = ("hold", "hold-100", "soak", "catch-up")
"""Scenarios of `hermes bench` whose promises are absolute."""
GROWTH = ("connections", "partitions")
"""Scenarios of `hermes bench` that are series: what one more costs."""
