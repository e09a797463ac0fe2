"""Driver for confluent-kafka (librdkafka)."""

import sys

from confluent_kafka import Consumer, KafkaError, Message, Producer, TopicPartition
from protocol import emit, emit_record, leave_order, records_from_stdin


def produce(bootstrap: str, topic: str, compression: str, acks: str) -> None:
    producer = Producer(
        {
            "bootstrap.servers": bootstrap,
            "compression.type": compression,
            "acks": acks,
            "partitioner": "murmur2_random",
            "linger.ms": 5,
            "enable.idempotence": acks == "all",
        }
    )
    acked = 0

    def on_delivery(error: KafkaError | None, _message: Message) -> None:
        nonlocal acked
        if error is not None:
            raise SystemExit(f"not delivered: {error}")
        acked += 1

    for key, value in records_from_stdin():
        producer.produce(topic, value, key, on_delivery=on_delivery)
        producer.poll(0)
    left = producer.flush(30)
    if left:
        raise SystemExit(f"{left} records not acknowledged in 30 s")
    emit("acked", count=acked)


def member(bootstrap: str, topic: str, group: str) -> None:
    consumer = Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": group,
            "auto.offset.reset": "earliest",
            "enable.auto.commit": False,
            "session.timeout.ms": 6000,
            "heartbeat.interval.ms": 500,
        }
    )

    def on_assign(_consumer: Consumer, partitions: list[TopicPartition]) -> None:
        emit("assigned", partitions=sorted(p.partition for p in partitions))

    consumer.subscribe([topic], on_assign=on_assign)
    leaving = leave_order()
    while not leaving.is_set():
        messages = consumer.consume(num_messages=500, timeout=0.2)
        for message in messages:
            if message.error() is not None:
                raise SystemExit(f"consume failed: {message.error()}")
            emit_record(message.partition(), message.offset(), message.key(), message.value())
        if messages:
            consumer.commit(asynchronous=False)
    consumer.close()
    emit("left")


{"produce": produce, "member": member}[sys.argv[1]](*sys.argv[2:])
