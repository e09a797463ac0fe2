"""A connection against a small server on the loopback that answers as the test says."""

from __future__ import annotations

import asyncio
import struct
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager

import pytest

from broker.client.connection import Connection, connect
from broker.client.failure import ConnectionLost, TimedOut, Unsupported
from broker.runtime.network import SystemNetwork
from broker.wire import api, frame
from broker.wire.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from broker.wire.messages.metadata import MetadataRequest, MetadataResponse, MetadataResponseBroker

Serve = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]


@asynccontextmanager
async def connected(
    serve: Serve, *, frame_bytes_max: int = 10_000_000
) -> AsyncIterator[Connection]:
    async def on_connection(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            await serve(reader, writer)
        except (asyncio.IncompleteReadError, ConnectionError):
            pass
        finally:
            writer.close()

    server = await asyncio.start_server(on_connection, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    connection = await connect(
        SystemNetwork(), "127.0.0.1", port, timeout_ms=2000, frame_bytes_max=frame_bytes_max
    )
    try:
        yield connection
    finally:
        connection.close()
        server.close()
        await server.wait_closed()


async def read_request(reader: asyncio.StreamReader) -> frame.RequestHeader:
    size = struct.unpack(">i", await reader.readexactly(4))[0]
    return frame.decode_request_header(memoryview(await reader.readexactly(size)))


def answer(header: frame.RequestHeader, number: int) -> bytes:
    message = HeartbeatResponse(throttle_time_ms=number)
    return frame.encode_response(api.HEARTBEAT, 4, header.correlation_id, message)


async def beat(connection: Connection, timeout_ms: int = 2000) -> int:
    response = await connection.request(
        api.HEARTBEAT, 4, "test", HeartbeatRequest(), timeout_ms=timeout_ms
    )
    return response.throttle_time_ms


async def test_pipelined_requests_get_their_own_answers() -> None:
    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        headers = [await read_request(reader) for _ in range(5)]
        assert [header.client_id for header in headers] == ["test"] * 5
        writer.write(b"".join(answer(header, index) for index, header in enumerate(headers)))
        await writer.drain()
        await reader.read()

    async with connected(serve) as connection:
        assert await asyncio.gather(*(beat(connection) for _ in range(5))) == [0, 1, 2, 3, 4]


async def test_answers_may_come_byte_by_byte_and_larger_than_the_buffer() -> None:
    brokers = [MetadataResponseBroker(node_id=index, host="h" * 200) for index in range(2000)]
    large = MetadataResponse(brokers=brokers)

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        for byte in answer(await read_request(reader), 7):
            writer.write(bytes([byte]))
            await writer.drain()
        headers = [await read_request(reader) for _ in range(2)]
        data = frame.encode_response(api.METADATA, 12, headers[0].correlation_id, large)
        assert len(data) > 400_000
        writer.write(data + answer(headers[1], 8))
        await writer.drain()
        await reader.read()

    async with connected(serve) as connection:
        assert await beat(connection) == 7
        metadata = connection.request(
            api.METADATA, 12, "test", MetadataRequest(topics=[]), timeout_ms=5000
        )
        results = await asyncio.gather(metadata, beat(connection))
        assert results == [large, 8]


@pytest.mark.parametrize(
    "reply",
    [
        struct.pack(">ii", 4, 999),  # a correlation id that nobody waits for
        struct.pack(">i", -1),
        struct.pack(">i", 0),
        struct.pack(">i", 10_000_001),
        struct.pack(">i", 2**31 - 1),
        struct.pack(">iiB", 5, 1, 0),  # a body that ends too early
    ],
)
async def test_a_wrong_answer_ends_the_connection_and_fails_every_request(reply: bytes) -> None:
    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await read_request(reader)
        await read_request(reader)
        writer.write(reply)
        await writer.drain()
        await reader.read()

    async with connected(serve) as connection:
        results = await asyncio.gather(beat(connection), beat(connection), return_exceptions=True)
        assert [type(result) for result in results] == [ConnectionLost, ConnectionLost]
        assert not connection.is_open


async def test_silence_ends_the_connection_after_the_timeout() -> None:
    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read()

    async with connected(serve) as connection:
        patient = asyncio.ensure_future(beat(connection, timeout_ms=5000))
        with pytest.raises(TimedOut, match="Heartbeat"):
            await beat(connection, timeout_ms=50)
        with pytest.raises(ConnectionLost):
            await patient


async def test_a_peer_that_hangs_up_fails_what_waits() -> None:
    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await read_request(reader)

    async with connected(serve) as connection:
        with pytest.raises(ConnectionLost):
            await beat(connection)
        with pytest.raises(ConnectionLost):
            await beat(connection)


async def test_close_fails_what_waits() -> None:
    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read()

    async with connected(serve) as connection:
        waiting = asyncio.ensure_future(beat(connection))
        await asyncio.sleep(0.01)
        connection.close()
        connection.close()
        with pytest.raises(ConnectionLost):
            await waiting


async def test_a_cancelled_request_leaves_the_connection_in_step() -> None:
    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        first = await read_request(reader)
        second = await read_request(reader)
        writer.write(answer(first, 1) + answer(second, 2))
        await writer.drain()
        await reader.read()

    async with connected(serve) as connection:
        cancelled = asyncio.ensure_future(beat(connection))
        await asyncio.sleep(0.01)
        cancelled.cancel()
        assert await beat(connection) == 2


async def test_what_cannot_be_encoded_is_refused_and_the_connection_goes_on() -> None:
    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(answer(await read_request(reader), 3))
        await writer.drain()
        await reader.read()

    async with connected(serve) as connection:
        with pytest.raises(Unsupported):
            await connection.request(
                api.HEARTBEAT, 4, "test", HeartbeatRequest(generation_id=2**40), timeout_ms=1000
            )
        assert await beat(connection) == 3


async def test_no_listener_is_a_lost_connection() -> None:
    server = await asyncio.start_server(lambda _r, _w: None, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    server.close()
    await server.wait_closed()
    with pytest.raises(ConnectionLost, match=str(port)):
        await connect(SystemNetwork(), "127.0.0.1", port, timeout_ms=1000, frame_bytes_max=1000)
