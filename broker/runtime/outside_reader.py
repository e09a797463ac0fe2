"""Reading a data file in the worker process, without pushing others' pages out of memory."""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import Final

_NOWAIT: Final[int] = getattr(os, "RWF_NOWAIT", 0)


@dataclass(frozen=True, slots=True)
class FileReader:
    """Implements `ports.OutsideReader`: the file at `path`, opened for each read."""

    path: str

    def read(self, position: int, size: int) -> bytes:
        """At most `size` bytes, fewer only at the end. What had to come from the device does not
        stay in the page cache. Raises OSError.
        """
        descriptor = os.open(self.path, os.O_RDONLY | os.O_CLOEXEC)
        try:
            is_cached = _is_cached(descriptor, position, size)
            parts = []
            while size > 0 and (part := os.pread(descriptor, size, position)):
                parts.append(part)
                position, size = position + len(part), size - len(part)
            if not is_cached:
                begin = position - sum(map(len, parts))
                os.posix_fadvise(descriptor, begin, position - begin, os.POSIX_FADV_DONTNEED)
            return parts[0] if len(parts) == 1 else b"".join(parts)
        finally:
            os.close(descriptor)


def _is_cached(descriptor: int, position: int, size: int) -> bool:
    """Whether the page cache has all of it; True where the system cannot say."""
    if not _NOWAIT or not hasattr(os, "posix_fadvise"):
        return True
    os.posix_fadvise(descriptor, 0, 0, os.POSIX_FADV_RANDOM)  # no reading ahead
    try:
        found = os.preadv(descriptor, [bytearray(size)], position, _NOWAIT)
        return found == size or position + found >= os.fstat(descriptor).st_size
    except BlockingIOError:
        return False
    except OSError:
        return True
