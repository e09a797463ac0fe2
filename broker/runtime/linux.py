"""Calls of Linux's C library that Python does not have. They release the GIL."""

from __future__ import annotations

import ctypes
import os
from collections.abc import Callable
from typing import Any, Final

HONEST_SYNCFS: Final = (5, 8)
"""Kernels before this one do not tell of errors at syncfs (Linux commit 735e4ae5ba28)."""


def linux_call(name: str, *arguments: type[ctypes._SimpleCData[Any]]) -> Callable[..., int] | None:
    """The C library's function; None where there is none. A call that returns -1 has set
    `ctypes.get_errno`.
    """
    try:
        function = getattr(ctypes.CDLL(None, use_errno=True), name)
    except (AttributeError, OSError):
        return None
    function.argtypes = arguments
    function.restype = ctypes.c_int
    return function  # type: ignore[no-any-return]


_syncfs = linux_call("syncfs", ctypes.c_int)


def has_honest_syncfs(release: str | None = None) -> bool:
    """Whether `sync_file_system` can be used here, with a kernel of that release (default: the
    running one) whose syncfs reports what could not be written.
    """
    numbers = (os.uname().release if release is None else release).split(".")[:2]
    digits = [part for part in numbers if part.isdigit()]
    return _syncfs is not None and tuple(map(int, digits)) >= HONEST_SYNCFS


def sync_file_system(descriptor: int) -> None:
    """Everything written to the file system of `descriptor` is durable. Raises OSError, once for
    what failed since the descriptor was opened or last asked.
    """
    assert _syncfs is not None, "asked where has_honest_syncfs says no"
    if _syncfs(descriptor) != 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))
