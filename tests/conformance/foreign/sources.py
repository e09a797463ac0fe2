"""Getting a suite: an sdist from PyPI by its hash, or a commit of a git repository by its id.

Only the tests are unpacked, below `.suites/` beside this file: the client that they judge is the
one of the tools' environment.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tarfile
import tempfile
from pathlib import Path
from typing import Final

from tests.conformance.foreign.suites import Checkout, Sdist, Suite

SUITES_HOME: Final = Path(__file__).parent / ".suites"
_SECONDS_MAX: Final = 300


class SourceMissing(Exception):
    """The suite could not be got; the message says what was tried and what to do."""


def root_of(suite: Suite) -> Path:
    """The directory with the suite's tests, got first when it is not there.

    Raises SourceMissing.
    """
    root = SUITES_HOME / f"{suite.name}-{suite.source.identity[:16]}"
    if root.is_dir():
        return root
    SUITES_HOME.mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory(dir=SUITES_HOME) as directory:
        got = Path(directory) / "got"
        got.mkdir()
        match suite.source:
            case Sdist():
                _unpack_sdist(suite.source, Path(directory), got)
            case Checkout():
                _unpack_commit(suite.source, Path(directory), got)
        for name in suite.packages:
            (got / name / "__init__.py").touch()
        got.rename(root)
    return root


def _unpack_sdist(source: Sdist, directory: Path, got: Path) -> None:
    """pip refuses a file whose hash is another."""
    lock = directory / "lock.txt"
    lock.write_text(f"{source.project}=={source.version} --hash=sha256:{source.sha256}\n")
    downloads = directory / "downloads"
    _run(
        [
            *(sys.executable, "-m", "pip", "download", "--quiet", "--no-deps"),
            *("--no-binary", ":all:", "--require-hashes", "--requirement", str(lock)),
            *("--dest", str(downloads)),
        ],
        f"{source.label} from PyPI",
        "check that this machine reaches PyPI (pip's settings), then run the tests again",
    )
    (archive,) = downloads.iterdir()
    whole = directory / "whole"
    with tarfile.open(archive) as tar:
        tar.extractall(whole, filter="data")
    (top,) = whole.iterdir()
    shutil.move(str(top / source.directory), got / source.directory)


def _unpack_commit(source: Checkout, directory: Path, got: Path) -> None:
    """A commit's id proves its content, wherever the repository is."""
    url = os.environ.get(source.variable, "")
    if not url:
        raise SourceMissing(
            f"{source.label} is not on PyPI: name its git repository, or a copy that has commit"
            f" {source.commit}, in {source.variable}; `hermes test` leaves this judge out"
        )
    git = ["git", "-C", str(directory / "repository")]
    (directory / "repository").mkdir()
    advice = (
        f"it needs {url}, which this machine may not reach: give another repository with that"
        f" commit in {source.variable}, or run `hermes test`, which leaves this judge out"
    )
    for command in (
        [*git, "init", "--quiet"],
        [*git, "fetch", "--quiet", "--depth=1", url, source.commit],
        [
            *git,
            "archive",
            "--output",
            str(directory / "whole.tar"),
            source.commit,
            source.directory,
        ],
    ):
        _run(command, f"{source.label} at {source.commit[:12]}", advice)
    with tarfile.open(directory / "whole.tar") as tar:
        tar.extractall(got, filter="data")


def _run(command: list[str], what: str, advice: str) -> None:
    try:
        finished = subprocess.run(
            command, capture_output=True, timeout=_SECONDS_MAX, check=False, env=_environment()
        )
    except subprocess.TimeoutExpired as error:
        message = f"cannot get {what} in {_SECONDS_MAX} s; {advice}"
        raise SourceMissing(message) from error
    if finished.returncode != 0:
        said = (finished.stdout + finished.stderr).decode(errors="replace")[-1500:]
        message = f"cannot get {what}: {said.strip()}\n{advice}"
        raise SourceMissing(message)


def _environment() -> dict[str, str]:
    return {**os.environ, "GIT_TERMINAL_PROMPT": "0"}
