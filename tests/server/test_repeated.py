"""The short way for produce requests like one before says and does what the general way does."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from typing import Any, NamedTuple

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from broker.config.alter import AlterOperation, ConfigChange
from broker.records.batch import HEADER_BYTES, seal
from broker.records.build import build_batch
from broker.server import repeated
from broker.server.node import Broker
from broker.server.repeated import HEADS_MAX
from broker.server.requests import CloseConnection
from broker.simulator.world import BROKER_PORT
from broker.wire import api
from broker.wire.fast_produce import ProducedAnswers, ProducedPartition, encode_produce_response
from broker.wire.frame import encode_request
from broker.wire.messages.create_topics import (
    CreatableTopic,
    CreatableTopicConfig,
    CreateTopicsRequest,
)
from broker.wire.messages.delete_topics import DeleteTopicsRequest
from broker.wire.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from tests.server.group_world import Cluster, simulate

TOPICS: dict[str, dict[str, str]] = {
    "plain": {"durability": "replicated"},
    "synced": {"durability": "fsync"},
    "stamped": {"message.timestamp.type": "LogAppendTime"},
    "opened": {"record.validation": "full"},
    "t" * 130: {"durability": "replicated"},
}
VERSIONS = range(3, 12)
STEP_S = 2.0


class Ask(NamedTuple):
    """One produce request; `flaw` says what is unusual about it."""

    version: int
    client_id: str | None
    topic: str
    partition: int
    acks: int
    records: int
    value_bytes: int
    producer: int
    flaw: str


ASKS = st.builds(
    Ask,
    version=st.sampled_from([3, 7, 8, 9, 11]),
    client_id=st.sampled_from([None, "", "loader", "größe", "c" * 600]),
    topic=st.sampled_from([*TOPICS, "missing"]),
    partition=st.sampled_from([0, 0, 1, 7]),
    acks=st.sampled_from([-1, -1, 1, 1, 0, 2]),
    records=st.sampled_from([1, 1, 5]),
    value_bytes=st.sampled_from([0, 20, 200, 20_000]),
    producer=st.sampled_from([-1, -1, 4000, 4001]),
    flaw=st.sampled_from([""] * 12 + ["crc", "cut", "tail", "two", "null", "empty", "magic"]),
)
PLANS = st.lists(
    st.tuples(st.integers(0, 2), st.lists(st.integers(0, 3), min_size=1, max_size=5)),
    min_size=1,
    max_size=12,
)
"""(connection, which of the asks it sends in one write)."""


class Peer:
    """The client's end of a connection: keeps what came. Implements `ports.StreamHandler`."""

    def __init__(self) -> None:
        self.received = bytearray()
        self.is_lost = False
        self._room = bytearray(1 << 16)

    def connection_made(self, transport: Any) -> None:
        self.transport = transport

    def get_buffer(self, sizehint: int) -> bytearray:
        return self._room

    def buffer_updated(self, nbytes: int) -> None:
        self.received += self._room[:nbytes]

    def eof_received(self) -> bool:
        return False

    def connection_lost(self, exc: Exception | None) -> None:
        self.is_lost = True

    def pause_writing(self) -> None: ...

    def resume_writing(self) -> None: ...


def framed(ask: Ask, correlation_id: int, sequences: dict[tuple[str, int, int], int]) -> bytes:
    """The request's bytes. A producer's sequences go on by themselves."""
    now_ms = 1_750_000_000_000
    content = build_batch([(None, bytes(ask.value_bytes))] * ask.records, timestamp_ms=now_ms)
    if ask.producer >= 0:
        key = (ask.topic, ask.partition, ask.producer)
        content[43:57] = (
            ask.producer.to_bytes(8, "big") + bytes(2) + sequences.get(key, 0).to_bytes(4, "big")
        )
        seal(content)
        sequences[key] = sequences.get(key, 0) + ask.records
    records: bytes | None = bytes(content)
    if ask.flaw == "crc":
        content[-1] ^= 1
        records = bytes(content)
    elif ask.flaw == "cut":
        records = bytes(content[: HEADER_BYTES - 2])
    elif ask.flaw == "magic":
        content[16] = 1
        records = bytes(content)
    elif ask.flaw in ("null", "empty"):
        records = None if ask.flaw == "null" else b""
    data = [PartitionProduceData(index=ask.partition, records=records)]
    if ask.flaw == "two":
        data.append(PartitionProduceData(index=ask.partition, records=records))
    request = ProduceRequest(
        acks=ask.acks,
        timeout_ms=5_000,
        topic_data=[TopicProduceData(name=ask.topic, partition_data=data)],
    )
    frame = encode_request(api.PRODUCE, ask.version, correlation_id, ask.client_id, request)
    if ask.flaw == "tail":  # bytes behind the request are ignored
        frame = (len(frame) - 1).to_bytes(4, "big") + frame[4:] + b"xyz"
    return bytes(frame)


