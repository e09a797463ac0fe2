"""Damaged indexes are rebuilt; a full disk refuses writes, nothing else, and heals."""

from __future__ import annotations

import itertools
import shutil
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka import (
    Consumer,
    KafkaError,
    Message,
    Producer,
    TopicPartition,
)
from confluent_kafka.admin import (
    AdminClient,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    NewTopic,
)

from broker.errors import ErrorCode
from broker.wire.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from broker.wire.messages.offset_fetch import OffsetFetchRequest, OffsetFetchRequestTopic
from tests.faults.disks import fill, tmpfs
from tests.support.broker_process import BrokerProcess
from tests.support.wire_client import WireClient

VALUE = b"v" * 1000


def create_topic(broker: BrokerProcess, name: str, **settings: str) -> None:
    admin = AdminClient({"bootstrap.servers": broker.bootstrap})
    admin.create_topics([NewTopic(name, 1, 1, config=settings)])[name].result(20)


def produce(
    broker: BrokerProcess, topic: str, count: int, *, pause_every: int = 0
) -> list[KafkaError]:
    """Sends `count` records of 1,000 bytes; the errors of those that were refused."""
    errors: list[KafkaError] = []

    def on_delivery(error: KafkaError | None, _message: Message) -> None:
        if error is not None:
            errors.append(error)

    producer = Producer(
        {"bootstrap.servers": broker.bootstrap, "linger.ms": 5, "retries": 0, "acks": "all"}
    )
    for number in range(count):
        producer.produce(topic, VALUE, str(number), on_delivery=on_delivery)
        producer.poll(0)
        if pause_every and number % pause_every == pause_every - 1:
            assert producer.flush(30) == 0
            time.sleep(0.05)  # a segment is rolled beside the appends
    assert producer.flush(30) == 0
    return errors


def read_keys(broker: BrokerProcess, topic: str) -> list[int]:
    """All keys of partition 0, in order."""
    consumer = Consumer(
        {"bootstrap.servers": broker.bootstrap, "group.id": "reader", "enable.auto.commit": False}
    )
    where = TopicPartition(topic, 0, 0)
    end = consumer.get_watermark_offsets(where, 10)[1]
    consumer.assign([where])
    keys: list[int] = []
    deadline = time.monotonic() + 20
    position = 0
    while position < end and time.monotonic() < deadline:
        for message in consumer.consume(min(500, end - position), 0.5):
            assert message.error() is None
            keys.append(int(message.key()))
            position = message.offset() + 1
    consumer.close()
    return keys


DAMAGES = {
    "emptied": lambda path: path.write_bytes(b""),
    "zeroed": lambda path: path.write_bytes(bytes(path.stat().st_size)),
    "cut in an entry": lambda path: path.write_bytes(path.read_bytes()[:-3]),
    "garbage": lambda path: path.write_bytes(b"\xa5" * (path.stat().st_size or 64)),
    "lost": lambda path: path.unlink(),
}


@pytest.mark.parametrize("is_clean", [True, False], ids=["clean stop", "killed"])
def test_damaged_indexes_are_rebuilt_and_nothing_is_lost(tmp_path: Path, is_clean: bool) -> None:
    settings = {"log.retention.check.interval.ms": 1000}
    with BrokerProcess(tmp_path, settings) as broker:
        create_topic(broker, "orders", **{"segment.bytes": "100000", "retention.ms": "600000"})
        assert produce(broker, "orders", 300, pause_every=50) == []
        directory = next((broker.data / "topics").glob("orders*/partition-00"))
        for suffix, (name, damage) in itertools.product((".idx", ".timeidx"), DAMAGES.items()):
            if is_clean:
                broker.terminate()
            else:
                broker.kill()
            indexes = sorted(directory.glob(f"*{suffix}"))
            assert len(indexes) > 2, "several segments are damaged"
            for path in indexes:
                damage(path)
            broker.start()
            assert read_keys(broker, "orders") == list(range(300)), (suffix, name)
        time.sleep(1.5)  # a pass of retention, which must not take a damaged entry for an old one
        assert read_keys(broker, "orders") == list(range(300))


