"""The Debian packages that the tests need beside Python's, and how to get them.

A package is there when one of its programs is on PATH or at a place where Debian puts it.
"""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Iterable, Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Final, NamedTuple


class SystemPackage(NamedTuple):
    """`programs` are names on PATH or absolute globs; any one of them will do."""

    name: str
    programs: tuple[str, ...]
    needed_for: str


PACKAGES: Final = (
    SystemPackage("git", ("git",), "the tidy tests, and suites of other projects"),
    SystemPackage("chromium", ("chromium", "chromium-browser", "google-chrome"), "browser tests"),
    SystemPackage("kcat", ("kcat", "kafkacat"), "conformance: kcat"),
    SystemPackage("faketime", ("faketime",), "faults: a wall clock that jumps"),
    SystemPackage("strace", ("strace",), "faults: a disk that fails"),
    SystemPackage(
        "e2fsprogs",
        ("mkfs.ext4", "/usr/sbin/mkfs.ext4", "/sbin/mkfs.ext4"),
        "faults: a disk that loses power",
    ),
    SystemPackage("mount", ("mount", "/bin/mount"), "faults: small disks"),
    SystemPackage("util-linux", ("prlimit",), "faults: few descriptors, little memory"),
    SystemPackage("zsh", ("zsh",), "completion of the command line in zsh"),
    SystemPackage("fish", ("fish",), "completion of the command line in fish"),
    SystemPackage("redis-server", ("redis-server",), "the console on Redis"),
    SystemPackage(
        "postgresql",
        ("postgres", "/usr/lib/postgresql/*/bin/postgres"),
        "the console on PostgreSQL",
    ),
    SystemPackage("default-jdk-headless", ("javac",), "conformance: the Java client and tools"),
    SystemPackage("maven", ("mvn",), "conformance: the Java client and tools"),
    SystemPackage("nodejs", ("node",), "conformance: kafkajs"),
    SystemPackage("npm", ("npm",), "conformance: kafkajs"),
)
_BY_NAME: Final[Mapping[str, SystemPackage]] = MappingProxyType({p.name: p for p in PACKAGES})


def missing_packages(names: Iterable[str] | None = None) -> list[str]:
    """Those of `names` (None: of all) whose programs are not on this machine."""
    wanted = list(_BY_NAME) if names is None else list(names)
    return [name for name in wanted if not _is_installed(_BY_NAME[name])]


def install_command(names: Iterable[str]) -> str:
    """What to type to install them on Debian or Ubuntu."""
    words = " ".join(names)
    prefix = "" if os.geteuid() == 0 else "sudo "
    return f"{prefix}apt-get update && {prefix}apt-get install -y --no-install-recommends {words}"


def install(names: Iterable[str]) -> bool:
    """Install with apt-get; whether everything is there afterwards. Needs root."""
    wanted = list(names)
    environment = {**os.environ, "DEBIAN_FRONTEND": "noninteractive"}
    for command in (
        ["apt-get", "update", "-q"],
        ["apt-get", "install", "-y", "-q", "--no-install-recommends", *wanted],
    ):
        subprocess.run(command, env=environment, stdin=subprocess.DEVNULL, check=False)
    return not missing_packages(wanted)


def can_install() -> bool:
    """Whether this process may install packages here."""
    return os.geteuid() == 0 and shutil.which("apt-get") is not None


def _is_installed(package: SystemPackage) -> bool:
    return any(_is_there(program) for program in package.programs)


def _is_there(program: str) -> bool:
    if program.startswith("/"):
        return any(Path("/").glob(program[1:]))
    return shutil.which(program) is not None
