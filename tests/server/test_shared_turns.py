"""Connections that can be read in the same round of the loop: one write, and every byte as sent."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import AsyncIterator
from pathlib import Path
from random import Random

import pytest

from broker.config.broker import BrokerSettings
from broker.metastore.memory import MemoryMetastore
from broker.records.batch import HEADER, is_intact
from broker.records.build import build_batch
from broker.runtime.clock import SystemClock
from broker.runtime.disk import SystemDisk
from broker.runtime.ids import SystemIds
from broker.runtime.network import SystemNetwork
from broker.runtime.worker import ProcessWorker
from broker.server.limits import UNSHARED_TURNS
from broker.server.node import Broker
from broker.server.topic_rules import WantedTopic
from broker.wire import api
from broker.wire.frame import encode_request
from broker.wire.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData

TOPIC = "orders"
NOW_MS = 1_750_000_000_000
ANSWER_S_MAX = 60.0
ROUNDS = 5 + UNSHARED_TURNS // 8 + 1
"""However the connections were read at first, the last five rounds share turns."""


@pytest.fixture(params=["replicated", "fsync"])
async def node(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Broker]:
    settings = BrokerSettings(
        listeners="PLAINTEXT://127.0.0.1:0", hermes_metrics_port=-1, log_dir=str(tmp_path)
    )
    disk, worker = SystemDisk(str(tmp_path)), ProcessWorker()
    network, store = SystemNetwork(), MemoryMetastore()
    made = Broker(settings, disk, SystemClock(), network, store, SystemIds(), worker)
    await made.start()
    await made.catalog.create_topic(WantedTopic(TOPIC, 1, 1), {"durability": request.param})
    yield made
    await made.stop()
    worker.close()
    disk.close()


def batch_of(value: bytes) -> bytes:
    return bytes(build_batch([(None, value)], timestamp_ms=NOW_MS))


def frame_of(batch: bytes, correlation_id: int) -> bytes:
    data = [PartitionProduceData(index=0, records=batch)]
    request = ProduceRequest(
        acks=-1,
        timeout_ms=5_000,
        topic_data=[TopicProduceData(name=TOPIC, partition_data=data)],
    )
    return bytes(encode_request(api.PRODUCE, 9, correlation_id, "loader", request))


def connected(node: Broker) -> socket.socket:
    peer = socket.create_connection(("127.0.0.1", node.kafka_port))
    peer.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    peer.setblocking(False)
    return peer


async def answers(peer: socket.socket, count: int) -> list[int]:
    """The correlation ids of so many answers."""
    loop, received = asyncio.get_running_loop(), b""
    found: list[int] = []
    async with asyncio.timeout(ANSWER_S_MAX):
        while len(found) < count:
            chunk = await loop.sock_recv(peer, 1 << 16)
            assert chunk, "the broker closed the connection"
            received += chunk
            while len(received) >= 4 and len(received) >= 4 + (
                size := int.from_bytes(received[:4], "big")
            ):
                found.append(int.from_bytes(received[4:8], "big"))
                received = received[4 + size :]
    return found


def stored(node: Broker) -> list[bytes]:
    """Each batch of the partition, checked, behind what the broker sets in it."""
    partition = node.partitions.get(TOPIC, 0)
    assert partition is not None
    end, offset, found = partition.high_watermark, 0, []
    while offset < end:
        part = partition.read(offset, 1 << 20, end, at_least_one=True)
        assert part is not None
        position = 0
        while position < len(part.records):
            size = HEADER.unpack_from(part.records, position)[1] + 12
            batch = bytes(part.records[position : position + size])
            assert is_intact(batch)
            found.append(batch[16:])
            position += size
        offset = part.next_offset
    return found


async def test_small_requests_of_many_connections_are_one_write(node: Broker) -> None:
    peers = [connected(node) for _ in range(8)]
    flushes = node.metrics.log_flush_duration_seconds.labels()
    begun = 0
    for round_number in range(ROUNDS):
        if round_number == ROUNDS - 5:
            begun = flushes.count
        for number, peer in enumerate(peers):
            value = b"%d of %d" % (round_number, number)
            peer.send(frame_of(batch_of(value), round_number))
        for peer in peers:
            assert await answers(peer, 1) == [round_number]
    assert flushes.count - begun <= 20, "40 requests, read in 5 rounds"
    wanted = [batch_of(b"%d of %d" % (r, n))[16:] for r in range(ROUNDS) for n in range(8)]
    assert sorted(stored(node)) == sorted(wanted)
    for peer in peers:
        peer.close()


@pytest.mark.parametrize("seed", range(3))
async def test_whatever_the_pieces_every_batch_is_stored_as_sent(node: Broker, seed: int) -> None:
    random = Random(seed)
    peers = [connected(node) for _ in range(6)]
    sizes = [0, 10, 100, 1_000, 20_000, 70_000, 200_000, 300_000]
    batches = [[batch_of(random.randbytes(random.choice(sizes))) for _ in range(12)] for _ in peers]
    unsent = [
        b"".join(frame_of(batch, number) for number, batch in enumerate(own)) for own in batches
    ]

    async def feed() -> None:
        while any(unsent):
            for number, peer in enumerate(peers):
                piece = unsent[number][: random.choice([1, 50, 300, 5_000, 40_000, 400_000])]
                try:
                    sent = peer.send(piece) if piece else 0
                except BlockingIOError:
                    sent = 0
                unsent[number] = unsent[number][sent:]
            await asyncio.sleep(0)

    async with asyncio.TaskGroup() as group:
        group.create_task(feed())
        found = [group.create_task(answers(peer, 12)) for peer in peers]
    assert [each.result() for each in found] == [list(range(12))] * len(peers)
    assert sorted(stored(node)) == sorted(batch[16:] for own in batches for batch in own)
    for peer in peers:
        peer.close()
