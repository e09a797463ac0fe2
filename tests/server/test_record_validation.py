"""`record.validation=full` and repacking, against a real broker: what is refused, and that batches
which wait for the worker process keep their place.
"""

from __future__ import annotations

import itertools
import os
import random
import signal
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest

from broker.errors import ErrorCode
from broker.records.batch import CODEC_MASK, HEADER_BYTES, read_header, seal
from broker.records.build import NewRecord, build_batch
from broker.records.compression import CODECS
from broker.records.iterate import iterate_batches, iterate_records
from broker.wire import api
from broker.wire.messages.delete_topics import DeleteTopicsRequest, DeleteTopicState
from broker.wire.messages.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from broker.wire.messages.produce import (
    PartitionProduceData,
    PartitionProduceResponse,
    ProduceRequest,
    TopicProduceData,
)
from tests.support.broker_process import BrokerProcess
from tests.support.opened import opened_batches
from tests.support.wire_client import WireClient, batch_of

NAMES = itertools.count()
BIG_COUNT = 3_000
"""Records that take more than a step of the loop."""


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrokerProcess]:
    with BrokerProcess(tmp_path_factory.mktemp("validation")) as process:
        yield process
        assert "Traceback" not in process.log_path.read_text()


@pytest.fixture
def client(broker: BrokerProcess) -> Iterator[WireClient]:
    with WireClient(broker.kafka_port) as connected:
        yield connected


def full_topic(client: WireClient, partition_count: int = 1, **settings: str) -> str:
    name = f"full-{next(NAMES)}"
    client.create_topic(name, partition_count, record_validation="full", **settings)
    return name


def big(marker: bytes, count: int = BIG_COUNT, **fields: int) -> bytearray:
    """A batch for the worker; every record says whose it is."""
    return batch_of([(b"key", marker)] * count, **fields)


def small(marker: bytes, **fields: int) -> bytearray:
    return batch_of([(b"key", marker)], **fields)


def stored(client: WireClient, topic: str, partition: int = 0) -> list[bytes | None]:
    """The first value of every batch, in log order."""
    found: list[bytes | None] = []
    offset = 0
    while True:
        answer = client.fetch(topic, offset, partition=partition, partition_max_bytes=8 << 20)
        assert answer.error_code == 0
        if not answer.records:
            return found
        for batch in iterate_batches(bytes(answer.records)):
            found.append(next(iter(iterate_records(batch, size_max=64 << 20))).value)
            offset = read_header(batch).next_offset


@pytest.mark.parametrize("count", [3, BIG_COUNT])
@pytest.mark.parametrize("codec", CODECS)
def test_a_bad_record_refuses_its_batch_and_is_named_by_its_index(
    client: WireClient, codec: str, count: int
) -> None:
    topic = full_topic(client, cleanup_policy="compact")
    records: list[tuple[bytes | None, bytes | None]] = [(b"k", b"v")] * count
    records[1] = (None, b"keyless")
    answer = client.produce(topic, batch_of(records, compression=codec))
    assert answer.error_code == ErrorCode.INVALID_RECORD
    assert answer.base_offset == -1
    assert [error.batch_index for error in answer.record_errors] == [1]
    assert "key" in (answer.record_errors[0].batch_index_error_message or "")
    assert "record 1" in (answer.error_message or "")
    assert stored(client, topic) == []
    assert client.produce(topic, records[:1]).base_offset == 0


def test_versions_without_record_errors_get_the_code_alone(client: WireClient) -> None:
    topic = full_topic(client, cleanup_policy="compact")
    for version in (3, 5, 7):
        answer = client.produce(topic, [(None, b"v")], version=version)
        assert answer.error_code == ErrorCode.INVALID_RECORD
    assert stored(client, topic) == []


