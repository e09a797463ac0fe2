"""How much memory this process may use: the least of the machine's, its control groups' (both
versions, with all above them) and its own limits.

Not here: what is done with it. What the system does not tell is no limit.
"""

from __future__ import annotations

import os
import resource
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Final

_GROUPS: Final = Path("/proc/self/cgroup")
_ROOT: Final = Path("/sys/fs/cgroup")
_LIMITS: Final = (resource.RLIMIT_AS, resource.RLIMIT_DATA)


def memory_limit_bytes(groups: Path = _GROUPS, root: Path = _ROOT) -> int:
    """Bytes, page cache and children included where a control group sets it. The paths are for
    tests.
    """
    return min(
        [
            os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE"),
            *(soft for soft, _ in map(resource.getrlimit, _LIMITS) if soft > 0),
            *_group_limits(groups, root),
        ]
    )


def _group_limits(groups: Path, root: Path) -> Iterator[int]:
    lines: list[str] = []
    with suppress(OSError):
        lines = groups.read_text().splitlines()
    for line in lines:
        _, controllers, path = line.split(":", 2)
        if not controllers:
            yield from _limits_up(root, path, "memory.max")
        elif "memory" in controllers.split(","):
            yield from _limits_up(root / "memory", path, "memory.limit_in_bytes")


def _limits_up(root: Path, path: str, name: str) -> Iterator[int]:
    """The group's own limit and those of all above it. In a container the path may not exist: then
    the root is the group.
    """
    group = root / path.strip("/")
    for each in (group, *group.parents):
        with suppress(OSError, ValueError):
            yield int((each / name).read_text())
        if each == root:
            return
