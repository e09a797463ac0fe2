"""Loss of power on a real file system: what was acknowledged is there afterwards."""

from __future__ import annotations

from pathlib import Path

import pytest

from broker.errors import ErrorCode
from tests.faults.disks import Ext4Disk
from tests.faults.power_clients import LATEST, list_offset
from tests.faults.power_cuts import PowerCuts
from tests.support.broker_process import BrokerProcess
from tests.support.wire_client import WireClient

pytestmark = [pytest.mark.apt("e2fsprogs", "mount"), pytest.mark.timeout(240)]

RECORDS: list[tuple[bytes | None, bytes | None]] = [(b"key", b"v" * 1_000)]
CUTS = 5
"""Every kind once: at any moment, during a cleaning, after a roll, during the start."""
BATCHES_MAX = 5_000
LOW_MARK = "hermes.log.dir.min.free.bytes"


def test_no_promise_is_broken_by_losing_power_under_load(tmp_path: Path) -> None:
    verdict = PowerCuts(tmp_path, 1, {"durability": "fsync"}).run(CUTS)
    assert verdict.findings == []
    assert verdict.counts["cuts"] == CUTS
    assert verdict.counts["cuts during a start"] == 1
    assert verdict.counts["segments cleaned away"] > 0


def test_the_same_cuts_are_seen_to_take_what_was_acknowledged_from_memory(tmp_path: Path) -> None:
    verdict = PowerCuts(tmp_path, 1, {"durability": "replicated"}).run(2)
    broken = {finding.partition(":")[0] for finding in verdict.findings}
    assert {
        "acknowledged is kept",
        "watermark never moves back",
        "newest of every key is kept",
    } <= broken


def test_a_segment_that_was_just_begun_survives_with_what_was_acknowledged_in_it(
    tmp_path: Path,
) -> None:
    """KAFKA-3968: the name of the new file was not durable."""
    broker = BrokerProcess(tmp_path, {LOW_MARK: 0})
    with Ext4Disk(tmp_path, megabytes=128) as disk:
        broker.data = disk.path / "data"
        with broker:
            with WireClient(broker.kafka_port) as client:
                client.create_topic("orders", segment_bytes="100000", durability="fsync")
                count = produce_into_the_next_segment(broker, client)
                disk.stop()
            broker.kill()
            disk.begin()
            broker.start()
            with WireClient(broker.kafka_port) as client:
                assert list_offset(client, "orders", 0, LATEST) == count
                assert client.produce("orders", RECORDS).base_offset == count
                begun = last_segment(broker)
                assert client.fetch("orders", begun).error_code == ErrorCode.NONE


def produce_into_the_next_segment(broker: BrokerProcess, client: WireClient) -> int:
    """How many records were acknowledged when the first one lay in a segment just begun."""
    before = last_segment(broker)
    for count in range(BATCHES_MAX):
        begun = last_segment(broker)
        assert client.produce("orders", RECORDS).base_offset == count
        if before < begun <= count:
            return count + 1
    raise AssertionError("no segment was rolled")


def last_segment(broker: BrokerProcess) -> int:
    """The base offset of the newest segment."""
    directory = broker.data / "topics" / "orders" / "partition-00"
    return max(int(path.stem) for path in directory.glob("*.log") if path.stem.isdecimal())


def test_a_new_topic_is_there_after_the_cut_with_what_was_acknowledged_in_it(
    tmp_path: Path,
) -> None:
    broker = BrokerProcess(tmp_path, {LOW_MARK: 0})
    with Ext4Disk(tmp_path) as disk:
        broker.data = disk.path / "data"
        with broker:
            with WireClient(broker.kafka_port) as client:
                client.create_topic("new", 3, durability="fsync")
                assert client.produce("new", RECORDS, partition=2).base_offset == 0
                disk.stop()
            broker.kill()
            disk.begin()
            broker.start()
            with WireClient(broker.kafka_port) as client:
                assert list_offset(client, "new", 2, LATEST) == 1
                assert list_offset(client, "new", 0, LATEST) == 0
