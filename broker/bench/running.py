"""What every scenario needs: its options, load processes, and a watch on the broker meanwhile."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from contextlib import suppress
from typing import Any, Final, NamedTuple

from broker.bench.cores import load_core_count, pin_load
from broker.bench.measure import Measure, Row, quantile_between
from broker.bench.processes import Usage
from broker.bench.target import BenchFault, Target

LOOP_LAG_MS_MAX: Final = 5.0
LOAD_S_MAX: Final = 3_600.0


class Options(NamedTuple):
    """`seconds` is how long a load runs; `partitions` how many partitions it writes to;
    `stall_seconds` how long a group stands still; `minutes` how long a soak is; `rate` its records
    a second; `series_max` where a series of connections or partitions ends, and how many segments
    there are. `durability` and `validation` are settings of the topics, None for the broker's
    defaults.
    """

    seconds: float
    partitions: int
    record_bytes: int
    acks: str
    stall_seconds: float = 60.0
    durability: str | None = None
    validation: str | None = None
    minutes: float = 20.0
    rate: int | None = None
    series_max: int | None = None
    history_bytes: int = 10 << 30
    memory_bytes: int = 2 << 30
    bytes_max: int = 3 << 30
    """Of batches that one load sends: a page cache that is full measures the disk."""

    def topic_settings(self, target: Target) -> dict[str, str]:
        """As `target` knows them: `flush.messages` is the name that every broker has for fsync."""
        settings: dict[str, str] = {}
        if self.durability is not None and target.is_ours:
            settings["durability"] = self.durability
        elif self.durability == "fsync":
            settings["flush.messages"] = "1"
        if self.validation is not None and target.is_ours:
            settings["record.validation"] = self.validation
        if not target.is_ours:
            settings["file.delete.delay.ms"] = "0"  # ours deletes at once
        return settings


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


def start_raw(target: Target, **job: Any) -> subprocess.Popen[str]:
    """A process that runs `job` (broker.bench.raw_load)."""
    process = subprocess.Popen(
        [
            *(sys.executable, "-m", "broker.bench.raw_load"),
            json.dumps({"bootstrap": target.bootstrap, **job}),
        ],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    pin_load(process.pid)
    return process


def run_raw(target: Target, **job: Any) -> dict[str, Any]:
    """Start and finish. Raises BenchFault."""
    return finish_load(start_raw(target, **job))


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


def loads_percent(seconds: float, *results: dict[str, Any]) -> float:
    """Percent of a core for loads that run together: of the busiest, or of their share when they
    have fewer cores than they are.
    """
    used = [float(100 * result["cpu_seconds"] / seconds) for result in results]
    return max(*used, sum(used) / load_core_count()) if len(used) > 1 else used[0]


def _cpu_percent(before: Usage | None, after: Usage | None, seconds: float) -> float | None:
    if before is None or after is None:
        return None
    return 100 * (after.cpu_s - before.cpu_s) / seconds
