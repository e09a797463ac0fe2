"""Orders through a group of three while a member and the broker are killed.

Nothing is lost, reordered or stored twice, and no committed offset goes back.
"""

from __future__ import annotations

import itertools
import threading
import time
import warnings
from collections import defaultdict
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import (
    Consumer,
    ConsumerGroupTopicPartitions,
    KafkaError,
    KafkaException,
    Message,
    Producer,
    TopicPartition,
)
from confluent_kafka.admin import AdminClient, NewTopic

from tests.conformance.clients import CLIENTS, Member
from tests.support.broker_process import BrokerProcess
from tests.support.orders import OrderEvent, order_events

TOPIC = "orders"
GROUP = "fulfilment"
PARTITIONS = 6
EVENTS_PER_SECOND = 1_000
MEMBER_CLIENT = CLIENTS[0]


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[BrokerProcess]:
    with BrokerProcess(tmp_path, {"group.initial.rebalance.delay.ms": 0}) as broker:
        yield broker


@pytest.mark.filterwarnings("default::pytest.PytestWarning")  # it is for the report
@pytest.mark.timeout(180)
def test_orders_survive_the_death_of_a_member_and_of_the_broker(
    broker: BrokerProcess, record_property: Any
) -> None:
    events, origin = order_events()
    record_property("orders", origin)
    if "generated" in origin:
        warnings.warn(pytest.PytestWarning(origin), stacklevel=1)
    admin = AdminClient({"bootstrap.servers": broker.bootstrap})
    admin.create_topics([NewTopic(TOPIC, PARTITIONS, 1)])[TOPIC].result(20)

    with ExitStack() as stack:
        watch = stack.enter_context(CommittedOffsets(broker.bootstrap))
        members = [stack.enter_context(new_member(broker)) for _ in range(3)]
        producing = stack.enter_context(Producing(broker.bootstrap, events))
        producing.wait_for(len(events) // 3)
        members[0].kill()
        members.append(stack.enter_context(new_member(broker)))
        producing.wait_for(2 * len(events) // 3)
        broker.restart()
        producing.wait_for(len(events))
        alive = members[1:]
        wait_until_delivered(members, len(events))
        for member in alive:
            member.leave()

    assert producing.failures == []
    stored = read_log(broker.bootstrap)
    expected = steps_by_order(events)
    assert steps_by_order(stored) == expected, "the log holds every event once, in order per order"
    assert first_deliveries(members) == expected, "every event is delivered, in order per order"
    assert watch.moved_back == []
    assert watch.seen == {p: end for p, end in log_ends(broker.bootstrap).items() if end}


def new_member(broker: BrokerProcess) -> Member:
    return MEMBER_CLIENT.member(broker.bootstrap, TOPIC, GROUP)


def wait_until_delivered(members: list[Member], count: int) -> None:
    deadline = time.monotonic() + 60
    while True:
        for member in members:
            member.take_events()
        if len({(r["partition"], r["offset"]) for m in members for r in m.records}) >= count:
            return
        assert time.monotonic() < deadline, [len(member.records) for member in members]
        time.sleep(0.1)


def steps_by_order(events: list[OrderEvent]) -> dict[str, list[str]]:
    by_order: dict[str, list[str]] = defaultdict(list)
    for event in events:
        by_order[event.order_id].append(event.value)
    return dict(by_order)


def first_deliveries(members: list[Member]) -> dict[str, list[str]]:
    """Per order, its events by first delivery: members own a partition one after the other."""
    positions: dict[tuple[int, int], dict[str, Any]] = {}
    for record in itertools.chain.from_iterable(in_reading_order(member) for member in members):
        positions.setdefault((record["partition"], record["offset"]), record)
    by_order: dict[str, list[str]] = defaultdict(list)
    for _, record in sorted(positions.items()):
        by_order[record["key"]].append(record["value"])
    return dict(by_order)


def in_reading_order(member: Member) -> list[dict[str, Any]]:
    """The member's records, after a check: within one assignment no offset is skipped."""
    last: dict[int, int] = {}
    for record in member.records:
        partition, offset = record["partition"], record["offset"]
        previous = last.get(partition)
        if previous is not None and offset > previous + 1:
            assert len(member.assignments) > 1, f"offsets {previous + 1}..{offset - 1} skipped"
        last[partition] = offset
    return member.records


class Producing:
    """A producer thread at a steady rate; idempotent, so that its retries store nothing twice."""

    def __init__(self, bootstrap: str, events: list[OrderEvent]) -> None:
        self._events = events
        self._acked = 0
        self.failures: list[str] = []
        self._producer = Producer(
            {
                "bootstrap.servers": bootstrap,
                "enable.idempotence": True,
                "partitioner": "murmur2_random",
                "linger.ms": 5,
                "message.timeout.ms": 90_000,
                "reconnect.backoff.max.ms": 500,
            }
        )
        self._thread = threading.Thread(target=self._produce, daemon=True)

    def __enter__(self) -> Producing:
        self._thread.start()
        return self

    def __exit__(self, *_exception: object) -> None:
        self._thread.join(100)

    def _produce(self) -> None:
        started = time.monotonic()
        for number, event in enumerate(self._events):
            while time.monotonic() < started + number / EVENTS_PER_SECOND:
                self._producer.poll(0.005)
            self._producer.produce(
                TOPIC, event.value, event.order_id, on_delivery=self._on_delivery
            )
        self._producer.flush(90)

    def _on_delivery(self, error: KafkaError | None, message: Message) -> None:
        if error is not None:
            self.failures.append(f"{message.key()}: {error}")
        self._acked += 1

    def wait_for(self, count: int, *, timeout: float = 90) -> None:
        deadline = time.monotonic() + timeout
        while self._acked < count:
            assert time.monotonic() < deadline, f"{self._acked} of {count} answered in {timeout} s"
            time.sleep(0.02)


class CommittedOffsets:
    """Watches the group's offsets: the latest per partition, and each time that one went back."""

    def __init__(self, bootstrap: str) -> None:
        self._admin = AdminClient({"bootstrap.servers": bootstrap})
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._watch, daemon=True)
        self.seen: dict[int, int] = {}
        self.moved_back: list[str] = []

    def __enter__(self) -> CommittedOffsets:
        self._thread.start()
        return self

    def __exit__(self, *_exception: object) -> None:
        self._stopping.set()
        self._thread.join(30)
        deadline = time.monotonic() + 30
        while not self._look():
            assert time.monotonic() < deadline, "the committed offsets cannot be read"

    def _watch(self) -> None:
        while not self._stopping.is_set():
            self._look()
            self._stopping.wait(0.2)

    def _look(self) -> bool:
        """False while the broker is away: that is the scenario."""
        request = [ConsumerGroupTopicPartitions(GROUP)]
        try:
            answer = self._admin.list_consumer_group_offsets(request, request_timeout=5)
            offsets = answer[GROUP].result(6).topic_partitions
        except (KafkaException, TimeoutError):
            return False
        for found in offsets:
            before = self.seen.get(found.partition, 0)
            if found.offset < before:
                self.moved_back.append(f"partition {found.partition}: {before} to {found.offset}")
            self.seen[found.partition] = max(before, found.offset)
        return True


def read_log(bootstrap: str) -> list[OrderEvent]:
    """Every record of the topic, partition by partition."""
    ends = log_ends(bootstrap)
    consumer = Consumer(
        {"bootstrap.servers": bootstrap, "group.id": "audit", "enable.auto.commit": False}
    )
    consumer.assign([TopicPartition(TOPIC, partition, 0) for partition in ends])
    stored: list[tuple[int, int, OrderEvent]] = []
    deadline = time.monotonic() + 30
    while len(stored) < sum(ends.values()):
        assert time.monotonic() < deadline, f"read {len(stored)} of {sum(ends.values())}"
        for message in consumer.consume(1000, 0.5):
            step, name = message.value().decode().split(":")
            event = OrderEvent(message.key().decode(), int(step), name)
            stored.append((message.partition(), message.offset(), event))
    consumer.close()
    return [event for _, _, event in sorted(stored, key=lambda item: item[:2])]


def log_ends(bootstrap: str) -> dict[int, int]:
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": "audit"})
    ends = {
        partition: consumer.get_watermark_offsets(TopicPartition(TOPIC, partition), 10)[1]
        for partition in range(PARTITIONS)
    }
    consumer.close()
    return ends
