"""Driver for kafka-python."""

import sys

from kafka import ConsumerRebalanceListener, KafkaConsumer, KafkaProducer, TopicPartition
from protocol import emit, emit_record, leave_order, records_from_stdin


def produce(bootstrap: str, topic: str, compression: str, acks: str) -> None:
    producer = KafkaProducer(
        bootstrap_servers=bootstrap,
        compression_type=None if compression == "none" else compression,
        acks=acks if acks == "all" else int(acks),
        enable_idempotence=acks == "all",
        linger_ms=5,
    )
    waiting = [producer.send(topic, value, key) for key, value in records_from_stdin()]
    for future in waiting:
        future.get(timeout=30)
    emit("acked", count=len(waiting))
    producer.close()


class Rebalances(ConsumerRebalanceListener):
    def on_partitions_revoked(self, revoked: set[TopicPartition]) -> None:
        pass

    def on_partitions_assigned(self, assigned: set[TopicPartition]) -> None:
        emit("assigned", partitions=sorted(p.partition for p in assigned))


def member(bootstrap: str, topic: str, group: str) -> None:
    consumer = KafkaConsumer(
        bootstrap_servers=bootstrap,
        group_id=group,
        auto_offset_reset="earliest",
        enable_auto_commit=False,
        session_timeout_ms=6000,
        heartbeat_interval_ms=500,
    )
    consumer.bootstrap(refresh=True)  # a subscription beside a request may be forgotten
    consumer.subscribe([topic], listener=Rebalances())
    consumer.partitions_for_topic(topic)  # asks: a join before the metadata is made again at once,
    # and such a join, if a poll ends in its middle, is never finished and sends no heartbeats
    leaving = leave_order()
    while not leaving.is_set():
        by_partition = consumer.poll(timeout_ms=200, max_records=500)
        for partition, messages in by_partition.items():
            for message in messages:
                emit_record(partition.partition, message.offset, message.key, message.value)
        if by_partition:
            consumer.commit()
    consumer.close()
    emit("left")


{"produce": produce, "member": member}[sys.argv[1]](*sys.argv[2:])
