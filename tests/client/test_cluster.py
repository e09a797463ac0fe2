"""Negotiation, bootstrap and metadata against small scripted brokers."""

from __future__ import annotations

import asyncio
import struct
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

import pytest

from broker.client.cluster import ANY_NODE, Cluster
from broker.client.failure import BrokerRefusal, ClientError, ConnectionLost, ErrorCode, Unsupported
from broker.client.negotiation import choose_version
from broker.runtime.clock import SystemClock
from broker.runtime.ids import SystemIds
from broker.runtime.network import SystemNetwork
from broker.wire import api, frame
from broker.wire.api import APIS
from broker.wire.messages.api_versions import ApiVersion, ApiVersionsResponse
from broker.wire.messages.metadata import (
    MetadataResponse,
    MetadataResponseBroker,
    MetadataResponsePartition,
    MetadataResponseTopic,
)
from broker.wire.schema import decoder
from tests.client.conftest import client_settings

Ranges = dict[int, tuple[int, int]]
OURS: Ranges = {row.key: (row.codec_from, row.max_version) for row in APIS.values()}


class ScriptedBroker:
    """Answers ApiVersions for `ranges`, and Metadata with whatever `metadata` returns."""

    def __init__(self, ranges: Ranges) -> None:
        self.ranges = ranges
        self.metadata: Callable[[], MetadataResponse] = MetadataResponse
        self.seen: list[tuple[int, int]] = []
        self.port = 0

    @property
    def address(self) -> str:
        return f"127.0.0.1:{self.port}"

    def describe(self, *topics: MetadataResponseTopic) -> MetadataResponse:
        node = MetadataResponseBroker(node_id=5, host="127.0.0.1", port=self.port)
        return MetadataResponse(brokers=[node], controller_id=5, topics=list(topics))

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while True:
                size = struct.unpack(">i", await reader.readexactly(4))[0]
                view = memoryview(await reader.readexactly(size))
                header = frame.decode_request_header(view)
                self.seen.append((header.api_key, header.api_version))
                writer.write(self.answer(header, view))
        except (asyncio.IncompleteReadError, ConnectionError):
            writer.close()

    def answer(self, header: frame.RequestHeader, view: memoryview) -> bytes:
        version = header.api_version
        message: Any
        if header.api_key == api.API_VERSIONS:
            rows = [
                ApiVersion(api_key=key, min_version=low, max_version=high)
                for key, (low, high) in self.ranges.items()
            ]
            message = ApiVersionsResponse(api_keys=rows)
            if version > self.ranges[api.API_VERSIONS][1]:
                message.error_code, version = ErrorCode.UNSUPPORTED_VERSION, 0
        else:
            decoder(APIS[header.api_key].request_type, version)(view, header.body_position)
            message = self.metadata()
        return frame.encode_response(header.api_key, version, header.correlation_id, message)


@asynccontextmanager
async def scripted(ranges: Ranges = OURS) -> AsyncIterator[ScriptedBroker]:
    broker = ScriptedBroker(ranges)
    server = await asyncio.start_server(broker.serve, "127.0.0.1", 0)
    broker.port = server.sockets[0].getsockname()[1]
    broker.metadata = broker.describe
    try:
        yield broker
    finally:
        server.close()
        await server.wait_closed()


@asynccontextmanager
async def client_of(*addresses: str, **changes: object) -> AsyncIterator[Cluster]:
    settings = client_settings(addresses[0], bootstrap_servers=addresses, **changes)
    cluster = Cluster(SystemNetwork(), SystemClock(), SystemIds(), settings)
    try:
        yield cluster
    finally:
        await cluster.close()


def topic(name: str, *leaders: int, error_code: int = 0) -> MetadataResponseTopic:
    partitions = [
        MetadataResponsePartition(partition_index=index, leader_id=leader, leader_epoch=1)
        for index, leader in enumerate(leaders)
    ]
    return MetadataResponseTopic(name=name, partitions=partitions, error_code=error_code)


async def test_an_older_broker_is_asked_again_in_its_own_version() -> None:
    async with scripted(OURS | {api.API_VERSIONS: (0, 2), api.METADATA: (0, 5)}) as broker:
        async with client_of(broker.address) as cluster:
            await cluster.refresh(None, creates=True)
        assert broker.seen == [(18, 4), (18, 2), (3, 5)]


