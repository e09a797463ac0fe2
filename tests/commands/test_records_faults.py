"""hermes produce and consume where the disk is damaged or low: said, with how to go on, not waited
out in silence.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from broker.client.blocking import BlockingClient
from broker.records.batch import HEADER_BYTES, seal
from tests.commands.conftest import Run
from tests.support.broker_process import BrokerProcess
from tests.support.wire_client import WireClient, batch_of


@pytest.mark.parametrize("words", [["--timeout", "2"], ["--group", "billing"]])
def test_damaged_records_end_a_reader_with_how_to_go_on(
    run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, words: list[str]
) -> None:
    settings = {"hermes.scrub.bytes.per.second": 0, "offsets.topic.num.partitions": 1}
    with BrokerProcess(tmp_path, settings) as broker:
        monkeypatch.setenv("HERMES_BOOTSTRAP", broker.bootstrap)
        with BlockingClient(broker.bootstrap, timeout_ms=20_000) as client:
            client.create_topic("orders", partition_count=1, replication_factor=1)
            for number in range(5):
                client.produce("orders", b"value-%d" % number, partition=0)
        broker.terminate()
        (log,) = (broker.data / "topics/orders/partition-00").glob("*.log")
        log.write_bytes(log.read_bytes().replace(b"value-2", b"valve-2"))
        broker.start()
        read = run("consume", "orders", "--exit", *words)
    assert read.out.split() == ["value-0", "value-1"]
    assert read.code == 1
    assert "partition 0 of topic 'orders' at offset 2: CORRUPT_MESSAGE" in read.err
    assert "--from N" in read.err
    assert "docs/recovery.md" in read.err


@pytest.mark.parametrize("words", [[], ["--group", "billing"]])
def test_records_that_no_checksum_proves_broken_end_a_reader_behind_what_it_printed(
    run_process: Run, tmp_path: Path, words: list[str]
) -> None:
    broken = batch_of([(None, b"value-1"), (None, b"value-2")])
    broken[HEADER_BYTES] = 0x7E  # the first record says that it is longer than its batch
    seal(broken)
    with BrokerProcess(tmp_path, {"offsets.topic.num.partitions": 1}) as broker:
        with WireClient(broker.kafka_port) as client:
            client.create_topic("orders")
            for batch in (batch_of([(None, b"value-0")]), broken, batch_of([(None, b"value-3")])):
                assert client.produce("orders", batch).error_code == 0
        at = {"HERMES_BOOTSTRAP": broker.bootstrap}
        read = run_process("consume", "orders", "--exit", *words, **at)
        behind = run_process("consume", "orders", "--exit", "--from", "3", **at)
    assert (read.out, read.code) == ("value-0\n", 1)
    assert "at offset 1: CORRUPT_MESSAGE" in read.err
    assert "the next ones begin at 3" in read.err
    assert (behind.out, behind.code) == ("value-3\n", 0)


def test_a_low_disk_is_a_failure_of_the_broker_that_answers(
    run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with BrokerProcess(tmp_path, {"hermes.log.dir.min.free.bytes": 1 << 60}) as broker:
        monkeypatch.setenv("HERMES_BOOTSTRAP", broker.bootstrap)
        assert run("topics", "create", "orders").code == 0
        sent = run("produce", "orders", "first", "--timeout", "2")
    assert sent.code == 1
    assert "stopped after 0 records: not delivered within" in sent.err
