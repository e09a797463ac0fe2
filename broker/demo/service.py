"""The order service: turns due events into records and sends them at the rate of the load."""

from __future__ import annotations

import json
import random
import threading
import time
import uuid
from collections.abc import Callable
from typing import Any, Final

from confluent_kafka import KafkaError, KafkaException, Producer
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic

from broker.demo.orders import Load, OrderEvent, Orders
from broker.headers import EVENT_TYPE, MESSAGE_ID, TRACEPARENT

PARTITIONER: Final = "murmur2_random"
"""As Java's clients place keys; librdkafka's own default disagrees on most of them."""
_TICK_S: Final = 0.1
_TOPIC_S_MAX: Final = 3.0
"""So long one attempt to create the topic is waited for before the broker's silence is said."""
_CREATED_ORDERS_PER_TICK_MAX: Final = 1_000


class OrderService:
    """Sends until `stop` is set. A broker may be away: librdkafka keeps what is queued."""

    def __init__(
        self,
        settings: dict[str, Any],
        topic: str,
        load: Load,
        stop: threading.Event,
        chance: random.Random,
    ) -> None:
        self.delivered = 0
        self.failed = 0
        self._topic = topic
        self._load = load
        self._stop = stop
        self._chance = chance
        self._orders = Orders(chance)
        self._producer = Producer(producer_settings(settings))

    def run(self) -> None:
        """Returns once `stop` is set and what was queued is delivered, or after 3 seconds."""
        started_s = last_s = time.monotonic()
        owed = 0.0
        while not self._stop.wait(_TICK_S):
            now_s = time.monotonic()
            owed += self._load.orders_per_second(now_s - started_s) * (now_s - last_s)
            last_s = now_s
            born = min(int(owed), _CREATED_ORDERS_PER_TICK_MAX)
            owed = min(owed - born, _CREATED_ORDERS_PER_TICK_MAX)
            for _ in range(born):
                self._orders.create(now_s)
            for event in self._orders.take_due(now_s):
                self._send(event)
            self._producer.poll(0)
        self._producer.flush(3)

    def _send(self, event: OrderEvent) -> None:
        value = json.dumps(payload(event, time.time_ns() // 1_000_000))
        header_list = headers(event, self._chance)
        while not self._stop.is_set():
            try:
                self._producer.produce(
                    self._topic,
                    value,
                    event.order_id,
                    headers=header_list,
                    on_delivery=self._on_delivery,
                )
            except BufferError:  # the queue is full while the broker is away: wait, keep the order
                self._producer.poll(_TICK_S)
            else:
                return

    def _on_delivery(self, error: KafkaError | None, _message: Any) -> None:
        if error is None:
            self.delivered += 1
        else:
            self.failed += 1


def payload(event: OrderEvent, now_ms: int) -> dict[str, Any]:
    """The record's value, as JSON."""
    return {
        "type": event.event.value,
        "orderId": event.order_id,
        "customerId": event.customer_id,
        "amountCents": event.amount_cents,
        "items": event.items,
        "occurredAt": now_ms,
    }


def headers(event: OrderEvent, chance: random.Random) -> list[tuple[str, str | bytes | None]]:
    """A message id of its own, and a trace that all events of one order share."""
    trace = uuid.uuid5(uuid.NAMESPACE_OID, event.order_id).hex
    span = f"{chance.getrandbits(64) or 1:016x}"
    message_id = uuid.UUID(int=chance.getrandbits(128), version=4)
    return [
        (MESSAGE_ID.name, str(message_id).encode()),
        (TRACEPARENT.name, f"00-{trace}-{span}-01".encode()),
        (EVENT_TYPE.name, event.event.value.encode()),
    ]


def producer_settings(settings: dict[str, Any]) -> dict[str, Any]:
    """librdkafka's settings of the service: no duplicates, no reordering, small latency."""
    return {
        **settings,
        "partitioner": PARTITIONER,
        "enable.idempotence": True,
        "acks": "all",
        "linger.ms": 50,
        "compression.type": "lz4",
        "queue.buffering.max.messages": 50_000,
    }


def ensure_topic(
    settings: dict[str, Any],
    topic: str,
    partitions: int,
    stop: threading.Event,
    report: Callable[[str], None],
) -> None:
    """Returns once the topic exists or `stop` is set; waits for a broker that does not answer."""
    admin = AdminClient(settings)
    said = ""
    while not stop.is_set():
        [future] = admin.create_topics([NewTopic(topic, partitions, 1)]).values()
        try:
            future.result(timeout=_TOPIC_S_MAX)
        except (KafkaException, TimeoutError) as failure:
            error = failure.args[0] if failure.args else failure
            if isinstance(error, KafkaError) and error.code() == KafkaError.TOPIC_ALREADY_EXISTS:
                return
            text = str(error) or f"no answer from {settings['bootstrap.servers']}"
            if text != said:
                said = text
                report(f"topic {topic}: {said}; trying again")
            stop.wait(1)
        else:
            report(f"topic {topic} created with {partitions} partitions")
            return
