"""The producer against a real broker, and against one that breaks connections."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import pytest

from broker.client import admin
from broker.client.admin import NewTopic
from broker.client.cluster import Cluster
from broker.client.failure import BrokerRefusal, ClientError, ErrorCode, TimedOut
from broker.client.fetcher import ConsumedRecord, Fetcher
from broker.client.partitioner import murmur2_partition
from broker.client.producer import Producer
from broker.model import TopicPartition
from tests.client.proxy import FlakyProxy


async def read_all(cluster: Cluster, topic: str, count: int) -> list[ConsumedRecord]:
    """Everything in the topic, which is `count` records."""
    view = await admin.describe_topic(cluster, topic)
    fetcher = Fetcher(cluster)
    fetcher.assign({TopicPartition(topic, row.partition): 0 for row in view.partitions})
    records: list[ConsumedRecord] = []
    async with asyncio.timeout(10):
        while len(records) < count:
            records += await fetcher.poll(100)
    records += await fetcher.poll(100)
    fetcher.close()
    assert len(records) == count
    return records


@pytest.mark.parametrize("compression", ["none", "gzip", "snappy", "lz4", "zstd"])
async def test_records_arrive_with_key_value_headers_and_timestamp(
    cluster: Cluster, name: str, compression: str
) -> None:
    await admin.create_topics(cluster, [NewTopic(name, 3, 1)])
    producer = Producer(cluster, compression=compression)
    await producer.start()
    headers = (("trace", b"1"), ("empty", None))
    futures = [
        await producer.send(
            name, b"v%d" % number, key=b"k%d" % (number % 7), headers=headers, timestamp_ms=number
        )
        for number in range(100)
    ]
    stored = await asyncio.gather(*futures)
    await producer.close()
    records = await read_all(cluster, name, 100)
    found = {record.value: record for record in records}
    for number, where in enumerate(stored):
        record = found[b"v%d" % number]
        assert (record.partition, record.offset) == (where.partition, where.offset)
        assert record.partition == murmur2_partition(b"k%d" % (number % 7), 3)
        assert record.headers == headers
        assert record.timestamp_ms == number


async def test_order_per_partition_is_the_order_of_sending(cluster: Cluster, name: str) -> None:
    await admin.create_topics(cluster, [NewTopic(name, 2, 1)])
    producer = Producer(cluster)
    await producer.start()
    for number in range(2000):
        await producer.send(name, str(number).encode(), partition=number % 2)
    await producer.flush()
    await producer.close()
    records = await read_all(cluster, name, 2000)
    for partition in range(2):
        values = [int(row.value or b"") for row in records if row.partition == partition]
        assert values == list(range(partition, 2000, 2))


@pytest.mark.parametrize("acks", [0, 1, -1])
async def test_every_kind_of_acknowledgement(cluster: Cluster, name: str, acks: int) -> None:
    await admin.create_topics(cluster, [NewTopic(name, 1, 1)])
    producer = Producer(cluster, acks=acks)
    await producer.start()
    stored = await producer.send_and_wait(name, b"value")
    assert stored.offset == (-1 if acks == 0 else 0)
    await producer.close()
    await read_all(cluster, name, 1)


async def test_broken_connections_neither_lose_nor_repeat_nor_reorder(
    open_cluster: Callable[..., Cluster], cluster: Cluster, name: str, broker: object
) -> None:
    await admin.create_topics(cluster, [NewTopic(name, 2, 1)])
    proxy = FlakyProxy(broker.kafka_port, break_after_bytes=1500)  # type: ignore[attr-defined]
    async with proxy:
        shaky = open_cluster(
            bootstrap_servers=(f"127.0.0.1:{proxy.port}",), batch_size=300, linger_ms=0
        )
        producer = Producer(shaky)
        await producer.start()
        await shaky.start()
        proxy.redirect(shaky)
        futures = [
            await producer.send(name, str(number).encode(), partition=number % 2)
            for number in range(300)
        ]
        await asyncio.wait_for(asyncio.gather(*futures), 30)
        await producer.close()
        assert proxy.broken_count > 3
    records = await read_all(cluster, name, 300)
    for partition in range(2):
        values = [int(row.value or b"") for row in records if row.partition == partition]
        assert values == list(range(partition, 300, 2))


async def test_a_record_too_large_is_refused_and_the_next_is_stored(
    cluster: Cluster, name: str
) -> None:
    topic = NewTopic(name, 1, 1, {"max.message.bytes": "2000"})
    await admin.create_topics(cluster, [topic])
    producer = Producer(cluster)
    await producer.start()
    first = await producer.send(name, b"x" * 5000)
    second = await producer.send(name, b"small")
    with pytest.raises(BrokerRefusal) as caught:
        await first
    assert caught.value.code is ErrorCode.MESSAGE_TOO_LARGE
    assert (await second).offset == 0
    await producer.close()


async def test_a_record_that_the_topic_refuses_fails_alone(cluster: Cluster, name: str) -> None:
    settings = {"record.validation": "full", "cleanup.policy": "compact"}
    await admin.create_topics(cluster, [NewTopic(name, 1, 1, settings)])
    producer = Producer(cluster)
    await producer.start()
    keys = [b"key" if number != 13 else None for number in range(30)]
    futures = [await producer.send(name, b"v", key=key, partition=0) for key in keys]
    outcomes = await asyncio.gather(*futures, return_exceptions=True)
    (refused,) = [outcome for outcome in outcomes if isinstance(outcome, BaseException)]
    assert refused is outcomes[13]
    assert isinstance(refused, BrokerRefusal)
    assert refused.code is ErrorCode.INVALID_RECORD
    assert "key" in str(refused)
    stored = [outcome.offset for outcome in outcomes if not isinstance(outcome, BaseException)]
    assert stored == list(range(29))
    await producer.close()


async def test_a_batch_too_large_is_cut(cluster: Cluster, name: str) -> None:
    await admin.create_topics(cluster, [NewTopic(name, 1, 1, {"max.message.bytes": "1000"})])
    producer = Producer(cluster)
    await producer.start()
    futures = [await producer.send(name, b"%d" % number + b"x" * 300) for number in range(20)]
    assert [row.offset for row in await asyncio.gather(*futures)] == list(range(20))
    await producer.close()


async def test_an_unknown_topic_fails_in_time(open_cluster: Callable[..., Cluster]) -> None:
    cluster = open_cluster(request_timeout_ms=300)
    producer = Producer(cluster)
    await producer.start()
    with pytest.raises(ClientError):
        await producer.send("no such topic/", b"value")
    await producer.close()


async def test_a_broker_that_is_away_fails_records_after_the_delivery_timeout(
    open_cluster: Callable[..., Cluster],
) -> None:
    cluster = open_cluster(
        bootstrap_servers=("127.0.0.1:1",), request_timeout_ms=200, delivery_timeout_ms=300
    )
    producer = Producer(cluster)
    await producer.start()
    delivery = await producer.send("orders", b"value", partition=0)
    with pytest.raises(TimedOut):
        await asyncio.wait_for(delivery, 5)
    await producer.close()


async def test_a_full_buffer_makes_send_wait(
    open_cluster: Callable[..., Cluster], cluster: Cluster, name: str
) -> None:
    await admin.create_topics(cluster, [NewTopic(name, 1, 1)])
    small = open_cluster(buffer_memory=2000, batch_size=1000)
    producer = Producer(small)
    await producer.start()
    for number in range(100):
        await producer.send(name, b"x" * 400 + b"%d" % number)
        assert producer.buffered_bytes <= 2000
    await producer.close()
    await read_all(cluster, name, 100)


async def test_close_gives_up_what_cannot_be_sent(open_cluster: Callable[..., Cluster]) -> None:
    cluster = open_cluster(bootstrap_servers=("127.0.0.1:1",))
    producer = Producer(cluster)
    await producer.start()
    delivery = await producer.send("orders", b"value", partition=0)
    await producer.close(timeout_ms=50)
    with pytest.raises(ClientError):
        await delivery
    with pytest.raises(ClientError):
        await producer.send("orders", b"value", partition=0)