def test_each_batch_of_a_request_is_judged_alone(client: WireClient) -> None:
    topic = full_topic(client, 5, cleanup_policy="compact")
    batches: list[bytes | bytearray | None] = [
        small(b"good"),
        big(b"good"),
        batch_of([(None, b"bad")] * BIG_COUNT),
        small(b"good"),
        None,
    ]
    data = [PartitionProduceData(index=i, records=batch) for i, batch in enumerate(batches)]
    request = ProduceRequest(
        acks=-1,
        timeout_ms=10_000,
        topic_data=[TopicProduceData(name=topic, partition_data=data)],
    )
    answers: list[PartitionProduceResponse] = (
        client.call(api.PRODUCE, 9, request).responses[0].partition_responses
    )
    invalid = ErrorCode.INVALID_RECORD
    assert [answer.error_code for answer in answers] == [0, 0, invalid, 0, invalid]
    assert [len(answer.record_errors) for answer in answers] == [0, 0, 20, 0, 0]
    found = [stored(client, topic, index) for index in range(5)]
    assert found == [[b"good"], [b"good"], [], [b"good"], []]


def test_limits_are_the_topics_and_change_at_once(client: WireClient) -> None:
    topic = full_topic(client, max_record_headers="1", max_record_bytes="100")
    two = build_batch(
        [NewRecord(b"k", b"v", [("a", b""), ("b", b"")])], timestamp_ms=int(time.time() * 1000)
    )
    assert client.produce(topic, two).error_code == ErrorCode.INVALID_RECORD
    large = client.produce(topic, [(b"k", bytes(100))])
    assert large.error_code == ErrorCode.MESSAGE_TOO_LARGE
    assert "max.record.bytes" in (large.error_message or "")
    alter(client, topic, "max.record.headers", "2")
    assert client.produce(topic, two).error_code == 0
    alter(client, topic, "record.validation", "header")
    assert client.produce(topic, [(b"k", bytes(100))]).error_code == 0


def alter(client: WireClient, topic: str, name: str, value: str) -> None:
    change = AlterableConfig(name=name, config_operation=0, value=value)
    resource = AlterConfigsResource(resource_type=2, resource_name=topic, configs=[change])
    answer = client.call(
        api.INCREMENTAL_ALTER_CONFIGS, 1, IncrementalAlterConfigsRequest(resources=[resource])
    )
    assert answer.responses[0].error_code == 0, answer.responses[0].error_message


@pytest.mark.parametrize("acks", [-1, 1, 0])
def test_batches_stay_in_order_whatever_waits_for_the_worker(
    broker: BrokerProcess, client: WireClient, acks: int
) -> None:
    topic = full_topic(client)
    before = opened_batches(broker, "worker")
    chance = random.Random(7)
    markers = [b"%d" % number for number in range(60)]
    for number, marker in enumerate(markers):
        batch = big(marker) if number == 0 or chance.random() < 0.3 else small(marker)
        client.send_batch(topic, batch, acks=acks)
    if acks:
        answers = [client.receive().responses[0].partition_responses[0] for _ in markers]
        assert [answer.error_code for answer in answers] == [0] * len(markers)
        offsets = [answer.base_offset for answer in answers]
        assert offsets == sorted(offsets)
    else:
        wait_until(lambda: len(stored(client, topic)) == len(markers))
    assert stored(client, topic) == markers
    assert opened_batches(broker, "worker") > before


def test_an_idempotent_producer_keeps_its_sequence_with_five_in_flight(client: WireClient) -> None:
    topic = full_topic(client)
    sequence = 0
    sent: list[tuple[bytearray, int]] = []
    for number in range(25):
        is_big = number % 3 == 0
        marker = b"%d" % number
        fields = {"producer_id": 4_000, "producer_epoch": 0, "base_sequence": sequence}
        sent.append((big(marker, **fields) if is_big else small(marker, **fields), sequence))
        sequence += BIG_COUNT if is_big else 1
    waiting: list[int] = []
    for batch, base in sent:
        client.send_batch(topic, batch)
        waiting.append(base)
        if len(waiting) == 5:
            answer = client.receive().responses[0].partition_responses[0]
            assert (answer.error_code, answer.base_offset) == (0, waiting.pop(0))
    for base in waiting:
        answer = client.receive().responses[0].partition_responses[0]
        assert (answer.error_code, answer.base_offset) == (0, base)
    again = client.produce(topic, sent[-1][0])
    assert (again.error_code, again.base_offset) == (0, sent[-1][1])
    assert stored(client, topic) == [b"%d" % number for number in range(25)]


