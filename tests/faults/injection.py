"""System calls that fail while a broker runs: strace attaches to it and answers in the kernel's
place.
"""

from __future__ import annotations

import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.support.broker_process import BrokerProcess

ATTACH_S = 20


@contextmanager
def failing(
    broker: BrokerProcess, calls: str, *, path: Path | None = None, when: str = "1+"
) -> Iterator[None]:
    """While inside, `calls` (names joined by commas) of the process fail with EIO: those on `path`,
    or all; `when` counts them as strace does ("1": the first alone).
    """
    only = [] if path is None else ["-P", str(path)]
    tracer = subprocess.Popen(
        [
            *("strace", "-f", "-qq", "-p", str(broker.pid), *only, "-o", "/dev/null"),
            *("-e", f"trace={calls}", "-e", f"inject={calls}:error=EIO:when={when}"),
        ],
        stderr=subprocess.DEVNULL,
    )
    try:
        _wait_for_tracer(broker.pid)
        yield
    finally:
        tracer.terminate()
        tracer.wait(ATTACH_S)


def _wait_for_tracer(pid: int) -> None:
    """Until every thread of the process is traced."""
    ends = time.monotonic() + ATTACH_S
    while any(
        "TracerPid:\t0\n" in status.read_text()
        for status in Path(f"/proc/{pid}/task").glob("*/status")
    ):
        assert time.monotonic() < ends, "strace does not attach"
        time.sleep(0.05)
