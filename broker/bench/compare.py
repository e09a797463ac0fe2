"""`hermes bench compare`: our broker and another one on this machine, pair by pair.

Both are pinned to the same core; one is loaded while the other stands still; which one begins
alternates, and nothing is left for the device to write when a run begins. The load has the other
cores. Each run is on a new topic, and what was acknowledged is held against the topic's offsets.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, Final, NamedTuple

from broker.bench.contests import CONTESTS, Contest
from broker.bench.cores import broker_cores, can_pin, describe_cores
from broker.bench.flags import positive_count, positive_number
from broker.bench.processes import pin_threads, standing_still
from broker.bench.ratios import (
    PAIRS_MIN,
    Judged,
    Pair,
    Verdict,
    as_document,
    judge,
    ratio_text,
    uncounted,
)
from broker.bench.running import Options
from broker.bench.sample import UNITS, Sample
from broker.bench.target import BenchFault, OwnBroker, Target, running_target

SECONDS: Final = 3.0
REST_S: Final = 1.0
REST_SHARE: Final = 0.2
"""How long one that stood still is left alone afterwards, the second in terms of how long it stood:
its timers are due all at once, and Kafka's controller holds a broker for dead after nine seconds.
"""


class Sides(NamedTuple):
    """The two brokers and the options of each: durability and validation may differ."""

    ours: Target
    peer: Target
    our_options: Options
    peer_options: Options


class Compared(NamedTuple):
    """One row's outcome."""

    name: str
    summary: str
    judged: tuple[Judged, ...]
    load_percent: float


def main(arguments: Sequence[str]) -> int:
    """0 when every row is ok, 1 when one is missed, does not count or could not be run."""
    parser = _parser()
    values = parser.parse_args(arguments)
    names = [contest.name for contest in CONTESTS]
    wanted = [name for part in values.rows for name in part.split(",")]
    if unknown := sorted(set(wanted) - set(names)):
        parser.error(f"no row {', '.join(unknown)}; there are {', '.join(names)}")
    chosen = [c for c in CONTESTS if not wanted or c.name in wanted]
    print(describe_cores(), file=sys.stderr)
    rows, is_ok = [], True
    try:
        with _sides(values) as sides:
            for contest in chosen:
                row = compare(contest, sides, values.pairs)
                rows.append(row)
                is_ok = is_ok and is_kept(row)
                if not values.json:
                    print("\n".join(table_lines(row)), flush=True)
    except BenchFault as fault:
        print("\n".join([str(fault), *getattr(fault, "__notes__", [])]), file=sys.stderr)
        is_ok = False
    if values.json:
        print(json.dumps([as_json(row) for row in rows], indent=2))
    return 0 if is_ok else 1


