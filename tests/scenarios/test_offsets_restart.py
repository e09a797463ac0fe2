"""A group that committed a million times: after a kill its offset is right, and at hand at once."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from struct import Struct

import pytest

from broker.coordinators.group.records import OffsetCommitted, to_log
from broker.errors import ErrorCode
from broker.log.config import COMPACT, LogConfig
from broker.log.directory import partition_directory
from broker.log.partition_log import PartitionLog
from broker.records.batch import seal
from broker.records.build import build_batch
from broker.runtime.disk import SystemDisk
from broker.server.names import CONSUMER_OFFSETS
from broker.wire import api
from broker.wire.messages.find_coordinator import FindCoordinatorRequest
from broker.wire.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from broker.wire.messages.offset_fetch import OffsetFetchRequest, OffsetFetchRequestTopic
from tests.support.broker_process import BrokerProcess
from tests.support.wire_client import WireClient

TOPIC, GROUP = "orders", "fulfilment"
STORED_COMMITS = 1_000_000
"""Each in a batch of its own: what a consumer that commits after every record leaves behind."""
LAST_COMMITS = 5_000
"""Sent after the cleaner has run, so that a restart also has a tail to read."""
PIPELINED = 100
SEGMENT_BYTES = 4 << 20
RESTART_CPU_S_MAX = 1.0
CLEANED_BYTES_MAX = 2 * SEGMENT_BYTES
WAIT_S = 90.0
OFFSET = Struct(">q")
PLACEHOLDER = 0x1122334455667788


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[BrokerProcess]:
    settings = {
        "offsets.topic.num.partitions": 1,
        "offsets.topic.segment.bytes": SEGMENT_BYTES,
        "log.cleaner.backoff.ms": 200,
    }
    with BrokerProcess(tmp_path, settings) as broker:
        yield broker


@pytest.mark.timeout(240)
async def test_a_million_commits_of_one_key_restart_within_a_second(
    broker: BrokerProcess,
) -> None:
    with WireClient(broker.kafka_port) as client:
        topic_id = client.create_topic(TOPIC)
        client.call(
            api.FIND_COORDINATOR,
            4,
            FindCoordinatorRequest(key_type=0, coordinator_keys=[GROUP]),
        )
        wait_for(lambda: committed_offset(client) is not None)
        commit(client, range(1, 2))
    empty_cpu_s, empty_s = until_answered(broker, 1)

    broker.terminate()
    await store_commits(broker.data, topic_id, range(2, STORED_COMMITS + 2))
    broker.start()
    wait_for(lambda: log_bytes(broker.data) <= CLEANED_BYTES_MAX)
    last = STORED_COMMITS + LAST_COMMITS
    with WireClient(broker.kafka_port) as client:
        wait_for(lambda: committed_offset(client) == STORED_COMMITS + 1)
        commit(client, range(STORED_COMMITS + 2, last + 1))
    cpu_s, restart_s = until_answered(broker, last)

    times = (
        f"answered {restart_s:.2f} s after the kill and {cpu_s:.2f} s of CPU, "
        f"without commits {empty_s:.2f} s and {empty_cpu_s:.2f} s"
    )
    print(times)
    assert cpu_s - empty_cpu_s < RESTART_CPU_S_MAX, times


def until_answered(broker: BrokerProcess, expected: int) -> tuple[float, float]:
    """Kill and restart: (its CPU seconds, seconds) until it tells the committed offset.

    CPU time, so that other work on the machine does not count.
    """
    started_s = time.monotonic()
    broker.restart()
    with WireClient(broker.kafka_port) as client:
        wait_for(lambda: committed_offset(client) is not None, pause=0.005)
        cpu_s = cpu_seconds(broker.pid)
        seconds = time.monotonic() - started_s
        assert committed_offset(client) == expected
    return cpu_s, seconds


def committed_offset(client: WireClient) -> int | None:
    """The group's offset; None while its coordinator loads."""
    topics = [OffsetFetchRequestTopic(name=TOPIC, partition_indexes=[0])]
    request = OffsetFetchRequest(group_id=GROUP, topics=topics)
    response = client.call(api.OFFSET_FETCH, 7, request)
    if response.error_code in (
        ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
        ErrorCode.NOT_COORDINATOR,
    ):
        return None
    assert response.error_code == ErrorCode.NONE
    offset: int = response.topics[0].partitions[0].committed_offset
    return offset


def commit(client: WireClient, offsets: range) -> None:
    for first in range(offsets.start, offsets.stop, PIPELINED):
        chunk = range(first, min(first + PIPELINED, offsets.stop))
        for offset in chunk:
            partition = OffsetCommitRequestPartition(
                partition_index=0, committed_offset=offset, committed_metadata=""
            )
            topic = OffsetCommitRequestTopic(name=TOPIC, partitions=[partition])
            client.send(api.OFFSET_COMMIT, 8, OffsetCommitRequest(group_id=GROUP, topics=[topic]))
        for _ in chunk:
            assert client.receive().topics[0].partitions[0].error_code == ErrorCode.NONE


async def store_commits(data: Path, topic_id: bytes, offsets: range) -> None:
    """Append one batch per commit to the offsets topic of a stopped broker, as it would."""
    disk = SystemDisk(str(data))
    directory = partition_directory(CONSUMER_OFFSETS, 0)
    config = LogConfig(segment_bytes=SEGMENT_BYTES, cleanup_policy=frozenset({COMPACT}))
    now_ms = int(time.time() * 1000)
    log = await PartitionLog.open(disk, directory, config, now_ms)
    record = OffsetCommitted(GROUP, TOPIC, 0, PLACEHOLDER, -1, "", now_ms, topic_id)
    template = build_batch([to_log(record)], timestamp_ms=now_ms)
    position = template.index(OFFSET.pack(PLACEHOLDER))
    for offset in offsets:
        batch = bytearray(template)
        OFFSET.pack_into(batch, position, offset)
        seal(batch)
        log.stage(memoryview(batch), leader_epoch=1, now_wall_ms=now_ms, is_client=False)
        if offset % 1_000 == 0:
            log.flush()
            if log.needs_roll:
                await log.roll(now_ms)
    log.flush()
    await log.close()
    disk.close()


def log_bytes(data: Path) -> int:
    directory = data / partition_directory(CONSUMER_OFFSETS, 0)
    return sum(path.stat().st_size for path in directory.glob("*.log") if path.exists())


def cpu_seconds(pid: int) -> float:
    """User and system time of a process, its threads included (proc(5), fields 14 and 15)."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def wait_for(condition: Callable[[], bool], *, pause: float = 0.05) -> None:
    deadline = time.monotonic() + WAIT_S
    while not condition():
        assert time.monotonic() < deadline, f"not within {WAIT_S} s"
        time.sleep(pause)
