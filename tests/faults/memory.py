"""A memory cgroup for a broker, of the version that this machine has. Needs root; a machine that
cannot says so with the command that was tried.
"""

from __future__ import annotations

import contextlib
import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

ROOT_V1 = Path("/sys/fs/cgroup/memory")
ROOT_V2 = Path("/sys/fs/cgroup")
EMPTY_S = 10


class MemoryGroup(NamedTuple):
    """`prefix` runs a command in it."""

    path: Path
    is_v2: bool

    @property
    def prefix(self) -> list[str]:
        join = f'echo $$ > "{self.path}/cgroup.procs" && exec "$@"'
        return ["sh", "-c", join, "sh"]

    @property
    def killed_count(self) -> int:
        """Processes that the kernel killed for want of memory."""
        name = "memory.events" if self.is_v2 else "memory.oom_control"
        lines = (self.path / name).read_text().splitlines()
        return sum(int(line.split()[1]) for line in lines if line.startswith("oom_kill "))


@contextmanager
def memory_group(limit_bytes: int) -> Iterator[MemoryGroup]:
    """With so much memory, page cache included; gone afterwards."""
    is_v2 = (ROOT_V2 / "cgroup.controllers").exists()
    path = (ROOT_V2 if is_v2 else ROOT_V1) / f"hermes-test-{os.getpid()}-{time.monotonic_ns()}"
    limit = path / ("memory.max" if is_v2 else "memory.limit_in_bytes")
    try:
        if is_v2:
            (ROOT_V2 / "cgroup.subtree_control").write_text("+memory")
        path.mkdir()
        limit.write_text(str(limit_bytes))
    except OSError as error:
        message = (
            f"no memory cgroup (as root: mkdir {path} && echo {limit_bytes} > {limit}): {error}"
        )
        raise AssertionError(message) from error
    try:
        yield MemoryGroup(path, is_v2)
    finally:
        deadline = time.monotonic() + EMPTY_S
        while path.exists():
            with contextlib.suppress(OSError):
                path.rmdir()
                break
            assert time.monotonic() < deadline, f"{path} still has processes"
            time.sleep(0.05)
