"""Our broker against Apache Kafka 4.4, and the page about it.

    python -m tests.benchmarks.against_kafka          # what has no result yet, and the page
    python -m tests.benchmarks.against_kafka --only defaults/idle fsync --again
    python -m tests.benchmarks.against_kafka --only hold hold-100 catch-up --minutes 10
    python -m tests.benchmarks.against_kafka --only soak --minutes 20
    python -m tests.benchmarks.against_kafka --only connections partitions
    python -m tests.benchmarks.against_kafka --page                # the page alone, from results

Each row leaves a file of its result as soon as it is there: an interrupted run goes on where it
was. Needs Java 17, Maven and a quiet machine of two cores; the rows against Kafka take about half
an hour, what our broker does alone runs only when it is named. Ends with status 1 when a target was
missed or a row does not count.
"""

from __future__ import annotations

import argparse
import compileall
import json
import os
import platform
import sys
import time
from collections.abc import Sequence
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import Any

from broker.bench.command import as_json as scenario_json
from broker.bench.command import table_lines as scenario_lines
from broker.bench.compare import (
    Compared,
    Sides,
    as_json,
    compare,
    is_kept,
    on_same_cores,
    table_lines,
)
from broker.bench.measure import has_failed
from broker.bench.ratios import PAIRS_MIN, Pair, judge
from broker.bench.running import Options
from broker.bench.sample import (
    HISTORY,
    PING_PONG,
    PIPELINED,
    PRODUCE_SHAPES,
    Sample,
    TooSlow,
    caught_up,
    paced,
    produced,
)
from broker.bench.scenarios import SCENARIOS
from broker.bench.starting import first_record_s
from broker.bench.target import OwnBroker, Target
from broker.bench.unseen import LATENCY_RATE
from tests.benchmarks.kafka_peer import FLUSHED, kafka_node, versions
from tests.benchmarks.page import page
from tests.benchmarks.sections import ALONE, GROWTH, SECTIONS, START, Section

ROOT = Path(__file__).parents[2]
RESULTS = ROOT / ".hermes" / "benchmarks"
PAGE = ROOT / "docs" / "benchmarks.md"
SECONDS = 2.5
WARM_UP_S = 40.0
REST_S = 65.0
"""Behind the warm-up: Kafka removes a deleted topic's files a minute later, and the latencies are
next.
"""
ALONE_S = 20.0
"""How long catch-up looks at its live records before the replay."""
START_ROW = "start/start"
COMMAND = "python -m tests.benchmarks.against_kafka"


def main(arguments: Sequence[str]) -> int:
    """0 when every row that was run is ok."""
    values = parse(arguments)
    values.results.mkdir(parents=True, exist_ok=True)
    is_ok = True
    if not values.page:
        is_ok = run_all(values)
    write_page(values.results, values.write)
    return 0 if is_ok else 1


def parse(arguments: Sequence[str]) -> argparse.Namespace:
    rows = [f"{section.name}/{row}" for section in SECTIONS for row in section.rows]
    names = [*(section.name for section in SECTIONS), *rows, "start", START_ROW, *ALONE, *GROWTH]
    parser = argparse.ArgumentParser(prog=COMMAND, description=__doc__.split("\n\n")[0])
    parser.add_argument("--only", nargs="+", default=[], metavar="NAME", help=", ".join(names))
    parser.add_argument("--pairs", type=int, default=PAIRS_MIN)
    parser.add_argument("--seconds", type=float, default=SECONDS, help="of one run")
    parser.add_argument("--warm-up", type=float, default=WARM_UP_S, help="seconds, of each broker")
    parser.add_argument("--minutes", type=float, default=10, help="of hold, hold-100 and soak")
    parser.add_argument("--history-gb", type=float, default=10, help="of catch-up")
    parser.add_argument("--memory-gb", type=float, default=2, help="of our broker in catch-up")
    parser.add_argument("--series-max", type=int, help="where connections and partitions end")
    parser.add_argument("--note", default="", help="what a reader must know of the machine")
    parser.add_argument("--again", action="store_true", help="also what has a result")
    parser.add_argument("--page", action="store_true", help="measure nothing")
    parser.add_argument("--results", type=Path, default=RESULTS)
    parser.add_argument("--write", type=Path, default=PAGE, help="the page")
    parser.add_argument("--directory", help="where our broker keeps its data")
    values = parser.parse_args(arguments)
    if unknown := sorted(set(values.only) - set(names)):
        parser.error(f"nothing is called {', '.join(unknown)}; there are {', '.join(names)}")
    return values


