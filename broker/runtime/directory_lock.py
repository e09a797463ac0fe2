"""One process per data directory: an flock on `<root>/lock`, which the kernel releases even when
its holder is killed.
"""

from __future__ import annotations

import errno
import fcntl
import os
from pathlib import Path
from typing import Final, Self

from broker.ports import DiskFault

LOCK_FILE: Final = "lock"


class DirectoryLock:
    """Held from `take` to `release`. The file holds the pid of its last holder, for messages
    only.
    """

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor

    @classmethod
    def take(cls, root: Path) -> Self:
        """Raises DiskFault with one sentence: who holds the directory, or why it cannot be used."""
        path = root / LOCK_FILE
        try:
            descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
        except OSError as error:
            raise DiskFault(
                str(root), f"cannot be used as a data directory: {error.strerror}"
            ) from error
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            os.ftruncate(descriptor, 0)
            os.write(descriptor, f"{os.getpid()}\n".encode())
        except OSError as error:
            reason = _explain(descriptor, error)
            os.close(descriptor)
            raise DiskFault(str(root), reason) from error
        return cls(descriptor)

    def release(self) -> None:
        os.close(self._descriptor)


def _explain(descriptor: int, error: OSError) -> str:
    if error.errno not in (errno.EWOULDBLOCK, errno.EACCES):
        return f"cannot be locked: {error.strerror}"
    holder = os.pread(descriptor, 32, 0).decode(errors="replace").strip() or "unknown"
    return f"is in use by process {holder}: stop it first, or choose another data directory"
