"""How many descriptors this process may open, and how many it has. Storage must never be starved by
connections.
"""

from __future__ import annotations

import os
import resource
from pathlib import Path
from typing import Final

_DESCRIPTOR_DIRECTORIES: Final = (Path("/proc/self/fd"), Path("/dev/fd"))


def raise_descriptor_limit() -> int:
    """Lift the soft limit to the hard one. Returns the limit now in force."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft != hard:
        try:
            resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
        except (ValueError, OSError):
            return soft  # macOS reports an unlimited hard limit that it then refuses
    return resource.getrlimit(resource.RLIMIT_NOFILE)[0]


def descriptor_limit() -> int:
    """The soft limit in force."""
    return resource.getrlimit(resource.RLIMIT_NOFILE)[0]


def open_descriptor_count() -> int:
    """Descriptors open now; 0 when the system does not tell."""
    for directory in _DESCRIPTOR_DIRECTORIES:
        try:
            return len(os.listdir(directory)) - 1  # the listing itself holds one
        except OSError:
            continue
    return 0
