"""One group stands still: what the producer and the other groups notice of it.

A producer at a steady rate and three groups of one process each. After a calm window the third
group's process is stopped (SIGSTOP), after a window of the same length it goes on. Rates are what
the log holds, lag is what the group committed, latencies are of the readers.
"""

from __future__ import annotations

import itertools
import json
import signal
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Final, NamedTuple

from broker.bench.measure import Measure, Row
from broker.bench.offsets import Offsets
from broker.bench.running import (
    Options,
    Watch,
    finish_load,
    load_cpu,
    start_load,
    wait_until_ready,
)
from broker.bench.target import BenchFault, Target

NAME: Final = "stalled-group"
RATE: Final = 5_000
WARM_UP_S: Final = 5.0
DRAIN_S_MAX: Final = 120.0
CHANGE_MAX: Final = 0.1
"""Of the producer's rate and the other groups' P99, while one group stands still."""
GROUPS: Final = ("A", "B", "C")
STALLED: Final = "C"


class Reader(NamedTuple):
    """One group's member: latencies (count, p50_ms, p99_ms) before, during and after the stall, and
    seconds from its end until a record came without delay.
    """

    before: dict[str, float]
    during: dict[str, float]
    after: dict[str, float]
    caught_up_s: float | None


class Outcome(NamedTuple):
    """`rate_*` in records a second; `committed` are C's offsets in sum, at the stop and at the
    continue; `drained_s` until it committed (nearly) all that was there.
    """

    sent: int
    rate_before: float
    rate_during: float
    readers: dict[str, Reader]
    committed: tuple[int, int]
    lag_peak: int
    drained_s: float
    load_cpu_percent: float
    late_ms: float


class _Moment(NamedTuple):
    """The records that the log held at a time of the monotonic clock."""

    at_ns: int
    records: int

    def rate_until(self, later: _Moment) -> float:
        return 1e9 * (later.records - self.records) / (later.at_ns - self.at_ns)


def stalled_group(target: Target, options: Options) -> Row:
    """5,000 records a second, groups A, B and C; C stands still for `stall_seconds`."""
    topic = f"bench-{NAME}"
    target.create_topic(topic, options.partitions)
    watch = Watch(target)
    outcome = observe(target, options, topic, RATE)
    late = f"the sender was up to {outcome.late_ms:.0f} ms late" if outcome.late_ms > 50 else ""
    row = watch.row(NAME, _measures(outcome), outcome.load_cpu_percent, *filter(None, [late]))
    target.delete_topic(topic)
    return row


def _measures(outcome: Outcome) -> list[Measure]:
    floor = (1 - CHANGE_MAX) * outcome.rate_before
    measures = [
        Measure("produced before", outcome.rate_before, "msg/s"),
        Measure("produced meanwhile", outcome.rate_during, "msg/s", floor, is_floor=True),
    ]
    for name, reader in outcome.readers.items():
        if name == STALLED:
            continue
        measures.append(Measure(f"{name}: P50 before", reader.before["p50_ms"], "ms"))
        measures.append(Measure(f"{name}: P99 before", reader.before["p99_ms"], "ms"))
        bound = (1 + CHANGE_MAX) * reader.before["p99_ms"]
        measures.append(Measure(f"{name}: P50 meanwhile", reader.during["p50_ms"], "ms"))
        measures.append(Measure(f"{name}: P99 meanwhile", reader.during["p99_ms"], "ms", bound))
        measures.append(Measure(f"{name}: P99 of the drain", reader.after["p99_ms"], "ms"))
    caught_up_s = outcome.readers[STALLED].caught_up_s
    assert caught_up_s is not None, "a group that drained has caught up"
    measures.append(Measure(f"{STALLED}: lag at its peak", outcome.lag_peak, "msg"))
    measures.append(Measure(f"{STALLED}: reads the newest after", caught_up_s, "s"))
    measures.append(Measure(f"{STALLED}: drained after", outcome.drained_s, "s"))
    return measures


