"""glibc's allocator settings for a process that handles megabyte blocks all day.

By default glibc maps and unmaps every block above a threshold that it moves itself; each cycle
costs page faults (measured: up to 6x the CPU for blocks of 1 MB and more). On other C libraries
this does nothing.
"""

from __future__ import annotations

import ctypes
import sys
from typing import Final

MMAP_THRESHOLD_BYTES: Final = (64 << 20, 32 << 20)
"""Tried in order: older glibc refuses more than half its heap size (32 MiB)."""
TRIM_THRESHOLD_BYTES: Final = 512 << 20

_M_TRIM_THRESHOLD: Final = -1  # malloc.h
_M_MMAP_THRESHOLD: Final = -3
_M_ARENA_MAX: Final = -8


MMAP_SHARE: Final = 1024
"""Blocks above one part in so many of it are given back at once: on the heap they leave holes."""
TRIM_SHARE: Final = 8
"""The heap keeps at most one part in so many of the memory that there is."""


def tune_allocator(memory_bytes: int) -> bool:
    """Keep big blocks on the heap and the heap in the process, which may use `memory_bytes` in all.
    Returns whether glibc took the settings.
    """
    if not sys.platform.startswith("linux"):
        return False
    try:
        mallopt = ctypes.CDLL(None).mallopt
    except (OSError, AttributeError):
        return False  # musl has no mallopt
    mallopt(_M_ARENA_MAX, 1)  # else each thread keeps freed blocks of its own, as much as all may
    mmap_bytes = memory_bytes // MMAP_SHARE
    is_mmap_set = any(
        mallopt(_M_MMAP_THRESHOLD, min(size, mmap_bytes)) == 1 for size in MMAP_THRESHOLD_BYTES
    )
    trim_bytes = min(TRIM_THRESHOLD_BYTES, memory_bytes // TRIM_SHARE)
    is_trim_set = mallopt(_M_TRIM_THRESHOLD, trim_bytes) == 1
    return is_mmap_set and is_trim_set
