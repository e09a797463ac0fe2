"""Well before its disk is full a broker takes no more records from clients; all else goes on, and
writes return by themselves.
"""

from __future__ import annotations

import shutil
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from broker.errors import ErrorCode
from broker.wire import api
from broker.wire.messages.delete_records import (
    DeleteRecordsPartition,
    DeleteRecordsRequest,
    DeleteRecordsTopic,
)
from broker.wire.messages.delete_topics import DeleteTopicsRequest, DeleteTopicState
from broker.wire.messages.find_coordinator import FindCoordinatorRequest
from broker.wire.messages.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from broker.wire.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from tests.faults.disks import Ext4Disk, fill
from tests.faults.scrape import is_ready, metric, wait_for_metric
from tests.support.broker_process import BrokerProcess
from tests.support.wire_client import WireClient

RECORDS: list[tuple[bytes | None, bytes | None]] = [(b"k", b"v" * 10_000)]
BATCHES_MAX = 20_000
LOW, SPACE_AGAIN = "space is low", "there is space again"


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[Path]:
    """An ext4 of 64 MiB."""
    with Ext4Disk(tmp_path, megabytes=64) as ext4:
        yield ext4.path


def free_bytes(path: Path) -> int:
    return shutil.disk_usage(path).free


def produce_until_refused(client: WireClient, topic: str) -> int:
    """How many batches were taken; the refusal says what to do."""
    for count in range(BATCHES_MAX):
        answer = client.produce(topic, RECORDS)
        if answer.error_code:
            assert answer.error_code == ErrorCode.KAFKA_STORAGE_ERROR
            assert "free space" in (answer.error_message or "")
            assert "retention" in (answer.error_message or "")
            return count
        assert answer.base_offset == count
    raise AssertionError("nothing was refused")


def commit(client: WireClient, offset: int) -> int:
    """The error code of a commit for a group without members."""
    partition = OffsetCommitRequestPartition(partition_index=0, committed_offset=offset)
    topic = OffsetCommitRequestTopic(name="orders", partitions=[partition])
    request = OffsetCommitRequest(group_id="billing", topics=[topic])
    deadline = time.monotonic() + 20
    while True:
        client.call(api.FIND_COORDINATOR, 2, FindCoordinatorRequest(key="billing"))
        answer = client.call(api.OFFSET_COMMIT, 8, request).topics[0].partitions[0]
        code = int(answer.error_code)
        if code != ErrorCode.COORDINATOR_LOAD_IN_PROGRESS or time.monotonic() > deadline:
            return code
        time.sleep(0.05)


def delete_records(client: WireClient, topic: str, offset: int) -> int:
    """The new log start."""
    wanted = DeleteRecordsPartition(partition_index=0, offset=offset)
    request = DeleteRecordsRequest(
        topics=[DeleteRecordsTopic(name=topic, partitions=[wanted])], timeout_ms=10_000
    )
    answer = client.call(api.DELETE_RECORDS, 2, request).topics[0].partitions[0]
    assert answer.error_code == 0
    return int(answer.low_watermark)


def set_topic(client: WireClient, topic: str, name: str, value: str) -> None:
    resource = AlterConfigsResource(
        resource_type=2,
        resource_name=topic,
        configs=[AlterableConfig(name=name, config_operation=0, value=value)],
    )
    request = IncrementalAlterConfigsRequest(resources=[resource])
    (answer,) = client.call(api.INCREMENTAL_ALTER_CONFIGS, 1, request).responses
    assert answer.error_code == 0, answer.error_message


def delete_topic(client: WireClient, topic: str) -> None:
    request = DeleteTopicsRequest(topics=[DeleteTopicState(name=topic)], timeout_ms=10_000)
    (answer,) = client.call(api.DELETE_TOPICS, 6, request).responses
    assert answer.error_code == 0, answer.error_message


