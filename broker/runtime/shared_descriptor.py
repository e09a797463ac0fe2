"""A descriptor that several threads use: closed by the last of them, so that its number is never
reused under one; and its syncs, whose errors the system tells only once.
"""

from __future__ import annotations

import errno
import os
import threading
from collections.abc import Callable
from typing import TypeVar

T = TypeVar("T")


class Syncs:
    """Syncs by `function` of one descriptor, one at a time. The system tells one of them of an
    error, even when nobody waits for that one any more, and counts the pages as written: every
    later one gets the same error here.
    """

    def __init__(
        self, function: Callable[[int], None], on_error: Callable[[], None] = lambda: None
    ) -> None:
        """`on_error` is called in the thread that met the first one."""
        self._function = function
        self._on_error = on_error
        self._guard = threading.Lock()
        self._error: OSError | None = None

    def run(self, descriptor: int) -> None:
        """In a thread. Raises OSError."""
        with self._guard:
            if self._error is not None:
                raise OSError(self._error.errno, self._error.strerror)
            try:
                self._function(descriptor)
            except OSError as error:
                self._error = error
                self._on_error()
                raise


class SharedDescriptor:
    """Counts the threads inside one descriptor, and closes it when the last has left after
    `close`.
    """

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor
        self._guard = threading.Lock()
        self._count = 0
        self._is_closing: bool = False

    def run(self, function: Callable[..., T]) -> Callable[..., T]:
        """`function(descriptor, *arguments)` for a thread. Raises OSError EBADF in it when the file
        was closed before it ran.
        """

        def guarded(*arguments: object) -> T:
            return self.call(function, *arguments)

        return guarded

    def call(self, function: Callable[..., T], *arguments: object) -> T:
        """`run`, at once."""
        self._enter()
        try:
            return function(self._descriptor, *arguments)
        finally:
            self._leave()

    def _enter(self) -> None:
        with self._guard:
            if self._is_closing:
                raise OSError(errno.EBADF, "the file was closed")
            self._count += 1

    def _leave(self) -> None:
        with self._guard:
            self._count -= 1
            is_last = self._is_closing and self._count == 0
        if is_last:
            os.close(self._descriptor)

    def close(self) -> None:
        with self._guard:
            is_first = not self._is_closing
            self._is_closing = True
            is_idle = self._count == 0
        if is_first and is_idle:
            os.close(self._descriptor)
