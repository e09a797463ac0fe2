"""Driver for aiokafka."""

import asyncio
import sys

from aiokafka import (
    AIOKafkaConsumer,
    AIOKafkaProducer,
    ConsumerRebalanceListener,
    TopicPartition,
)
from protocol import emit, emit_record, leave_order, records_from_stdin


async def produce(bootstrap: str, topic: str, compression: str, acks: str) -> None:
    producer = AIOKafkaProducer(
        bootstrap_servers=bootstrap,
        compression_type=None if compression == "none" else compression,
        acks=acks if acks == "all" else int(acks),
        enable_idempotence=acks == "all",
        linger_ms=5,
    )
    await producer.start()
    try:
        waiting = [await producer.send(topic, value, key) for key, value in records_from_stdin()]
        await asyncio.wait_for(asyncio.gather(*waiting), 30)
        emit("acked", count=len(waiting))
    finally:
        await producer.stop()


class Rebalances(ConsumerRebalanceListener):
    async def on_partitions_revoked(self, revoked: set[TopicPartition]) -> None:
        pass

    async def on_partitions_assigned(self, assigned: set[TopicPartition]) -> None:
        emit("assigned", partitions=sorted(p.partition for p in assigned))


async def member(bootstrap: str, topic: str, group: str) -> None:
    consumer = AIOKafkaConsumer(
        bootstrap_servers=bootstrap,
        group_id=group,
        auto_offset_reset="earliest",
        enable_auto_commit=False,
        session_timeout_ms=6000,
        heartbeat_interval_ms=500,
        metadata_max_age_ms=2000,
    )
    consumer.subscribe([topic], listener=Rebalances())
    await consumer.start()
    leaving = leave_order()
    while not leaving.is_set():
        by_partition = await consumer.getmany(timeout_ms=200, max_records=500)
        for partition, messages in by_partition.items():
            for message in messages:
                emit_record(partition.partition, message.offset, message.key, message.value)
        if by_partition:
            await consumer.commit()
    await consumer.stop()
    emit("left")


asyncio.run({"produce": produce, "member": member}[sys.argv[1]](*sys.argv[2:]))
