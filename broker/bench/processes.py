"""Processes as Linux tells about them: processor time, memory, and who listens on a port."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final, NamedTuple

_CLOCK_TICKS: Final = os.sysconf("SC_CLK_TCK")
_PAGE_BYTES: Final = os.sysconf("SC_PAGE_SIZE")
_LISTENS: Final = "0A"
_HOLD: Final = 'kill -STOP "$@"; echo; read -r _; kill -CONT "$@"'


class Usage(NamedTuple):
    """CPU seconds since the process began, and resident bytes now; workers included."""

    cpu_s: float
    resident_bytes: int


def family_usage(pid: int) -> Usage:
    """Of a process and of those that it started."""
    usages = [_usage(member) for member in family(pid)]
    return Usage(sum(u.cpu_s for u in usages), sum(u.resident_bytes for u in usages))


def descriptor_count(pid: int) -> int:
    """Open descriptors of one process."""
    return sum(1 for _ in Path(f"/proc/{pid}/fd").iterdir())


def listener(port: int) -> int | None:
    """The process of this machine that listens on a TCP port; None when there is none, or when it
    is another user's.
    """
    inodes = {
        fields[9]
        for path in ("/proc/net/tcp", "/proc/net/tcp6")
        for fields in _table(path)
        if fields[3] == _LISTENS and int(fields[1].rpartition(":")[2], 16) == port
    }
    wanted = {f"socket:[{inode}]" for inode in inodes}
    for directory in Path("/proc").glob("[0-9]*/fd"):
        if wanted and any(target in wanted for target in _targets(directory)):
            return int(directory.parent.name)
    return None


def pin_threads(pid: int, cores: Iterable[int]) -> set[int]:
    """Every thread of a process to these cores; the cores that it had before."""
    before = os.sched_getaffinity(pid)
    for thread in Path(f"/proc/{pid}/task").iterdir():
        try:
            os.sched_setaffinity(int(thread.name), cores)
        except ProcessLookupError:  # it has ended meanwhile
            continue
    return before


@contextmanager
def standing_still(pid: int) -> Iterator[None]:
    """A process and those that it started stand still inside (SIGSTOP) and go on afterwards: a
    child sees to it, so that they do even when this process is killed.
    """
    held = map(str, family(pid))
    with subprocess.Popen(
        ["sh", "-c", _HOLD, "hold", *held],
        stdin=subprocess.PIPE,  # its end, whatever the reason, lets them go on
        stdout=subprocess.PIPE,
        start_new_session=True,  # a Ctrl-C in the terminal is not for it
    ) as holder:
        assert holder.stdout is not None
        holder.stdout.readline()
        yield


def _table(path: str) -> list[list[str]]:
    try:
        lines = Path(path).read_text(encoding="utf-8").splitlines()[1:]
    except OSError:
        return []
    return [line.split() for line in lines]


def _targets(directory: Path) -> list[str]:
    found = []
    try:
        for link in directory.iterdir():
            found.append(str(link.readlink()))  # noqa: PERF401 - kept when the process ends meanwhile
    except OSError:
        return found
    return found


def _usage(pid: int) -> Usage:
    fields = _stat(pid)
    if fields is None:
        return Usage(0.0, 0)
    # proc(5): fields 14 and 15 are user and system time in ticks, 24 the resident pages
    return Usage((int(fields[11]) + int(fields[12])) / _CLOCK_TICKS, int(fields[21]) * _PAGE_BYTES)


def _stat(pid: int) -> list[str] | None:
    """The fields of /proc/<pid>/stat from the third on; None when the process has gone."""
    try:
        return Path(f"/proc/{pid}/stat").read_text(encoding="utf-8").rpartition(")")[2].split()
    except OSError:
        return None


def family(root: int) -> list[int]:
    """A process and its descendants."""
    parents = {
        int(path.name): int(fields[1])
        for path in Path("/proc").glob("[0-9]*")
        if (fields := _stat(int(path.name))) is not None
    }
    family = [root]
    for pid in family:
        family += [child for child, parent in parents.items() if parent == pid]
    return family
