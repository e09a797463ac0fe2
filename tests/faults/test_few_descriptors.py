"""A broker that may open few files: partitions and connections are refused before storage lacks
descriptors; what is refused for a moment is taken later, without a restart.
"""

from __future__ import annotations

import contextlib
import resource
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from broker.errors import ErrorCode
from broker.wire import api
from broker.wire.messages.create_topics import (
    CreatableTopic,
    CreatableTopicConfig,
    CreateTopicsRequest,
)
from tests.faults.power_clients import LATEST, list_offset
from tests.faults.scrape import is_ready, metric, wait_for_metric
from tests.support.broker_process import BrokerProcess
from tests.support.wire_client import WireClient, batch_of

pytestmark = pytest.mark.apt("util-linux")

DESCRIPTORS = 128
TOPICS = 30
ROLLS = 3
IDLE_CLIENTS = 200
YEAR_MS = 365 * 86_400_000
STRANGE_BATCHES = 600
FEW = 2
"""The journal, and whatever is open for a moment."""
RECORDS: list[tuple[bytes | None, bytes | None]] = [(b"k", b"v" * 20_000)]
WAIT_S = 60


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[BrokerProcess]:
    prefix = ["prlimit", f"--nofile={DESCRIPTORS}:{DESCRIPTORS}"]
    with BrokerProcess(tmp_path, prefix=prefix) as process:
        yield process


def create(client: WireClient, name: str) -> tuple[int, str]:
    """The error of creating a topic with one partition."""
    small = CreatableTopicConfig(name="segment.bytes", value="100000")
    topic = CreatableTopic(name=name, num_partitions=1, replication_factor=1, configs=[small])
    request = CreateTopicsRequest(topics=[topic], timeout_ms=10_000)
    (answer,) = client.call(api.CREATE_TOPICS, 7, request).topics
    return int(answer.error_code), answer.error_message or ""