def run_all(values: argparse.Namespace) -> bool:
    """Everything that is asked for; whether all of it is ok."""
    is_ok = True
    for is_flushed in (False, True):
        sections = [
            section._replace(rows=rows)
            for section in SECTIONS
            if section.is_peer_flushed is is_flushed and (rows := wanted_rows(section, values))
        ]
        if sections:
            is_ok = run_sections(sections, is_flushed, values) and is_ok
    if is_wanted(values, START_ROW):
        is_ok = keep(values, START_ROW, run_start(values.pairs)) and is_ok
    for name in (*ALONE, *GROWTH):
        if name in values.only and is_wanted(values, name):
            is_ok = run_alone(name, values) and is_ok
    return is_ok


def wanted_rows(section: Section, values: argparse.Namespace) -> tuple[str, ...]:
    return tuple(row for row in section.rows if is_wanted(values, f"{section.name}/{row}"))


def is_wanted(values: argparse.Namespace, name: str) -> bool:
    """Named, itself or by its section, or nothing is; and without a result, unless --again."""
    is_named = not values.only or name in values.only or name.partition("/")[0] in values.only
    return is_named and (values.again or not result_file(values.results, name).exists())


def run_sections(
    sections: Sequence[Section], is_peer_flushed: bool, values: argparse.Namespace
) -> bool:
    """All rows of some sections on one pair of brokers; `idle` comes before any load."""
    options = Options(values.seconds, 6, 1024, "all")
    is_ok, is_warm = True, False
    with ExitStack() as stack:
        kafka = stack.enter_context(kafka_node(FLUSHED if is_peer_flushed else None))
        own = stack.enter_context(OwnBroker(values.directory))
        stack.enter_context(on_same_cores(own, kafka.target))
        for section in sections:
            print(f"— {section.title}", flush=True)
            ours = options._replace(durability=section.durability, validation=section.validation)
            sides = Sides(own, kafka.target, ours, options)
            for contest in section.contests():
                if contest.name != "idle" and not is_warm:
                    warm_up(kafka.target, options, values.warm_up)
                    warm_up(own, options, values.warm_up)
                    time.sleep(REST_S)
                    is_warm = True
                row = compare(contest, sides, values.pairs, said)
                is_ok = keep(values, f"{section.name}/{contest.name}", row) and is_ok
    return is_ok


def said(line: str) -> None:
    print(f"  {line}", flush=True)


def warm_up(target: Target, options: Options, seconds: float) -> None:
    """Until Java has compiled what the rows run, and ours has the memory that they take."""
    short = options._replace(seconds=seconds / 6)
    for shape in (PRODUCE_SHAPES[0], PRODUCE_SHAPES[3], PIPELINED, PING_PONG):
        produced(target, short, shape)
    caught_up(target, short, HISTORY)
    with suppress(TooSlow):
        paced(target, short, LATENCY_RATE)


def run_start(pair_count: int) -> Compared:
    """From the process's start to a first acknowledged record, on empty directories; of both what
    runs is compiled, as it is in an image.
    """
    compileall.compile_dir(ROOT / "broker", quiet=1)
    pairs = []
    for number in range(pair_count):
        took = {}
        for side in ("ours", "peer") if number % 2 == 0 else ("peer", "ours"):
            took[side] = start_of_ours() if side == "ours" else start_of_kafka()
            print(f"  start pair {number + 1} {side}: {took[side]:.3f} s", flush=True)
        pairs.append(
            Pair(*(Sample({"first record": took[side]}, 0.0) for side in ("ours", "peer")))
        )
    judged = judge(pairs, START)
    assert judged is not None, "both have a time"
    return Compared("start", "process start to the first acknowledged record", (judged,), 0.0)


