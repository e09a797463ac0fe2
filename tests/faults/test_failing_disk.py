"""A disk that fails to write: that partition is refused and offline, the others go on, a restart
brings back what was acknowledged. One that fails to read: what it does not give is damage.
"""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from broker.errors import ErrorCode
from tests.faults.injection import failing
from tests.faults.scrape import metric, wait_for_metric
from tests.support.broker_process import BrokerProcess
from tests.support.file_systems import where_syncfs_is_used
from tests.support.wire_client import WireClient

WRITES = "pwrite64,pwritev,write"
READS = "pread64,preadv,preadv2"
RECORDS: list[tuple[bytes | None, bytes | None]] = [(b"k", b"v" * 100)]
BIG: list[tuple[bytes | None, bytes | None]] = [(b"k", b"v" * 5_000)]


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
            with WireClient(broker.kafka_port) as waiting, failing(broker, WRITES, path=log):
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
            assert metric(broker, "hermes_partition_offline", topic="t", partition="0") == 1
            assert metric(broker, "hermes_partition_offline", topic="t", partition="1") is None
        assert "a partition is offline" in broker.log_path.read_text()
        broker.terminate()
        broker.start()
        with WireClient(broker.kafka_port) as client:
            assert client.fetch("t", 0, partition=0).high_watermark == 1
            assert client.produce("t", RECORDS, partition=0).base_offset == 1


@pytest.mark.apt("strace")
def test_a_read_error_is_damage_until_it_can_be_read_again_and_takes_nothing_offline(
    tmp_path: Path,
) -> None:
    label = {"topic": "t", "partition": "0"}
    with BrokerProcess(tmp_path, {"hermes.scrub.bytes.per.second": 0}) as broker:
        with WireClient(broker.kafka_port) as client:
            client.create_topic("t", 2)
            for partition in (0, 0, 0, 1):
                client.produce("t", RECORDS, partition=partition)
            (log,) = (broker.data / "topics" / "t" / "partition-00").glob("*.log")
            with failing(broker, READS, path=log):
                for offset in (0, 2, 0):
                    refused = client.fetch("t", offset, partition=0)
                    assert refused.error_code == ErrorCode.CORRUPT_MESSAGE
                assert metric(broker, "hermes_damaged_ranges", **label) == 1
                assert metric(broker, "hermes_damaged_offsets", **label) == 3
                assert metric(broker, "hermes_disk_faults_total", kind="read") == 1
                assert client.produce("t", RECORDS, partition=0).base_offset == 3
                assert client.fetch("t", 0, partition=1).error_code == 0
            assert metric(broker, "hermes_partition_offline", **label) is None
            assert client.fetch("t", 0, partition=0).error_code == ErrorCode.CORRUPT_MESSAGE
            assert client.fetch("t", 3, partition=0).error_code == 0
        assert "it cannot be read: Input/output error" in broker.log_path.read_text()
        broker.terminate()
        broker.settings = {"hermes.scrub.interval.ms": 5_000}
        broker.start()
        wait_for_metric(broker, "hermes_scrub_rounds_total", 1)
        assert metric(broker, "hermes_damaged_ranges", **label) is None
        with WireClient(broker.kafka_port) as client:
            assert client.fetch("t", 0, partition=0).error_code == 0


@pytest.mark.apt("strace")
@pytest.mark.parametrize("calls", ["fdatasync,fsync", "rename,renameat,renameat2"])
def test_a_checkpoint_that_fails_takes_its_partition_offline_and_says_so(
    tmp_path: Path, calls: str
) -> None:
    """The roll of a segment writes one: its answer would be trusted by the next start."""
    with BrokerProcess(tmp_path) as broker:
        with WireClient(broker.kafka_port) as client:
            client.create_topic("t", 2, segment_bytes="100000", durability="replicated")
            directory = broker.data / "topics" / "t" / "partition-00"
            acknowledged = 0
            with failing(broker, calls, path=directory if "rename" not in calls else None):
                deadline = time.monotonic() + 60
                while True:
                    assert time.monotonic() < deadline, "no roll failed"
                    answer = client.produce("t", BIG, partition=0)
                    if answer.error_code:
                        break
                    acknowledged += 1
                    time.sleep(0.01)
            assert answer.error_code == ErrorCode.KAFKA_STORAGE_ERROR
            assert metric(broker, "hermes_partition_offline", topic="t", partition="0") == 1
            assert client.produce("t", RECORDS, partition=1).base_offset == 0, "others go on"
        broker.restart()
        with WireClient(broker.kafka_port) as client:
            assert client.fetch("t", 0, partition=0).high_watermark == acknowledged


@pytest.mark.apt("strace")
def test_the_first_failed_sync_is_final_although_the_next_would_say_that_all_is_well(
    tmp_path: Path,
) -> None:
    with BrokerProcess(tmp_path) as broker:
        with WireClient(broker.kafka_port) as client:
            client.create_topic("t", 2, durability="fsync")
            for partition in (0, 1):
                assert client.produce("t", RECORDS, partition=partition).base_offset == 0
            (log,) = (broker.data / "topics" / "t" / "partition-00").glob("*.log")
            with failing(broker, "fdatasync", path=log, when="1"):
                refused = client.produce("t", RECORDS, partition=0)
                assert refused.error_code == ErrorCode.KAFKA_STORAGE_ERROR
                for _ in range(3):
                    again = client.produce("t", RECORDS, partition=0)
                    assert again.error_code == ErrorCode.KAFKA_STORAGE_ERROR, "no retry that lies"
                assert client.produce("t", RECORDS, partition=1).base_offset == 1
            assert client.fetch("t", 0, partition=0).error_code == ErrorCode.KAFKA_STORAGE_ERROR
            assert metric(broker, "hermes_partition_offline", topic="t", partition="0") == 1
        broker.restart()
        with WireClient(broker.kafka_port) as client:
            assert client.fetch("t", 0, partition=0).high_watermark >= 1
            assert client.produce("t", RECORDS, partition=0).error_code == 0


@pytest.mark.apt("strace")
def test_a_failed_sync_of_the_whole_file_system_takes_all_that_waited_for_it_offline(
    tmp_path: Path,
) -> None:
    count = 12
    with (
        where_syncfs_is_used(tmp_path) as directory,
        BrokerProcess(directory) as broker,
        WireClient(broker.kafka_port) as client,
    ):
        client.create_topic("t", count, durability="fsync")
        with failing(broker, "syncfs"):
            refused: set[int] = set()
            deadline = time.monotonic() + 60
            while len(refused) < 5:
                assert time.monotonic() < deadline, "no round had many files"
                asked = [index for index in range(count) if index not in refused]
                for index in asked:
                    client.send_batch("t", RECORDS, partition=index)
                for index in asked:
                    answer = client.receive().responses[0].partition_responses[0]
                    if answer.error_code:
                        assert answer.error_code == ErrorCode.KAFKA_STORAGE_ERROR
                        refused.add(index)
        for index in range(count):
            wanted = 1.0 if index in refused else None
            found = metric(broker, "hermes_partition_offline", topic="t", partition=str(index))
            assert found == wanted, index
