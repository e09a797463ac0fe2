"""Who listens on a TCP port, by Linux's /proc: for what a person reads only, so every doubt means
"unknown".
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from pathlib import Path
from typing import Final, NamedTuple

_LISTEN: Final = "0A"
"""The state in /proc/net/tcp."""
_COMMAND_CHARACTERS_MAX: Final = 120


class Holder(NamedTuple):
    """`pid` is None, and `command` empty, when the system would not say."""

    pid: int | None
    command: str


def find_holder(port: int) -> Holder | None:
    """The process that listens on this TCP port; None when the system knows of no listener."""
    inodes = set(_listening_inodes(port))
    if not inodes:
        return None
    with contextlib.suppress(OSError):
        for process in Path("/proc").glob("[0-9]*"):
            if _holds_socket(process, inodes):
                return Holder(int(process.name), _command(process))
    return Holder(None, "")


def describe_holder(port: int) -> str:
    """For example `process 4711 (python3 -m http.server)`; "" when the system does not tell."""
    holder = find_holder(port)
    if holder is None or holder.pid is None:
        return ""
    return f"process {holder.pid} ({holder.command})"


def _listening_inodes(port: int) -> Iterator[str]:
    for table in (Path("/proc/net/tcp"), Path("/proc/net/tcp6")):
        try:
            rows = table.read_text(encoding="ascii").splitlines()[1:]
        except OSError:
            continue
        for row in rows:
            # sl, local address:port (hexadecimal), remote, state, …; the inode is the tenth column
            columns = row.split()
            if columns[3] == _LISTEN and int(columns[1].rpartition(":")[2], 16) == port:
                yield columns[9]


def _holds_socket(process: Path, inodes: set[str]) -> bool:
    with contextlib.suppress(OSError):  # another user's, or gone meanwhile
        for descriptor in (process / "fd").iterdir():
            with contextlib.suppress(OSError):
                target = str(descriptor.readlink())
                if target.startswith("socket:[") and target[8:-1] in inodes:
                    return True
    return False


def _command(process: Path) -> str:
    try:
        raw = (process / "cmdline").read_bytes()
    except OSError:
        return "its command is unknown"
    text = " ".join(raw.decode(errors="replace").split("\0")).strip() or process.name
    if len(text) > _COMMAND_CHARACTERS_MAX:
        return text[:_COMMAND_CHARACTERS_MAX] + " …"
    return text
