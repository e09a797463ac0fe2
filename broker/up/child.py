"""One supervised process: started, watched, stopped.

A child runs in a session of its own (a Ctrl-C in the terminal reaches the supervisor alone) with a
pipe as standard input that the supervisor never writes to: when it closes, the supervisor is gone
and the child stops by itself. Standard output and error go to its log file.

| state    | meaning               | leaves to                                             |
|----------|-----------------------|-------------------------------------------------------|
| stopped  | no process            | running (`start`)                                     |
| running  | the process exists    | stopped (it ended: `wait`; or was told to: `stop`)    |
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import time
from typing import NamedTuple

from broker.up.logfile import LogFile
from broker.up.plan import ChildPlan


class Ended(NamedTuple):
    """How a run ended: `code` as asyncio gives it (negative: the signal), and how long it ran."""

    pid: int
    code: int
    ran_s: float

    def describe(self) -> str:
        """For example `process 4711 was killed by SIGKILL after 12.3 s`."""
        if self.code < 0:
            how = f"was killed by {_signal_name(-self.code)}"
        else:
            how = f"exited with {self.code}"
        return f"process {self.pid} {how} after {self.ran_s:.1f} s"


class Child:
    """At most one process at a time of one plan."""

    def __init__(self, plan: ChildPlan, log: LogFile) -> None:
        self.plan = plan
        self.log = log
        self.log_start = 0
        self._process: asyncio.subprocess.Process | None = None
        self._watch: int | None = None
        self._next_flags = plan.first_flags
        self._started_s = 0.0

    @property
    def pid(self) -> int | None:
        return None if self._process is None else self._process.pid

    @property
    def is_running(self) -> bool:
        return self._process is not None and self._process.returncode is None

    async def start(self) -> None:
        """Start the process. Raises OSError when the program cannot be run."""
        assert not self.is_running, "a child has one process at a time"
        self.log_start = self.log.size()
        output = self.log.open_for_child()
        watched, self._watch = os.pipe()
        try:
            self._process = await asyncio.create_subprocess_exec(
                *self.plan.command,
                *self._next_flags,
                stdin=watched,
                stdout=output,
                stderr=output,
                cwd=self.plan.working_directory,
                env={**os.environ, **self.plan.environment},
                start_new_session=True,
            )
        finally:
            os.close(watched)
            os.close(output)
        self._next_flags = ()
        self._started_s = time.monotonic()

    async def wait(self) -> Ended:
        """How the process ended, once it did."""
        assert self._process is not None, "wait follows start"
        code = await self._process.wait()
        self._close_watch()
        return Ended(self._process.pid, code, time.monotonic() - self._started_s)

    async def stop(self) -> bool:
        """Whether the process ended by itself within its grace; else its session was killed."""
        if self._process is None or not self.is_running:
            return True
        self._send(signal.SIGTERM)
        try:
            async with asyncio.timeout(self.plan.grace_s):
                await self._process.wait()
        except TimeoutError:
            self.kill()
            await self._process.wait()
            return False
        finally:
            self._close_watch()
        return True

    def kill(self) -> None:
        """SIGKILL to the whole session: the process and what it started."""
        if self._process is not None and self.is_running:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(self._process.pid, signal.SIGKILL)

    def _send(self, number: signal.Signals) -> None:
        assert self._process is not None, "a signal needs a process"
        with contextlib.suppress(ProcessLookupError):
            self._process.send_signal(number)

    def _close_watch(self) -> None:
        if self._watch is not None:
            os.close(self._watch)
            self._watch = None


def _signal_name(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"
