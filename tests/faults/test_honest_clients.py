"""Nobody is cut off for a delay that is the broker's, or for being slow with much to say."""

from __future__ import annotations

import signal
import struct
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from os import kill
from pathlib import Path

import pytest

from broker.wire.frame import encode_request
from broker.wire.messages.produce import (
    PartitionProduceData,
    ProduceRequest,
    TopicProduceData,
)
from tests.support.broker_process import BrokerProcess
from tests.support.wire_client import PRODUCE_VERSION, WireClient

PRODUCE = 0
READ_TIMEOUT_MS = 1_500
IDLE_MS = 1_000
PAUSE_S = 3


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrokerProcess]:
    settings = {
        "hermes.request.read.timeout.ms": READ_TIMEOUT_MS,
        "connections.max.idle.ms": IDLE_MS,
    }
    with BrokerProcess(tmp_path_factory.mktemp("honest"), settings) as process:
        with WireClient(process.kafka_port) as client:
            client.create_topic("orders")
        yield process


def big_frame(size: int) -> bytes:
    """A Produce request of about `size` bytes, which is too big for the topic."""
    batch = struct.pack(">qiib", 0, size - 12, 0, 2) + bytes(size - 17)
    partition = PartitionProduceData(index=0, records=batch)
    topic = TopicProduceData(name="orders", partition_data=[partition])
    request = ProduceRequest(acks=-1, timeout_ms=5_000, topic_data=[topic])
    return encode_request(PRODUCE, PRODUCE_VERSION, 1, "test", request)


def assert_answered(client: WireClient) -> None:
    """The request was read to its end: that it is refused is an answer."""
    client.socket.settimeout(20)
    assert len(client.receive_frame()) > 0


def test_a_request_that_waited_in_the_socket_while_the_broker_stood_still_is_read(
    broker: BrokerProcess,
) -> None:
    frame = big_frame(60 << 20)
    with WireClient(broker.kafka_port) as client:
        client.socket.settimeout(20)
        client.socket.sendall(frame[:1000])
        time.sleep(0.3)
        kill(broker.pid, signal.SIGSTOP)
        sending = threading.Thread(target=client.socket.sendall, args=(frame[1000:],))
        try:
            sending.start()
            time.sleep(3 * READ_TIMEOUT_MS / 1000)
        finally:
            kill(broker.pid, signal.SIGCONT)
        sending.join(20)
        assert_answered(client)


def test_a_big_request_over_a_slow_link_has_more_time(broker: BrokerProcess) -> None:
    frame = big_frame(4 << 20)
    with WireClient(broker.kafka_port) as client:
        piece = len(frame) // 20
        for position in range(0, len(frame), piece):  # 800 KiB a second
            client.socket.sendall(frame[position : position + piece])
            time.sleep(0.25)
        assert_answered(client)


def test_who_sends_next_to_nothing_is_still_closed(broker: BrokerProcess) -> None:
    with WireClient(broker.kafka_port) as client:
        for byte in big_frame(1000)[:12]:
            client.send_raw(bytes([byte]))
            time.sleep(0.3)
        assert client.is_closed_within(READ_TIMEOUT_MS / 1000 + 3)


def test_who_waits_for_an_answer_is_not_idle(broker: BrokerProcess) -> None:
    with WireClient(broker.kafka_port) as client:
        began = time.monotonic()
        assert not client.fetch("orders", 0, max_wait_ms=5_000).records
        assert time.monotonic() - began > 4
        assert client.is_closed_within(IDLE_MS / 1000 + 4), "but afterwards it is"


PRODUCER = """
import sys
from confluent_kafka import Producer
errors = []
producer = Producer({
    "bootstrap.servers": sys.argv[1], "batch.size": 131072, "linger.ms": 5, "acks": "all",
    "retries": 0, "socket.timeout.ms": 60000, "queue.buffering.max.messages": 1000000,
    "error_cb": lambda error: errors.append(error),
})
print("begin", flush=True)
for number in range(150_000):
    producer.produce(
        "fast", bytes(1000), on_delivery=lambda error, _: error and errors.append(error)
    )
    if number % 1000 == 0:
        producer.poll(0)
assert producer.flush(60) == 0
assert not errors, errors[:3]
"""


def test_a_fast_producer_that_is_stopped_for_a_while_goes_on(tmp_path: Path) -> None:
    with BrokerProcess(tmp_path) as broker:
        with WireClient(broker.kafka_port) as client:
            client.create_topic("fast")
        command = [sys.executable, "-c", PRODUCER, broker.bootstrap]
        producer = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        try:
            assert producer.stdout is not None
            assert producer.stdout.readline() == b"begin\n"
            time.sleep(0.4)
            for pid in (producer.pid, broker.pid):
                kill(pid, signal.SIGSTOP)
                time.sleep(PAUSE_S)
                kill(pid, signal.SIGCONT)
                time.sleep(0.1)
            _, errors = producer.communicate(timeout=60)
        finally:
            producer.kill()
            producer.communicate()
        assert producer.returncode == 0, errors.decode()
        assert "closed a connection" not in broker.log_path.read_text()