async def test_a_broker_without_a_common_version_is_refused() -> None:
    ranges = OURS | {api.METADATA: (90, 99)}
    async with scripted(ranges) as broker, client_of(broker.address) as cluster:
        with pytest.raises(Unsupported, match="Metadata"):
            await cluster.start()


async def test_what_is_no_kafka_broker_is_said_so() -> None:
    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read(10)
        writer.write(b"HTTP/1.1 400 Bad Request\r\n\r\n")
        writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    async with client_of(f"127.0.0.1:{port}", request_timeout_ms=200) as cluster:
        with pytest.raises(ConnectionLost):
            await cluster.refresh([])
    server.close()
    await server.wait_closed()


async def test_bootstrap_goes_on_to_the_next_address() -> None:
    async with scripted() as broker:
        for _ in range(4):
            async with client_of("127.0.0.1:1", broker.address, "127.0.0.1:2") as cluster:
                await cluster.start()
                assert list(cluster.nodes) == [5]
                assert await cluster.controller() == 5


async def test_topics_are_remembered_until_they_prove_wrong() -> None:
    async with scripted() as broker, client_of(broker.address) as cluster:
        broker.metadata = lambda: broker.describe(topic("orders", 5, -1))
        assert cluster.known_leader("orders", 0) is None
        for _ in range(3):
            assert (await cluster.leader("orders", 0))[0] == 5
        assert broker.seen.count((3, 13)) == 1
        assert cluster.known_leader("orders", 0) == 5
        with pytest.raises(BrokerRefusal) as caught:
            await cluster.leader("orders", 1)
        assert caught.value.code is ErrorCode.LEADER_NOT_AVAILABLE
        assert cluster.known_leader("orders", 0) is None, "forgotten as a whole"
        await cluster.leader("orders", 0)
        assert broker.seen.count((3, 13)) == 2


async def test_a_missing_topic_or_partition_is_a_refusal() -> None:
    async with scripted() as broker, client_of(broker.address) as cluster:
        broker.metadata = lambda: broker.describe(topic("gone", error_code=3))
        with pytest.raises(BrokerRefusal, match="gone"):
            await cluster.topic("gone")
        with pytest.raises(BrokerRefusal, match="unasked"):
            await cluster.topic("unasked")
        broker.metadata = lambda: broker.describe(topic("orders", 5))
        with pytest.raises(BrokerRefusal, match="orders-7"):
            await cluster.leader("orders", 7)


async def test_a_call_is_repeated_until_it_succeeds_or_fails_for_good() -> None:
    async with client_of("127.0.0.1:1") as cluster:
        outcomes: list[ClientError | int] = [ConnectionLost("a"), ConnectionLost("b"), 7]

        async def attempt() -> int:
            outcome = outcomes.pop(0)
            if isinstance(outcome, ClientError):
                raise outcome
            return outcome

        assert await cluster.call(attempt, what="try") == 7
        outcomes = [ConnectionLost("a"), BrokerRefusal(ErrorCode.INVALID_REQUEST), 7]
        with pytest.raises(BrokerRefusal):
            await cluster.call(attempt, what="try")


async def test_requests_of_different_purposes_use_different_connections() -> None:
    async with scripted() as broker, client_of(broker.address) as cluster:
        await cluster.start()
        before = broker.seen.count((18, 4))
        first, second = cluster.new_purpose("fetch"), cluster.new_purpose("fetch")
        for purpose in (first, second, first):
            await cluster.version(5, api.FETCH, purpose=purpose)
        assert broker.seen.count((18, 4)) == before + 2
        cluster.release(first)
        await cluster.version(5, api.FETCH, purpose=first)
        assert broker.seen.count((18, 4)) == before + 3


async def test_after_close_everything_is_refused() -> None:
    async with scripted() as broker, client_of(broker.address) as cluster:
        await cluster.start()
        await cluster.close()
        with pytest.raises(ClientError):
            await cluster.version(ANY_NODE, api.FETCH)


def test_the_highest_common_version_is_chosen() -> None:
    assert choose_version({api.FETCH: (4, 9)}, api.FETCH, None) == 9
    assert choose_version({api.FETCH: (4, 99)}, api.FETCH, None) == 17
    assert choose_version({api.FETCH: (4, 99)}, api.FETCH, 12) == 12
    for ranges in ({}, {api.FETCH: (0, 3)}, {api.FETCH: (18, 20)}):
        with pytest.raises(Unsupported):
            choose_version(ranges, api.FETCH, None)
    with pytest.raises(Unsupported):
        choose_version({api.FETCH: (13, 17)}, api.FETCH, 12)