def observe(target: Target, options: Options, topic: str, rate: int) -> Outcome:
    """Run it on an empty topic. Raises BenchFault, also when a record was lost."""
    with _processes() as processes, Offsets(target, topic, options.partitions) as offsets:
        readers = {
            name: start_load(target, options, kind="follow", topic=topic, group=_group(name))
            for name in GROUPS
        }
        processes.extend(readers.values())
        for reader in readers.values():
            wait_until_ready(reader)
        producer = _start_producer(target, options, topic, rate)
        processes.append(producer)
        time.sleep(WARM_UP_S)
        began = _moment(offsets)
        time.sleep(options.stall_seconds)
        stopped = _moment(offsets)
        readers[STALLED].send_signal(signal.SIGSTOP)
        time.sleep(min(2.0, options.stall_seconds / 2))  # what it had sent may still arrive
        committed_at_stop = offsets.committed(_group(STALLED))
        time.sleep(max(0.0, options.stall_seconds - _seconds_since(stopped)))
        committed = committed_at_stop, offsets.committed(_group(STALLED))
        continued = _moment(offsets)
        readers[STALLED].send_signal(signal.SIGCONT)
        _wait_for_lag(offsets, 2 * rate)
        drained = _moment(offsets)
        sent = finish_load(producer)
        _wait_for_lag(offsets, 0)
        moments = (began, stopped, continued, drained)
        results = _finish_readers(readers, moments, sent["sent"])
    seconds = sent["seconds"]
    reader_loads = [100 * result["cpu_seconds"] / seconds for result in results.values()]
    return Outcome(
        sent=sent["sent"],
        rate_before=began.rate_until(stopped),
        rate_during=stopped.rate_until(continued),
        readers={name: _reader(result) for name, result in results.items()},
        committed=committed,
        lag_peak=continued.records - committed[1],
        drained_s=(drained.at_ns - continued.at_ns) / 1e9,
        load_cpu_percent=max(load_cpu(sent), *reader_loads),
        late_ms=sent["late_ms"],
    )


def _start_producer(
    target: Target, options: Options, topic: str, rate: int
) -> subprocess.Popen[str]:
    seconds = WARM_UP_S + 2 * options.stall_seconds + DRAIN_S_MAX
    return start_load(
        target,
        options._replace(seconds=seconds),
        kind="pace",
        topic=topic,
        rate=rate,
        batch_bytes=131_072,
        linger_ms=1,
        until_told=True,
    )


def _finish_readers(
    readers: dict[str, subprocess.Popen[str]], moments: tuple[_Moment, ...], sent: int
) -> dict[str, dict[str, Any]]:
    times = [moment.at_ns for moment in moments]
    windows = json.dumps(list(itertools.pairwise(times)))
    results = {name: finish_load(reader, f"{windows}\n") for name, reader in readers.items()}
    for name, result in results.items():
        if result["gaps"] or result["distinct"] != sent:
            raise BenchFault(
                f"{NAME}: {sent} records were acknowledged, group {name} read "
                f"{result['distinct'] - result['gaps']} of them"
            )
        if None in result["windows"][: 2 if name == STALLED else 3]:
            raise BenchFault(f"{NAME}: group {name} read nothing for a whole window")
    return results


def _reader(result: dict[str, Any]) -> Reader:
    before, during, after = (window or {} for window in result["windows"])
    return Reader(before, during, after, result["caught_up_s"])


def _wait_for_lag(offsets: Offsets, lag_max: int) -> None:
    """Until every group has committed all but `lag_max` records. Raises BenchFault."""
    deadline_s = time.monotonic() + DRAIN_S_MAX
    while any(offsets.lag(_group(name)) > lag_max for name in GROUPS):
        if time.monotonic() > deadline_s:
            lags = {name: offsets.lag(_group(name)) for name in GROUPS}
            raise BenchFault(f"{NAME}: after {DRAIN_S_MAX:.0f} s the groups still lag: {lags}")
        time.sleep(0.1)


def _moment(offsets: Offsets) -> _Moment:
    return _Moment(time.monotonic_ns(), offsets.end())


def _seconds_since(moment: _Moment) -> float:
    return (time.monotonic_ns() - moment.at_ns) / 1e9


def _group(name: str) -> str:
    return f"bench-{NAME}-{name}"


@contextmanager
def _processes() -> Iterator[list[subprocess.Popen[str]]]:
    """Whatever happens, none of the processes in the list is left, stopped or not."""
    processes: list[subprocess.Popen[str]] = []
    try:
        yield processes
    finally:
        for process in processes:
            if process.poll() is None:
                process.kill()
            process.wait()
            for stream in (process.stdin, process.stdout):
                if stream is not None:
                    stream.close()
