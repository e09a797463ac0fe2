"""The real broker under seeded faults: no finding, one run per seed, and no known bug survives."""

from __future__ import annotations

import io
import os
import subprocess
import sys
import time

import pytest

from broker.simulator.checker import check
from broker.simulator.cli import EXIT_CLEAN, EXIT_EMPTY, MUST_HAPPEN, Runner, main
from broker.simulator.history import read_history
from broker.simulator.mutations import MUTATIONS, mutated
from broker.simulator.scenario import run_seed

SECONDS = 30.0
"""For each of the two ranges of seeds."""
SEEDS_MIN = 3
MUTATION_SEEDS_MAX = 40
REPRODUCED_SEED = 11


@pytest.mark.parametrize("start", [0, 500])
def test_seeds_have_no_finding(start: int, capsys: pytest.CaptureFixture[str]) -> None:
    runner = Runner(None, is_verbose=False)
    deadline_s = time.monotonic() + SECONDS
    seed = start
    while time.monotonic() < deadline_s or seed < start + SEEDS_MIN:
        outcome = runner.run(seed)
        assert not outcome.findings, f"seed {seed}:\n" + "\n".join(outcome.findings[:10])
        seed += 1
    assert runner.summarize() == EXIT_CLEAN, capsys.readouterr().out


@pytest.mark.parametrize("name", sorted(MUTATIONS))
def test_known_bug_is_caught(name: str) -> None:
    for seed in range(MUTATION_SEEDS_MAX):
        with mutated(name):
            outcome = run_seed(seed, MUTATIONS[name].mix)
        if outcome.findings:
            return
    pytest.fail(f"{name} survived {MUTATION_SEEDS_MAX} seeds: {MUTATIONS[name].bug}")


def test_mutation_is_gone_afterwards() -> None:
    patched = [patch for mutation in MUTATIONS.values() for patch in mutation.patches]
    before = [patch.owner.__dict__[patch.name] for patch in patched]
    for name in MUTATIONS:
        with mutated(name):
            pass
    assert [patch.owner.__dict__[patch.name] for patch in patched] == before


def test_same_seed_is_the_same_run_whatever_the_hash_seed() -> None:
    code = (
        "from broker.simulator.scenario import run_seed;"
        f"o = run_seed({REPRODUCED_SEED});"
        "print(f'{o.trace:016x}', o.counters['events'], o.virtual_s)"
    )
    traces = {
        subprocess.run(
            [sys.executable, "-c", code],
            env={**os.environ, "PYTHONHASHSEED": hash_seed},
            capture_output=True,
            text=True,
            check=True,
        ).stdout
        for hash_seed in ("0", "1", "4242")
    }
    assert len(traces) == 1, traces


def test_history_survives_its_file(tmp_path: object) -> None:
    outcome = run_seed(REPRODUCED_SEED)
    stream = io.StringIO()
    outcome.history.write(stream)
    stream.seek(0)
    events = list(read_history(stream))
    assert len(events) == len(outcome.history.events)
    assert check(events) == []


def test_runs_in_which_nothing_happened_do_not_pass(capsys: pytest.CaptureFixture[str]) -> None:
    runner = Runner(None, is_verbose=False)
    runner._seed_count = 100
    assert runner.summarize() == EXIT_EMPTY
    assert MUST_HAPPEN[0] in capsys.readouterr().out


def test_command_line_names_the_seed_to_run_again(capsys: pytest.CaptureFixture[str]) -> None:
    arguments = ["--seeds", "3", "--start", "0", "--mutation", "acknowledge-failed-write"]
    assert main(arguments) == EXIT_CLEAN
    out = capsys.readouterr().out
    assert "FINDING" in out
    assert "again: hermes simulate --start 0 --seeds 1" in out
