"""What the topics list costs with thousands of topics: a real broker, a real console.

    python -m tests.benchmarks.console_topics [--topics 5000] [--partitions 2]

A first page is asked for after the list of topics has grown too old to be used again (cold) and
right after that (warm). It reports wall time and the processor time of console and broker (from
/proc, all of their threads, the sampler's and the idle cost taken off), and ends with status 1 when
the first page misses its target on wall time, or with `--cpu` on processor time (a loaded machine).
"""

from __future__ import annotations

import argparse
import statistics
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

from broker.client.blocking import BlockingClient, NewTopic
from tests.benchmarks.console_scale import TICKS_PER_S, Result, Visitor
from tests.console.console_process import ConsoleProcess
from tests.support.broker_process import BrokerProcess

TOPICS_PER_CALL = 50
PAGE_MS_MAX = 500.0
ROUNDS = 7
IDLE_S = 5.0
CATALOGUE_S_MAX = 5.0  # as in hermes_console/operations/topics_catalogue.py
PAGE = "/clusters/local/topics/"


def main(arguments: Sequence[str]) -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--topics", type=int, default=5_000)
    parser.add_argument("--partitions", type=int, default=2)
    parser.add_argument("--cpu", action="store_true", help="judge by processor time")
    values = parser.parse_args(arguments)
    with tempfile.TemporaryDirectory(prefix="console-topics-") as name:
        results = run(values, Path(name))
    for result in results:
        print(result.line())
    return int(any(result.is_missed for result in results))


def run(values: argparse.Namespace, directory: Path) -> list[Result]:
    own = directory / "broker"
    own.mkdir()
    with BrokerProcess(own) as broker:
        fill(broker.bootstrap, values.topics, values.partitions)
        data = directory / "console"
        with ConsoleProcess(data, bootstrap=broker.bootstrap) as console:
            assert console.process is not None
            pids = (console.process.pid, broker.pid)
            visitor = Visitor(console)
            visitor.get(PAGE)
            idle = idle_share(pids)
            results = []
            for title, path in (
                ("first page", PAGE),
                ("filtered", f"{PAGE}?q=99"),
                ("by size", f"{PAGE}?sort=size"),
            ):
                results += cost(visitor, title, path, pids, idle, by_cpu=values.cpu)
            return results


def fill(bootstrap: str, topics: int, partitions: int) -> None:
    client = BlockingClient(bootstrap, timeout_ms=120_000)
    for start in range(0, topics, TOPICS_PER_CALL):
        names = range(start, min(topics, start + TOPICS_PER_CALL))
        client.create_topics([NewTopic(f"load-{number:05d}", partitions, 1) for number in names])
    client.close()


def cost(
    visitor: Visitor,
    title: str,
    path: str,
    pids: Sequence[int],
    idle: float,
    *,
    by_cpu: bool,
) -> list[Result]:
    """Cold and warm: median wall time and processor time of one page."""
    walls: dict[str, list[float]] = {"cold": [], "warm": []}
    cpus: dict[str, list[float]] = {"cold": [], "warm": []}
    for _ in range(ROUNDS):
        time.sleep(CATALOGUE_S_MAX + 0.5)
        for kind, wall_ms in walls.items():
            cpu_s, began_s = cpu(pids), time.monotonic()
            visitor.get(path)
            wall_s = time.monotonic() - began_s
            wall_ms.append(wall_s * 1000)
            cpus[kind].append(max(0.0, cpu(pids) - cpu_s - idle * wall_s) * 1000)
    limit = PAGE_MS_MAX if title == "first page" else None
    results = []
    for kind, wall_ms in walls.items():
        wall, processor = statistics.median(wall_ms), statistics.median(cpus[kind])
        results += [
            Result(f"{title}, {kind}: wall", wall, "ms", None if by_cpu else limit),
            Result(f"{title}, {kind}: processor", processor, "ms", limit if by_cpu else None),
        ]
    return results


def idle_share(pids: Sequence[int]) -> float:
    """Cores that console and broker take with nobody looking."""
    cpu_s, began_s = cpu(pids), time.monotonic()
    time.sleep(IDLE_S)
    return (cpu(pids) - cpu_s) / (time.monotonic() - began_s)


def cpu(pids: Sequence[int]) -> float:
    """Processor seconds of the processes, all threads."""
    total = 0
    for pid in pids:
        words = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
        total += int(words[11]) + int(words[12])
    return total / TICKS_PER_S


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
