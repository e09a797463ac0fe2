"""Damaged indexes are rebuilt; a full disk refuses writes, nothing else, and heals."""

from __future__ import annotations

import contextlib
import itertools
import os
import shutil
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka import Consumer, KafkaError, Message, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from tests.support.broker_process import BrokerProcess

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
        for message in consumer.consume(500, 0.5):
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


def fill(path: Path) -> None:
    """Writes until no byte more fits."""
    file = os.open(path, os.O_CREAT | os.O_WRONLY)
    try:
        for size in (1 << 20, 4096, 1):
            with contextlib.suppress(OSError):
                while os.write(file, bytes(size)):
                    pass
    finally:
        os.close(file)


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A file system of 32 MiB of its own."""
    mount = tmp_path / "small"
    mount.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=32m", "tmpfs", str(mount)], check=True)
    try:
        yield mount
    finally:
        subprocess.run(["umount", "-l", str(mount)], check=True)


def test_full_disk_refuses_produce_serves_reads_and_heals(small_disk: Path) -> None:
    with BrokerProcess(small_disk) as broker:
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


def test_start_on_a_full_disk_is_refused_and_recovers_once_there_is_space(small_disk: Path) -> None:
    with BrokerProcess(small_disk) as broker:
        create_topic(broker, "orders")
        assert produce(broker, "orders", 300) == []
        broker.kill()
        filler = small_disk / "filler"
        fill(filler)
        with pytest.raises(AssertionError, match="the disk is full: free some space"):
            broker.start()
        filler.unlink()
        broker.start()
        assert read_keys(broker, "orders") == list(range(300)), "a full recovery ran"
        assert produce(broker, "orders", 10) == []