def start_of_ours() -> float:
    broker = OwnBroker()
    try:
        started_s = time.monotonic()
        broker.spawn()
        return first_record_s(broker.bootstrap, started_s)
    finally:
        broker.__exit__(None, None, None)


def start_of_kafka() -> float:
    with kafka_node() as node:
        return node.first_record_s


def run_alone(name: str, values: argparse.Namespace) -> bool:
    """A scenario on a broker of its own."""
    scenario = next(one for one in SCENARIOS if one.name == name)
    options = Options(
        values.seconds if name in GROWTH else ALONE_S,
        6,
        1024,
        "all",
        minutes=values.minutes,
        series_max=values.series_max,
        history_bytes=round(values.history_gb * 1e9),
        memory_bytes=round(values.memory_gb * (1 << 30)),
    )
    with OwnBroker(values.directory, scenario.flags) as broker:
        row = scenario.run(broker, options)
    print("\n".join(scenario_lines(row)), flush=True)
    (document,) = scenario_json([row])["rows"]
    store(values, name, document)
    return not has_failed([row])


def keep(values: argparse.Namespace, name: str, row: Compared) -> bool:
    """Print a row and write its result; whether it is ok."""
    print("\n".join(table_lines(row)), flush=True)
    store(values, name, as_json(row))
    return is_kept(row)


def store(values: argparse.Namespace, name: str, document: dict[str, Any]) -> None:
    stamped = {
        **document,
        "at": time.strftime("%Y-%m-%d %H:%M", time.gmtime()),
        "machine": machine(),
        "versions": versions(),
        "note": values.note,
    }
    file = result_file(values.results, name)
    file.with_suffix(".tmp").write_text(json.dumps(stamped, indent=2) + "\n")
    file.with_suffix(".tmp").rename(file)


def result_file(results: Path, name: str) -> Path:
    return results / f"{name.replace('/', '.')}.json"


def write_page(results: Path, target: Path) -> None:
    """From all results that there are."""

    def found(names: Sequence[str]) -> list[dict[str, Any]]:
        files = [result_file(results, name) for name in names]
        return [json.loads(file.read_text()) for file in files if file.exists()]

    sections = [
        (section.title, found([f"{section.name}/{row}" for row in section.rows]))
        for section in SECTIONS
    ]
    sections.append(("Start", found([START_ROW])))
    alone, growth = found(ALONE), found(GROWTH)
    every = [row for _, rows in sections for row in rows] + alone + growth
    if not every:
        print("there are no results yet: the page stays as it is", file=sys.stderr)
        return
    times = sorted(row["at"] for row in every)
    head = {
        "command": COMMAND,
        "machine": "; ".join(dict.fromkeys(row["machine"] for row in every)),
        "versions": "; ".join(dict.fromkeys(row["versions"] for row in every if row["versions"])),
        "first": times[0],
        "last": f"{times[-1]} UTC",
        "notes": "".join(dict.fromkeys(f" {row['note']}" for row in every if row.get("note"))),
    }
    target.write_text(page(head, sections, alone, growth))
    print(f"wrote {target}")


def machine() -> str:
    """Its cores, memory and kernel."""
    models = [
        line.partition(":")[2].strip()
        for line in Path("/proc/cpuinfo").read_text().splitlines()
        if line.startswith("model name")
    ]
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / (1 << 30)
    return (
        f"{len(models)} × {models[0]}, {memory:.0f} GiB, Linux {platform.release().split('-')[0]}, "
        f"Python {platform.python_version()}"
    )


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
