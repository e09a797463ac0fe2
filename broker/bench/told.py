"""What a load process is told by its parent: a line on its standard input ends it."""

from __future__ import annotations

import sys
import threading


class Told:
    """Whether the parent has told this process to end, and with which line."""

    def __init__(self) -> None:
        self.line = ""
        self.is_told = False
        threading.Thread(target=self._read, daemon=True).start()

    def _read(self) -> None:
        self.line = sys.stdin.readline()
        self.is_told = True