def test_produce_is_refused_at_the_mark_while_all_else_goes_on(disk: Path) -> None:
    with BrokerProcess(disk) as broker, WireClient(broker.kafka_port) as client:
        client.create_topic("orders")
        client.create_topic("old")
        assert client.produce("old", RECORDS).error_code == 0
        mark = metric(broker, "hermes_disk_low_mark_bytes")
        assert mark is not None
        assert mark > 2_000_000, "well before the last byte"
        fill(disk / "filler", leave=int(mark) + 4_000_000)
        count = produce_until_refused(client, "orders")
        assert free_bytes(disk) > mark / 2, "there is room left for what goes on"

        assert metric(broker, "hermes_disk_low") == 1
        assert is_ready(broker), "who reads must reach it"
        last = client.fetch("orders", count - 1)
        assert last.high_watermark == count, "what was acknowledged is there, and is read"
        assert len(last.records) > 10_000
        assert commit(client, count) == 0, "consumers go on"
        client.create_topic("new")
        set_topic(client, "orders", "retention.ms", "86400000")
        assert delete_records(client, "orders", 2) == 2
        delete_topic(client, "old")
        assert client.produce("orders", RECORDS).error_code == ErrorCode.KAFKA_STORAGE_ERROR

        (disk / "filler").unlink()
        wait_for_metric(broker, "hermes_disk_low", 0)
        assert client.produce("orders", RECORDS).base_offset == count, "no restart was needed"
        lines = broker.log_path.read_text()
        assert (lines.count(LOW), lines.count(SPACE_AGAIN)) == (1, 1)


def test_a_batch_without_acknowledgement_ends_its_connection_so_that_its_producer_notices(
    disk: Path,
) -> None:
    with BrokerProcess(disk) as broker, WireClient(broker.kafka_port) as client:
        client.create_topic("orders")
        fill(disk / "filler", leave=2_000_000)
        wait_for_metric(broker, "hermes_disk_low", 1)
        client.send_batch("orders", RECORDS, acks=0)
        assert client.is_closed_within(10)


def test_shorter_retention_makes_room_long_before_its_usual_round(disk: Path) -> None:
    with BrokerProcess(disk) as broker, WireClient(broker.kafka_port) as client:
        client.create_topic("orders", segment_bytes="1000000")
        count = produce_until_refused(client, "orders")
        set_topic(client, "orders", "retention.bytes", "3000000")
        wait_for_metric(broker, "hermes_disk_low", 0, timeout_s=30)
        assert client.produce("orders", RECORDS).base_offset == count


def test_low_space_at_the_start_is_known_before_the_first_record(disk: Path) -> None:
    with BrokerProcess(disk) as broker:
        with WireClient(broker.kafka_port) as client:
            client.create_topic("orders")
            assert client.produce("orders", RECORDS).base_offset == 0
        broker.kill()
        fill(disk / "filler", leave=2_000_000)
        broker.start()
        with WireClient(broker.kafka_port) as client:
            answer = client.produce("orders", RECORDS)
            assert answer.error_code == ErrorCode.KAFKA_STORAGE_ERROR
            assert client.fetch("orders", 0).high_watermark == 1


def test_space_is_told_as_df_tells_it_where_blocks_are_reserved(tmp_path: Path) -> None:
    with Ext4Disk(tmp_path, reserved_percent=25) as disk, BrokerProcess(disk.path) as broker:
        wait_for_metric(broker, "hermes_disk_low", 0)
        command = ["df", "--block-size=1", "--output=used,avail", str(disk.path)]
        found = [metric(broker, f"hermes_disk_{kind}_bytes") for kind in ("used", "free")]
        told = subprocess.run(command, capture_output=True, text=True, check=True).stdout
        assert found == pytest.approx([int(word) for word in told.split()[-2:]], abs=500_000)


def test_the_mark_can_be_changed_while_the_broker_runs(disk: Path) -> None:
    settings = {"hermes.log.dir.min.free.bytes": 60_000_000}
    with BrokerProcess(disk, settings) as broker, WireClient(broker.kafka_port) as client:
        client.create_topic("orders")
        wait_for_metric(broker, "hermes_disk_low", 1)
        assert client.produce("orders", RECORDS).error_code == ErrorCode.KAFKA_STORAGE_ERROR
        resource = AlterConfigsResource(
            resource_type=4,
            resource_name="0",
            configs=[
                AlterableConfig(
                    name="hermes.log.dir.min.free.bytes", config_operation=0, value="1000000"
                )
            ],
        )
        request = IncrementalAlterConfigsRequest(resources=[resource])
        (answer,) = client.call(api.INCREMENTAL_ALTER_CONFIGS, 1, request).responses
        assert answer.error_code == 0, answer.error_message
        wait_for_metric(broker, "hermes_disk_low", 0)
        assert client.produce("orders", RECORDS).base_offset == 0
