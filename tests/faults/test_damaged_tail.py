"""A disk that damages what a killed broker had synced a moment ago: nothing acknowledged is cut."""

from __future__ import annotations

import time
from pathlib import Path

from broker.errors import ErrorCode
from broker.log.synced_ends import decode_ends
from broker.records.iterate import iterate_batches, iterate_records
from tests.support.broker_process import BrokerProcess
from tests.support.wire_client import WireClient

COUNT = 12
DEADLINE_S = 30


def wait_until_known(path: Path, offset: int) -> None:
    deadline = time.monotonic() + DEADLINE_S
    while True:
        found = decode_ends(path.read_bytes()) if path.exists() else {}
        if any(end.offset == offset for end in found.values()):
            return
        assert time.monotonic() < deadline, found
        time.sleep(0.05)


def consume(client: WireClient, topic: str, end: int) -> tuple[list[int], list[int]]:
    """(offsets that are served, offsets that are refused as corrupt) below `end`."""
    served: list[int] = []
    refused: list[int] = []
    offset = 0
    while offset < end:
        answer = client.fetch(topic, offset)
        if answer.error_code == ErrorCode.CORRUPT_MESSAGE:
            refused.append(offset)
            offset += 1
            continue
        assert answer.error_code == 0
        for batch in iterate_batches(answer.records):
            for record in iterate_records(batch):
                assert record.value == b"v%d" % record.offset
                served.append(record.offset)
        offset = served[-1] + 1
    return served, refused


def test_acknowledged_records_behind_a_flipped_bit_in_the_tail_survive_a_kill(
    tmp_path: Path,
) -> None:
    with BrokerProcess(tmp_path) as broker:
        with WireClient(broker.kafka_port) as client:
            client.create_topic("orders", durability="fsync")
            for number in range(COUNT):
                assert client.produce("orders", [(b"k", b"v%d" % number)]).base_offset == number
            wait_until_known(broker.data / "synced-ends", COUNT)
        broker.kill()
        path = next(broker.data.glob("topics/orders*/partition-00/*.log"))
        content = bytearray(path.read_bytes())
        content[len(content) * 5 // COUNT + 65] ^= 4
        path.write_bytes(content)
        for _ in range(2):
            broker.start()
            with WireClient(broker.kafka_port) as client:
                served, refused = consume(client, "orders", COUNT)
            assert len(refused) == 1
            assert sorted([*served, *refused]) == list(range(COUNT))
            broker.kill()
        log = broker.log_path.read_text()
        assert f"offsets {refused[0]} to {refused[0]} are refused, all others are served" in log
        assert not list(path.parent.glob("*.damaged"))
        broker.start()
        with WireClient(broker.kafka_port) as client:
            assert client.produce("orders", [(b"k", b"v%d" % COUNT)]).base_offset == COUNT
            assert consume(client, "orders", COUNT + 1)[0] == [*served, COUNT]
