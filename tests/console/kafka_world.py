"""A broker for tests of what the console does to a cluster, and clients to fill it.

Ours, or the one at CONSOLE_TEST_BOOTSTRAP (Apache Kafka): the console has to suit both.
"""

from __future__ import annotations

import itertools
import os
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from confluent_kafka import Consumer, ConsumerGroupTopicPartitions, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from tests.support.broker_process import BrokerProcess

WAIT_S_MAX = 40.0
SETTINGS = {
    "group.initial.rebalance.delay.ms": 0,
    "group.min.session.timeout.ms": 500,
    "offsets.topic.num.partitions": 2,
}
_numbers = itertools.count(time.time_ns() // 1_000_000)


@contextmanager
def running_cluster(directory: Path) -> Iterator[str]:
    """The bootstrap address of a cluster for a session of tests."""
    foreign = os.environ.get("CONSOLE_TEST_BOOTSTRAP")
    if foreign:
        yield foreign
        return
    with BrokerProcess(directory, SETTINGS) as broker:
        yield broker.bootstrap


def new_name(prefix: str) -> str:
    """One that no other test uses."""
    return f"{prefix}-{next(_numbers)}"


class World:
    """Topics, records, commits and members on a cluster. It holds no client: a fixture outlives its
    broker, and a client that is left goes on trying to connect to it.
    """

    def __init__(self, bootstrap: str) -> None:
        self.bootstrap = bootstrap
        # Warnings and errors: that a client was closed at once is neither.
        self._settings: dict[str, str | int] = {"bootstrap.servers": bootstrap, "log_level": 4}

    def topic(
        self, partitions: int = 2, records: int = 100, *, config: dict[str, str] | None = None
    ) -> str:
        """A new topic; record n of each partition has the timestamp 1,000,000 + 1,000 n."""
        name = new_name("orders")
        topic = NewTopic(name, partitions, 1, config=config or {})
        with AdminClient(self._settings) as admin:
            admin.create_topics([topic])[name].result(20)
        self.produce(name, partitions, records)
        return name

    def produce(self, topic: str, partitions: int, records: int) -> None:
        producer = Producer(self._settings)
        for number in range(records):
            for partition in range(partitions):
                producer.produce(
                    topic,
                    b"%d" % number,
                    key=b"key",
                    partition=partition,
                    timestamp=1_000_000 + 1_000 * number,
                )
        assert producer.flush(30) == 0

    def commit(self, group: str, topic: str, *offsets: int) -> None:
        """Partition n's offset is offsets[n]."""
        rows = [TopicPartition(topic, index, offset) for index, offset in enumerate(offsets)]
        request = ConsumerGroupTopicPartitions(group, rows)
        with AdminClient(self._settings) as admin:
            admin.alter_consumer_group_offsets([request])[group].result(20)

    def committed(self, group: str, topic: str) -> dict[int, int]:
        request = ConsumerGroupTopicPartitions(group)
        with AdminClient(self._settings) as admin:
            found = admin.list_consumer_group_offsets([request])[group].result(20)
        return {
            one.partition: one.offset
            for one in found.topic_partitions
            if one.topic == topic and one.offset >= 0
        }

    @contextmanager
    def member(self, group: str, topic: str, client_id: str = "settler") -> Iterator[Consumer]:
        """A connected member of the group, until the end of the block."""
        settings = {
            **self._settings,
            "group.id": group,
            "client.id": client_id,
            "enable.auto.commit": False,
            "session.timeout.ms": 6_000,
        }
        consumer = Consumer(settings)
        consumer.subscribe([topic])

        def has_joined() -> bool:
            consumer.poll(0.2)
            return bool(consumer.assignment())

        wait_until(has_joined, "the member joins")
        try:
            yield consumer
        finally:
            consumer.close()


def wait_until(condition: Callable[[], bool], what: str) -> None:
    end = time.monotonic() + WAIT_S_MAX
    while not condition():
        assert time.monotonic() < end, f"it never happened: {what}"
        time.sleep(0.05)
