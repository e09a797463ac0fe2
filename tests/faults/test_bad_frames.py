"""Frames that no client should send: a closed connection or the protocol's error, bounded memory,
and nobody else disturbed.
"""

from __future__ import annotations

import random
import socket
import struct
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from broker.wire import api
from broker.wire.frame import encode_request
from broker.wire.messages.api_versions import ApiVersionsRequest, ApiVersionsResponse
from broker.wire.messages.metadata import MetadataRequest
from broker.wire.primitives import uvarint
from broker.wire.schema import decoder
from tests.support.broker_process import BrokerProcess
from tests.support.wire_client import WireClient, fetch_request, resident_bytes

FRAME_MAX = 1 << 20
GROWTH_BYTES_MAX = 96 << 20
CLOSE_S_MAX = 3.0

SETTINGS = {
    "socket.request.max.bytes": FRAME_MAX,
    "message.max.bytes": FRAME_MAX // 2,
    "hermes.request.read.timeout.ms": 1500,
    "queued.max.request.bytes": 32 << 20,
    "log.retention.check.interval.ms": 60_000,
}


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrokerProcess]:
    with BrokerProcess(tmp_path_factory.mktemp("frames"), SETTINGS) as process:
        with WireClient(process.kafka_port) as client:
            client.create_topic("kept")
        yield process


@pytest.fixture(autouse=True)
def bystander(broker: BrokerProcess) -> Iterator[WireClient]:
    """A client whose connection and records must survive whatever the test does."""
    resident_before = resident_bytes(broker.pid)
    with WireClient(broker.kafka_port) as client:
        first = client.produce("kept", [(b"k", b"before")])
        yield client
        second = client.produce("kept", [(b"k", b"after")])
        assert (first.error_code, second.error_code) == (0, 0)
        assert second.base_offset >= first.base_offset + 1
        assert client.fetch("kept", first.base_offset).error_code == 0
    assert resident_bytes(broker.pid) - resident_before < GROWTH_BYTES_MAX


@pytest.mark.parametrize("size", [-1, -(2**31), 2**31 - 1, FRAME_MAX + 1])
def test_a_size_that_cannot_be_closes_at_once(broker: BrokerProcess, size: int) -> None:
    with WireClient(broker.kafka_port) as client:
        client.send_raw(struct.pack(">i", size))
        assert client.is_closed_within(CLOSE_S_MAX)


@pytest.mark.parametrize("size", [0, 3, 9])
def test_a_frame_without_a_header_closes(broker: BrokerProcess, size: int) -> None:
    with WireClient(broker.kafka_port) as client:
        client.send_raw(struct.pack(">i", size) + bytes(size))
        assert client.is_closed_within(CLOSE_S_MAX)


@pytest.mark.parametrize("start", [b"", b"\0", b"\0\0\0\x20", b"\0\0\0\x20\0\x12\0\3"])
def test_a_frame_that_never_ends_closes_after_its_deadline(
    broker: BrokerProcess, start: bytes
) -> None:
    with WireClient(broker.kafka_port) as client:
        client.send_raw(start)
        assert client.is_closed_within(6) == bool(start), (
            "an idle connection may stay, half a frame not"
        )


def test_a_byte_now_and_then_does_not_extend_the_deadline(broker: BrokerProcess) -> None:
    with WireClient(broker.kafka_port) as client:
        ends = time.monotonic() + 8
        while not client.is_closed_within(0.2):
            assert time.monotonic() < ends, "still open"
            client.send_raw(b"\0")


@pytest.mark.parametrize(
    "hello",
    [
        b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n",
        b"POST /x HTTP/1.1\r\n\r\n",
        b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
        b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + bytes(500),
        b"SSH-2.0-OpenSSH_9.2\r\n",
        b"\xff" * 1000,
    ],
)
def test_another_protocol_closes_fast(broker: BrokerProcess, hello: bytes) -> None:
    with WireClient(broker.kafka_port) as client:
        client.send_raw(hello)
        assert client.is_closed_within(CLOSE_S_MAX)


