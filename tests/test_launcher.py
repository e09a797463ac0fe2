"""The launcher on a copy of itself with an empty lock: real environments, no packages."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
RUN = """
import runpy, sys
sys.path.insert(0, sys.argv.pop(1))
runpy.run_module("broker", run_name="__main__")
"""


@pytest.fixture
def home(tmp_path: Path) -> Path:
    shutil.copy(ROOT / "hermes", tmp_path / "hermes")
    (tmp_path / "requirements.lock").write_text("")
    (tmp_path / "requirements-dev.lock").write_text("# the tools\n")
    (tmp_path / "broker").mkdir()
    (tmp_path / "broker" / "__init__.py").touch()
    (tmp_path / "broker" / "__main__.py").write_text(
        "import sys; print('ran', *sys.argv[1:], sys.prefix)"
    )
    return tmp_path


def launch(home: Path, *arguments: str, **environment: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [str(home / "hermes"), *arguments],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, **environment},
        start_new_session=True,
    )


def finish(process: subprocess.Popen[str]) -> tuple[int, str, str]:
    output, errors = process.communicate(timeout=100)
    return process.returncode, output, errors


def environments(home: Path) -> list[Path]:
    return sorted(path for path in (home / ".venvs").iterdir() if (path / "bin").is_dir())


def test_two_starts_at_once_share_one_environment_and_a_third_makes_none(home: Path) -> None:
    outcomes = [finish(start) for start in [launch(home, "version"), launch(home, "version")]]
    for code, output, errors in outcomes:
        assert code == 0, errors
        assert output.startswith("ran version")
    [environment] = environments(home)
    assert (home / ".venv").resolve() == environment.resolve()
    code, output, errors = finish(launch(home, "up", "--demo"))
    assert output.split() == ["ran", "up", "--demo", str(environment)]
    assert "making" not in errors
    assert environments(home) == [environment]


def test_an_interrupted_creation_is_not_taken_for_an_environment(home: Path) -> None:
    first = launch(home, "version")
    end = time.monotonic() + 30
    while not list((home / ".venvs").glob(".building-*/bin/python*")):
        assert time.monotonic() < end
        time.sleep(0.01)
    os.killpg(first.pid, signal.SIGKILL)
    first.communicate()
    assert list((home / ".venvs").glob(".building-*"))
    code, output, errors = finish(launch(home, "version"))
    assert code == 0, errors
    assert output.startswith("ran version")
    assert not list((home / ".venvs").glob(".building-*"))
    assert len(environments(home)) == 1


def test_a_machine_without_python_is_told_what_to_install(home: Path, tmp_path: Path) -> None:
    tools = tmp_path / "tools"
    tools.mkdir()
    for name in ("sh", "dirname", "cut", "cat", "sha256sum", "readlink", "mkdir", "tr", "cksum"):
        (tools / name).symlink_to(shutil.which(name) or "/bin/false")
    code, _, errors = finish(launch(home, "up", PATH=str(tools)))
    assert code == 1
    assert "needs Python 3.11 or newer" in errors
    assert "apt-get install python3 python3-venv" in errors
    assert not environments_exist(home)


def environments_exist(home: Path) -> bool:
    return (home / ".venvs").is_dir() and bool(environments(home))


def test_a_failed_installation_says_so_and_leaves_nothing_behind(home: Path) -> None:
    (home / "requirements.lock").write_text("hermesmq-no-such-package==1 --hash=sha256:00\n")
    code, _, errors = finish(launch(home, "version", PIP_NO_INDEX="1"))
    assert code == 1
    assert "could not make the environment" in errors
    assert environments(home) == []
    assert not list((home / ".venvs").glob(".building-*"))


def test_the_tools_environment_serves_every_command_once_it_exists(home: Path) -> None:
    assert finish(launch(home, "check"))[0] == 0
    [tools] = environments(home)
    code, output, errors = finish(launch(home, "version"))
    assert code == 0
    assert output.split() == ["ran", "version", str(tools)]
    assert "making" not in errors


@pytest.mark.parametrize("words", ["--help", "test --help", "test --stage unit -h", "check --help"])
def test_help_is_answered_without_an_environment(home: Path, words: str) -> None:
    code, output, errors = finish(launch(home, *words.split()))
    assert (code, errors) == (0, "")
    assert output.startswith(f"ran {words}")
    assert not environments_exist(home)


def test_help_that_is_meant_for_pytest_gets_an_environment(home: Path) -> None:
    code, output, _ = finish(launch(home, "test", "--", "--help"))
    [environment] = environments(home)
    assert (code, output.split()) == (0, ["ran", "test", "--", "--help", str(environment)])


def test_help_of_the_real_commands_needs_the_standard_library_alone() -> None:
    for words in (["test", "--help"], ["check", "--help"], ["--help"]):
        # With -I and -S no package that is installed can be found.
        done = subprocess.run(
            [sys.executable, "-I", "-S", "-c", RUN, str(ROOT), *words],
            capture_output=True,
            text=True,
            check=False,
            timeout=60,
        )
        assert (done.returncode, done.stderr) == (0, ""), words
        assert "usage: hermes" in done.stdout