def _parser() -> argparse.ArgumentParser:
    listing = "\n".join(f"  {contest.name:<20} {contest.summary}" for contest in CONTESTS)
    parser = argparse.ArgumentParser(
        prog="hermes bench compare",
        description="Compare our broker with another one on this machine, pair by pair.",
        epilog=f"rows:\n{listing}",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument(
        "--peer", metavar="HOST:PORT", required=True, help="the other broker, which runs"
    )
    parser.add_argument("--peer-is-hermes", action="store_true", help="it knows our topic settings")
    parser.add_argument(
        "--bootstrap", metavar="HOST:PORT", help="ours, when it runs (default: it is started)"
    )
    parser.add_argument("--directory", metavar="DIR", help="where our broker keeps its data")
    parser.add_argument(
        "--pairs",
        type=positive_count,
        default=PAIRS_MIN,
        help=f"default: {PAIRS_MIN}, fewer do not count",
    )
    parser.add_argument("--rows", nargs="+", default=[], metavar="ROW", help="default: all of them")
    parser.add_argument(
        "--seconds", type=positive_number, default=SECONDS, help=f"of a run (default: {SECONDS:g})"
    )
    parser.add_argument(
        "--durability", choices=["fsync", "replicated"], help="of our topics (default: ours)"
    )
    parser.add_argument(
        "--peer-durability",
        choices=["fsync", "replicated"],
        help="of the peer's topics: fsync is flush.messages=1 there (default: the peer's)",
    )
    parser.add_argument("--validation", choices=["header", "full"], help="of our topics' records")
    parser.add_argument("--acks", choices=["1", "all"], default="all", help="default: all")
    parser.add_argument("--json", action="store_true", help="print one JSON document at the end")
    return parser


@contextmanager
def _sides(values: argparse.Namespace) -> Iterator[Sides]:
    options = Options(values.seconds, 6, 1024, values.acks)
    ours = options._replace(durability=values.durability, validation=values.validation)
    theirs = options._replace(durability=values.peer_durability)
    peer = running_target(values.peer, is_ours=values.peer_is_hermes)
    if values.bootstrap:
        own = running_target(values.bootstrap, is_ours=True)
        with on_same_cores(own, peer):
            yield Sides(own, peer, ours, theirs)
        return
    with OwnBroker(values.directory) as broker, on_same_cores(broker, peer):
        yield Sides(broker, peer, ours, theirs)


@contextmanager
def on_same_cores(*targets: Target) -> Iterator[None]:
    """All their threads on the brokers' core; where they were before, afterwards."""
    before = [
        (target.pid, pin_threads(target.pid, broker_cores()))
        for target in targets
        if target.pid is not None
    ]
    try:
        yield
    finally:
        for pid, cores in before:
            try:
                pin_threads(pid, cores)
            except (FileNotFoundError, ProcessLookupError):  # it has ended
                continue


def compare(
    contest: Contest,
    sides: Sides,
    pair_count: int,
    said: Callable[[str], None] = lambda _line: None,
) -> Compared:
    """Run the pairs, as many as the row needs where they are to count. `said` hears of each run.
    Raises BenchFault.
    """
    pairs = []
    for number in range(pair_count + contest.more_pairs * (pair_count >= PAIRS_MIN)):
        order = ("ours", "peer") if number % 2 == 0 else ("peer", "ours")
        samples = {}
        for side in order:
            samples[side] = _run(contest, sides, side)
            said(f"{contest.name} pair {number + 1} {side}: {_briefly(samples[side])}")
        pairs.append(Pair(samples["ours"], samples["peer"]))
    judged = [
        found if share_one_core(sides) else uncounted(found, "the two do not share one pinned core")
        for goal in contest.goals
        if (found := judge(pairs, goal)) is not None
    ]
    busiest = max(max(pair.ours.load_percent, pair.peer.load_percent) for pair in pairs)
    return Compared(contest.name, contest.summary, tuple(judged), busiest)


def share_one_core(sides: Sides) -> bool:
    """Whether both run on the same pinned core (`on_same_cores`), and the load elsewhere."""
    return can_pin and sides.ours.pid is not None and sides.peer.pid is not None


def _run(contest: Contest, sides: Sides, side: str) -> Sample:
    target, options, other = (
        (sides.ours, sides.our_options, sides.peer)
        if side == "ours"
        else (sides.peer, sides.peer_options, sides.ours)
    )
    os.sync()  # else the device writes in this turn what the other side's left in memory
    try:
        with _held(other):
            return contest.run(target, options._replace(seconds=options.seconds * contest.seconds))
    except BenchFault as fault:
        fault.add_note(f"in row {contest.name}, on {side} at {target.bootstrap}")
        raise


@contextmanager
def _held(target: Target) -> Iterator[None]:
    """It stands still inside, and takes nothing from the one that is measured: an idle Java process
    on the same core raised our P99 from 1.3 to 2.4 ms. One of unknown process goes on.
    """
    if target.pid is None:
        yield
        return
    began_s = time.monotonic()
    with standing_still(target.pid):
        yield
    time.sleep(REST_S + REST_SHARE * (time.monotonic() - began_s))


def _briefly(sample: Sample) -> str:
    numbers = ", ".join(f"{name} {value:,.2f}" for name, value in sample.values.items())
    return f"{numbers}; load {sample.load_percent:.0f} %"


def is_kept(row: Compared) -> bool:
    """Whether every target was shown to be met."""
    return all(one.verdict in {Verdict.OK, Verdict.NO_TARGET} for one in row.judged)


def table_lines(row: Compared) -> Iterator[str]:
    """A line for each measure: ours, the peer's, median ratio and its spread, the verdict."""
    for position, one in enumerate(row.judged):
        name = row.name if position == 0 else ""
        unit = UNITS.get(one.measure, "")
        yield (
            f"{name:<20} {one.measure:<14} {one.ours:>12,.2f} {one.peer:>12,.2f} {unit:<6}"
            f" {ratio_text(one.ratio):>6}× ({spread_text(one)}) {verdict_text(one)}"
        )
    yield f"{'':<20} the load used up to {row.load_percent:.0f} % of its core"


def spread_text(one: Judged) -> str:
    """The lowest and the highest ratio of the pairs."""
    return f"{ratio_text(one.lowest)} to {ratio_text(one.highest)}"


def verdict_text(one: Judged) -> str:
    """With the target, and why it is so."""
    if one.target is None:
        return ""
    side = "at least" if one.is_floor else "at most"
    why = f" {one.why}" if one.verdict is Verdict.MISSED else f": {one.why}" if one.why else ""
    return f"{one.verdict}{why} ({side} {one.target:g}×)"


def as_json(row: Compared) -> dict[str, Any]:
    """The row for programs."""
    return {
        "row": row.name,
        "summary": row.summary,
        "load_percent": row.load_percent,
        "measures": [as_document(one) for one in row.judged],
    }