@pytest.mark.parametrize("stored_in", ["uncompressed", "gzip", "snappy", "lz4", "zstd"])
def test_big_batches_are_packed_anew_too(client: WireClient, stored_in: str) -> None:
    topic = f"packed-{next(NAMES)}"
    client.create_topic(topic, compression_type=stored_in, max_message_bytes=str(16 << 20))
    value = os.urandom(100_000) + bytes(1_500_000)
    for codec in CODECS:
        answer = client.produce(topic, batch_of([(b"k", value)] * 2, compression=codec))
        assert answer.error_code == 0, answer.error_message
    offset = 0
    for _ in CODECS:
        records = client.fetch(topic, offset, partition_max_bytes=16 << 20).records
        batch = next(iterate_batches(bytes(records)))
        header = read_header(batch)
        wanted = 0 if stored_in == "uncompressed" else CODECS.index(stored_in)
        assert header.attributes & CODEC_MASK == wanted
        assert [record.value for record in iterate_records(batch)] == [value] * 2
        offset = header.next_offset


def test_acks_0_with_a_bad_big_batch_closes_the_connection_and_stores_nothing_after_it(
    broker: BrokerProcess, client: WireClient
) -> None:
    topic = full_topic(client, cleanup_policy="compact")
    with WireClient(broker.kafka_port) as other:
        other.send_batch(topic, small(b"before"), acks=0)
        other.send_batch(topic, batch_of([(None, b"v")] * BIG_COUNT), acks=0)
        other.send_batch(topic, small(b"after"), acks=0)
        assert other.is_closed_within(20)
    wait_until(lambda: bool(stored(client, topic)))
    assert stored(client, topic) == [b"before"]


def test_a_topic_deleted_while_its_batch_waits_is_answered_as_unknown(
    broker: BrokerProcess, client: WireClient
) -> None:
    topic = full_topic(client, max_message_bytes=str(32 << 20))
    slow = big(b"slow", 249_000)
    with WireClient(broker.kafka_port, 60) as other:
        before = opened_batches(broker, "worker")
        other.send_batch(topic, slow)
        wait_until(lambda: opened_batches(broker, "worker") > before)
        request = DeleteTopicsRequest(topics=[DeleteTopicState(name=topic)], timeout_ms=10_000)
        assert client.call(api.DELETE_TOPICS, 6, request).responses[0].error_code == 0
        answer = other.receive().responses[0].partition_responses[0]
    assert answer.error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


def test_a_client_that_leaves_during_the_wait_costs_nobody_anything(
    broker: BrokerProcess, client: WireClient
) -> None:
    topic = full_topic(client, max_message_bytes=str(32 << 20))
    for _ in range(3):
        with WireClient(broker.kafka_port) as other:
            other.send_batch(topic, big(b"gone", 100_000))
    answer = client.produce(topic, big(b"stays"))
    assert answer.error_code == 0
    assert stored(client, topic)[-1] == b"stays"


def wait_until(condition: object) -> None:
    deadline = time.monotonic() + 20
    while not condition():  # type: ignore[operator]
        assert time.monotonic() < deadline, "it did not happen in time"
        time.sleep(0.005)


def test_a_worker_that_dies_is_asked_again_or_the_client_is_told_to_repeat(
    broker: BrokerProcess, client: WireClient
) -> None:
    topic = full_topic(client, max_message_bytes=str(32 << 20))
    assert client.produce(topic, big(b"0")).error_code == 0
    killed = 0
    for number in range(1, 6):
        before = opened_batches(broker, "worker")
        client.send_batch(topic, big(b"%d" % number, 100_000))
        wait_until(lambda before=before: opened_batches(broker, "worker") > before)
        for pid in children_of(broker.pid):
            os.kill(pid, 9)
            killed += 1
        answer = client.receive().responses[0].partition_responses[0]
        while answer.error_code == ErrorCode.REQUEST_TIMED_OUT:
            answer = client.produce(topic, big(b"%d" % number, 100_000))
        assert answer.error_code == 0, answer.error_message
    assert killed
    assert stored(client, topic) == [b"%d" % number for number in range(6)]


