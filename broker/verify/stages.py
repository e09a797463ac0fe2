"""`hermes test`: every test, in stages from the fastest to the slowest, and one summary.

A stage that fails does not stop the next: one run tells everything. Stages run one after the other;
within one, files are shared out to a few processes. Nothing is left out silently:
a system package that is missing is installed (as root) or named with the command that installs it,
and then the run fails.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final, NamedTuple
from xml.etree import ElementTree

from broker.verify.packages import can_install, install, install_command, missing_packages

HOME: Final = Path(__file__).resolve().parent.parent.parent
JUDGES_VARIABLE: Final = "HERMES_JUDGES"
"""`all`: tests/conformance/foreign runs every suite that it knows."""
WORKERS_MAX: Final = 4
"""Processes of a stage, one more than there are cores: most tests wait. Each process starts
brokers, databases and browsers of its own.
"""
LISTING: Final = frozenset({"--collect-only", "--collectonly", "--co"})
"""pytest's words for a run that names the tests and runs none: no package and no service is needed.
"""
_NO_TESTS: Final = 5
"""pytest's exit code for a run that selected no test."""


class Stage(NamedTuple):
    """`directories` (or files) are below tests/; () means every file and directory that no other
    stage has. With `has_services` the console's settings name a PostgreSQL and a Redis that run
    beside it. `arguments` go to pytest; a campaign is long and runs only when it is named. What is
    not `is_shared_out` runs in one process: its tests share an installation.
    """

    name: str
    directories: tuple[str, ...]
    proves: str
    has_services: bool = False
    arguments: tuple[str, ...] = ()
    is_campaign: bool = False
    is_shared_out: bool = True


ON_SERVICES: Final = (
    "accounts",
    "audit",
    "groups",
    "live",
    "samples",
    "searches",
    "tokens",
    "users",
)
"""Tests of the console whose subject is the database, the tasks, the channels or live sockets."""
SILENT: Final = (
    "cluster_that_does_not_answer_is_told_and_the_form_is_kept",
    "change_without_an_answer_can_be_undone",
    "undo_without_an_answer_can_be_looked_at_again",
)
"""They wait for a cluster that says nothing: once, in the integration stage, is enough."""
STAGES: Final = (
    Stage("unit", (), "each module by itself"),
    Stage("integration", ("console", "scenarios", "faults"), "real processes and services"),
    Stage(
        "simulation",
        ("simulation",),
        "the broker under seeded faults",
        arguments=("--dist", "worksteal"),  # its tests share nothing, and one file has the longest
    ),
    Stage("conformance", ("conformance",), "clients, suites and tools of other projects"),
    Stage("browser", ("browser",), "the console in Chromium"),
    Stage(
        "power",
        ("campaigns",),
        "50 losses of power under load on ext4, judged by the simulator's checker (a campaign)",
        is_campaign=True,
    ),
    Stage(
        "services",
        tuple(f"console/test_{name}.py" for name in ON_SERVICES),
        "the console on PostgreSQL and Redis: tests of database, tasks, channels and live sockets",
        has_services=True,
        arguments=tuple(f"--deselect=tests/console/test_groups.py::test_{name}" for name in SILENT),
    ),
    Stage(
        "services-all",
        ("console", "browser"),
        "all of the console's and the browser's tests on PostgreSQL and Redis (a campaign)",
        has_services=True,
        is_campaign=True,
        is_shared_out=False,
    ),
)


class Tally(NamedTuple):
    """Counts of one pytest run; `failed` includes errors."""

    passed: int
    failed: int
    skipped: int

    def __str__(self) -> str:
        skipped = f", {self.skipped} skipped" if self.skipped else ""
        return f"{self.passed} passed, {self.failed} failed{skipped}"


class StageResult(NamedTuple):
    name: str
    code: int
    seconds: float
    tally: Tally


def main(arguments: Sequence[str]) -> int:
    """0 when every test passed, 1 otherwise."""
    options, rest = _parser().parse_known_args(arguments)
    rest = [word for word in rest if word != "--"]
    is_listing = not LISTING.isdisjoint(rest)
    if not is_listing and not _has_packages():
        return 1
    if any(_is_path(word) for word in rest):
        return _pytest("chosen", rest).code
    wanted = options.stage or (["conformance"] if options.judges else [])
    if options.judges:
        os.environ[JUDGES_VARIABLE] = "all"
    chosen = [
        stage for stage in STAGES if (stage.name in wanted if wanted else not stage.is_campaign)
    ]
    if is_listing:
        codes = {_run(stage._replace(has_services=False), rest).code for stage in chosen}
        return 0 if codes <= {0, _NO_TESTS} else 1
    results = [_run(stage, rest) for stage in chosen]
    return _summarize(results, is_filtered=bool(rest))