TO_THE_LAST_BYTE = {"hermes.log.dir.min.free.bytes": 0}
"""Produce goes on until the disk is full."""


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A file system of 32 MiB of its own."""
    with tmpfs(tmp_path, megabytes=32) as mount:
        yield mount


def test_full_disk_refuses_produce_serves_reads_and_heals(small_disk: Path) -> None:
    with BrokerProcess(small_disk, TO_THE_LAST_BYTE) as broker:
        create_topic(broker, "orders")
        create_topic(broker, "ballast")
        assert produce(broker, "orders", 300) == []
        filler = small_disk / "filler"
        with filler.open("wb") as file:
            file.write(bytes(max(0, shutil.disk_usage(small_disk).free - 2_000_000)))
        refused = produce(broker, "ballast", 6_000)
        assert refused, "the disk was full, so some records were refused"
        assert {error.code() for error in refused} == {KafkaError.KAFKA_STORAGE_ERROR}
        stored = read_keys(broker, "orders")
        assert stored == list(range(300)), "reads go on"
        acked = 6_000 - len(refused)
        assert len(read_keys(broker, "ballast")) == acked, "what was acknowledged is there"
        filler.unlink()
        assert produce(broker, "orders", 300) == [], "writes return without a restart"
        assert read_keys(broker, "orders") == [*range(300), *range(300)]
        broker.restart()
        assert read_keys(broker, "orders") == [*range(300), *range(300)]
        assert len(read_keys(broker, "ballast")) == acked


def test_groups_on_a_full_disk_keep_their_members_answer_reads_and_heal(small_disk: Path) -> None:
    revoked: list[object] = []
    with BrokerProcess(small_disk, {"offsets.topic.num.partitions": 1}) as broker:
        create_topic(broker, "orders")
        assert produce(broker, "orders", 300) == []
        consumer = Consumer(
            {
                "bootstrap.servers": broker.bootstrap,
                "group.id": "billing",
                "enable.auto.commit": False,
                "auto.offset.reset": "earliest",
                "session.timeout.ms": 6_000,
                "heartbeat.interval.ms": 500,
            }
        )
        consumer.subscribe(["orders"], on_revoke=lambda _, partitions: revoked.append(partitions))
        read = consumer.consume(100, 20)
        assert len(read) == 100
        consumer.commit(message=read[9], asynchronous=False)
        fill(small_disk / "filler")
        with WireClient(broker.kafka_port) as client:
            acknowledged = commit_until_refused(client)
            consumer.commit(message=read[98])  # tried again by the client until there is space
            ends_at = time.monotonic() + 8  # longer than the session
            while time.monotonic() < ends_at:
                consumer.poll(0.2)
                assert commit(client, 1_000) == FULL
                assert fetch_committed(client, "audit") == acknowledged, "reads go on"
                assert fetch_committed(client, "billing") == 10
        assert not revoked, "heartbeats go on"
        assert broker.log_path.read_text().count("the shard is loaded again") == 1
        (small_disk / "filler").unlink()
        time.sleep(2)
        consumer.commit(message=read[99], asynchronous=False)
        broker.restart()
        with WireClient(broker.kafka_port) as client:
            assert fetch_committed(client, "audit") == acknowledged
            assert fetch_committed(client, "billing") == 100
        consumer.close()


FULL = ErrorCode.COORDINATOR_LOAD_IN_PROGRESS


def commit(client: WireClient, offset: int) -> int:
    """Commits for the group `audit`, which has no members: the error code."""
    partition = OffsetCommitRequestPartition(partition_index=0, committed_offset=offset)
    topic = OffsetCommitRequestTopic(name="orders", partitions=[partition])
    answer = client.call(8, 8, OffsetCommitRequest(group_id="audit", topics=[topic]))
    return int(answer.topics[0].partitions[0].error_code)


def commit_until_refused(client: WireClient) -> int:
    """Commits one after the other until the broker cannot store one; the last one it stored."""
    for offset in range(1, 1_000):
        code = commit(client, offset)
        if code:
            assert code == FULL
            return offset - 1
    raise AssertionError("the disk had room for every commit")


def fetch_committed(client: WireClient, group: str) -> int:
    deadline = time.monotonic() + 20
    while True:
        topic = OffsetFetchRequestTopic(name="orders", partition_indexes=[0])
        answer = client.call(9, 7, OffsetFetchRequest(group_id=group, topics=[topic]))
        if answer.error_code != ErrorCode.COORDINATOR_LOAD_IN_PROGRESS:
            assert answer.error_code == 0
            return int(answer.topics[0].partitions[0].committed_offset)
        assert time.monotonic() < deadline, "the group is not loaded in time"
        time.sleep(0.05)


def test_topics_are_deleted_and_retention_lowered_on_a_full_disk(small_disk: Path) -> None:
    settings = {**TO_THE_LAST_BYTE, "log.retention.check.interval.ms": 1000}
    with BrokerProcess(small_disk, settings) as broker:
        create_topic(broker, "orders", **{"segment.bytes": "1000000"})
        create_topic(broker, "ballast")
        assert produce(broker, "orders", 4_000, pause_every=500) == []
        while not produce(broker, "ballast", 4_000):
            pass
        fill(small_disk / "rest")
        admin = AdminClient({"bootstrap.servers": broker.bootstrap})
        resource = ConfigResource(
            ConfigResource.Type.TOPIC,
            "orders",
            incremental_configs=[
                ConfigEntry(
                    "retention.bytes",
                    "1000000",
                    incremental_operation=AlterConfigOpType.SET,
                )
            ],
        )
        admin.incremental_alter_configs([resource])[resource].result(20)
        wait_for_free(small_disk, 1_000_000)
        assert produce(broker, "orders", 100) == [], "lower retention made room"
        while not produce(broker, "ballast", 4_000):
            pass
        fill(small_disk / "rest")
        admin.delete_topics(["ballast"])["ballast"].result(20)
        wait_for_free(small_disk, 10_000_000)
        assert produce(broker, "orders", 100) == [], "a deleted topic made room"
        broker.restart()
        assert "ballast" not in admin.list_topics(timeout=20).topics


def wait_for_free(path: Path, count: int) -> None:
    deadline = time.monotonic() + 15
    while shutil.disk_usage(path).free < count:
        assert time.monotonic() < deadline, "no space was freed"
        time.sleep(0.1)


def test_start_after_a_kill_on_a_full_disk_serves_reads_and_deletions_and_heals(
    small_disk: Path,
) -> None:
    with BrokerProcess(small_disk, TO_THE_LAST_BYTE) as broker:
        for name in ("orders", "ballast"):
            create_topic(broker, name)
            assert produce(broker, name, 300) == []
        broker.kill()
        fill(small_disk / "filler")
        broker.start()
        assert read_keys(broker, "orders") == list(range(300))
        assert produce(broker, "orders", 10), "nothing can be written"
        admin = AdminClient({"bootstrap.servers": broker.bootstrap})
        admin.delete_topics(["ballast"])["ballast"].result(20)
        wait_for_free(small_disk, 200_000)
        assert produce(broker, "orders", 10) == []
        broker.restart()
        assert read_keys(broker, "orders") == [*range(300), *range(10)]


def test_first_start_on_a_full_disk_says_why(tmp_path: Path, small_disk: Path) -> None:
    broker = BrokerProcess(tmp_path)
    broker.data = small_disk / "data"
    broker.data.mkdir()
    filler = small_disk / "filler"
    fill(filler)
    with pytest.raises(AssertionError, match="No space left on device"):
        broker.start()
    filler.unlink()
    broker.start()
    broker.terminate()
