"""A memory cgroup of this benchmark's own, so that a page cache can be small; version 1 or 2,
whichever the machine has. Needs the right to make one (root, or a delegated subtree).
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Final

_V1: Final = Path("/sys/fs/cgroup/memory")
_V2: Final = Path("/sys/fs/cgroup")
EMPTY_S_MAX: Final = 10.0


@contextmanager
def limited_memory(pid: int, limit_bytes: int) -> Iterator[str | None]:
    """The process and its children share `limit_bytes`, their page cache included. Gives None, or
    why this machine cannot. The process must have ended when the context ends, or it goes back.
    """
    found = _hierarchy()
    if found is None:
        yield "there is no memory controller in /sys/fs/cgroup"
        return
    base, limit_name = found
    group = base / f"hermes-bench-{os.getpid()}"
    origin = _origin(pid, base)
    try:
        group.mkdir()
        (group / limit_name).write_text(str(limit_bytes))
        (group / "cgroup.procs").write_text(str(pid))
    except OSError as error:
        with suppress(OSError):
            group.rmdir()
        yield f"no cgroup can be made in {base}: {error}"
        return
    try:
        yield None
    finally:
        for member in (group / "cgroup.procs").read_text().split():
            with suppress(OSError):
                (origin / "cgroup.procs").write_text(member)
        _remove(group)


def evict(directory: Path) -> int:
    """Drop all files below `directory` from the page cache, written out first; bytes that they
    have.
    """
    size = 0
    for path in directory.rglob("*"):
        if path.is_file():
            descriptor = os.open(path, os.O_RDONLY)
            try:
                os.fdatasync(descriptor)
                os.posix_fadvise(descriptor, 0, 0, os.POSIX_FADV_DONTNEED)
                size += os.fstat(descriptor).st_size
            finally:
                os.close(descriptor)
    return size


def _hierarchy() -> tuple[Path, str] | None:
    """(where groups are made, the name of the limit)."""
    if (_V1 / "memory.limit_in_bytes").is_file() or (_V1 / "cgroup.procs").is_file():
        return _V1, "memory.limit_in_bytes"
    controllers = _V2 / "cgroup.subtree_control"
    if controllers.is_file() and "memory" in controllers.read_text().split():
        return _V2, "memory.max"
    return None


def _origin(pid: int, base: Path) -> Path:
    """The group that the process is in now."""
    for line in Path(f"/proc/{pid}/cgroup").read_text(encoding="utf-8").splitlines():
        _, controllers, path = line.split(":", 2)
        if (base == _V1 and controllers == "memory") or (base == _V2 and not controllers):
            return base / path.lstrip("/")
    return base


def _remove(group: Path) -> None:
    """The kernel takes a moment to forget the last process."""
    deadline_s = time.monotonic() + EMPTY_S_MAX
    while time.monotonic() < deadline_s:
        try:
            group.rmdir()
        except OSError:
            time.sleep(0.05)
        else:
            return
