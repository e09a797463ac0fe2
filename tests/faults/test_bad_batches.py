"""Batches that lie: an error for that partition, nothing appended, the connection goes on."""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterator
from pathlib import Path

import crc32c
import pytest

from broker.errors import ErrorCode
from tests.support.broker_process import BrokerProcess
from tests.support.wire_client import WireClient, batch_of, resident_bytes

RECORDS: list[tuple[bytes | None, bytes | None]] = [(b"k", b"v1"), (b"k", b"v2"), (b"k", b"v3")]
CRC_POSITION = 17
CRC_START = 21


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrokerProcess]:
    settings = {"message.max.bytes": 200_000, "log.message.timestamp.before.max.ms": 10**12}
    with BrokerProcess(tmp_path_factory.mktemp("batches"), settings) as process:
        yield process


@pytest.fixture
def client(broker: BrokerProcess) -> Iterator[WireClient]:
    with WireClient(broker.kafka_port) as connected:
        yield connected


@pytest.fixture
def topic(client: WireClient, request: pytest.FixtureRequest) -> str:
    name = "t" + str(abs(hash(request.node.name)))
    client.create_topic(name)
    assert client.produce(name, RECORDS).base_offset == 0
    return name


def patched(position: int, layout: str, *values: int) -> Callable[[bytearray], bytearray]:
    """Overwrite a field and make the checksum right again."""

    def patch(batch: bytearray) -> bytearray:
        struct.pack_into(layout, batch, position, *values)
        return resealed(batch)

    return patch


def resealed(batch: bytearray) -> bytearray:
    checksum = crc32c.crc32c(memoryview(batch)[CRC_START:])
    struct.pack_into(">I", batch, CRC_POSITION, checksum)
    return batch


def corrupted(batch: bytearray) -> bytearray:
    batch[-1] ^= 1
    return batch


LIES: dict[str, tuple[Callable[[bytearray], bytes | bytearray], set[ErrorCode]]] = {
    "wrong checksum": (corrupted, {ErrorCode.CORRUPT_MESSAGE}),
    "magic 0": (
        patched(16, ">b", 0),
        {
            ErrorCode.INVALID_RECORD,
            ErrorCode.CORRUPT_MESSAGE,
            ErrorCode.UNSUPPORTED_FOR_MESSAGE_FORMAT,
        },
    ),
    "magic 1": (
        patched(16, ">b", 1),
        {
            ErrorCode.INVALID_RECORD,
            ErrorCode.CORRUPT_MESSAGE,
            ErrorCode.UNSUPPORTED_FOR_MESSAGE_FORMAT,
        },
    ),
    "magic 3": (
        patched(16, ">b", 3),
        {
            ErrorCode.INVALID_RECORD,
            ErrorCode.CORRUPT_MESSAGE,
            ErrorCode.UNSUPPORTED_FOR_MESSAGE_FORMAT,
        },
    ),
    "length too small": (
        patched(8, ">i", 20),
        {ErrorCode.INVALID_RECORD, ErrorCode.CORRUPT_MESSAGE},
    ),
    "length beyond": (
        patched(8, ">i", 10_000),
        {ErrorCode.INVALID_RECORD, ErrorCode.CORRUPT_MESSAGE},
    ),
    "length negative": (
        patched(8, ">i", -5),
        {ErrorCode.INVALID_RECORD, ErrorCode.CORRUPT_MESSAGE},
    ),
    "count too high": (patched(57, ">i", 9), {ErrorCode.INVALID_RECORD}),
    "count negative": (patched(57, ">i", -1), {ErrorCode.INVALID_RECORD}),
    "count zero": (patched(57, ">i", 0), {ErrorCode.INVALID_RECORD}),
    "last delta too high": (patched(23, ">i", 2**31 - 1), {ErrorCode.INVALID_RECORD}),
    "last delta negative": (patched(23, ">i", -1), {ErrorCode.INVALID_RECORD}),
    "control batch": (patched(21, ">h", 0x20), {ErrorCode.INVALID_RECORD}),
    "transactional": (
        patched(21, ">h", 0x10),
        {
            ErrorCode.INVALID_RECORD,
            ErrorCode.INVALID_TXN_STATE,
            ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
        },
    ),
    "unknown codec": (
        patched(21, ">h", 7),
        {
            ErrorCode.INVALID_RECORD,
            ErrorCode.CORRUPT_MESSAGE,
            ErrorCode.UNSUPPORTED_COMPRESSION_TYPE,
        },
    ),
    "far future": (patched(27, ">qq", 2**63 - 1, 2**63 - 1), {ErrorCode.INVALID_TIMESTAMP}),
    "far past": (patched(27, ">qq", -(2**63), -(2**63)), {ErrorCode.INVALID_TIMESTAMP}),
    "two batches": (
        lambda batch: batch + batch,
        {ErrorCode.INVALID_RECORD, ErrorCode.CORRUPT_MESSAGE},
    ),
    "empty": (lambda batch: b"", {ErrorCode.INVALID_RECORD, ErrorCode.CORRUPT_MESSAGE}),
    "half": (lambda batch: batch[:30], {ErrorCode.INVALID_RECORD, ErrorCode.CORRUPT_MESSAGE}),
    "header only": (
        lambda batch: batch[:61],
        {ErrorCode.INVALID_RECORD, ErrorCode.CORRUPT_MESSAGE},
    ),
}


