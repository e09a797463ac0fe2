"""What a topic holds, read by librdkafka."""

from __future__ import annotations

import uuid
from typing import Any, NamedTuple

from confluent_kafka import Consumer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic


class Stored(NamedTuple):
    partition: int
    offset: int
    key: bytes | None
    value: bytes | None
    headers: list[tuple[str, bytes | None]]

    @property
    def message_id(self) -> str:
        return dict(self.headers)["message-id"].decode()  # type: ignore[union-attr]


def create_topic(bootstrap: str, name: str, partitions: int = 1, **config: str) -> None:
    settings = {key.replace("_", "."): value for key, value in config.items()}
    admin = AdminClient({"bootstrap.servers": bootstrap, "log_level": 2})
    admin.create_topics([NewTopic(name, partitions, 1, config=settings)])[name].result(30)


def delete_topic(bootstrap: str, name: str) -> None:
    admin = AdminClient({"bootstrap.servers": bootstrap, "log_level": 2})
    admin.delete_topics([name])[name].result(30)


def read_all(bootstrap: str, topic: str, partitions: int = 1) -> list[Stored]:
    """Every record of the topic up to its present end, by partition and offset."""
    settings: dict[str, Any] = {
        "bootstrap.servers": bootstrap,
        "group.id": f"reader-{uuid.uuid4().hex}",
        "enable.auto.commit": False,
        "auto.offset.reset": "earliest",
        "fetch.queue.backoff.ms": 5,
    }
    consumer = Consumer(settings)
    try:
        found: list[Stored] = []
        ends = {}
        for number in range(partitions):
            where = TopicPartition(topic, number)
            low, high = consumer.get_watermark_offsets(where, timeout=30)
            if high > low:
                ends[number] = high
        consumer.assign([TopicPartition(topic, number, 0) for number in ends])
        while ends:
            for message in consumer.consume(1000, timeout=0.1):
                assert message.error() is None, message.error()
                number, offset = message.partition(), message.offset()
                assert number is not None
                assert offset is not None
                found.append(
                    Stored(number, offset, message.key(), message.value(), message.headers() or [])
                )
                if offset + 1 >= ends.get(number, 0):
                    ends.pop(number, None)
        return sorted(found)
    finally:
        consumer.close()
