"""What the system says about this process: memory, processor time, reads of the device."""

from __future__ import annotations

import os
import resource
import sys
from pathlib import Path
from typing import Final

_STATM: Final = Path("/proc/self/statm")
_IO: Final = Path("/proc/self/io")
_PAGE_BYTES: Final = resource.getpagesize()


def resident_bytes() -> int:
    """Resident memory now; where the system does not tell, its peak."""
    try:
        return int(_STATM.read_text().split()[1]) * _PAGE_BYTES
    except (OSError, IndexError, ValueError):
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        return peak if sys.platform == "darwin" else peak * 1024


def cpu_seconds() -> float:
    """User and system time of all threads since the start."""
    times = os.times()
    return times.user + times.system


def device_read_bytes() -> int | None:
    """What the device was read for on behalf of this process, read-ahead included (proc(5),
    read_bytes); None where the system does not tell.
    """
    try:
        lines = _IO.read_text().splitlines()
        return int(next(line for line in lines if line.startswith("read_bytes:")).split()[1])
    except (OSError, StopIteration, IndexError, ValueError):
        return None