def _parser() -> argparse.ArgumentParser:
    stages = "\n".join(f"  {stage.name:<12} {stage.proves}" for stage in STAGES)
    parser = argparse.ArgumentParser(
        prog="hermes test",
        usage="hermes test [--stage NAME]… [--judges] [pytest's arguments]",
        description="Run every test. What is not an option here goes to pytest; "
        "a path among it runs that alone.",
        epilog=f"stages:\n{stages}",
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    parser.add_argument(
        "--stage", action="append", choices=[stage.name for stage in STAGES], help="only this one"
    )
    parser.add_argument(
        "--judges",
        action="store_true",
        help="the conformance stage with every judge, also those whose source is not on PyPI"
        " (docs/judges.md)",
    )
    return parser


def paths(stage: Stage) -> list[str]:
    """What pytest is given for a stage, relative to the project's root."""
    tests = HOME / "tests"
    if stage.directories:
        return [f"tests/{name}" for name in stage.directories if (tests / name).exists()]
    elsewhere = {name for other in STAGES for name in other.directories}
    return [f"tests/{path.name}" for path in sorted(tests.iterdir()) if _is_unit(path, elsewhere)]


def _is_unit(path: Path, elsewhere: set[str]) -> bool:
    if path.is_dir():
        return path.name not in elsewhere and any(path.rglob("test_*.py"))
    return path.name.startswith("test_") and path.suffix == ".py"


def _has_packages() -> bool:
    missing = missing_packages()
    if not missing:
        return True
    if can_install():
        print(f"hermes test: installing {', '.join(missing)} …", flush=True)
        if install(missing):
            return True
        missing = missing_packages(missing)
    print(f"hermes test: the tests need {', '.join(missing)}. Install with:", file=sys.stderr)
    print(f"  {install_command(missing)}", file=sys.stderr)
    return False


def _run(stage: Stage, rest: Sequence[str]) -> StageResult:
    print(f"\n== {stage.name}: {stage.proves}", flush=True)
    workers = min(WORKERS_MAX, 1 + (os.cpu_count() or 1))
    is_shared_out = stage.is_shared_out
    shared_out = ["-n", str(workers), "--dist", "loadfile"] if is_shared_out else []
    arguments = [*shared_out, *stage.arguments, *rest, *paths(stage)]
    return _pytest(stage.name, arguments, has_services=stage.has_services)


def _pytest(name: str, arguments: Sequence[str], *, has_services: bool = False) -> StageResult:
    started_s = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="hermes-test-") as directory:
        report = Path(directory) / "report.xml"
        command = [
            *((sys.executable, "-m", "tests.support.with_services") if has_services else ()),
            *(sys.executable, "-m", "pytest", "-q", f"--junitxml={report}", *arguments),
        ]
        environment = {**os.environ, "HERMES_DATA_DIR": str(Path(directory) / "data")}
        code = subprocess.run(
            command, cwd=HOME, env=environment, stdin=subprocess.DEVNULL, check=False
        ).returncode
        return StageResult(name, code, time.monotonic() - started_s, _tally(report))


def _tally(report: Path) -> Tally:
    """The counts in pytest's JUnit report; all zero when it wrote none."""
    if not report.is_file():
        return Tally(0, 0, 0)
    suites = list(ElementTree.parse(report).getroot().iter("testsuite"))  # noqa: S314  our own file

    def total(attribute: str) -> int:
        return sum(int(suite.get(attribute, "0")) for suite in suites)

    failed, skipped = total("failures") + total("errors"), total("skipped")
    return Tally(total("tests") - failed - skipped, failed, skipped)


def _summarize(results: Sequence[StageResult], *, is_filtered: bool) -> int:
    print("\n== summary")
    for result in results:
        verdict = "ok" if _is_ok(result, is_filtered=is_filtered) else "FAILED"
        print(f"{result.name:<12} {verdict:<7} {result.seconds:7.1f} s   {result.tally}")
    total = Tally(*(sum(column) for column in _columns(results)))
    is_ok = total.passed > 0 and all(_is_ok(r, is_filtered=is_filtered) for r in results)
    if not is_ok and total.failed == 0:
        print("a stage did not run to its end, or selected no test")
    print(f"total: {total}", flush=True)
    return 0 if is_ok else 1


def _columns(results: Sequence[StageResult]) -> Iterator[tuple[int, ...]]:
    return zip(*(result.tally for result in results), strict=True)


def _is_ok(result: StageResult, *, is_filtered: bool) -> bool:
    """A stage without a test is a failure, unless pytest's own arguments chose some."""
    return result.code == 0 or (is_filtered and result.code == _NO_TESTS)


def _is_path(word: str) -> bool:
    return not word.startswith("-") and (HOME / word.partition("::")[0]).exists()