def test_the_log_says_what_spoke_http(tmp_path: Path) -> None:
    with BrokerProcess(tmp_path) as own, WireClient(own.kafka_port) as client:
        client.send_raw(b"GET /metrics HTTP/1.1\r\n\r\n")
        assert client.is_closed_within(CLOSE_S_MAX)
        assert "HTTP request on the Kafka port" in own.log_path.read_text()


@pytest.mark.parametrize(
    ("key", "version"),
    [(4711, 0), (-1, 0), (4, 0), (3, 99), (3, -1), (0, 12), (0, 0), (1, 3), (17, 1)],
)
def test_an_unknown_api_or_version_closes(broker: BrokerProcess, key: int, version: int) -> None:
    header = struct.pack(">hhih", key, version, 7, -1)
    with WireClient(broker.kafka_port) as client:
        client.send_raw(struct.pack(">i", len(header)) + header)
        assert client.is_closed_within(CLOSE_S_MAX)


@pytest.mark.parametrize("version", [5, 9, 99, 32_767])
def test_api_versions_from_the_future_is_answered_in_version_0(
    broker: BrokerProcess, version: int
) -> None:
    header = struct.pack(">hhih", api.API_VERSIONS, version, 7, 3) + b"abc" + b"\xff" * 20
    with WireClient(broker.kafka_port) as client:
        client.send_raw(struct.pack(">i", len(header)) + header)
        frame = client.receive_frame()
        assert struct.unpack_from(">i", frame) == (7,)
        response, _ = decoder(ApiVersionsResponse, 0)(frame, 4)
        assert response.error_code == 35
        assert api.API_VERSIONS in [row.api_key for row in response.api_keys]
        answer = client.call(
            api.API_VERSIONS,
            3,
            ApiVersionsRequest(client_software_name="a", client_software_version="1"),
        )
        assert answer.error_code == 0, "the same connection goes on"


def test_text_that_is_not_utf8_closes(broker: BrokerProcess) -> None:
    for client_id, topic in ((b"\xff\xfe", b"kept"), (b"ok", b"\xc3\x28")):
        body = struct.pack(">hhih", api.METADATA, 1, 7, len(client_id)) + client_id
        body += struct.pack(">ih", 1, len(topic)) + topic
        with WireClient(broker.kafka_port) as client:
            client.send_raw(struct.pack(">i", len(body)) + body)
            assert client.is_closed_within(CLOSE_S_MAX)


@pytest.mark.parametrize("key", sorted(api.APIS))
@pytest.mark.parametrize(
    "filler", [b"\x7f\xff\xff\xff", b"\xff\xff\xff\xfe", b"\xff" * 5, b"\x80" * 10]
)
def test_counts_and_lengths_beyond_the_frame_are_never_believed(
    broker: BrokerProcess, key: int, filler: bytes
) -> None:
    row = api.APIS[key]
    for version in (row.codec_from, row.max_version):
        tags = b"\0" if version >= row.flexible_from else b""
        body = struct.pack(">hhih", key, version, 7, -1) + tags + filler * 8
        with WireClient(broker.kafka_port) as client:
            client.send_raw(struct.pack(">i", len(body)) + body)
            client.socket.settimeout(CLOSE_S_MAX)
            try:
                client.receive_frame()
            except ConnectionError:
                continue


def test_random_bytes_after_a_valid_header_hurt_nobody(broker: BrokerProcess) -> None:
    source = random.Random(20)
    rows = list(api.APIS.values())
    for _ in range(300):
        row = source.choice(rows)
        version = source.randint(row.codec_from, row.max_version)
        body = struct.pack(">hhih", row.key, version, 7, -1) + source.randbytes(
            source.randint(0, 200)
        )
        with WireClient(broker.kafka_port) as client:
            client.send_raw(struct.pack(">i", len(body)) + body)
    with WireClient(broker.kafka_port) as client:
        assert client.call(api.METADATA, 12, MetadataRequest(topics=[])).cluster_id
    assert "a handler failed" not in broker.log_path.read_text()


