"""One group's verdict and the sentence that explains it. Pure.

| condition, first match | verdict |
|---|---|
| no partition has a commit | unknown |
| no member, records wait | stopped |
| a partition stalled | stalled |
| a partition rewound | rewound |
| the floor of the lag rises | falling behind |
| anything else | fine |
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final, NamedTuple

from hermes_console import words
from hermes_console.live.observation import TopicPartition
from hermes_console.live.progress import Progress
from hermes_console.live.trend import Rate
from hermes_console.samples.snapshot import Verdict, is_growing

REBALANCING: Final = frozenset({"PreparingRebalance", "CompletingRebalance"})


class Judgement(NamedTuple):
    """A verdict and why."""

    verdict: Verdict
    reason: str


def judge_group(
    *,
    state: str,
    member_count: int,
    is_hidden: bool = False,
    lag: int | None,
    progress: Mapping[TopicPartition, Progress],
    verdicts: Mapping[TopicPartition, Verdict],
    rate: Rate | None,
    is_falling_behind: bool,
    drain_s: float | None,
    at_ms: int,
) -> Judgement:
    """The first row of the table that fits. `lag` is None when no partition has a commit."""
    if lag is None:
        return Judgement(Verdict.UNKNOWN, _unknown(member_count, state))
    if member_count == 0 and lag and not (is_hidden and state != "Empty"):
        waiting = f"{words.count(lag, 'message')} {'waits' if lag == 1 else 'wait'}"
        return Judgement(Verdict.STOPPED, f"No member is connected; {waiting}.")
    stalled = _having(verdicts, Verdict.STALLED)
    if stalled:
        return Judgement(Verdict.STALLED, _stalled(stalled, progress, at_ms, state))
    rewound = _having(verdicts, Verdict.REWOUND)
    if rewound:
        return Judgement(Verdict.REWOUND, _rewound(rewound, progress, at_ms))
    if is_falling_behind and rate is not None:
        return Judgement(
            Verdict.FALLING_BEHIND,
            f"Reads {words.per_second(rate.consumed)} while {words.per_second(rate.produced)} "
            f"arrive: the lag grows by {words.per_second(rate.produced - rate.consumed)}.",
        )
    return Judgement(Verdict.FINE, _fine(lag, member_count, drain_s, rate))


def _having(verdicts: Mapping[TopicPartition, Verdict], wanted: Verdict) -> list[TopicPartition]:
    return sorted(one for one, verdict in verdicts.items() if verdict is wanted)


def _unknown(member_count: int, state: str) -> str:
    if state in REBALANCING:
        return "Its members are rebalancing; nothing was committed yet."
    if member_count:
        return "Its members have committed nothing yet, so its lag is unknown."
    return "No member and no committed offset: its lag is unknown."


def _stalled(
    stalled: Sequence[TopicPartition],
    progress: Mapping[TopicPartition, Progress],
    at_ms: int,
    state: str,
) -> str:
    longest_ms = max(at_ms - progress[one].progressed_at_ms for one in stalled)
    which = words.listed([_name(one) for one in stalled])
    tail = " Its members are rebalancing." if state in REBALANCING else ""
    return f"No commit for {words.duration(longest_ms / 1000)} while messages wait: {which}.{tail}"


def _rewound(
    rewound: Sequence[TopicPartition], progress: Mapping[TopicPartition, Progress], at_ms: int
) -> str:
    first = rewound[0]
    one = progress[first]
    ago = words.duration((at_ms - (one.rewound_at_ms or at_ms)) / 1000)
    more = f" and {words.count(len(rewound) - 1, 'more partition')}" if len(rewound) > 1 else ""
    return f"{_name(first)} went back below {one.rewound_from:,} {ago} ago{more}; it reads again."


def _fine(lag: int, member_count: int, drain_s: float | None, rate: Rate | None) -> str:
    if lag == 0:
        return "Caught up." if member_count else "Caught up; no member is connected."
    if drain_s:
        return f"Catches up in about {words.duration(max(1.0, drain_s))}."
    if rate is not None:
        growth = rate.produced - rate.consumed
        if is_growing(lag, rate.produced, growth):
            return f"Its lag grows by {words.per_second(growth)}: a burst, or the start of a trend."
    return "Keeps up."


def _name(one: TopicPartition) -> str:
    return f"{one.topic}-{one.partition}"
