"""The journal of a real broker: what it promises survives a loss of power, and every failure of it
leaves the broker as it was without one.
"""

from __future__ import annotations

import os
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from broker.errors import ErrorCode
from broker.log.journal import FILE, FIRST_RECORD, NO_RUN, read_heads
from broker.runtime.ring_file import RING_BYTES
from broker.server.journal import ROUNDS_BEFORE
from broker.server.journal_halves import ENOUGH_PART
from broker.server.journal_rounds import ROUND_BYTES_MAX
from tests.faults.disks import Ext4Disk, tmpfs
from tests.faults.injection import failing
from tests.faults.scrape import metric
from tests.support.broker_process import BrokerProcess
from tests.support.wire_client import WireClient

Records = list[tuple[bytes | None, bytes | None]]
RECORDS: Records = [(b"key", b"v" * 100)]
BIG: Records = [(b"key", b"v" * 2_000)]
DEADLINE_S = 60
ENOUGH = 3 * ROUNDS_BEFORE
ENOUGH_BYTES = RING_BYTES // 2 // ENOUGH_PART
"""A half with so much is left as soon as the other one may be used."""


def rounds(broker: BrokerProcess, way: str) -> int:
    return int(metric(broker, "hermes_sync_rounds_total", way=way) or 0)


def produce(client: WireClient, topic: str, count: int, records: Records = RECORDS) -> None:
    for _ in range(count):
        assert client.produce(topic, records).error_code == 0


def produce_to_journal(broker: BrokerProcess, client: WireClient, topic: str) -> int:
    """One record a round until the journal has some of them; how many there are."""
    count = 0
    deadline = time.monotonic() + DEADLINE_S
    while rounds(broker, "journal") < 20:
        assert time.monotonic() < deadline, "no round went to the journal"
        produce(client, topic, 20)
        count += 20
    return count


def log_of(broker: BrokerProcess, topic: str) -> Path:
    return max((broker.data / "topics" / topic / "partition-00").glob("*.log"))


@pytest.mark.apt("e2fsprogs", "mount")
def test_what_was_answered_from_the_journal_survives_a_loss_of_power(tmp_path: Path) -> None:
    broker = BrokerProcess(tmp_path, {"hermes.log.dir.min.free.bytes": 0})
    with Ext4Disk(tmp_path, megabytes=128) as disk:
        broker.data = disk.path / "data"
        with broker:
            with WireClient(broker.kafka_port) as client:
                client.create_topic("orders", durability="fsync")
                count = produce_to_journal(broker, client, "orders")
                disk.stop()
            broker.kill()
            disk.begin()
            size = log_of(broker, "orders").stat().st_size
            broker.start()
            assert metric(broker, "hermes_journal_replayed_records_total") >= 20  # type: ignore[operator]
            assert log_of(broker, "orders").stat().st_size > size, "the file had lost them"
            with WireClient(broker.kafka_port) as client:
                assert client.fetch("orders", 0).high_watermark == count
                assert client.produce("orders", RECORDS).base_offset == count


def test_a_clean_stop_ends_the_journal(tmp_path: Path) -> None:
    with BrokerProcess(tmp_path) as broker:
        with WireClient(broker.kafka_port) as client:
            client.create_topic("orders", durability="fsync")
            count = produce_to_journal(broker, client, "orders")
            head = read_heads((broker.data / FILE).read_bytes()[:FIRST_RECORD]).head
            assert head is not None
            assert head.run != NO_RUN
        broker.terminate()
        head = read_heads((broker.data / FILE).read_bytes()[:FIRST_RECORD]).head
        assert head is not None
        assert head.run == NO_RUN
        (broker.data / FILE).unlink()  # it may be removed after a clean stop
        broker.start()
        with WireClient(broker.kafka_port) as client:
            assert client.fetch("orders", 0).high_watermark == count


def test_a_half_with_much_is_synced_beside_the_rounds_and_its_logs_are_whole(
    tmp_path: Path,
) -> None:
    with BrokerProcess(tmp_path) as broker:
        with WireClient(broker.kafka_port) as client:
            client.create_topic("orders", durability="fsync")
            count = small = produce_to_journal(broker, client, "orders")
            deadline = time.monotonic() + DEADLINE_S
            before = rounds(broker, "journal")
            while rounds(broker, "settle") < 3:
                assert time.monotonic() < deadline, "no half was left"
                produce(client, "orders", 20, BIG)
                count += 20
            in_journal = rounds(broker, "journal") - before
            assert in_journal >= (count - small) / 2, "it takes most rounds, beside the syncs"
            assert in_journal >= 2 * ENOUGH_BYTES // len(BIG[0][1] or b""), "each had enough"
        broker.restart()
        assert metric(broker, "hermes_journal_replayed_records_total")
        with WireClient(broker.kafka_port) as client:
            assert client.fetch("orders", 0).high_watermark == count


def test_a_round_goes_to_the_journal_up_to_its_limit_and_to_the_file_beyond(
    tmp_path: Path,
) -> None:
    with BrokerProcess(tmp_path) as broker, WireClient(broker.kafka_port) as client:
        client.create_topic("orders", durability="fsync")
        produce_to_journal(broker, client, "orders")
        for size, way in ((ROUND_BYTES_MAX - 1_000, "journal"), (ROUND_BYTES_MAX, "direct")):
            before = rounds(broker, way)
            produce(client, "orders", 1, [(None, bytes(size))])
            assert rounds(broker, way) == before + 1, f"{size} bytes"


