"""DescribeProducers against a real broker: who wrote with a producer id, and for how long that is
remembered.
"""

from __future__ import annotations

import importlib
import time
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from broker.errors import ErrorCode
from broker.records.build import build_batch
from broker.wire import api
from broker.wire.messages.describe_producers import (
    DescribeProducersRequest,
    PartitionResponse,
    TopicRequest,
)
from broker.wire.messages.init_producer_id import InitProducerIdRequest
from tests.support.broker_process import BrokerProcess
from tests.support.wire_client import WireClient

pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning:kafka")


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrokerProcess]:
    with BrokerProcess(tmp_path_factory.mktemp("producers")) as process:
        yield process


@pytest.fixture
def client(broker: BrokerProcess) -> Iterator[WireClient]:
    with WireClient(broker.kafka_port) as connection:
        yield connection


def new_producer(client: WireClient) -> tuple[int, int]:
    answer = client.call(api.INIT_PRODUCER_ID, 4, InitProducerIdRequest(transactional_id=None))
    assert answer.error_code == 0
    return answer.producer_id, answer.producer_epoch


def write(
    client: WireClient, topic: str, producer: tuple[int, int], sequence: int, count: int = 1
) -> None:
    batch = build_batch(
        [(b"k", b"v")] * count,
        timestamp_ms=1_700_000_000_000,
        producer_id=producer[0],
        producer_epoch=producer[1],
        base_sequence=sequence,
    )
    assert client.produce(topic, batch).error_code == 0


def describe(client: WireClient, topic: str, *partitions: int) -> list[PartitionResponse]:
    request = DescribeProducersRequest(
        topics=[TopicRequest(name=topic, partition_indexes=list(partitions))]
    )
    (answer,) = client.call(api.DESCRIBE_PRODUCERS, 0, request).topics
    assert answer.name == topic
    return list(answer.partitions)


def test_each_producer_with_its_epoch_last_sequence_and_time(client: WireClient) -> None:
    client.create_topic("written", 2)
    before_ms = int(time.time() * 1000)
    first, second = new_producer(client), new_producer(client)
    write(client, "written", first, 0, count=3)
    write(client, "written", second, 0)
    write(client, "written", first, 3)
    client.produce("written", [(b"k", b"v")])  # without a producer id
    described, empty = describe(client, "written", 0, 1)
    found = [
        (item.producer_id, item.producer_epoch, item.last_sequence)
        for item in described.active_producers
    ]
    assert found == sorted([(*first, 3), (*second, 0)])
    for item in described.active_producers:
        assert before_ms - 5_000 <= item.last_timestamp <= int(time.time() * 1000) + 5_000
        assert (item.coordinator_epoch, item.current_txn_start_offset) == (-1, -1)
    assert (empty.error_code, empty.active_producers) == (0, [])


def test_a_partition_that_is_named_again_and_again_is_described_once(client: WireClient) -> None:
    client.create_topic("repeated")
    write(client, "repeated", new_producer(client), 0)
    wanted = TopicRequest(name="repeated", partition_indexes=[0] * 1_000)
    request = DescribeProducersRequest(topics=[wanted] * 20)
    (topic,) = client.call(api.DESCRIBE_PRODUCERS, 0, request).topics
    (partition,) = topic.partitions
    assert len(partition.active_producers) == 1


def test_unknown_partitions_are_refused_each_for_itself(client: WireClient) -> None:
    client.create_topic("known")
    good, bad = describe(client, "known", 0, 7)
    assert (good.error_code, good.error_message) == (0, None)
    assert bad.error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert "known-7" in (bad.error_message or "")
    (nobody,) = describe(client, "nobody", 0)
    assert nobody.error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


def test_producers_are_remembered_over_a_crash_and_forgotten_after_silence(tmp_path: Path) -> None:
    settings = {"producer.id.expiration.ms": 1_000}
    with BrokerProcess(tmp_path) as process:
        with WireClient(process.kafka_port) as client:
            client.create_topic("kept")
            producer = new_producer(client)
            write(client, "kept", producer, 0)
        process.restart()
        with WireClient(process.kafka_port) as client:
            (item,) = describe(client, "kept", 0)[0].active_producers
            assert (item.producer_id, item.last_sequence) == (producer[0], 0)
        process.settings.update(settings)
        process.restart()
        with WireClient(process.kafka_port) as client:
            deadline = time.monotonic() + 20
            while describe(client, "kept", 0)[0].active_producers:
                assert time.monotonic() < deadline, "a silent producer is still shown"
                time.sleep(0.05)


def test_kafka_python_describes_producers(broker: BrokerProcess, client: WireClient) -> None:
    client.create_topic("pure")
    producer = new_producer(client)
    write(client, "pure", producer, 0)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        kafka: Any = importlib.import_module("kafka")
    admin = kafka.KafkaAdminClient(bootstrap_servers=broker.bootstrap)
    try:
        found = str(admin.describe_producers([kafka.TopicPartition("pure", 0)]))
    finally:
        admin.close()
    assert f"{producer[0]}" in found
