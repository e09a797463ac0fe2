"""A broker with little memory serves far more data than fits, slow clients beside it."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.faults.memory import MemoryGroup, memory_group
from tests.faults.power_clients import records_of
from tests.support.broker_process import BrokerProcess
from tests.support.wire_client import WireClient, batch_of

MEMORY_BYTES = 192 << 20
BATCH = batch_of([(b"%d" % number, b"v" * 100_000) for number in range(9)])
BATCHES = 400
PARTITIONS = 4
SLOW_CLIENTS = 200
FETCHES = 8


@pytest.fixture
def group() -> Iterator[MemoryGroup]:
    with memory_group(MEMORY_BYTES) as made:
        yield made


def test_more_data_than_memory_is_written_and_read(tmp_path: Path, group: MemoryGroup) -> None:
    with BrokerProcess(tmp_path, prefix=group.prefix) as broker:
        with WireClient(broker.kafka_port, 60) as client:
            client.create_topic("orders", PARTITIONS, durability="replicated")
            fill(client)
            for partition in range(PARTITIONS):
                assert read_all(client, partition) == BATCHES // PARTITIONS * 9
        assert group.killed_count == 0
        assert broker.terminate() == 0


def test_clients_that_take_no_answers_cost_no_more_memory_than_there_is(
    tmp_path: Path, group: MemoryGroup
) -> None:
    """Each asks for megabytes, most of them on the device, and reads nothing."""
    with BrokerProcess(tmp_path, prefix=group.prefix) as broker:
        with WireClient(broker.kafka_port, 60) as client, contextlib.ExitStack() as slow:
            client.create_topic("orders", PARTITIONS, durability="replicated")
            fill(client)
            for number in range(SLOW_CLIENTS):
                reader = slow.enter_context(WireClient(broker.kafka_port, 60))
                for _ in range(FETCHES):
                    reader.send_fetch("orders", number % 90 * 9, partition=number % PARTITIONS)
            ends = time.monotonic() + 5
            while time.monotonic() < ends:
                assert client.produce("orders", bytearray(BATCH)).error_code == 0, "others go on"
        assert group.killed_count == 0
        assert broker.terminate() == 0


def fill(client: WireClient) -> None:
    for number in range(BATCHES):
        answer = client.produce("orders", bytearray(BATCH), partition=number % PARTITIONS)
        assert answer.error_code == 0


def read_all(client: WireClient, partition: int) -> int:
    """How many records there are."""
    position = 0
    while True:
        data = client.fetch("orders", position, partition=partition)
        assert data.error_code == 0
        found = records_of(data, position)
        if not found:
            return position
        position = found[-1][0] + 1