@pytest.mark.apt("strace")
def test_a_half_whose_files_cannot_be_synced_keeps_the_journal_for_the_next_start(
    tmp_path: Path,
) -> None:
    with BrokerProcess(tmp_path) as broker:
        with WireClient(broker.kafka_port) as client:
            client.create_topic("orders", durability="fsync")
            client.create_topic("others", durability="fsync")
            count = produce_to_journal(broker, client, "orders")
            produce(client, "others", 20)
            deadline = time.monotonic() + DEADLINE_S
            with failing(broker, "fdatasync", path=log_of(broker, "orders")):
                while (answer := client.produce("orders", BIG).error_code) == 0:
                    assert time.monotonic() < deadline, "nobody met the fault"
                    count += 1
            assert answer == ErrorCode.KAFKA_STORAGE_ERROR
            assert "the journal is kept" in broker.log_path.read_text()
            in_journal = rounds(broker, "journal")
            produce(client, "others", ENOUGH)
            assert rounds(broker, "journal") == in_journal, "it keeps what it has"
        broker.terminate()
        head = read_heads((broker.data / FILE).read_bytes()[:FIRST_RECORD]).head
        assert head is not None
        assert head.run != NO_RUN, "a clean stop leaves it as it is"
        broker.start()
        assert metric(broker, "hermes_journal_replayed_records_total")
        with WireClient(broker.kafka_port) as client:
            assert client.fetch("orders", 0).high_watermark in {count, count + 1}
            assert client.fetch("others", 0).high_watermark == 20 + ENOUGH


@pytest.mark.apt("strace")
def test_a_journal_that_fails_is_given_up_and_nothing_is_refused(tmp_path: Path) -> None:
    with BrokerProcess(tmp_path) as broker:
        with WireClient(broker.kafka_port) as client:
            client.create_topic("orders", durability="fsync")
            count = produce_to_journal(broker, client, "orders")
            with failing(broker, "io_submit"):
                produce(client, "orders", 20)
            in_journal, direct = rounds(broker, "journal"), rounds(broker, "direct")
            produce(client, "orders", ENOUGH)
            assert rounds(broker, "journal") == in_journal, "no second attempt"
            assert rounds(broker, "direct") >= direct + ENOUGH
        assert "the journal failed" in broker.log_path.read_text()
        broker.restart()
        with WireClient(broker.kafka_port) as client:
            assert client.fetch("orders", 0).high_watermark == count + 20 + ENOUGH
            produce_to_journal(broker, client, "orders")


@contextmanager
def immutable(path: Path) -> Iterator[None]:
    """Nobody may write the file, not even root."""
    subprocess.run(["chattr", "+i", path], check=True)
    try:
        yield
    finally:
        subprocess.run(["chattr", "-i", path], check=True)


@pytest.mark.apt("e2fsprogs")
def test_a_log_that_cannot_be_written_back_waits_for_its_records(tmp_path: Path) -> None:
    with BrokerProcess(tmp_path) as broker:
        with WireClient(broker.kafka_port) as client:
            for topic in ("orders", "others"):
                client.create_topic(topic, durability="fsync")
            count = produce_to_journal(broker, client, "orders")
            produce(client, "others", 20)
        broker.kill()
        path = log_of(broker, "orders")
        os.truncate(path, path.stat().st_size * (count - 10) // count)  # ten of those in it
        with immutable(path):
            broker.start()
            with WireClient(broker.kafka_port) as client:
                refused = client.fetch("orders", 0).error_code
                assert refused == ErrorCode.KAFKA_STORAGE_ERROR
                produce(client, "others", ENOUGH)
            assert rounds(broker, "journal") == 0, "it keeps what it has"
            assert "the journal is kept" in broker.log_path.read_text()
            broker.kill()
        broker.start()
        with WireClient(broker.kafka_port) as client:
            assert client.fetch("orders", 0).high_watermark == count
            assert client.fetch("others", 0).high_watermark == 20 + ENOUGH


@pytest.mark.apt("mount")
@pytest.mark.parametrize("megabytes", [RING_BYTES // 2 >> 20, RING_BYTES * 3 // 2 >> 20])
def test_without_room_to_spare_for_it_there_is_no_journal_and_all_else_goes_on(
    tmp_path: Path, megabytes: int
) -> None:
    broker = BrokerProcess(tmp_path, {"hermes.log.dir.min.free.bytes": 0})
    with tmpfs(tmp_path, megabytes=megabytes) as small:
        broker.data = small / "data"
        with broker, WireClient(broker.kafka_port) as client:
            client.create_topic("orders", durability="fsync", segment_bytes="1000000")
            produce(client, "orders", ENOUGH)
            assert rounds(broker, "journal") == 0
            assert rounds(broker, "direct") >= ENOUGH
            assert "no journal" in broker.log_path.read_text()
            assert not list(broker.data.glob(f"{FILE}*")), "it leaves nothing"


def test_a_journal_that_was_lost_after_a_kill_is_no_reason_not_to_start(tmp_path: Path) -> None:
    with BrokerProcess(tmp_path) as broker:
        with WireClient(broker.kafka_port) as client:
            client.create_topic("orders", durability="fsync")
            count = produce_to_journal(broker, client, "orders")
        broker.kill()
        (broker.data / FILE).write_bytes(b"x" * 10_000)
        broker.start()
        assert "each of its heads is damaged" in broker.log_path.read_text()
        with WireClient(broker.kafka_port) as client:
            assert client.fetch("orders", 0).high_watermark == count
            produce_to_journal(broker, client, "orders")