@pytest.mark.parametrize("name", LIES)
def test_a_batch_that_lies_is_refused(client: WireClient, topic: str, name: str) -> None:
    lie, codes = LIES[name]
    refused = client.produce(topic, lie(batch_of(RECORDS)))
    assert refused.error_code in codes
    assert refused.base_offset == -1
    assert client.produce(topic, RECORDS).base_offset == len(RECORDS), "nothing was appended"


@pytest.mark.parametrize("name", ["wrong checksum", "control batch", "empty"])
def test_a_refused_batch_with_acks_0_closes_the_connection(
    broker: BrokerProcess, topic: str, name: str
) -> None:
    with WireClient(broker.kafka_port) as producer:
        producer.send_batch(topic, LIES[name][0](batch_of(RECORDS)), acks=0)
        assert producer.is_closed_within(3)


def test_acks_0_appends_without_an_answer(client: WireClient, topic: str) -> None:
    for _ in range(10):
        client.send_batch(topic, RECORDS, acks=0)
    assert client.produce(topic, RECORDS).base_offset == 11 * len(RECORDS)


@pytest.mark.parametrize("acks", [2, -2, 32_767])
def test_acks_that_do_not_exist_are_refused(client: WireClient, topic: str, acks: int) -> None:
    assert client.produce(topic, RECORDS, acks=acks).error_code == ErrorCode.INVALID_REQUIRED_ACKS
    assert client.fetch(topic, 0).high_watermark == len(RECORDS)


def test_a_batch_above_the_limit_is_too_large(client: WireClient, topic: str) -> None:
    refused = client.produce(topic, [(b"k", b"x" * 210_000)])
    assert refused.error_code == ErrorCode.MESSAGE_TOO_LARGE


@pytest.mark.parametrize("compression", ["gzip", "snappy", "lz4", "zstd"])
def test_a_bomb_is_stored_as_it_came_and_costs_no_memory(
    broker: BrokerProcess, client: WireClient, topic: str, compression: str
) -> None:
    bomb = batch_of([(b"k", b"\0" * (64 << 20))], compression=compression)
    before = resident_bytes(broker.pid)
    answers = [client.produce(topic, bytearray(bomb)).error_code for _ in range(5)]
    is_small = len(bomb) <= 200_000
    assert set(answers) == {0 if is_small else ErrorCode.MESSAGE_TOO_LARGE}
    assert resident_bytes(broker.pid) - before < 32 << 20


def test_zstd_needs_a_client_that_knows_it(client: WireClient, topic: str) -> None:
    batch = batch_of(RECORDS, compression="zstd")
    refused = client.produce(topic, batch, version=6)
    assert refused.error_code == ErrorCode.UNSUPPORTED_COMPRESSION_TYPE


@pytest.mark.parametrize("name", ["missing", "../x", ".", "..", "a" * 250, "a\0b", ""])
def test_an_impossible_topic_is_unknown(client: WireClient, name: str) -> None:
    assert client.produce(name, RECORDS).error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


@pytest.mark.parametrize("partition", [1, -1, 2**31 - 1])
def test_an_impossible_partition_is_unknown(client: WireClient, topic: str, partition: int) -> None:
    answer = client.produce(topic, RECORDS, partition=partition)
    assert answer.error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


def test_nothing_left_the_data_directory(broker: BrokerProcess) -> None:
    assert {path.name for path in Path(broker.directory).iterdir()} == {"data", "broker.log"}
