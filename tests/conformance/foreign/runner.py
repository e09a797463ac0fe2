"""One run of a foreign suite against a broker, in a process group of its own with a deadline."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final, NamedTuple
from xml.etree import ElementTree

from tests.conformance.foreign.scope import OUT_OF_SCOPE, OutOfScope
from tests.conformance.foreign.sources import root_of
from tests.conformance.foreign.suites import Script, Suite

ADAPTER: Final = Path(__file__).parent / "adapter"
_OUTPUT_BYTES_MAX: Final = 8_000_000
_SAID_CHARACTERS_MAX: Final = 4_000
_SCRIPT_SECONDS_MAX: Final = 90
SCRIPT_DONE: Final = "== done: "
"""What `adapter/hermes_script.py` prints before the name of a function that returned."""


class Case(NamedTuple):
    """One test of a suite; `trouble` is empty when it passed, else what it says."""

    name: str
    trouble: str


class Verdict(NamedTuple):
    """`output` is the end of what pytest printed, for a run that broke before its tests."""

    cases: tuple[Case, ...]
    code: int
    output: str

    @property
    def passed(self) -> int:
        return sum(not case.trouble for case in self.cases)

    @property
    def troubles(self) -> list[Case]:
        return [case for case in self.cases if case.trouble]


def run_suite(suite: Suite, bootstrap: str, *, seconds_max: float = 300) -> Verdict:
    """The suite's tests that are in scope, and its script's functions.

    Raises SourceMissing.
    """
    root = root_of(suite)
    verdict = judge(suite, root, OUT_OF_SCOPE[suite.name], bootstrap, seconds_max=seconds_max)
    if suite.script is None:
        return verdict
    with tempfile.TemporaryDirectory(prefix="hermes-judge-") as directory:
        environment = _environment(bootstrap, root, [], Path(directory))
        cases = _script_cases(suite.script, root, bootstrap, environment)
    return verdict._replace(cases=(*verdict.cases, *cases))


def judge(
    suite: Suite,
    root: Path,
    out_of_scope: Sequence[OutOfScope],
    bootstrap: str,
    *,
    seconds_max: float,
) -> Verdict:
    """What pytest says about the suite's tests below `root`."""
    with tempfile.TemporaryDirectory(prefix="hermes-judge-") as directory:
        scratch = Path(directory)
        report = scratch / "report.xml"
        settings = scratch / "pytest.ini"
        settings.write_text("[pytest]\npython_files = test_*.py\n")
        code, output = run(
            [*_pytest(suite, root, settings, report), *suite.targets],
            root,
            _environment(bootstrap, root, [entry.test for entry in out_of_scope], scratch),
            seconds_max,
        )
        return Verdict(tuple(_cases(report)), code, output[-_SAID_CHARACTERS_MAX:])


def _pytest(suite: Suite, root: Path, settings: Path, report: Path) -> list[str]:
    return [
        *(sys.executable, "-m", "pytest", "-q", "-ra", "-p", "hermes_judge"),
        *(
            "-c",
            str(settings),
            "-p",
            "no:cacheprovider",
            "--rootdir",
            str(root),
            f"--confcutdir={root}",
        ),
        *(f"--junitxml={report}", "-o", "junit_logging=no", "-o", "faulthandler_timeout=120"),
        *(("-p", "pytest_asyncio.plugin", "--asyncio-mode=auto") if suite.asyncio else ()),
    ]


def _environment(
    bootstrap: str, root: Path, out_of_scope: Sequence[str], scratch: Path
) -> dict[str, str]:
    """What the suites themselves read, and what our adapter reads."""
    scope = scratch / "scope.json"
    scope.write_text(json.dumps(out_of_scope))
    return {
        **os.environ,
        "PYTHONPATH": os.pathsep.join((str(ADAPTER), str(root))),
        "PYTHONDONTWRITEBYTECODE": "1",
        "PYTHONUNBUFFERED": "1",
        "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1",
        "PYTEST_ADDOPTS": "",
        "HERMES_JUDGE_BOOTSTRAP": bootstrap,
        "HERMES_JUDGE_SCOPE": str(scope),
        "KAFKA_URI": f"tcp://{bootstrap}",
        "KAFKA_VERSION": "4.4.0",
        "KAFKA_ROOT": str(scratch),
        "BROKERS": bootstrap,
    }


def _cases(report: Path) -> list[Case]:
    if not report.is_file():
        return []
    root = ElementTree.parse(report).getroot()
    return [_case(element) for element in root.iter("testcase")]


def _case(element: ElementTree.Element) -> Case:
    name = f"{element.get('classname', '')}::{element.get('name', '')}"
    for child in element:
        if child.tag in {"failure", "error", "skipped"}:
            said = f"{child.get('message', '')}\n{child.text or ''}"
            return Case(name, f"{child.tag}: {said[-_SAID_CHARACTERS_MAX:]}")
    return Case(name, "")


def _script_cases(
    script: Script, root: Path, bootstrap: str, environment: Mapping[str, str]
) -> list[Case]:
    cases = []
    for functions in script.runs:
        code, output = run(
            [
                *(sys.executable, str(ADAPTER / "hermes_script.py")),
                *(str(root / script.path), bootstrap, *functions),
            ],
            root,
            environment,
            _SCRIPT_SECONDS_MAX,
        )
        done = [name for name in functions if f"{SCRIPT_DONE}{name}\n" in output]
        trouble = f"exit code {code}: {output[-_SAID_CHARACTERS_MAX:]}"
        cases += [Case(name, "" if name in done else trouble) for name in functions]
    return cases


def run(
    command: Sequence[str], directory: Path, environment: Mapping[str, str], seconds_max: float
) -> tuple[int, str]:
    """(exit code, the end of what it printed). Nothing that it started outlives it."""
    with tempfile.TemporaryFile() as printed:
        process = subprocess.Popen(
            command,
            cwd=directory,
            env=dict(environment),
            stdin=subprocess.DEVNULL,
            stdout=printed,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
        try:
            code = process.wait(seconds_max)
        except subprocess.TimeoutExpired:
            code = -1
        finally:
            _end(process)
        printed.seek(0, os.SEEK_END)
        printed.seek(max(0, printed.tell() - _OUTPUT_BYTES_MAX))
        output = printed.read().decode(errors="replace")
    if code == -1:
        output += f"\nnot done in {seconds_max:.0f} s"
    return code, output


def _end(process: subprocess.Popen[bytes]) -> None:
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()
