"""`hermes simulate`: seeds of the standard scenario, their findings, and how to run one again.

Exit codes: 0 nothing found (with a mutation: it was found), 1 a finding (with a mutation: it
survived), 2 the runs were too empty to prove anything.
"""

from __future__ import annotations

import argparse
import time
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from broker.simulator.mutations import MUTATIONS, mutated
from broker.simulator.scenario import Outcome, run_seed

EXIT_CLEAN: Final = 0
EXIT_FOUND: Final = 1
EXIT_EMPTY: Final = 2
SEEDS_DEFAULT: Final = 20
FINDINGS_SHOWN_MAX: Final = 12
LOG_LINES_SHOWN: Final = 40
PROGRESS_INTERVAL_S: Final = 10.0
SEEDS_THAT_PROVE: Final = 10
"""From this many on, a run must have met everything in MUST_HAPPEN."""
MUST_HAPPEN: Final = (
    "broker kills",
    "broker stops",
    "client kills",
    "power cuts",
    "durabilities changed",
    "disk faults",
    "connections reset",
    "rebalances",
    "batches acknowledged after a retry",
    "batches sent unheard",
    "old batches asked again",
    "big batches",
    "poisoned batches refused",
    "journal writes",
    "records replayed from the journal",
    "records acknowledged",
    "records delivered by the client",
    "records read",
    "records read in groups",
    "offsets committed",
    "group commits",
    "topics deleted",
    "segments rolled",
    "logs cleaned",
    "records trimmed away",
    "bytes deleted by retention",
    "incremental fetches",
    "records read in a window",
    "expired records passed",
    "keys deleted",
    "entries followed",
    "offsets found by time",
)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The options of `hermes simulate`."""
    parser.add_argument("--seeds", type=int, help=f"how many seeds (default {SEEDS_DEFAULT})")
    parser.add_argument("--start", type=int, default=0, help="the first seed")
    parser.add_argument("--hours", type=float, help="run for so long instead of a number of seeds")
    parser.add_argument("--mutation", choices=sorted(MUTATIONS), help="with this bug switched on")
    parser.add_argument("--history", type=Path, help="write the last seed's history (JSON lines)")
    parser.add_argument("--verbose", action="store_true", help="print every seed, and logs")


def main(arguments: Sequence[str]) -> int:
    """`hermes simulate ARGUMENTS`: the exit code."""
    parser = argparse.ArgumentParser(prog="hermes simulate", description=__doc__)
    add_arguments(parser)
    return run(parser.parse_args(list(arguments)))


def run(arguments: argparse.Namespace) -> int:
    """Run the seeds; the exit code."""
    runner = Runner(arguments.mutation, is_verbose=arguments.verbose)
    deadline_s = None if arguments.hours is None else time.monotonic() + arguments.hours * 3_600
    count_max = arguments.seeds
    if count_max is None and deadline_s is None:
        count_max = SEEDS_DEFAULT
    seed = arguments.start
    while count_max is None or seed < arguments.start + count_max:
        if deadline_s is not None and time.monotonic() >= deadline_s:
            break
        outcome = runner.run(seed)
        seed += 1
        if arguments.mutation is not None and outcome.findings:
            break
    if arguments.history is not None and runner.last is not None:
        with arguments.history.open("w") as target:
            runner.last.history.write(target)
    return runner.summarize()


class Runner:
    """Runs seeds, prints what matters, adds up what happened."""

    def __init__(self, mutation: str | None, *, is_verbose: bool) -> None:
        self.mutation = mutation
        self.last: Outcome | None = None
        self._is_verbose = is_verbose
        self._totals: Counter[str] = Counter()
        self._failed: list[int] = []
        self._seed_count = 0
        self._virtual_s = 0.0
        self._began_s = self._told_s = time.monotonic()

    def run(self, seed: int) -> Outcome:
        """One seed."""
        with mutated(self.mutation):
            mix = None if self.mutation is None else MUTATIONS[self.mutation].mix
            outcome = run_seed(seed, mix)
        self.last = outcome
        self._seed_count += 1
        self._virtual_s += outcome.virtual_s
        self._totals.update(outcome.counters)
        if outcome.findings:
            self._failed.append(seed)
        if outcome.findings or self._is_verbose:
            self._show(outcome)
        self._tell_progress()
        return outcome

    def summarize(self) -> int:
        """Print the totals; the exit code."""
        elapsed_s = max(time.monotonic() - self._began_s, 1e-6)
        print(
            f"{self._seed_count} seeds, {len(self._failed)} with findings, "
            f"{self._virtual_s / 3_600:.2f} simulated hours in {elapsed_s:.0f} s "
            f"({self._totals['events'] / elapsed_s:,.0f} events/s)"
        )
        for name, count in sorted(self._totals.items()):
            print(f"  {count:>12,} {name}")
        if self.mutation is not None:
            return self._judge_mutation()
        if self._failed:
            print(f"failed seeds: {self._failed}")
            return EXIT_FOUND
        missing = [name for name in MUST_HAPPEN if not self._totals[name]]
        if missing and self._seed_count >= SEEDS_THAT_PROVE:
            print(f"these runs prove nothing, there were no: {', '.join(missing)}")
            return EXIT_EMPTY
        return EXIT_CLEAN

    def _judge_mutation(self) -> int:
        if self._failed:
            print(f"mutation {self.mutation} was caught by seed {self._failed[0]}")
            return EXIT_CLEAN
        print(f"mutation {self.mutation} survived {self._seed_count} seeds")
        return EXIT_FOUND

    def _show(self, outcome: Outcome) -> None:
        print(f"seed {outcome.seed}: {outcome.virtual_s:.1f} s, trace {outcome.trace:016x}")
        print(f"  faults: {outcome.mix}")
        print(f"  counters: {outcome.counters}")
        for finding in outcome.findings[:FINDINGS_SHOWN_MAX]:
            print(f"  FINDING {finding}")
        if outcome.findings:
            option = "" if self.mutation is None else f" --mutation {self.mutation}"
            print(
                f"  again: hermes simulate --start {outcome.seed} --seeds 1 --verbose "
                f"--history history.jsonl{option}"
            )
            if self._is_verbose:
                for line in outcome.log_lines[-LOG_LINES_SHOWN:]:
                    print(f"  {line}")

    def _tell_progress(self) -> None:
        now_s = time.monotonic()
        if now_s - self._told_s >= PROGRESS_INTERVAL_S:
            self._told_s = now_s
            print(f"… {self._seed_count} seeds, {len(self._failed)} with findings", flush=True)