def test_many_segments_and_idle_clients_leave_room_to_roll_to_read_and_to_write(
    broker: BrokerProcess,
) -> None:
    with WireClient(broker.kafka_port) as client:
        names = [f"t{number}" for number in range(TOPICS)]
        for name in names:
            assert create(client, name) == (0, "")
        counts = dict.fromkeys(names, 0)
        with idle_clients(broker):
            produce_until_rolled(broker, client, counts, TOPICS * ROLLS)
            for name, count in counts.items():
                assert list_offset(client, name, 0, LATEST) == count
                for offset in (0, count // 2, count - 1):
                    assert client.fetch(name, offset).error_code == ErrorCode.NONE, (name, offset)
            assert metric(broker, "hermes_offline_partitions") == 0
        wait_until_welcome(broker)
    broker.restart()
    with WireClient(broker.kafka_port) as client:
        for name, count in counts.items():
            assert client.produce(name, RECORDS).base_offset == count


@contextlib.contextmanager
def idle_clients(broker: BrokerProcess) -> Iterator[None]:
    """More than there are descriptors for; some are turned away."""
    clients = [WireClient(broker.kafka_port) for _ in range(IDLE_CLIENTS)]
    try:
        wait_until_refused(broker)
        yield
    finally:
        for client in clients:
            client.socket.close()


def wait_until_refused(broker: BrokerProcess) -> None:
    deadline = time.monotonic() + WAIT_S
    while "limit=descriptors" not in broker.log_path.read_text():
        assert time.monotonic() < deadline, "nobody is turned away"
        time.sleep(0.05)


def wait_until_welcome(broker: BrokerProcess) -> None:
    deadline = time.monotonic() + WAIT_S
    while True:
        with contextlib.suppress(OSError), WireClient(broker.kafka_port) as client:
            client.fetch("t0", 0)
            return
        assert time.monotonic() < deadline, "new clients are turned away for good"
        time.sleep(0.05)


def produce_until_rolled(
    broker: BrokerProcess, client: WireClient, counts: dict[str, int], rolls: int
) -> None:
    """Records to all topics in turn, until so many segments were begun."""
    deadline = time.monotonic() + WAIT_S
    while (metric(broker, "hermes_segments_rolled_total") or 0) < rolls:
        assert time.monotonic() < deadline, "segments do not roll"
        for name in counts:
            answer = client.produce(name, RECORDS)
            assert answer.error_code == ErrorCode.NONE, (name, answer.error_message)
            counts[name] += 1


def test_partitions_are_refused_before_storage_has_no_descriptors_left(
    broker: BrokerProcess,
) -> None:
    with WireClient(broker.kafka_port) as client:
        for number in range(DESCRIPTORS):
            code, message = create(client, f"t{number}")
            if code:
                break
        assert code == ErrorCode.INVALID_PARTITIONS
        assert "ulimit -n" in message
        counts = {f"t{index}": 0 for index in range(3)}
        produce_until_rolled(broker, client, counts, 2)
        assert metric(broker, "hermes_offline_partitions") == 0


def test_a_roll_without_a_descriptor_waits_for_one_and_takes_nothing_offline(
    broker: BrokerProcess,
) -> None:
    with WireClient(broker.kafka_port) as client:
        assert create(client, "orders") == (0, "")
        assert client.produce("orders", RECORDS).base_offset == 0
        allow(broker.pid, count_descriptors(broker.pid))
        count = 1
        while "Too many open files" not in broker.log_path.read_text():
            assert client.produce("orders", RECORDS).base_offset == count, "the old segment goes on"
            count += 1
            assert count < 500, "no roll was tried"
        allow(broker.pid, DESCRIPTORS)
        deadline = time.monotonic() + WAIT_S
        while (metric(broker, "hermes_segments_rolled_total") or 0) < 1:
            assert time.monotonic() < deadline, "the roll is not tried again"
            assert client.produce("orders", RECORDS).base_offset == count
            count += 1
        wait_for_metric(broker, "hermes_offline_partitions", 0)
        assert client.fetch("orders", 0).high_watermark == count


def test_probes_are_answered_while_closed_segments_hold_the_last_descriptors(
    broker: BrokerProcess,
) -> None:
    with WireClient(broker.kafka_port) as client:
        assert create(client, "orders") == (0, "")
        counts = {"orders": 0}
        produce_until_rolled(broker, client, counts, ROLLS)
        time.sleep(0.5)  # the connection of the last scrape is gone
        assert client.fetch("orders", 0).error_code == ErrorCode.NONE  # opens a closed segment
        allow(broker.pid, lowest_free(broker.pid))
        assert is_ready(broker)
        assert metric(broker, "hermes_offline_partitions") == 0
        assert client.fetch("orders", 0).error_code == ErrorCode.NONE


def test_client_timestamps_take_no_descriptors(broker: BrokerProcess) -> None:
    """KAFKA-4099: with times years apart each record got a segment of its own."""
    now_ms = time.time_ns() // 1_000_000
    strange_ms = (now_ms, now_ms - 10 * YEAR_MS, 0, now_ms + 10 * YEAR_MS, 2**62)
    with WireClient(broker.kafka_port) as client:
        client.create_topic("orders", message_timestamp_after_max_ms=str(2**62))
        assert client.produce("orders", RECORDS).error_code == ErrorCode.NONE
        time.sleep(0.5)  # what a start opens for a moment is closed
        before = count_descriptors(broker.pid)
        for _ in range(STRANGE_BATCHES):
            for timestamp_ms in strange_ms:
                batch = batch_of([(b"k", b"v")], timestamp_ms=timestamp_ms)
                client.send_batch("orders", batch)
            for _ in strange_ms:
                answer = client.receive().responses[0].partition_responses[0]
                assert answer.error_code == ErrorCode.NONE
        assert count_descriptors(broker.pid) <= before + FEW
        assert (metric(broker, "hermes_segments_rolled_total") or 0) == 0


def lowest_free(pid: int) -> int:
    """The number that the next descriptor would get."""
    taken = {int(each.name) for each in Path(f"/proc/{pid}/fd").iterdir()}
    return next(number for number in range(len(taken) + 1) if number not in taken)


def count_descriptors(pid: int) -> int:
    return len(list(Path(f"/proc/{pid}/fd").iterdir()))


def allow(pid: int, count: int) -> None:
    """From now on the process may have so many files open."""
    resource.prlimit(pid, resource.RLIMIT_NOFILE, (count, DESCRIPTORS))
