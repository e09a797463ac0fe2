"""A real broker in a process of its own, for tests: start, kill, restart on the same ports."""

from __future__ import annotations

import os
import re
import select
import signal
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

ROOT = Path(__file__).parents[2]
READY = re.compile(rb"^ready kafka=\S+:(\d+) metrics=\S+:(\d+)$", re.MULTILINE)


class BrokerProcess:
    """As a context manager: ready inside, gone afterwards. `settings` are broker properties.

    `environment` is added to this process's; `prefix` is a command that runs the broker.
    The ports are chosen at the first start and kept by every later one, so that clients reconnect.
    """

    def __init__(
        self,
        directory: Path,
        settings: Mapping[str, object] | None = None,
        *,
        environment: Mapping[str, str] | None = None,
        prefix: Sequence[str] = (),
    ) -> None:
        self.environment = dict(environment or {})
        self.prefix = list(prefix)
        self.directory = directory
        self.data = directory / "data"
        self.log_path = directory / "broker.log"
        self.settings = dict(settings or {})
        self.kafka_port = 0
        self.metrics_port = 0
        self._process: subprocess.Popen[bytes] | None = None

    def __enter__(self) -> BrokerProcess:
        self.start()
        return self

    def __exit__(self, *_exception: object) -> None:
        if self._process is not None:
            self.terminate()

    @property
    def bootstrap(self) -> str:
        return f"127.0.0.1:{self.kafka_port}"

    @property
    def metrics_url(self) -> str:
        return f"http://127.0.0.1:{self.metrics_port}"

    @property
    def pid(self) -> int:
        assert self._process is not None, "the broker is not running"
        return self._process.pid

    def start(self, *, timeout: float = 90) -> None:
        """Returns when the broker is ready; fails with the end of its log otherwise."""
        assert self._process is None, "the broker runs already"
        settings = {
            **self.settings,
            "log.dir": self.data,
            "listeners": f"PLAINTEXT://127.0.0.1:{self.kafka_port}",
            "hermes.metrics.port": self.metrics_port,
        }
        options = [word for name, value in settings.items() for word in option(name, value)]
        with self.log_path.open("ab") as log:
            self._process = subprocess.Popen(
                [*self.prefix, sys.executable, "-m", "broker", "serve", *options],
                cwd=ROOT,
                stdout=subprocess.PIPE,
                stderr=log,
                env={**os.environ, "PYTHONPATH": str(ROOT), **self.environment},
            )
        ready = self._wait_for_ready(timeout)
        self.kafka_port, self.metrics_port = int(ready[1]), int(ready[2])

    def _wait_for_ready(self, timeout: float) -> re.Match[bytes]:
        assert self._process is not None
        assert self._process.stdout is not None
        deadline = time.monotonic() + timeout
        printed = b""
        while time.monotonic() < deadline:
            readable, _, _ = select.select([self._process.stdout], [], [], 0.1)
            if readable:
                read = os.read(self._process.stdout.fileno(), 65536)
                printed += read
                found = READY.search(printed)
                if found:
                    return found
                if not read:
                    break
        self.kill()
        end = self.log_path.read_bytes()[-3000:].decode(errors="replace")
        message = f"the broker is not ready in {timeout} s; it printed {printed!r}, log:\n{end}"
        raise AssertionError(message)

    def kill(self) -> None:
        """SIGKILL: nothing is flushed, closed or said."""
        self._end(signal.SIGKILL)

    def terminate(self, *, timeout: float = 20) -> int:
        """SIGTERM, and the exit code; a broker that does not stop in time fails the test."""
        return self._end(signal.SIGTERM, timeout=timeout)

    def _end(self, by: signal.Signals, *, timeout: float = 20) -> int:
        assert self._process is not None, "the broker is not running"
        process, self._process = self._process, None
        process.send_signal(by)
        try:
            return process.wait(timeout)
        finally:
            process.kill()
            process.wait()
            if process.stdout is not None:
                process.stdout.close()

    def restart(self) -> None:
        """SIGKILL and a start on the same data and ports."""
        self.kill()
        self.start()


def option(name: str, value: object) -> list[str]:
    """The command line form of a setting."""
    return [f"--{name.replace('.', '-')}", str(value)]
