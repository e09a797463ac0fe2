"""The least of all limits on memory counts, whatever version of control groups sets it."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from broker.runtime.memory_limit import memory_limit_bytes

CODE = "from broker.runtime.memory_limit import memory_limit_bytes; print(memory_limit_bytes())"


def write(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)


@pytest.mark.parametrize(
    ("line", "directory", "name"),
    [("0::/a/b", "", "memory.max"), ("4:memory:/a/b", "memory", "memory.limit_in_bytes")],
    ids=["version 2", "version 1"],
)
def test_the_limit_of_a_group_or_of_one_above_it_is_found(
    tmp_path: Path, line: str, directory: str, name: str
) -> None:
    groups, root = tmp_path / "cgroup", tmp_path / "fs"
    write(groups, f"7:pids:/elsewhere\n{line}\n")
    machine = memory_limit_bytes(groups, root)
    write(root / directory / "a" / "b" / name, "max\n")
    assert memory_limit_bytes(groups, root) == machine
    write(root / directory / "a" / name, "5000000\n")
    assert memory_limit_bytes(groups, root) == 5_000_000
    write(root / directory / "a" / "b" / name, "4000000\n")
    assert memory_limit_bytes(groups, root) == 4_000_000


def test_a_limit_of_the_process_itself_counts() -> None:
    limit = 3 << 30
    printed = subprocess.run(
        ["prlimit", f"--data={limit}", sys.executable, "-c", CODE],
        capture_output=True,
        text=True,
        check=True,
    ).stdout
    assert int(printed) <= limit
