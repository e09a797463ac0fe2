"""A partition read batch by batch, and what a read of it costs."""

from __future__ import annotations

import asyncio
import time

import pytest

from broker.client import admin, admin_partitions
from broker.client.aborted import AbortedFilter, AbortedRange
from broker.client.admin import NewTopic
from broker.client.blocking import BlockingClient
from broker.client.cluster import Cluster
from broker.client.failure import BrokerRefusal, ErrorCode
from broker.client.producer import Producer
from broker.client.reading import PartitionReader
from broker.model import TopicPartition
from broker.records.batch import CONTROL_BIT, TRANSACTIONAL_BIT, read_header
from broker.records.build import build_batch
from tests.support.broker_process import BrokerProcess


@pytest.fixture
async def reader(cluster: Cluster) -> PartitionReader:
    return PartitionReader(cluster)


async def store(
    cluster: Cluster, topic: str, count: int, *, value: bytes = b"v", compression: str = "none"
) -> None:
    """`count` records in partition 0 of a topic that is made for them."""
    await admin.create_topics(cluster, [NewTopic(topic, 1, 1)])
    producer = Producer(cluster, compression=compression)
    await producer.start()
    for number in range(count):
        await producer.send(
            topic, value, key=b"%d" % number, partition=0, headers=[("n", b"%d" % number)]
        )
    await producer.flush()
    await producer.close()


async def test_reading_goes_on_where_the_last_answer_ended(
    cluster: Cluster, reader: PartitionReader, name: str
) -> None:
    await store(cluster, name, 300, value=bytes(200), compression="zstd")
    offset, offsets = 100, []
    while True:
        found = await reader.fetch(name, 0, offset, bytes_max=8_000)
        assert found.log_start_offset == 0
        assert found.end_offset == found.high_watermark == 300
        offsets += [record.offset for record in found.records()]
        offset = found.next_offset
        if offset >= found.end_offset:
            break
    assert offsets == list(range(100, 300))
    assert (await reader.fetch(name, 0, 300)).batches == ()


async def test_bytes_are_found_without_opening_records(
    cluster: Cluster, reader: PartitionReader, name: str
) -> None:
    await store(cluster, name, 50, compression="gzip")
    found = await reader.fetch(name, 0, 0)
    assert sum(batch.header.record_count for batch in found.batches) == 50
    assert {batch.compression for batch in found.batches} == {"gzip"}
    hits = [batch for batch in found.batches if b"49" in batch.unpacked()]
    assert len(hits) == 1
    assert [r.headers for r in hits[0].records() if r.key == b"49"] == [(("n", b"49"),)]


async def test_an_offset_that_is_not_there_is_refused(
    cluster: Cluster, reader: PartitionReader, name: str
) -> None:
    await store(cluster, name, 5)
    await admin_partitions.delete_records(cluster, {TopicPartition(name, 0): 3})
    for offset in (0, 6, 2**62):
        with pytest.raises(BrokerRefusal) as caught:
            await reader.fetch(name, 0, offset)
        assert caught.value.code is ErrorCode.OFFSET_OUT_OF_RANGE
        assert str(offset) in str(caught.value)
    assert [record.offset for record in (await reader.fetch(name, 0, 3)).records()] == [3, 4]


async def test_waiting_for_records_holds_up_nobody_else(
    cluster: Cluster, reader: PartitionReader, name: str
) -> None:
    await store(cluster, name, 1)
    async with asyncio.timeout(20):
        waiting = asyncio.ensure_future(reader.fetch(name, 0, 1, wait_ms=8_000))
        await admin.list_topics(cluster)
        producer = Producer(cluster)
        await producer.start()
        await producer.send_and_wait(name, None, partition=0)
        (record,) = (await waiting).records()
        await producer.close()
    assert (record.offset, record.value, record.key) == (1, None, None)


def test_blocking_reads_null_and_empty_apart_and_ahead(broker: BrokerProcess, name: str) -> None:
    with BlockingClient(broker.bootstrap) as client:
        client.create_topic(name, partition_count=1, replication_factor=1)
        client.produce(name, None, key=b"gone")
        client.produce(name, b"", key=b"", headers=[("empty", b""), ("null", None)])
        client.produce(name, b"at", timestamp_ms=1_234, compression="lz4", acks=1)
        rows = client.read(name, 0, 0, count_max=9, wait_ms=0)
        assert [(row.key, row.value) for row in rows] == [
            (b"gone", None),
            (b"", b""),
            (None, b"at"),
        ]
        assert rows[1].headers == (("empty", b""), ("null", None))
        assert rows[2].timestamp_ms == 1_234
        with client.open_reader(name, 0, reads_ahead=True) as reader:
            offset, seen = 0, []
            while offset < 3:
                found = reader.fetch(offset, bytes_max=1)
                seen += [record.offset for record in found.records()]
                offset = found.next_offset
            assert seen == [0, 1, 2]
            assert reader.fetch(3, wait_ms=10).batches == ()
        with pytest.raises(BrokerRefusal, match="it has 1 partition"):
            client.produce(name, b"v", partition=5)


def test_reading_costs_less_than_a_second_of_processor_per_100_mb(
    broker: BrokerProcess, name: str
) -> None:
    with BlockingClient(broker.bootstrap, timeout_ms=30_000) as client:
        client.create_topic(name, partition_count=1, replication_factor=1)

        async def fill(cluster: Cluster) -> None:
            producer = Producer(cluster)
            await producer.start()
            for number in range(10_000):
                await producer.send(name, b"%d " % number + bytes(1000), partition=0)
            await producer.close(timeout_ms=20_000)

        client.run(fill)
        begin_s, offset, size, count = time.process_time(), 0, 0, 0
        with client.open_reader(name, 0, reads_ahead=True) as reader:
            while offset < 10_000:
                found = reader.fetch(offset)
                offset, size = found.next_offset, size + found.size_bytes
                count += sum(1 for batch in found.batches if b"9999 " in batch.unpacked())
        spent_s = time.process_time() - begin_s
    assert count == 1
    assert size / spent_s > 100e6, f"{size / spent_s / 1e6:.0f} MB per second of processor time"


def test_records_of_aborted_transactions_are_left_out() -> None:
    aborted = AbortedFilter([AbortedRange(7, 10), AbortedRange(8, 30)])

    def leaves_out(offset: int, producer_id: int, attributes: int, key: bytes = b"k") -> bool:
        batch = memoryview(
            build_batch(
                [(key, b"v")],
                timestamp_ms=0,
                base_offset=offset,
                producer_id=producer_id,
                attributes=attributes,
            )
        )
        return aborted.leaves_out(read_header(batch), batch)

    marker = TRANSACTIONAL_BIT | CONTROL_BIT
    abort, commit = bytes(4), b"\x00\x00\x00\x01"
    assert not leaves_out(5, 7, TRANSACTIONAL_BIT)
    assert leaves_out(10, 7, TRANSACTIONAL_BIT)
    assert not leaves_out(11, 8, TRANSACTIONAL_BIT)
    assert not leaves_out(12, 7, 0)
    assert leaves_out(13, 7, marker, abort)
    assert not leaves_out(14, 7, TRANSACTIONAL_BIT)
    assert leaves_out(15, 7, marker, commit)
    assert leaves_out(30, 8, TRANSACTIONAL_BIT)