def test_a_control_request_beyond_its_bound_closes(broker: BrokerProcess) -> None:
    with WireClient(broker.kafka_port) as client:
        size = FRAME_MAX - 100
        body = struct.pack(">hhih", api.METADATA, 1, 7, -1) + struct.pack(">i", size // 2)
        client.send_raw(struct.pack(">i", size) + body + bytes(size - len(body)))
        client.socket.settimeout(10)
        with pytest.raises((ConnectionError, TimeoutError)):
            client.receive_frame()


def test_ten_thousand_pipelined_requests_without_reading_cost_bounded_memory(
    broker: BrokerProcess, bystander: WireClient
) -> None:
    for _ in range(8):
        bystander.produce("kept", [(b"k", b"v" * 50_000)])
    fetch = encode_request(api.FETCH, 12, 1, "test", fetch_request("kept", 0))
    with WireClient(broker.kafka_port) as client:
        client.socket.setblocking(False)
        data = memoryview(fetch * 10_000)
        sent, ends = 0, time.monotonic() + 3
        while sent < len(data) and time.monotonic() < ends:
            try:
                sent += client.socket.send(data[sent : sent + 65536])
            except BlockingIOError:
                time.sleep(0.01)
                assert bystander.produce("kept", [(b"k", b"v")]).error_code == 0
        client.socket.setblocking(True)
        client.socket.settimeout(20)
        client.receive_frame()


def test_pipelined_requests_are_all_answered_in_order(broker: BrokerProcess) -> None:
    with WireClient(broker.kafka_port) as client:
        for number in range(2_000):
            if number % 3 == 0:
                client.send_batch("kept", [(b"k", b"%d" % number)])
            elif number % 3 == 1:
                client.send(api.METADATA, 12, MetadataRequest(topics=[]))
            else:
                client.send_fetch("kept", 0, partition_max_bytes=100, max_wait_ms=10)
            if number % 100 == 99:
                for _ in range(100):
                    client.receive()


def test_a_client_that_vanishes_in_mid_request_leaves_nothing(broker: BrokerProcess) -> None:
    for _ in range(200):
        with WireClient(broker.kafka_port) as client:
            client.send_raw(struct.pack(">i", FRAME_MAX) + b"x" * 200_000)
            client.socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))


EMPTY_TOPIC = b"\x02z\x01\x00"
"""A topic named z without partitions, in the flexible encoding of many requests."""

CROWDED = {
    "Produce": (api.PRODUCE, 9, b"\x00" + struct.pack(">hi", 1, 1000)),
    "ListOffsets": (api.LIST_OFFSETS, 7, struct.pack(">ib", -1, 0)),
    "OffsetFetch": (api.OFFSET_FETCH, 7, b"\x02g"),
}


@pytest.mark.parametrize("name", CROWDED)
def test_a_request_of_very_many_tiny_parts_stops_nobody(broker: BrokerProcess, name: str) -> None:
    """Bytes alone do not bound a request: each part of four bytes costs many microseconds."""
    key, version, start = CROWDED[name]
    head = struct.pack(">hhih", key, version, 1, 1) + b"a" + b"\x00"
    count = 250_000
    frame = head + start + uvarint(count + 1) + EMPTY_TOPIC * count + b"\x00\x00"
    with WireClient(broker.kafka_port) as client, WireClient(broker.kafka_port) as other:
        client.send_raw(struct.pack(">i", len(frame)) + frame)
        time.sleep(0.05)
        began = time.monotonic()
        other.call(api.API_VERSIONS, 0, ApiVersionsRequest())
        assert time.monotonic() - began < 1, "another client waited"
        assert client.is_closed_within(5)


def test_tagged_fields_of_a_section_are_few(broker: BrokerProcess) -> None:
    head = struct.pack(">hhih", api.API_VERSIONS, 3, 1, 1) + b"a"
    tags = b"".join(uvarint(tag) + b"\x00" for tag in range(1_000))
    frame = head + uvarint(1_000) + tags + b"\x02a\x02b\x00"
    with WireClient(broker.kafka_port) as client:
        client.send_raw(struct.pack(">i", len(frame)) + frame)
        assert client.is_closed_within(5)
