"""Calls of Linux's C library that Python does not have. They release the GIL."""

from __future__ import annotations

import ctypes
import os
import struct
from collections.abc import Callable
from typing import Any, Final

HONEST_SYNCFS: Final = (5, 17)
"""Older kernels hide errors at syncfs: before 5.8 all of them (Linux commit 735e4ae5ba28), before
5.17 the file system's own (5679897eb104).
"""
HONEST_FILE_SYSTEMS: Final = {
    0xEF53: "ext2, ext3, ext4",
    0x58465342: "XFS",
    0x9123683E: "btrfs",
    0xF2F52010: "F2FS",
    0x01021994: "tmpfs",
}
"""By `f_type` (statfs(2)). On others syncfs hides errors: overlayfs keeps those of the layer below
to itself, FUSE does not ask whoever stores.
"""


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
_fstatfs = linux_call("fstatfs", ctypes.c_int, ctypes.c_char_p)
_STATFS_BYTES: Final = 256
"""At least those of a `struct statfs`, which begins with the type, a long."""


def has_honest_syncfs(release: str | None = None) -> bool:
    """Whether `sync_file_system` can be used here, with a kernel of that release (default: the
    running one) whose syncfs reports what could not be written.
    """
    numbers = (os.uname().release if release is None else release).split(".")[:2]
    digits = [part for part in numbers if part.isdigit()]
    return _syncfs is not None and tuple(map(int, digits)) >= HONEST_SYNCFS


def is_syncfs_honest(descriptor: int) -> bool:
    """Whether `sync_file_system` can be believed here for the file system of `descriptor`."""
    if _fstatfs is None or not has_honest_syncfs():
        return False
    found = ctypes.create_string_buffer(_STATFS_BYTES)
    if _fstatfs(descriptor, found) != 0:
        return False
    return struct.unpack_from("@l", found)[0] & 0xFFFFFFFF in HONEST_FILE_SYSTEMS


def sync_file_system(descriptor: int) -> None:
    """Everything written to the file system of `descriptor` is durable. Raises OSError, once for
    what failed since the descriptor was opened or last asked.
    """
    assert _syncfs is not None, "asked where is_syncfs_honest says no"
    if _syncfs(descriptor) != 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))
