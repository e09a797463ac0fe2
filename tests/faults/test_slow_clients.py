"""Clients that do not read, or read slowly: bounded memory, and the others are served."""

from __future__ import annotations

import socket
import time
from collections.abc import Iterator
from contextlib import ExitStack

import pytest

from broker.server.limits import FETCH_MEMORY_BYTES, FETCH_RESPONSE_BYTES_MAX
from tests.support.broker_process import BrokerProcess
from tests.support.wire_client import WireClient, resident_bytes

BATCH_BYTES = 500_000
BATCH_COUNT = 40


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrokerProcess]:
    with BrokerProcess(tmp_path_factory.mktemp("slow")) as process:
        with WireClient(process.kafka_port) as client:
            client.create_topic("big")
            for _ in range(BATCH_COUNT):
                assert client.produce("big", [(b"k", b"v" * BATCH_BYTES)]).error_code == 0
        yield process


def send_greedy_fetch(client: WireClient) -> None:
    client.send_fetch("big", 0, partition_max_bytes=1 << 30, max_bytes=1 << 30, max_wait_ms=100)


def test_an_answer_is_bounded_whatever_the_client_allows(broker: BrokerProcess) -> None:
    with WireClient(broker.kafka_port) as client:
        send_greedy_fetch(client)
        size = len(client.receive().responses[0].partitions[0].records)
        assert FETCH_RESPONSE_BYTES_MAX - 2 * BATCH_BYTES < size <= FETCH_RESPONSE_BYTES_MAX


def test_many_clients_that_do_not_read_cost_bounded_memory_and_others_are_served(
    broker: BrokerProcess,
) -> None:
    before = resident_bytes(broker.pid)
    peak = 0
    with ExitStack() as stack:
        for _ in range(150):
            client = stack.enter_context(WireClient(broker.kafka_port))
            client.socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
            for _ in range(3):
                send_greedy_fetch(client)
        reader = stack.enter_context(WireClient(broker.kafka_port, timeout=30))
        for number in range(10):
            began = time.monotonic()
            assert reader.produce("big", [(b"k", b"v")]).error_code == 0
            assert time.monotonic() - began < 5, "producers do not wait for slow consumers"
            found = reader.fetch("big", number, max_wait_ms=8_000)
            assert len(found.records) > BATCH_BYTES
            peak = max(peak, resident_bytes(broker.pid) - before)
    assert peak < 2 * FETCH_MEMORY_BYTES


def test_a_slow_reader_that_makes_progress_is_left_alone(broker: BrokerProcess) -> None:
    with WireClient(broker.kafka_port) as client:
        send_greedy_fetch(client)
        client.socket.settimeout(10)
        received = 0
        for _ in range(20):
            received += len(client.socket.recv(20_000))
            time.sleep(0.1)
        assert received > 0
        frame_rest = FETCH_RESPONSE_BYTES_MAX - 2 * BATCH_BYTES - received
        while frame_rest > 0:
            piece = len(client.socket.recv(1 << 20))
            assert piece, "it was cut off although it read"
            frame_rest -= piece
