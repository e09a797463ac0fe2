"""What a comparison does to the broker whose turn it is not: it stands still, and goes on."""

import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from broker.bench.compare import Sides, compare, on_same_cores
from broker.bench.contests import Contest
from broker.bench.cores import broker_cores
from broker.bench.processes import family, standing_still
from broker.bench.ratios import PAIRS_MIN, Goal, Verdict
from broker.bench.running import Options
from broker.bench.sample import Sample
from broker.bench.target import BenchFault, Target

OPTIONS = Options(0.1, 1, 100, "all")
PARENT = "import subprocess, sys; subprocess.run(['sleep', '60'])"
HOLDER = """
import sys, time
from broker.bench.processes import standing_still
with standing_still(int(sys.argv[1])):
    print("held", flush=True)
    time.sleep(60)
"""


@pytest.fixture
def sides() -> Iterator[Sides]:
    """Two processes with a child each, as a broker has its workers."""
    ours, peer = (subprocess.Popen([sys.executable, "-c", PARENT]) for _ in range(2))
    try:
        wait_for(lambda: all(len(family(one.pid)) == 2 for one in (ours, peer)))
        targets = [Target("127.0.0.1:1", None, one.pid) for one in (ours, peer)]
        yield Sides(*targets, OPTIONS, OPTIONS)
    finally:
        members = [pid for one in (ours, peer) for pid in family(one.pid)]
        subprocess.run(["kill", "-KILL", *map(str, members)], check=True)
        for one in (ours, peer):
            one.wait()


def test_the_broker_whose_turn_it_is_not_stands_still_with_its_workers(sides: Sides) -> None:
    seen = []

    def run(target: Target, _options: Options) -> Sample:
        other = sides.peer if target is sides.ours else sides.ours
        seen.append((states(target), states(other)))
        return Sample({}, 0.0)

    compare(Contest("row", "", run, ()), sides, 1)
    assert seen == [("SS", "TT")] * 2
    assert states(sides.ours) == states(sides.peer) == "SS"


def test_both_go_on_when_a_run_ends_with_a_fault(sides: Sides) -> None:
    def run(_target: Target, _options: Options) -> Sample:
        raise BenchFault("no answer")

    with pytest.raises(BenchFault, match="no answer"):
        compare(Contest("row", "", run, ()), sides, 1)
    assert states(sides.peer) == "SS"


def test_a_broker_of_another_machine_is_left_alone_and_shows_nothing(sides: Sides) -> None:
    def run(target: Target, _options: Options) -> Sample:
        return Sample({"told": 1.0 if target is sides.ours else 2.0, "seen": 1.0}, 0.0)

    goals = (Goal("told", 1.0, is_floor=False), Goal("seen", None, is_floor=False))
    remote = sides._replace(peer=Target("127.0.0.1:1", None, None))
    told, seen = compare(Contest("row", "", run, goals), remote, PAIRS_MIN).judged
    assert told.verdict is Verdict.UNCOUNTED, "although five pairs of it would be ok"
    assert told.why == "the two do not share one pinned core"
    assert (told.ratio, seen.verdict) == (0.5, Verdict.NO_TARGET)


def test_all_threads_of_both_are_on_one_core_and_go_back(sides: Sides) -> None:
    assert sides.peer.pid is not None
    before = os.sched_getaffinity(sides.peer.pid)
    with on_same_cores(sides.ours, sides.peer):
        assert os.sched_getaffinity(sides.peer.pid) == broker_cores()
    assert os.sched_getaffinity(sides.peer.pid) == before


def test_it_goes_on_when_the_comparison_is_killed(sides: Sides) -> None:
    command = [sys.executable, "-c", HOLDER, str(sides.peer.pid)]
    with subprocess.Popen(command, stdout=subprocess.PIPE) as holder:
        assert holder.stdout is not None
        assert holder.stdout.readline() == b"held\n"
        assert states(sides.peer) == "TT"
        holder.kill()
    wait_for(lambda: states(sides.peer) == "SS")


def test_a_process_that_has_gone_is_no_error() -> None:
    with subprocess.Popen(["true"]) as gone:
        gone.wait()
    with standing_still(gone.pid):
        pass


def states(target: Target) -> str:
    """A letter for each process of it, as proc(5) has them: S sleeps, T is stopped."""
    assert target.pid is not None
    stats = [Path(f"/proc/{pid}/stat").read_text() for pid in family(target.pid)]
    return "".join(stat.rpartition(")")[2].split()[0] for stat in stats)


def wait_for(holds: Callable[[], bool]) -> None:
    deadline_s = time.monotonic() + 10
    while not holds():
        assert time.monotonic() < deadline_s, "what was waited for did not come within 10 s"
        time.sleep(0.01)
