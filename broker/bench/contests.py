"""The rows of a comparison: what both brokers are loaded with, and what the ratios are to be. A new
row is a line in CONTESTS.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from functools import partial
from typing import Final, NamedTuple

from broker.bench.ratios import Goal
from broker.bench.running import Options
from broker.bench.sample import (
    PING_PONG,
    PIPELINED,
    PRODUCE_SHAPES,
    Sample,
    caught_up,
    consumed_live,
    paced,
    produced,
)
from broker.bench.target import BenchFault, Target
from broker.bench.unseen import LATENCY_RATE

IDLE_S: Final = 1.0


class Contest(NamedTuple):
    """`seconds` times the option's: a percentile needs longer than a rate. `more_pairs` than other
    rows, where a pair says less: a single stall of the machine makes a P99.9.
    """

    name: str
    summary: str
    run: Callable[[Target, Options], Sample]
    goals: tuple[Goal, ...]
    seconds: float = 1.0
    more_pairs: int = 0


def idle(target: Target, _options: Options) -> Sample:
    """Resident memory while nobody asks for anything."""
    time.sleep(IDLE_S)
    after = target.usage()
    if after is None:
        raise BenchFault(f"the process of {target.bootstrap} is not known: not on this machine?")
    return Sample({"resident": after.resident_bytes / 1e6}, 0.0)


def latency(target: Target, options: Options) -> Sample:
    """10,000 records a second of 1 KB, open loop, linger 1 ms."""
    return paced(target, options, options.rate or LATENCY_RATE)


_MEMORY: Final = Goal("resident", 0.2, is_floor=False)
_CPU: Final = Goal("CPU a GB", None, is_floor=False)
_THROUGHPUT: Final = (
    Goal("produced", 1.0, is_floor=True),
    Goal("CPU a GB", 1.0, is_floor=False),
    _MEMORY,
)
_SMALL: Final = (
    Goal("produced", 0.7, is_floor=True),
    Goal("CPU a request", None, is_floor=False),
    _MEMORY,
)
_READ: Final = (Goal("consumed", None, is_floor=True), _CPU, _MEMORY)


def _slug(name: str) -> str:
    return "produce-" + name.lower().replace(" × ", "-")


CONTESTS: Final = (
    Contest("idle", "resident memory before any load", idle, (_MEMORY,)),
    *(
        Contest(
            _slug(shape.name),
            f"produce {shape.name} batches, {shape.connections} connections",
            partial(produced, shape=shape),
            _THROUGHPUT,
        )
        for shape in PRODUCE_SHAPES
    ),
    Contest(
        "latency",
        "end to end at 10,000 records a second of 1 KB, open loop",
        latency,
        (
            Goal("P50", None, is_floor=False),
            Goal("P99", 1.0, is_floor=False),
            Goal("P99.9", 1.0, is_floor=False),
            _CPU,
            _MEMORY,
        ),
        seconds=5.0,
        more_pairs=2,
    ),
    Contest(
        "small-pipelined",
        "one record of 100 B a request, 4 connections × 50 in flight",
        partial(produced, shape=PIPELINED),
        _SMALL,
    ),
    Contest(
        "small-ping-pong",
        "one record of 100 B a request, 10 connections × 1 in flight",
        partial(produced, shape=PING_PONG),
        _SMALL,
    ),
    Contest("consume", "catching up from the page cache, 1 KB × 128 KB", caught_up, _READ),
    Contest("consume-live", "read while it is produced, 1 KB × 128 KB", consumed_live, _READ),
)
