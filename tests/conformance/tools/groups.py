"""Records with chosen times, committed offsets and a living member, for the tools to find."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager

from confluent_kafka import Consumer, Producer, TopicPartition

_SECONDS_MAX = 30


def write(bootstrap: str, topic: str, timestamps_ms: Sequence[int], *, partition: int = 0) -> None:
    """A record per time; returns when all are acknowledged. The value is `v` and its position."""
    producer = Producer({"bootstrap.servers": bootstrap})
    failures: list[object] = []
    for i, timestamp_ms in enumerate(timestamps_ms):
        producer.produce(
            topic,
            f"v{i}",
            partition=partition,
            timestamp=timestamp_ms,
            on_delivery=lambda error, _message: failures.append(error) if error else None,
        )
    assert producer.flush(_SECONDS_MAX) == 0, "not all records are acknowledged"
    assert not failures


def commit(bootstrap: str, group: str, offsets: Mapping[tuple[str, int], int]) -> None:
    """Offsets of a group without members, by (topic, partition)."""
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": group})
    try:
        places = [TopicPartition(*place, offset) for place, offset in offsets.items()]
        answers = consumer.commit(offsets=places, asynchronous=False)
        assert all(answer.error is None for answer in answers or []), answers
    finally:
        consumer.close()


def committed(bootstrap: str, group: str, places: Sequence[tuple[str, int]]) -> list[int]:
    """The offset per place, -1001 where there is none."""
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": group})
    try:
        found = consumer.committed([TopicPartition(*place) for place in places], _SECONDS_MAX)
        return [place.offset for place in found]
    finally:
        consumer.close()


@contextmanager
def member(bootstrap: str, topic: str, group: str) -> Iterator[None]:
    """Inside, the group has one member to which every partition of the topic is assigned."""
    consumer = Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": group,
            "client.id": "judged-member",
            "enable.auto.commit": False,
            "auto.offset.reset": "earliest",
        }
    )
    is_assigned, is_over = threading.Event(), threading.Event()
    consumer.subscribe([topic], on_assign=lambda _consumer, _places: is_assigned.set())

    def poll() -> None:
        while not is_over.is_set():
            consumer.poll(0.1)

    thread = threading.Thread(target=poll)
    thread.start()
    try:
        assert is_assigned.wait(_SECONDS_MAX), f"{group} has no assignment"
        yield
    finally:
        is_over.set()
        thread.join()
        consumer.close()


def now_ms() -> int:
    return int(time.time() * 1000)
