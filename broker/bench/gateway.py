"""How much a gateway does with a core: single puts, and puts in batches, with messageIds.

The measure is per second of the gateway's processor time, so that it means the same on a machine
with other work; the rate that was reached is beside it.
"""

from __future__ import annotations

import json
import os
import select
import signal
import subprocess
import sys
import tempfile
import time
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final, NamedTuple

from broker.bench.measure import Measure, Row
from broker.bench.running import Options, Watch, finish_load, load_cpu, wait_until_ready
from broker.bench.target import BenchFault, Target

START_S_MAX: Final = 60.0
IDS_MAX: Final = 20_000_000
LATE_S: Final = 0.5
_CLOCK_TICKS: Final = os.sysconf("SC_CLK_TCK")


class Shape(NamedTuple):
    """What is sent: `floor` is promised messages per second of the gateway's processor time."""

    name: str
    connections: int
    messages: int
    floor: float


SINGLE: Final = Shape("gateway-put", 64, 1, 5_000)
BATCHES: Final = Shape("gateway-batch", 16, 500, 50_000)


def gateway_put(target: Target, options: Options) -> Row:
    """One message a request, 64 connections."""
    return _run(target, options, SINGLE)


def gateway_batch(target: Target, options: Options) -> Row:
    """500 messages a request, 16 connections."""
    return _run(target, options, BATCHES)


def _run(target: Target, options: Options, shape: Shape) -> Row:
    topic = f"bench-{shape.name}"
    target.create_topic(topic, options.partitions)
    with _gateway(target) as (port, pid):
        job = {
            "port": port,
            "topic": topic,
            "connections": shape.connections,
            "messages": shape.messages,
            "seconds": options.seconds,
            "record_bytes": min(options.record_bytes, 256),
        }
        load = subprocess.Popen(
            [sys.executable, "-m", "broker.bench.http_load", json.dumps(job)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        wait_until_ready(load)
        watch = Watch(target)
        before = _cpu_s(pid)
        result = finish_load(load, "go\n")
        cpu_s = _cpu_s(pid) - before
    if result["failed"]:
        raise BenchFault(f"{result['failed']} puts failed: {result['first_failure']}")
    sent = result["requests"] * shape.messages
    measures = [
        Measure("messages a core second", sent / cpu_s, "msg/s", shape.floor, is_floor=True),
        Measure("reached", sent / result["seconds"], "msg/s"),
        Measure("gateway CPU a request", 1e6 * cpu_s / result["requests"], "µs"),
        Measure("gateway CPU", 100 * cpu_s / result["seconds"], "%"),
    ]
    row = watch.row(shape.name, measures, load_cpu(result))
    stored = target.count_records(topic, options.partitions)
    if stored != sent:
        raise BenchFault(f"{shape.name}: {sent} messages were acknowledged, {stored} are stored")
    target.delete_topic(topic)
    return row


@contextmanager
def _gateway(target: Target) -> Iterator[tuple[int, int]]:
    """(port, process id) of a gateway in front of the target, with ids of its own."""
    with tempfile.NamedTemporaryFile(prefix="hermes-bench-gateway-") as log:
        process = subprocess.Popen(
            [
                *(sys.executable, "-m", "broker", "gateway", "--port", "0"),
                *("--bootstrap-servers", target.bootstrap),
                *("--dedup-topic", f"bench-ids-{uuid.uuid4().hex}"),
                *("--dedup-ids-max", str(IDS_MAX)),
                *("--request-bytes-max", str(32 << 20), "--inflight-bytes-max", str(1 << 30)),
            ],
            stdout=subprocess.PIPE,
            stderr=log,
        )
        try:
            yield _port(process, Path(log.name)), process.pid
        finally:
            process.send_signal(signal.SIGTERM)
            process.wait()


def _port(process: subprocess.Popen[bytes], log: Path) -> int:
    assert process.stdout is not None, "its output is read"
    end_s = time.monotonic() + START_S_MAX
    while time.monotonic() < end_s and process.poll() is None:
        if select.select([process.stdout], [], [], LATE_S)[0]:
            line = process.stdout.readline().decode()
            if line.startswith("ready gateway="):
                return int(line.rpartition(":")[2])
    raise BenchFault(f"the gateway is not ready: {log.read_text()[-1000:]}")


def _cpu_s(pid: int) -> float:
    """Processor seconds of a process so far."""
    fields = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8").rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / _CLOCK_TICKS
