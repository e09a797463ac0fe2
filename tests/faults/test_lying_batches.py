"""Records whose inside contradicts their batch: one client's lie costs nobody else anything."""

from __future__ import annotations

import time
from collections.abc import Iterator

import pytest

from broker.model import INT64_MAX
from broker.records.build import append_record, encode_body, frame_batch
from broker.wire import api
from broker.wire.messages.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsPartitionResponse,
    ListOffsetsRequest,
    ListOffsetsTopic,
)
from tests.support.broker_process import BrokerProcess
from tests.support.wire_client import WireClient, batch_of

NOW_MS = int(time.time() * 1000)
ZSTD = 4
MAX_TIMESTAMP = -3


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrokerProcess]:
    directory = tmp_path_factory.mktemp("lies")
    with BrokerProcess(directory, {"log.cleaner.backoff.ms": 100}) as process:
        yield process
        assert "Traceback" not in process.log_path.read_text()


def lying_batch(
    *deltas: tuple[int, int], key: bytes = b"k", codec: int = 0, repeat: int = 1
) -> bytearray:
    """A batch of records with these (timestamp, offset) deltas, whose header is in order."""
    records = bytearray()
    for timestamp_delta, offset_delta in deltas:
        append_record(records, timestamp_delta, offset_delta, encode_body(key, b"", ()))
    count = len(deltas) * repeat
    return frame_batch(
        bytes(records) * repeat,
        record_count=count,
        last_offset_delta=count - 1,
        base_timestamp=NOW_MS,
        max_timestamp=NOW_MS + 1000,
        codec=codec,
        producer=(-1, -1, -1),
        base_offset=0,
        leader_epoch=-1,
        attributes=0,
    )


def find(client: WireClient, topic: str, timestamp: int) -> ListOffsetsPartitionResponse:
    question = ListOffsetsPartition(partition_index=0, timestamp=timestamp)
    request = ListOffsetsRequest(topics=[ListOffsetsTopic(name=topic, partitions=[question])])
    answer: ListOffsetsPartitionResponse
    (answer,) = client.call(api.LIST_OFFSETS, 7, request).topics[0].partitions
    return answer


LIES = {
    "timestamp beyond int64": [(INT64_MAX, 0)],
    "timestamp before int64": [(-INT64_MAX - 1, 0), (-INT64_MAX - 1, 1)],
    "offset beyond the batch": [(0, 1 << 62)],
    "offset before the batch": [(0, -5)],
    "two records at one offset": [(0, 0), (0, 0)],
}


@pytest.mark.parametrize("codec", [0, ZSTD])
@pytest.mark.parametrize("lie", LIES)
def test_lookups_by_time_are_answered_whatever_a_record_says(
    broker: BrokerProcess, lie: str, codec: int
) -> None:
    topic = f"lookup-{codec}-{lie.replace(' ', '-')}"
    with WireClient(broker.kafka_port) as client:
        client.create_topic(topic)
        assert client.produce(topic, lying_batch(*LIES[lie], codec=codec)).error_code == 0
        assert client.produce(topic, batch_of([(b"k", b"v")], timestamp_ms=NOW_MS)).error_code == 0
        for timestamp in (0, NOW_MS, NOW_MS + 1, MAX_TIMESTAMP):
            found = find(client, topic, timestamp)
            assert found.error_code == 0
            assert found.offset == 0, "too early is safe, too late would lose records"


def test_a_small_batch_of_millions_of_records_keeps_no_lookup_waiting(
    broker: BrokerProcess,
) -> None:
    bomb = lying_batch((0, 0), codec=ZSTD, repeat=6_000_000)
    assert len(bomb) < 10_000
    with WireClient(broker.kafka_port) as client:
        client.create_topic("bombs")
        client.create_topic("honest")
        packed = batch_of([(b"k", b"v" * 100)], timestamp_ms=NOW_MS, compression="zstd")
        assert client.produce("honest", packed).error_code == 0
        for _ in range(3):
            assert client.produce("bombs", bomb).error_code == 0
        began = time.monotonic()
        assert find(client, "bombs", NOW_MS + 500).offset == 0
        assert find(client, "honest", NOW_MS).offset == 0
        assert time.monotonic() - began < 5, "six million records were not opened"


def test_a_header_that_promises_too_much_ends_the_lookup(broker: BrokerProcess) -> None:
    """Else each lookup would open every batch of a client that lies."""
    with WireClient(broker.kafka_port) as client:
        client.create_topic("promises")
        for _ in range(3):
            assert client.produce("promises", lying_batch((0, 0), codec=ZSTD)).error_code == 0
        found = find(client, "promises", NOW_MS + 1000)
        assert (found.offset, found.timestamp) == (0, NOW_MS + 1000)


def test_the_cleaner_goes_on_past_records_that_lie(broker: BrokerProcess) -> None:
    with WireClient(broker.kafka_port) as client:
        client.create_topic(
            "compacted",
            cleanup_policy="compact",
            segment_bytes=str(1 << 20),
            min_cleanable_dirty_ratio="0.01",
        )
        for deltas in LIES.values():
            assert client.produce("compacted", lying_batch(*deltas, key=b"dup")).error_code == 0
        first = client.produce("compacted", [(b"dup", b"old"), (b"filler", b"x" * 900_000)])
        client.produce("compacted", [(b"dup", b"new")])
        for _ in range(3):
            client.produce("compacted", [(b"filler", b"x" * 900_000)])
        deadline = time.monotonic() + 20
        while (offset := first_offset_from(client, first.base_offset)) == first.base_offset:
            assert time.monotonic() < deadline, "the cleaner removed nothing"
            time.sleep(0.2)
        assert offset == first.base_offset + 2, "what a liar's offset says replaces nothing"


def first_offset_from(client: WireClient, offset: int) -> int:
    """Base offset of the batch that a fetch from `offset` begins with."""
    content = client.fetch("compacted", offset).records
    return int.from_bytes(bytes(content[:8]), "big", signed=True)
