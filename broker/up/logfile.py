"""One child's log file: bounded, appended to by the child itself, cut by the supervisor.

The child writes to the file directly (its output survives the supervisor's death), so a rotation
copies the file aside and truncates it: `O_APPEND` makes the child go on at the new end. What is
written between the copy and the cut is lost. Its owner alone reads it.
"""

from __future__ import annotations

import os
import shutil
from pathlib import Path
from typing import Final

LOG_BYTES_MAX: Final = 10 * 1024 * 1024
"""Bound of a log file; one older part of the same size is kept beside it as `<name>.log.1`."""
TAIL_LINES: Final = 20
_TAIL_BYTES: Final = 16 * 1024


class LogFile:
    """`path` is `<directory>/<name>.log`."""

    def __init__(self, directory: Path, name: str) -> None:
        self.path = directory / f"{name}.log"
        self._older = directory / f"{name}.log.1"

    def open_for_child(self) -> int:
        """A file descriptor that appends; the caller closes it once the child has it."""
        self.path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        return os.open(self.path, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o600)

    def rotate_if_large(self, bytes_max: int = LOG_BYTES_MAX) -> bool:
        """Whether the file was over the bound and has been set aside."""
        try:
            if self.path.stat().st_size <= bytes_max:
                return False
        except FileNotFoundError:
            return False
        shutil.copyfile(self.path, self._older)
        os.truncate(self.path, 0)
        return True

    def size(self) -> int:
        """Bytes now: where what is written from now on begins (until the next rotation)."""
        try:
            return self.path.stat().st_size
        except FileNotFoundError:
            return 0

    def tail(self, since: int = 0) -> list[str]:
        """The last lines written at or after position `since`, oldest first, at most TAIL_LINES."""
        return self._lines(since)[-TAIL_LINES:]

    def find(self, prefix: str, since: int) -> str | None:
        """What follows `prefix` in the first recent line that begins with it, None without one."""
        found = (line for line in self._lines(since) if line.startswith(prefix))
        line = next(found, None)
        return None if line is None else line.removeprefix(prefix).strip()

    def _lines(self, since: int) -> list[str]:
        try:
            with self.path.open("rb") as file:
                end = file.seek(0, os.SEEK_END)
                file.seek(max(end - _TAIL_BYTES, since if since <= end else 0))
                text = file.read().decode(errors="replace")
        except FileNotFoundError:
            return []
        return [line for line in text.splitlines() if line.strip()]
