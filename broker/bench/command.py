"""The command line of `hermes bench`, and its two reports."""

from __future__ import annotations

import argparse
import json
import os
import platform
import sys
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import confluent_kafka

from broker.bench.cores import describe_cores
from broker.bench.measure import Measure, Row, has_failed
from broker.bench.running import Options
from broker.bench.scenarios import SCENARIOS, Scenario
from broker.bench.target import BenchFault, OwnBroker, Target


def main(arguments: Sequence[str]) -> int:
    """0 when every promise was kept, 1 when one was missed or a scenario could not run."""
    parser = _parser()
    values = parser.parse_args(arguments)
    names = [scenario.name for scenario in SCENARIOS]
    if unknown := sorted(set(values.scenarios) - set(names)):
        parser.error(f"no scenario {', '.join(unknown)}; there are {', '.join(names)}")
    chosen = [s for s in SCENARIOS if not values.scenarios or s.name in values.scenarios]
    options = Options(
        values.seconds,
        values.partitions,
        values.record_bytes,
        values.acks,
        values.stall_seconds,
    )
    if (busy := os.getloadavg()[0]) > (os.cpu_count() or 1) / 2:
        print(f"other work runs on this machine (load {busy:.1f}): expect less", file=sys.stderr)
    print(describe_cores(), file=sys.stderr)
    rows, is_ok = [], True
    for scenario in chosen:
        if values.bootstrap and scenario.needs_own_broker:
            print(f"{scenario.name}: left out, it needs a broker of its own", file=sys.stderr)
            continue
        try:
            row = _run(scenario, options, values.bootstrap, values.directory)
        except BenchFault as fault:
            print("\n".join([f"{scenario.name}: {fault}", *_notes_of(fault)]), file=sys.stderr)
            is_ok = False
            continue
        rows.append(row)
        if not values.json:
            print("\n".join(table_lines(row)), flush=True)
    if values.json:
        print(json.dumps(as_json(rows), indent=2))
    return 0 if is_ok and not has_failed(rows) else 1


def _notes_of(fault: BaseException) -> list[str]:
    return list(getattr(fault, "__notes__", []))


def _parser() -> argparse.ArgumentParser:
    listing = "\n".join(f"  {scenario.name:<16} {scenario.summary}" for scenario in SCENARIOS)
    parser = argparse.ArgumentParser(
        prog="hermes bench",
        description="Measure a broker from outside with librdkafka, load in its own processes.",
        epilog=f"scenarios:\n{listing}",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("scenarios", nargs="*", metavar="SCENARIO", help="default: all of them")
    parser.add_argument(
        "--bootstrap", metavar="HOST:PORT", help="a cluster that runs (default: a broker of ours)"
    )
    parser.add_argument("--seconds", type=float, default=10, help="of each load (default: 10)")
    parser.add_argument("--partitions", type=int, default=6, help="default: 6")
    parser.add_argument("--record-bytes", type=int, default=1024, help="default: 1024")
    parser.add_argument("--acks", choices=["0", "1", "all"], default="all", help="default: all")
    parser.add_argument(
        "--stall-seconds", type=float, default=60, help="of the group that stalls (default: 60)"
    )
    parser.add_argument("--directory", metavar="DIR", help="where our broker keeps its data")
    parser.add_argument("--json", action="store_true", help="print one JSON document at the end")
    return parser


def _run(scenario: Scenario, options: Options, bootstrap: str | None, directory: str | None) -> Row:
    with _target(bootstrap, directory) as target:
        return scenario.run(target, options)


@contextmanager
def _target(bootstrap: str | None, directory: str | None) -> Iterator[Target]:
    """A fresh broker for each scenario, so that none inherits another's page cache or memory."""
    if bootstrap:
        yield Target(bootstrap, None)
        return
    with OwnBroker(directory) as broker:
        yield broker


def table_lines(row: Row) -> Iterator[str]:
    """One line per number, the promise beside it."""
    for position, measure in enumerate(row.measures):
        name = row.scenario if position == 0 else ""
        number = f"{measure.value:>12,.1f} {measure.unit:<6}"
        yield f"{name:<16} {measure.name:<28} {number} {_verdict(measure)}"
    broker = "?" if row.broker_cpu_percent is None else f"{row.broker_cpu_percent:.0f} %"
    bound = "; the load was the limit, not the broker" if row.is_load_bound else ""
    yield f"{'':<16} CPU of one core: broker {broker}, load {row.load_cpu_percent:.0f} %{bound}"
    for note in row.notes:
        yield f"{'':<16} {note}"


def _verdict(measure: Measure) -> str:
    if measure.bound is None:
        return ""
    side = "at least" if measure.is_floor else "at most"
    return f"{'ok' if measure.is_met else 'MISSED'} ({side} {measure.bound:,g})"


def as_json(rows: Iterable[Row]) -> dict[str, Any]:
    """The report for programs, with what it was measured on."""
    return {
        "machine": {
            "cores": os.cpu_count(),
            "placement": describe_cores(),
            "python": platform.python_version(),
            "system": platform.platform(),
            "librdkafka": confluent_kafka.libversion()[0],
        },
        "rows": [
            {
                "scenario": row.scenario,
                "measures": [
                    {**measure._asdict(), "is_met": measure.is_met} for measure in row.measures
                ],
                "broker_cpu_percent": row.broker_cpu_percent,
                "load_cpu_percent": row.load_cpu_percent,
                "is_load_bound": row.is_load_bound,
                "notes": list(row.notes),
            }
            for row in rows
        ],
    }
