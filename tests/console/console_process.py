"""A real console in a process of its own, for tests: start, signal, read what it printed."""

from __future__ import annotations

import os
import re
import select
import subprocess
import sys
import time
from collections.abc import Mapping
from pathlib import Path
from types import TracebackType

ROOT = Path(__file__).parents[2]
READY = re.compile(r"^ready console=(\S+)$", re.MULTILINE)
LINK = re.compile(r"^signin=(\S+)$", re.MULTILINE)
READY_S_MAX = 60.0
END_S_MAX = 15.0


class ConsoleProcess:
    """As a context manager: ready inside, gone afterwards. `log` is what it wrote to stderr."""

    def __init__(
        self,
        data: Path,
        *,
        bootstrap: str,
        metrics_url: str = "",
        arguments: tuple[str, ...] = (),
        variables: Mapping[str, str] | None = None,
    ) -> None:
        self._data = data
        self._variables: Mapping[str, str] = {
            "HERMES_DATA_DIR": str(data),
            "HERMES_BOOTSTRAP": bootstrap,
            "HERMES_METRICS_URL": metrics_url,
            **(variables or {}),
        }
        self._arguments = arguments
        self.printed = ""
        self.process: subprocess.Popen[bytes] | None = None

    @property
    def log(self) -> str:
        return (self._data / "console.log").read_text()

    @property
    def address(self) -> str:
        found = READY.search(self.printed)
        assert found, f"the console is not ready: {self.printed!r} {self.log}"
        return f"http://{found[1]}"

    @property
    def sign_in_link(self) -> str:
        found = LINK.search(self.printed)
        assert found, "the console printed no link"
        return found[1]

    def __enter__(self) -> ConsoleProcess:
        self._data.mkdir(parents=True, exist_ok=True)
        with (self._data / "console.log").open("ab") as log:
            self.process = subprocess.Popen(
                [
                    *(sys.executable, "manage.py", "console", "--port", "0"),
                    *("--supervised", "--signin-link", *self._arguments),
                ],
                cwd=ROOT,
                env={**os.environ, **self._variables},
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=log,
                start_new_session=True,
            )
        self._read_until_ready()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        assert self.process is not None
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait()
        for pipe in (self.process.stdin, self.process.stdout):
            if pipe is not None:
                pipe.close()

    def wait(self) -> int:
        """The exit status; fails when the process does not end."""
        assert self.process is not None
        return self.process.wait(END_S_MAX)

    def _read_until_ready(self) -> None:
        assert self.process is not None
        assert self.process.stdout is not None
        end = time.monotonic() + READY_S_MAX
        while not READY.search(self.printed) and time.monotonic() < end:
            readable, _, _ = select.select([self.process.stdout], [], [], 0.2)
            if readable:
                chunk = os.read(self.process.stdout.fileno(), 4_096)
                if not chunk:
                    break
                self.printed += chunk.decode()
