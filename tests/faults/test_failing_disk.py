"""A disk that fails to write: that partition is refused and offline, the others go on, a restart
brings back what was acknowledged.
"""

from __future__ import annotations

import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from broker.errors import ErrorCode
from tests.support.broker_process import BrokerProcess
from tests.support.wire_client import WireClient

WRITES = "pwrite64,pwritev,write"
RECORDS: list[tuple[bytes | None, bytes | None]] = [(b"k", b"v" * 100)]


@contextmanager
def failing_writes(broker: BrokerProcess, path: Path) -> Iterator[None]:
    """While inside, the process gets EIO for every write to `path`."""
    tracer = subprocess.Popen(
        [
            *("strace", "-f", "-qq", "-p", str(broker.pid), "-P", str(path), "-o", "/dev/null"),
            *("-e", f"trace={WRITES}", "-e", f"inject={WRITES}:error=EIO"),
        ],
        stderr=subprocess.DEVNULL,
    )
    try:
        status = Path(f"/proc/{broker.pid}/status")
        ends = time.monotonic() + 20
        while "TracerPid:\t0\n" in status.read_text():
            assert time.monotonic() < ends, "strace does not attach"
            time.sleep(0.05)
        yield
    finally:
        tracer.terminate()
        tracer.wait(20)


@pytest.mark.apt("strace")
def test_an_input_output_error_takes_its_partition_offline_and_nothing_else(
    tmp_path: Path,
) -> None:
    with BrokerProcess(tmp_path) as broker:
        with WireClient(broker.kafka_port) as client:
            client.create_topic("t", 2)
            for partition in (0, 1):
                assert client.produce("t", RECORDS, partition=partition).base_offset == 0
            (log,) = (broker.data / "topics" / "t" / "partition-00").glob("*.log")
            with WireClient(broker.kafka_port) as waiting, failing_writes(broker, log):
                waiting.send_fetch("t", 1, max_wait_ms=30_000)
                time.sleep(0.2)
                refused = client.produce("t", RECORDS, partition=0)
                assert refused.error_code == ErrorCode.KAFKA_STORAGE_ERROR
                answer = waiting.receive().responses[0].partitions[0]
                assert answer.error_code == ErrorCode.KAFKA_STORAGE_ERROR, "who waits is told"
                assert client.produce("t", RECORDS, partition=1).base_offset == 1
            again = client.produce("t", RECORDS, partition=0)
            assert again.error_code == ErrorCode.KAFKA_STORAGE_ERROR, "offline until a restart"
            assert client.fetch("t", 0, partition=0).error_code == ErrorCode.KAFKA_STORAGE_ERROR
            assert client.fetch("t", 0, partition=1).high_watermark == 2
        assert "offline" in broker.log_path.read_text()
        broker.terminate()
        broker.start()
        with WireClient(broker.kafka_port) as client:
            assert client.fetch("t", 0, partition=0).high_watermark == 1
            assert client.produce("t", RECORDS, partition=0).base_offset == 1