def is_worker(pid: int) -> bool:
    """Before that its parent waits for it (vfork): to stop it would stop both."""
    with open(f"/proc/{pid}/cmdline", "rb") as file:
        return b"worker_child" in file.read()


def children_of(pid: int) -> list[int]:
    with open(f"/proc/{pid}/task/{pid}/children", encoding="ascii") as file:
        return [int(word) for word in file.read().split()]


def test_a_producer_goes_on_behind_a_batch_that_was_refused_for_good(client: WireClient) -> None:
    """Its client gives that one up, and numbers the next ones on."""
    topic = full_topic(client, cleanup_policy="compact")
    producer = {"producer_id": 4711, "producer_epoch": 0}
    without_key = batch_of([(None, b"refused")], base_sequence=0, **producer)
    assert client.produce(topic, without_key).error_code == ErrorCode.INVALID_RECORD
    assert client.produce(topic, small(b"next", base_sequence=1, **producer)).error_code == 0
    assert stored(client, topic) == [b"next"]


def test_a_batch_does_not_wait_for_upkeep(tmp_path_factory: pytest.TempPathFactory) -> None:
    settings = {"hermes.scrub.interval.ms": 1000}
    with BrokerProcess(tmp_path_factory.mktemp("upkeep"), settings) as process:
        with WireClient(process.kafka_port) as client:
            topic = full_topic(client, segment_bytes="1024")
            for number in range(30):  # the scrub looks at closed segments
                assert client.produce(topic, small(b"%d" % number)).error_code == 0
            wait_until(lambda: [pid for pid in children_of(process.pid) if is_worker(pid)])
            (scrub,) = children_of(process.pid)
            os.kill(scrub, signal.SIGSTOP)  # as one that has a long call
            try:
                assert client.produce(topic, big(b"second")).error_code == 0
                assert opened_batches(process, "worker") == 1
            finally:
                os.kill(scrub, signal.SIGCONT)
        assert process.terminate() == 0


def test_a_stopping_broker_does_not_wait_for_the_worker(
    tmp_path_factory: pytest.TempPathFactory,
) -> None:
    with BrokerProcess(tmp_path_factory.mktemp("stopping")) as process:
        with WireClient(process.kafka_port) as client:
            topic = full_topic(client, max_message_bytes=str(32 << 20))
            assert client.produce(topic, small(b"first")).error_code == 0
            client.send_batch(topic, big(b"waits", 240_000))
            wait_until(lambda: opened_batches(process, "worker") > 0)
            began = time.monotonic()
            assert process.terminate() == 0
            assert time.monotonic() - began < 15
        process.start()
        with WireClient(process.kafka_port) as client:
            assert stored(client, topic) in ([b"first"], [b"first", b"waits"])
        assert "Traceback" not in process.log_path.read_text()


def test_damage_that_the_checksum_finds_stays_corrupt_message(client: WireClient) -> None:
    topic = full_topic(client)
    damaged = big(b"v")
    damaged[-1] ^= 1
    assert client.produce(topic, damaged).error_code == ErrorCode.CORRUPT_MESSAGE
    lying = bytearray(damaged)
    lying[HEADER_BYTES + 3] ^= 0x10
    seal(lying)
    assert client.produce(topic, lying).error_code == ErrorCode.INVALID_RECORD


def test_many_connections_are_opened_for_at_once(broker: BrokerProcess, client: WireClient) -> None:
    topic = full_topic(client)

    def produce(number: int) -> int:
        with WireClient(broker.kafka_port, 60) as other:
            return int(other.produce(topic, big(b"%d" % number)).error_code)

    with ThreadPoolExecutor(12) as pool:
        assert list(pool.map(produce, range(36))) == [0] * 36
    assert sorted(stored(client, topic)) == sorted(b"%d" % number for number in range(36))  # type: ignore[type-var]