def counted(broker: Broker) -> Iterator[tuple[str, Any]]:
    """What the metrics of requests and records say."""
    metrics = broker.metrics
    for name in (
        "requests_total",
        "request_errors_total",
        "records_in_total",
        "bytes_in_total",
        "duplicate_batches_total",
        "malformed_requests_total",
        "batches_opened_total",
    ):
        children = getattr(metrics, name).children
        yield name, {key: child.value for key, child in children.items()}
    answered = metrics.request_duration_seconds.labels(api="Produce")
    yield "answers", answered.count
    yield "flushes", metrics.log_flush_duration_seconds.labels().count


def stored(broker: Broker) -> Iterator[tuple[str, Any]]:
    """What the partitions hold, producers included."""
    for partition in sorted(broker.partitions.all(), key=str):
        log = partition.log
        end = log.written_end_offset
        content = b""
        if end:
            found = partition.read(0, 10 << 20, end, at_least_one=True)
            assert found is not None
            content = bytes(found.records)
        yield str(partition), (end, partition.high_watermark, content, log.producers.entries)


def outcome(asks: list[Ask], plan: list[tuple[int, list[int]]]) -> dict[str, Any]:
    """Everything that a broker answers, counts and keeps when it is asked so."""
    found: dict[str, Any] = {}

    async def scenario(cluster: Cluster) -> None:
        cluster.host.image.faults.cold_read_probability = 0  # `stored` reads without waiting
        await create(cluster)
        peers = [await connected(cluster) for _ in range(3)]
        sequences: dict[tuple[str, int, int], int] = {}
        correlation_id = 0
        for number, chosen in plan:
            data = b""
            for place in chosen:
                correlation_id += 1
                data += framed(asks[place % len(asks)], correlation_id, sequences)
            if not peers[number].is_lost:
                peers[number].transport.write(data)
            if number == 0:
                await asyncio.sleep(STEP_S)
        await asyncio.sleep(STEP_S)
        found["answers"] = [bytes(peer.received) for peer in peers]
        found["lost"] = [peer.is_lost for peer in peers]
        found["counted"] = dict(counted(cluster.broker))
        found["stored"] = dict(stored(cluster.broker))
        found["heads"] = cluster.broker.partitions.produce_heads.count

    simulate(scenario)
    return found


async def create(cluster: Cluster) -> None:
    topics = [
        CreatableTopic(
            name=name,
            num_partitions=2,
            replication_factor=1,
            configs=[CreatableTopicConfig(name=key, value=value) for key, value in more.items()],
        )
        for name, more in TOPICS.items()
    ]
    answer = await cluster.ask(CreateTopicsRequest(topics=topics, timeout_ms=5_000), 7)
    assert [topic.error_code for topic in answer.topics] == [0] * len(topics)


async def connected(cluster: Cluster) -> Peer:
    network = cluster.session.node.network
    _, peer = await network.connect("127.0.0.1", BROKER_PORT, Peer, timeout_ms=5_000)
    assert isinstance(peer, Peer)
    return peer


@settings(deadline=None, max_examples=25)
@given(asks=st.lists(ASKS, min_size=1, max_size=4), plan=PLANS)
def test_both_ways_answer_count_and_store_the_same(
    asks: list[Ask], plan: list[tuple[int, list[int]]]
) -> None:
    short = outcome(asks, plan)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(repeated, "HEAD_BYTES_MAX", 0)  # no head is ever known
        general = outcome(asks, plan)
    assert general.pop("heads") == 0
    short.pop("heads")
    assert short == general


