"""Pairs of runs, ours and the peer's, and the verdict on them. Pure.

A pair counts while the load used less than four fifths of its core for both: above that the load
is what was measured. A row holds when the median of at least five pairs that count does.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from enum import StrEnum
from math import floor, log10
from statistics import median
from typing import Any, Final, NamedTuple

from broker.bench.measure import LOAD_CPU_PERCENT_MAX
from broker.bench.sample import Sample

PAIRS_MIN: Final = 5


class Verdict(StrEnum):
    """`UNCOUNTED` says that nothing was shown, neither way."""

    OK = "ok"
    MISSED = "missed"
    UNCOUNTED = "does not count"
    NO_TARGET = "no target"


class Goal(NamedTuple):
    """What our value divided by the peer's is to be: at least `target`, or at most it; None for a
    number that is only reported.
    """

    measure: str
    target: float | None
    is_floor: bool


class Pair(NamedTuple):
    """One run of each, one after the other."""

    ours: Sample
    peer: Sample


class Judged(NamedTuple):
    """One measure of one row. Medians are of the pairs that count, all of them when none does;
    `why` says what stands against the verdict, empty when nothing does.
    """

    measure: str
    ours: float
    peer: float
    ratio: float
    lowest: float
    highest: float
    counted: int
    target: float | None
    is_floor: bool
    verdict: Verdict
    why: str


def judge(pairs: Sequence[Pair], goal: Goal) -> Judged | None:
    """None when a side has no such number (a process on another machine has no CPU time)."""
    known = [p for p in pairs if goal.measure in p.ours.values and goal.measure in p.peer.values]
    if not known:
        return None
    counted = [pair for pair in known if counts(pair)]
    shown = counted or known
    ours = [pair.ours.values[goal.measure] for pair in shown]
    peer = [pair.peer.values[goal.measure] for pair in shown]
    ratios = [ratio(mine, other) for mine, other in zip(ours, peer, strict=True)]
    middle = median(ratios)
    verdict, why = _verdict(goal, middle, len(counted), len(known), known)
    return Judged(
        goal.measure,
        median(ours),
        median(peer),
        middle,
        min(ratios),
        max(ratios),
        len(counted),
        goal.target,
        goal.is_floor,
        verdict,
        why,
    )


def uncounted(judged: Judged, why: str) -> Judged:
    """`judged` with the verdict UNCOUNTED and `why`; unchanged when it has no target."""
    if judged.target is None:
        return judged
    return judged._replace(verdict=Verdict.UNCOUNTED, why=why)


def counts(pair: Pair) -> bool:
    """Whether the broker, not the load, was the limit for both."""
    return max(pair.ours.load_percent, pair.peer.load_percent) < LOAD_CPU_PERCENT_MAX


def ratio(ours: float, peer: float) -> float:
    """How many times the peer's; infinite against nothing."""
    return ours / peer if peer else float("inf")


def ratio_text(number: float) -> str:
    """With two decimals, below 0.1 with as many as two significant digits need."""
    if not 0 < number < 0.1:
        return f"{number:.2f}"
    return f"{number:.{1 - floor(log10(number))}f}"


def _verdict(
    goal: Goal, middle: float, counted: int, run: int, pairs: Sequence[Pair]
) -> tuple[Verdict, str]:
    if goal.target is None:
        return Verdict.NO_TARGET, ""
    if counted < PAIRS_MIN:
        busiest = max(max(pair.ours.load_percent, pair.peer.load_percent) for pair in pairs)
        because = (
            f"{run} pairs were run"
            if counted == run
            else f"the load used up to {busiest:.0f} % of its core"
        )
        return Verdict.UNCOUNTED, f"{counted} pairs count, {PAIRS_MIN} are needed: {because}"
    is_met = middle >= goal.target if goal.is_floor else middle <= goal.target
    if is_met:
        return Verdict.OK, ""
    by = 100 * abs(middle / goal.target - 1)
    return Verdict.MISSED, f"by {by:.0f} %"


def as_document(judged: Judged) -> dict[str, Any]:
    """For JSON."""
    return {**judged._asdict(), "verdict": judged.verdict.value}


def from_document(document: Mapping[str, Any]) -> Judged:
    """What `as_document` wrote."""
    return Judged(**{**document, "verdict": Verdict(document["verdict"])})
