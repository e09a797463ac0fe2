"""`hermes check`: everything that can be judged without running the product, two steps at a time.

| step      | judges                                                                   |
|-----------|--------------------------------------------------------------------------|
| lint      | ruff: the rules of pyproject.toml                                        |
| format    | ruff format: nobody argues about layout                                  |
| types     | mypy, strict                                                             |
| imports   | import-linter: arrows point down, pure code is pure                      |
| django    | the console's own system checks                                          |
| models    | every change of a model has its migration                                |
| templates | every template compiles and every address it names exists                |
| tidy      | tests/test_project.py: sizes, tables, generated pages, documents         |
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Final, NamedTuple

HOME: Final = Path(__file__).resolve().parent.parent.parent
_TOOLS: Final = Path(sys.executable).parent
_STEPS_AT_ONCE: Final = 2


class CheckStep(NamedTuple):
    """A command that succeeds silently or fails with what is wrong."""

    name: str
    command: tuple[str, ...]


class StepResult(NamedTuple):
    step: CheckStep
    is_ok: bool
    seconds: float
    output: str


def _python(*words: str) -> tuple[str, ...]:
    return (sys.executable, *words)


STEPS: Final = (
    CheckStep("types", _python("-m", "mypy", "--no-error-summary")),
    CheckStep("lint", (str(_TOOLS / "ruff"), "check", "--quiet", ".")),
    CheckStep("format", (str(_TOOLS / "ruff"), "format", "--quiet", "--check", ".")),
    CheckStep("imports", (str(_TOOLS / "lint-imports"), "--no-logo")),
    CheckStep("django", _python("manage.py", "check", "--fail-level", "WARNING")),
    CheckStep("models", _python("manage.py", "makemigrations", "--check", "--dry-run")),
    CheckStep("templates", _python("manage.py", "check_templates")),
    CheckStep("tidy", _python("-m", "pytest", "-q", "tests/test_project.py")),
)


def main(arguments: Sequence[str]) -> int:
    """0 when every step is content, 1 when one is not: its output is printed."""
    names = [step.name for step in STEPS]
    parser = argparse.ArgumentParser(
        prog="hermes check", description="Judge the repository without running the product."
    )
    parser.add_argument("steps", nargs="*", metavar="STEP", help=f"some of: {', '.join(names)}")
    parser.add_argument(
        "--fix", action="store_true", help="let ruff repair and format what it can, first"
    )
    options = parser.parse_args(arguments)
    if unknown := sorted(set(options.steps) - set(names)):
        parser.error(f"no step {', '.join(unknown)}; there are {', '.join(names)}")
    if options.fix:
        _fix()
    chosen = [step for step in STEPS if not options.steps or step.name in options.steps]
    with ThreadPoolExecutor(_STEPS_AT_ONCE) as pool:
        failed = [result for result in pool.map(_run, chosen) if not _print(result)]
    if failed:
        print(f"hermes check: failed: {', '.join(result.step.name for result in failed)}")
        return 1
    print("hermes check: all is well")
    return 0


def _run(step: CheckStep) -> StepResult:
    started_s = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="hermes-check-") as data:
        outcome = subprocess.run(
            step.command,
            cwd=HOME,
            env={**os.environ, "HERMES_DATA_DIR": data},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            errors="replace",
            check=False,
        )
    seconds = time.monotonic() - started_s
    return StepResult(step, outcome.returncode == 0, seconds, outcome.stdout)


def _print(result: StepResult) -> bool:
    word = "ok" if result.is_ok else "FAILED"
    print(f"{result.step.name:<10} {word:<7} {result.seconds:6.1f} s", flush=True)
    if not result.is_ok:
        print(f"$ {' '.join(result.step.command)}")
        print(result.output.rstrip(), flush=True)
    return result.is_ok


def _fix() -> None:
    for command in (("check", "--quiet", "--fix", "."), ("format", "--quiet", ".")):
        subprocess.run((str(_TOOLS / "ruff"), *command), cwd=HOME, check=False)
