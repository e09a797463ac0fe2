"""Who holds a port that `hermes up` wants, found before anything is started.

Linux names the process through /proc; elsewhere, or for another user's process, only the port is
known. Nothing here stops anything.
"""

from __future__ import annotations

import contextlib
import socket
from collections.abc import Iterable
from pathlib import Path
from typing import Final

from broker.runtime.port_holder import Holder, find_holder
from broker.up.options import HOST, Port

_STEP: Final = 100
"""How far apart the ports are that are proposed instead."""


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


def _sentence(port: Port, holder: Holder | None) -> str:
    free = next((n for n in range(port.number + _STEP, 65536, _STEP) if is_free(n)), None)
    other = f"hermes up {port.flag} {free}" if free else f"hermes up {port.flag} PORT"
    name = f"port {port.number} ({port.purpose})"
    if holder is None:
        return f"{name} cannot be had (not allowed for this user?). Choose another: {other}"
    if holder.pid is None:
        return f"{name} is taken by another user's process. Choose another: {other}"
    taken = f"{name} is taken by process {holder.pid} ({holder.command})"
    supervisor = _supervisor(holder.pid)
    if supervisor is not None:
        stop = f"under the `hermes up` of process {supervisor}"
        return f"{taken}, {stop}. Stop that (kill {supervisor}) or choose another: {other}"
    return f"{taken}. Stop it (kill {holder.pid}) or choose another: {other}"


def _supervisor(pid: int) -> int | None:
    """The parent of a child that some `hermes up` started: it would start the child again."""
    process = Path("/proc") / str(pid)
    with contextlib.suppress(OSError):
        if b"\0--supervised\0" in (process / "cmdline").read_bytes():
            fields = (process / "stat").read_text(encoding="utf-8").rpartition(")")[2].split()
            return int(fields[1])  # proc(5): state, then the parent's id
    return None