def test_what_came_before_needs_no_decoding() -> None:
    async def scenario(cluster: Cluster) -> None:
        await create(cluster)
        peer = await connected(cluster)
        ask = Ask(9, "loader", "plain", 1, -1, 1, 100, -1, "")
        peer.transport.write(framed(ask, 1, {}))
        await asyncio.sleep(STEP_S)
        size = len(peer.received)
        routes = cluster.broker.routes
        routes[api.PRODUCE] = routes[api.PRODUCE]._replace(handle=refuse)
        for number in range(2, 12):
            peer.transport.write(framed(ask, number, {}) * 3)
        await asyncio.sleep(STEP_S)
        assert not peer.is_lost
        assert len(peer.received) == 31 * size
        peer.transport.write(framed(ask._replace(partition=0), 99, {}))
        await asyncio.sleep(STEP_S)
        assert peer.is_lost, "another partition is another head"

    def refuse(*_arguments: object) -> None:
        raise CloseConnection("this request was to take the short way")

    simulate(scenario)


def test_a_topic_of_the_same_name_is_another_one() -> None:
    async def scenario(cluster: Cluster) -> None:
        await create(cluster)
        peer = await connected(cluster)
        ask = Ask(9, "loader", "plain", 1, -1, 1, 100, -1, "")
        for number in range(3):
            peer.transport.write(framed(ask, number, {}))
        await asyncio.sleep(STEP_S)
        partitions = cluster.broker.partitions
        old = partitions.get("plain", 1)
        assert old is not None
        assert old.high_watermark == 3
        await cluster.ask(DeleteTopicsRequest(topic_names=["plain"], timeout_ms=5_000), 5)
        peer.received.clear()
        peer.transport.write(framed(ask, 4, {}))
        await asyncio.sleep(STEP_S)
        missing = ProducedPartition(1, 3, -1, -1, -1)
        assert bytes(peer.received) == encode_produce_response(9, 4, "plain", missing)
        wanted = CreatableTopic(name="plain", num_partitions=2, replication_factor=1)
        await cluster.ask(CreateTopicsRequest(topics=[wanted], timeout_ms=5_000), 7)
        peer.received.clear()
        peer.transport.write(framed(ask, 5, {}) + framed(ask, 6, {}))
        await asyncio.sleep(STEP_S)
        expected = [ProducedPartition(1, 0, offset, -1, 0) for offset in (0, 1)]
        assert bytes(peer.received) == b"".join(
            encode_produce_response(9, number, "plain", answer)
            for number, answer in enumerate(expected, start=5)
        )
        new = partitions.get("plain", 1)
        assert new is not None
        assert (new.high_watermark, old.high_watermark) == (2, 3)

    simulate(scenario)


def test_settings_hold_from_the_next_request_on() -> None:
    async def scenario(cluster: Cluster) -> None:
        await create(cluster)
        peer = await connected(cluster)
        ask = Ask(9, "loader", "plain", 1, -1, 1, 2_000, -1, "")
        for number in range(3):
            peer.transport.write(framed(ask, number, {}))
        await asyncio.sleep(STEP_S)
        topic = cluster.broker.catalog.topic("plain")
        assert topic is not None
        change = ConfigChange("max.message.bytes", AlterOperation.SET, "1000")
        await cluster.broker.catalog.alter_topic_config("plain", [change])
        peer.received.clear()
        peer.transport.write(framed(ask, 4, {}))
        await asyncio.sleep(STEP_S)
        assert int.from_bytes(peer.received[21:23], "big") == 10, "MESSAGE_TOO_LARGE"

    simulate(scenario)


def test_heads_are_bounded() -> None:
    async def scenario(cluster: Cluster) -> None:
        await create(cluster)
        peer = await connected(cluster)
        heads = cluster.broker.partitions.produce_heads
        for first in range(0, HEADS_MAX + 100, 100):
            peer.transport.write(
                b"".join(
                    framed(Ask(9, f"client-{n}", "plain", 0, 1, 1, 0, -1, ""), n, {})
                    for n in range(first, first + 100)
                )
            )
            await asyncio.sleep(0.1)
        await asyncio.sleep(STEP_S)
        assert not peer.is_lost
        assert 0 < heads.count <= HEADS_MAX

    simulate(scenario)


@pytest.mark.parametrize("version", range(7, 12))
@pytest.mark.parametrize("topic", ["o", "x" * 126, "x" * 127, "x" * 249, "größe"])
def test_answers_have_the_general_encoders_bytes(version: int, topic: str) -> None:
    answers = ProducedAnswers(version, topic, 7)
    for offset, time_ms, start in [(0, -1, 0), (2**40, 1_700_000_000_000, 12)]:
        expected = encode_produce_response(
            version, 99, topic, ProducedPartition(7, 0, offset, time_ms, start)
        )
        assert answers.encode(99, offset, time_ms, start) == expected
