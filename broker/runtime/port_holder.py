"""Who listens on a TCP port, by Linux's /proc: for an error message only, so every doubt means
"unknown".
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Final

_LISTEN: Final = "0A"
"""The state in /proc/net/tcp."""


def describe_holder(port: int) -> str:
    """For example `process 4711 (python3 -m http.server)`; "" when the system does not tell."""
    try:
        inodes = _listening_inodes(port)
        for process in Path("/proc").iterdir():
            if process.name.isdigit() and _holds(process, inodes):
                return f"process {process.name} ({_command(process)})"
    except OSError:
        return ""
    return ""


def _listening_inodes(port: int) -> set[str]:
    inodes: set[str] = set()
    for table in (Path("/proc/net/tcp"), Path("/proc/net/tcp6")):
        if not table.exists():
            continue
        for line in table.read_text().splitlines()[1:]:
            columns = line.split()
            local_port = int(columns[1].rpartition(":")[2], 16)
            if local_port == port and columns[3] == _LISTEN:
                inodes.add(f"socket:[{columns[9]}]")
    return inodes


def _holds(process: Path, inodes: set[str]) -> bool:
    try:
        return any(os.readlink(descriptor) in inodes for descriptor in (process / "fd").iterdir())
    except OSError:
        return False  # another user's, or gone meanwhile


def _command(process: Path) -> str:
    try:
        return (
            (process / "cmdline")
            .read_bytes()
            .replace(b"\0", b" ")
            .decode(errors="replace")
            .strip()[:120]
        )
    except OSError:
        return "unknown command"
