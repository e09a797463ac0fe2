"""Keeps appends from waiting in the kernel: dirty pages go to the device early, and a file that
grows fast has its blocks before it writes to them.

Without it an append to the page cache waits for tens of milliseconds whenever the kernel holds
writers back because too many pages are dirty, or while its own writeback allocates blocks of the
same file. Nothing here makes anything durable, and no error is consumed: that is `DiskFile.sync`.
Where the system lacks the calls (they are Linux's) nothing happens.
"""

from __future__ import annotations

import ctypes
import os
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Final

from broker.runtime.linux import linux_call

STEP_BYTES: Final = 4 * 1024 * 1024
"""Appended since the last step, this much goes to the device."""
AHEAD_BYTES: Final = 64 * 1024 * 1024
"""Blocks set aside at a time for a file that grows fast; it holds at most 1.5 times as much."""
AHEAD_FILES_MAX: Final = 16
"""Files of one disk that may hold blocks set aside."""
FREE_BYTES_MIN: Final = 8 * AHEAD_FILES_MAX * AHEAD_BYTES
"""With less room on the device nothing is set aside."""
FAST_STEP_S: Final = 1.0
"""A file whose last step took less grows fast."""
PAGE_BYTES: Final = 4096

_KEEP_SIZE: Final = 1  # FALLOC_FL_KEEP_SIZE
_START_WRITING: Final = 2  # SYNC_FILE_RANGE_WRITE: starts, neither waits nor reports


_fallocate = linux_call("fallocate", ctypes.c_int, ctypes.c_int, ctypes.c_int64, ctypes.c_int64)
_sync_file_range = linux_call(
    "sync_file_range", ctypes.c_int, ctypes.c_int64, ctypes.c_int64, ctypes.c_uint
)


class WritebackThread:
    """The one thread of a disk that starts writeback, and how many of its files hold blocks set
    aside.
    """

    def __init__(self) -> None:
        self.executor = ThreadPoolExecutor(1, thread_name_prefix="disk-writeback")
        self.files_ahead = 0

    def run(self, function: Callable[[], None]) -> bool:
        """Whether `function` will run in the thread: not after `close`."""
        try:
            self.executor.submit(function)
        except RuntimeError:
            return False
        return True

    def close(self) -> None:
        """Never waits for the device."""
        self.executor.shutdown(wait=False, cancel_futures=True)


class Writeback:
    """Of one file that is appended to, `size` bytes long now. `guard(function)` is
    `function(descriptor, *arguments)` for a thread; it raises OSError when the file was closed.
    """

    __slots__ = ("_ahead_end", "_guard", "_is_busy", "_started_end", "_step_at_s", "_thread")

    def __init__(
        self,
        thread: WritebackThread,
        guard: Callable[[Callable[..., None]], Callable[..., None]],
        size: int,
    ) -> None:
        self._thread = thread
        self._guard = guard
        self._started_end = size
        self._ahead_end: int | None = None
        self._step_at_s = float("-inf")
        self._is_busy = False

    @property
    def has_ahead(self) -> bool:
        """Whether the file may hold blocks behind its end."""
        return self._ahead_end is not None

    def note_append(self, size: int) -> None:
        """Begin a step when enough was appended since the last one. A device that is slower than
        the appends has one step under way, never a queue of them.
        """
        if size - self._started_end < STEP_BYTES or self._is_busy:
            return
        now_s = time.monotonic()
        begin, self._started_end = self._started_end, size - size % PAGE_BYTES
        is_fast, self._step_at_s = now_s - self._step_at_s < FAST_STEP_S, now_s
        ahead = self._next_ahead(size) if is_fast else None
        work = self._guard(_step)
        self._is_busy = True  # before the thread, which may be through at once
        if not self._thread.run(partial(self._run, work, begin, self._started_end - begin, ahead)):
            self._is_busy = False

    def note_trimmed(self, size: int) -> None:
        """The file was cut to `size`, which frees the blocks behind it."""
        self._started_end = min(self._started_end, size)
        if self._ahead_end is not None:
            self._ahead_end = None
            self._thread.files_ahead -= 1

    def _next_ahead(self, size: int) -> tuple[int, int] | None:
        """Where the next blocks to set aside begin, and how many bytes; None: none now."""
        if self._ahead_end is None:
            if self._thread.files_ahead >= AHEAD_FILES_MAX:
                return None
            self._thread.files_ahead += 1
            self._ahead_end = size
        if self._ahead_end - size > AHEAD_BYTES // 2:
            return None
        first = max(self._ahead_end, size)
        self._ahead_end = first + AHEAD_BYTES
        return first, AHEAD_BYTES

    def _run(
        self,
        work: Callable[..., None],
        begin: int,
        length: int,
        ahead: tuple[int, int] | None,
    ) -> None:
        try:
            work(begin, length, ahead)
        except OSError:
            pass  # the file was closed meanwhile: there is nothing left to speed up
        finally:
            self._is_busy = False


def _step(descriptor: int, begin: int, length: int, ahead: tuple[int, int] | None) -> None:
    """Refusals are ignored: whatever is wrong with the device, the append or the sync meets it."""
    if ahead is not None and _fallocate is not None:
        found = os.fstatvfs(descriptor)
        if found.f_bavail * found.f_frsize >= FREE_BYTES_MIN:
            _fallocate(descriptor, _KEEP_SIZE, *ahead)
    if _sync_file_range is not None:
        _sync_file_range(descriptor, begin, length, _START_WRITING)
