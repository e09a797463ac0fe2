"""Who holds a port that `hermes up` wants, found before anything is started.

Linux names the process through /proc; elsewhere, or for another user's process, only the port is
known. Nothing here stops anything.
"""

from __future__ import annotations

import contextlib
import socket
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Final, NamedTuple

from broker.up.options import HOST, Port

_LISTEN: Final = "0A"
_STEP: Final = 100
_COMMAND_CHARACTERS_MAX: Final = 120


class Holder(NamedTuple):
    """`pid` is None when the system would not say; `supervisor` would start it again if stopped."""

    pid: int | None
    command: str
    supervisor: int | None = None


def taken_ports(ports: Iterable[Port]) -> list[str]:
    """One sentence for each port that cannot be had: who holds it and what to do. [] when all are
    free.
    """
    problems = []
    claimed: dict[int, Port] = {}
    for port in ports:
        first = claimed.setdefault(port.number, port)
        if first is not port:
            problems.append(
                f"{first.flag} and {port.flag} both say {port.number}: choose two different ports."
            )
        elif not is_free(port.number):
            problems.append(_sentence(port, find_holder(port.number)))
    return problems


def is_free(number: int) -> bool:
    """Whether a server could listen on this port of the loopback address now."""
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((HOST, number))
        except OSError:
            return False
    return True


def find_holder(number: int) -> Holder | None:
    """The process that listens on this TCP port, None when nobody was found."""
    inodes = set(_listening_inodes(number))
    if not inodes:
        return None
    for process in Path("/proc").glob("[0-9]*"):
        if _holds_socket(process, inodes):
            return Holder(int(process.name), _command(process), _supervisor(process))
    return Holder(None, "")


def _sentence(port: Port, holder: Holder | None) -> str:
    free = next((n for n in range(port.number + _STEP, 65536, _STEP) if is_free(n)), None)
    other = f"hermes up {port.flag} {free}" if free else f"hermes up {port.flag} PORT"
    name = f"port {port.number} ({port.purpose})"
    if holder is None:
        return f"{name} cannot be had (not allowed for this user?). Choose another: {other}"
    if holder.pid is None:
        return f"{name} is taken by another user's process. Choose another: {other}"
    taken = f"{name} is taken by process {holder.pid} ({holder.command})"
    if holder.supervisor is not None:
        stop = f"under the `hermes up` of process {holder.supervisor}"
        return f"{taken}, {stop}. Stop that (kill {holder.supervisor}) or choose another: {other}"
    return f"{taken}. Stop it (kill {holder.pid}) or choose another: {other}"


def _listening_inodes(number: int) -> Iterator[str]:
    for table in (Path("/proc/net/tcp"), Path("/proc/net/tcp6")):
        try:
            rows = table.read_text(encoding="ascii").splitlines()[1:]
        except OSError:
            continue
        for row in rows:
            # sl, local address:port (hexadecimal), remote, state, …; the inode is the tenth column
            columns = row.split()
            if columns[3] == _LISTEN and int(columns[1].rpartition(":")[2], 16) == number:
                yield columns[9]


def _holds_socket(process: Path, inodes: set[str]) -> bool:
    with contextlib.suppress(OSError):
        for descriptor in (process / "fd").iterdir():
            with contextlib.suppress(OSError):
                target = str(descriptor.readlink())
                if target.startswith("socket:[") and target[8:-1] in inodes:
                    return True
    return False


def _supervisor(process: Path) -> int | None:
    """The parent of a child that some `hermes up` started."""
    with contextlib.suppress(OSError):
        if b"\0--supervised\0" in (process / "cmdline").read_bytes():
            fields = (process / "stat").read_text(encoding="utf-8").rpartition(")")[2].split()
            return int(fields[1])  # proc(5): state, then the parent's id
    return None


def _command(process: Path) -> str:
    try:
        raw = (process / "cmdline").read_bytes()
    except OSError:
        return "its command is unknown"
    text = " ".join(raw.decode(errors="replace").split("\0")).strip() or process.name
    if len(text) > _COMMAND_CHARACTERS_MAX:
        return text[:_COMMAND_CHARACTERS_MAX] + " …"
    return text
