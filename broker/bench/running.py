"""What every scenario needs: its options, load processes, and a watch on the broker meanwhile."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from contextlib import suppress
from typing import Any, Final, NamedTuple

from broker.bench.cores import pin_load
from broker.bench.measure import Measure, Row, quantile_between
from broker.bench.target import BenchFault, Target, Usage

LOOP_LAG_MS_MAX: Final = 5.0
LOAD_S_MAX: Final = 300.0


class Options(NamedTuple):
    """`seconds` is how long a load runs; `partitions` how many partitions it writes to;
    `stall_seconds` how long a group stands still.
    """

    seconds: float
    partitions: int
    record_bytes: int
    acks: str
    stall_seconds: float = 60.0


class Watch:
    """The broker's CPU and loop lag between `__init__` and `row`."""

    def __init__(self, target: Target) -> None:
        self._target = target
        self._usage = target.usage()
        self._lag = target.loop_lag_buckets()
        self._started_s = time.monotonic()

    def row(self, name: str, measures: list[Measure], load_cpu: float, *notes: str) -> Row:
        seconds = time.monotonic() - self._started_s
        lag = self._target.loop_lag_buckets()
        if self._lag is not None and lag is not None:
            worst = quantile_between(self._lag, lag, 0.99)
            if worst is not None:
                bound = LOOP_LAG_MS_MAX
                measures.append(Measure("loop lag P99 ≤", worst * 1000, "ms", bound))
        cpu = _cpu_percent(self._usage, self._target.usage(), seconds)
        return Row(name, tuple(measures), cpu, load_cpu, notes)


def start_load(target: Target, options: Options, **job: Any) -> subprocess.Popen[str]:
    """A process that runs `job` (broker.bench.load); its standard input tells some kinds to end."""
    full_job = {
        "bootstrap": target.bootstrap,
        "seconds": options.seconds,
        "partitions": options.partitions,
        "record_bytes": options.record_bytes,
        "acks": options.acks,
        **job,
    }
    process = subprocess.Popen(
        [sys.executable, "-m", "broker.bench.load", json.dumps(full_job)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    pin_load(process.pid)
    return process


def wait_until_ready(process: subprocess.Popen[str]) -> None:
    """The load has said that it began. Raises BenchFault."""
    assert process.stdout is not None, "a load's output is read"
    if process.stdout.readline().strip() != "ready":
        raise BenchFault("the load did not start")


def finish_load(process: subprocess.Popen[str], told: str = "") -> dict[str, Any]:
    """The result of a load, which is told to end by a line. Raises BenchFault."""
    try:
        output, _ = process.communicate(told, timeout=LOAD_S_MAX)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
        raise BenchFault(f"the load did not end within {LOAD_S_MAX:.0f} s") from None
    with suppress(ValueError, IndexError):
        result: dict[str, Any] = json.loads(output.splitlines()[-1])
        if process.returncode == 0:
            return result
    raise BenchFault(f"the load failed with exit code {process.returncode}")


def run_load(target: Target, options: Options, **job: Any) -> dict[str, Any]:
    """Start and finish; every record must be acknowledged. Raises BenchFault."""
    result = finish_load(start_load(target, options, **job))
    if result.get("left"):
        raise BenchFault(f"{result['left']} records were not acknowledged in time")
    return result


def load_cpu(result: dict[str, Any]) -> float:
    """Percent of a core that a load took."""
    return float(100 * result["cpu_seconds"] / result["seconds"])


def _cpu_percent(before: Usage | None, after: Usage | None, seconds: float) -> float | None:
    if before is None or after is None:
        return None
    return 100 * (after.cpu_s - before.cpu_s) / seconds
