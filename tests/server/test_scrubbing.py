"""Damage on disk against a real broker: found without anybody reading, refused to who reads it,
named in the metrics, known after a restart.
"""

from __future__ import annotations

import re
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any
from urllib.request import urlopen

import pytest

from broker.errors import ErrorCode
from broker.records.iterate import iterate_batches, iterate_records
from broker.server.scrubbing import ScrubState, decode_state, encode_state
from tests.support.broker_process import BrokerProcess
from tests.support.wire_client import WireClient

SCRUBBED = {"hermes.scrub.interval.ms": 1_000}
DEADLINE_S = 60.0
COUNT = 30


def metric(broker: BrokerProcess, name: str) -> dict[str, float]:
    """Samples of a metric, by their labels as they are printed."""
    with urlopen(f"{broker.metrics_url}/metrics") as answer:
        text = answer.read().decode()
    found = re.findall(rf"^{name}(?:\{{(.*?)\}})? (\S+)$", text, re.MULTILINE)
    return {labels: float(value) for labels, value in found}


def wait_for(what: Callable[[], bool]) -> None:
    deadline = time.monotonic() + DEADLINE_S
    while not what():
        assert time.monotonic() < deadline, "it does not happen"
        time.sleep(0.1)


def fetch(client: WireClient, offset: int) -> tuple[int, list[int]]:
    """(error, offsets at and above `offset`)."""
    data: Any = client.fetch("orders", offset)
    offsets = [
        record.offset
        for batch in iterate_batches(data.records or b"")
        for record in iterate_records(batch)
    ]
    return data.error_code, [each for each in offsets if each >= offset]


def fill(broker: BrokerProcess) -> Path:
    """COUNT records in several segments; the second segment's file."""
    with WireClient(broker.kafka_port) as client:
        client.create_topic("orders", **{"segment.bytes": "4096"})
        for _ in range(COUNT):
            client.produce("orders", [(b"k", b"v" * 1_000)])
    directory = broker.data / "topics/orders/partition-00"
    wait_for(lambda: len(list(directory.glob("*.log"))) > 3)
    return sorted(directory.glob("*.log"))[1]


def spoil(path: Path) -> None:
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 0x10
    path.write_bytes(content)


def test_damage_is_found_in_the_background_and_known_after_a_restart(tmp_path: Path) -> None:
    label = 'topic="orders",partition="0"'
    with BrokerProcess(tmp_path, SCRUBBED) as broker:
        path = fill(broker)
        wait_for(lambda: metric(broker, "hermes_scrub_rounds_total")[""] >= 2)
        assert metric(broker, "hermes_scrubbed_bytes_total")[""] > path.stat().st_size
        assert metric(broker, "hermes_scrub_last_round_timestamp_seconds")[""] > 1_600_000_000
        assert metric(broker, "hermes_damaged_ranges") == {}
        spoil(path)
        wait_for(lambda: metric(broker, "hermes_damaged_ranges") == {label: 1.0})
        assert metric(broker, "hermes_damaged_offsets") == {label: 1.0}
        # the gauge tells of it at once, the counter when the rest of the segment is read
        wait_for(lambda: 'kind="read"' in metric(broker, "hermes_disk_faults_total"))
        assert metric(broker, "hermes_disk_faults_total")['kind="read"'] == 1
        told = re.search(r"seeks to offset (\d+)", broker.log_path.read_text())
        assert told is not None, "the log says how to go on"
        behind = int(told[1])
        broker.kill()
        broker.start()
        assert metric(broker, "hermes_damaged_ranges") == {label: 1.0}
        with WireClient(broker.kafka_port) as client:
            for _ in range(2):
                assert fetch(client, behind - 1) == (ErrorCode.CORRUPT_MESSAGE, [])
            before = fetch(client, 0)
            assert before == (ErrorCode.NONE, list(range(len(before[1]))))
            assert 0 < len(before[1]) < behind
            assert fetch(client, behind)[1][0] == behind
            assert fetch(client, COUNT - 1) == (ErrorCode.NONE, [COUNT - 1])
            assert client.produce("orders", [(b"k", b"v")])
        spoil(path)  # the bit is as it was
        wait_for(lambda: metric(broker, "hermes_damaged_ranges") == {})
        with WireClient(broker.kafka_port) as client:
            assert fetch(client, behind - 1)[1][0] == behind - 1


def test_a_reader_meets_damage_before_the_scrub_does(tmp_path: Path) -> None:
    with BrokerProcess(tmp_path, {"hermes.scrub.bytes.per.second": 0}) as broker:
        path = fill(broker)
        broker.terminate()
        spoil(path)
        broker.start()
        with WireClient(broker.kafka_port) as client:
            found: list[int] = []
            offset = 0
            refused = []
            while offset < COUNT:
                code, offsets = fetch(client, offset)
                if code == ErrorCode.CORRUPT_MESSAGE:
                    refused.append(offset)
                    offset += 1
                    continue
                assert code == ErrorCode.NONE
                found += offsets
                offset = offsets[-1] + 1
        assert len(refused) == 1
        assert sorted([*found, *refused]) == list(range(COUNT))
        assert metric(broker, "hermes_damaged_offsets") == {'topic="orders",partition="0"': 1.0}
        assert metric(broker, "hermes_scrubbed_bytes_total") == {"": 0.0}


def test_what_retention_meets_is_told_although_nobody_reads(tmp_path: Path) -> None:
    """It needs the age of a segment whose index is gone."""
    off = {"hermes.scrub.bytes.per.second": 0, "log.retention.check.interval.ms": 300}
    with BrokerProcess(tmp_path, off) as broker:
        path = fill(broker)
        broker.terminate()
        first = sorted(path.parent.glob("*.log"))[0]
        first.with_suffix(".idx").unlink()
        spoil(first)
        broker.start()
        wait_for(lambda: 'kind="read"' in metric(broker, "hermes_disk_faults_total"))
        assert list(metric(broker, "hermes_damaged_ranges").values()) == [1.0]
        assert "records cannot be read" in broker.log_path.read_text()


@pytest.mark.parametrize(
    "state",
    [ScrubState(), ScrubState(5, True, "ab" * 16, 3, 1 << 40, 77)],
)
def test_the_place_of_a_round_comes_back(state: ScrubState) -> None:
    assert decode_state(encode_state(state)) == state
    for junk in (b"", b"{}", b"\0" * 40, b'{"format": 2}', encode_state(state)[:-9]):
        assert decode_state(junk) == ScrubState()
