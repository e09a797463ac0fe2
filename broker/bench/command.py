"""The command line of `hermes bench`, and its two reports."""

from __future__ import annotations

import argparse
import json
import os
import platform
import sys
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import confluent_kafka

from broker.bench.compare import main as compare
from broker.bench.cores import describe_cores
from broker.bench.flags import positive_count, positive_number
from broker.bench.measure import Measure, Row, has_failed
from broker.bench.plot import bars, svg
from broker.bench.running import Options
from broker.bench.scenarios import SCENARIOS, Scenario
from broker.bench.target import BenchFault, OwnBroker, Target, running_target


def main(arguments: Sequence[str]) -> int:
    """0 when every promise was kept, 1 when one was missed or a scenario could not run."""
    if arguments[:1] == ["compare"]:
        return compare(arguments[1:])
    parser = _parser()
    values = parser.parse_args(arguments)
    names = [scenario.name for scenario in SCENARIOS]
    if unknown := sorted(set(values.scenarios) - set(names)):
        parser.error(f"no scenario {', '.join(unknown)}; there are {', '.join(names)}")
    chosen = [
        s for s in SCENARIOS if s.name in values.scenarios or not (values.scenarios or s.is_long)
    ]
    options = _options(values)
    if (busy := os.getloadavg()[0]) > (os.cpu_count() or 1) / 2:
        print(f"other work runs on this machine (load {busy:.1f}): expect less", file=sys.stderr)
    print(describe_cores(), file=sys.stderr)
    rows, is_ok = [], True
    for scenario in chosen:
        if values.bootstrap and scenario.needs_own_broker:
            print(f"{scenario.name}: left out, it needs a broker of its own", file=sys.stderr)
            continue
        try:
            row = _run(scenario, options, values)
        except BenchFault as fault:
            print("\n".join([f"{scenario.name}: {fault}", *_notes_of(fault)]), file=sys.stderr)
            is_ok = False
            continue
        rows.append(row)
        if not values.json:
            print("\n".join(table_lines(row)), flush=True)
    if values.json:
        print(json.dumps(as_json(rows), indent=2))
    if values.plot is not None:
        _write_plot(rows, values.plot)
    return 0 if is_ok and not has_failed(rows) else 1


def _notes_of(fault: BaseException) -> list[str]:
    return list(getattr(fault, "__notes__", []))


def _options(values: argparse.Namespace) -> Options:
    return Options(
        values.seconds,
        values.partitions,
        values.record_bytes,
        values.acks,
        values.stall_seconds,
        values.durability,
        values.validation,
        values.minutes,
        values.rate,
        values.series_max,
        round(values.history_gb * 1e9),
        round(values.memory_gb * (1 << 30)),
    )


def _write_plot(rows: Iterable[Row], path: Path) -> None:
    drawn = [series for row in rows for series in row.series]
    if drawn:
        path.write_text(svg(drawn), encoding="utf-8")
    else:
        print(f"{path}: none of these scenarios has a plot", file=sys.stderr)


def _parser() -> argparse.ArgumentParser:
    listing = "\n".join(
        f"  {scenario.name:<16} {scenario.summary}{', only when named' * scenario.is_long}"
        for scenario in SCENARIOS
    )
    parser = argparse.ArgumentParser(
        prog="hermes bench",
        description="Measure a broker from outside, with load in processes of its own.\n"
        "`hermes bench compare --help`: side by side with another broker.",
        epilog=f"scenarios:\n{listing}",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("scenarios", nargs="*", metavar="SCENARIO", help="default: the short ones")
    parser.add_argument(
        "--bootstrap", metavar="HOST:PORT", help="a cluster that runs (default: a broker of ours)"
    )
    parser.add_argument(
        "--apache-kafka", action="store_true", help="the cluster at --bootstrap is one"
    )
    parser.add_argument("--directory", metavar="DIR", help="where our broker keeps its data")
    parser.add_argument(
        "--seconds", type=positive_number, default=10, help="of each load (default: 10)"
    )
    parser.add_argument("--partitions", type=positive_count, default=6, help="default: 6")
    parser.add_argument("--record-bytes", type=positive_count, default=1024, help="default: 1024")
    parser.add_argument("--acks", choices=["0", "1", "all"], default="all", help="default: all")
    parser.add_argument(
        "--durability",
        choices=["fsync", "replicated"],
        help="of the topics (default: the broker's)",
    )
    parser.add_argument(
        "--validation", choices=["header", "full"], help="of records (default: the broker's)"
    )
    _add_sizes(parser)
    parser.add_argument("--json", action="store_true", help="print one JSON document at the end")
    parser.add_argument(
        "--plot", type=Path, metavar="FILE", help="draw how costs grow as an SVG file"
    )
    return parser


def _add_sizes(parser: argparse.ArgumentParser) -> None:
    """How fast, long and large the loads of chosen scenarios are."""
    parser.add_argument(
        "--rate", type=positive_count, help="records a second of latency, soak and hold"
    )
    parser.add_argument(
        "--minutes", type=positive_number, default=20, help="of soak and hold (default: 20)"
    )
    parser.add_argument(
        "--series-max",
        type=positive_count,
        metavar="N",
        help="where connections, partitions and open-segments end",
    )
    parser.add_argument(
        "--history-gb", type=positive_number, default=10, help="of catch-up (default: 10)"
    )
    parser.add_argument(
        "--memory-gb",
        type=positive_number,
        default=2,
        help="of the broker in catch-up (default: 2)",
    )
    parser.add_argument(
        "--stall-seconds",
        type=positive_number,
        default=60,
        help="of the group that stalls (default: 60)",
    )


def _run(scenario: Scenario, options: Options, values: argparse.Namespace) -> Row:
    with _target(scenario, values) as target:
        return scenario.run(target, options)


@contextmanager
def _target(scenario: Scenario, values: argparse.Namespace) -> Iterator[Target]:
    """A fresh broker for each scenario, so that none inherits another's page cache or memory."""
    if values.bootstrap:
        yield running_target(values.bootstrap, is_ours=not values.apache_kafka)
        return
    with OwnBroker(values.directory, scenario.flags) as broker:
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
    for series in row.series:
        yield from (f"{'':<16} {line}" for line in bars(series))


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
                "series": [series._asdict() for series in row.series],
            }
            for row in rows
        ],
    }
