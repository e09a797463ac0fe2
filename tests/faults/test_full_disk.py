"""A disk that is full to the last byte, or has no inode left: nothing acknowledged is torn, a roll
waits, a recovery is never skipped.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from broker.errors import ErrorCode
from tests.faults.disks import Ext4Disk, fill
from tests.faults.power_clients import LATEST, list_offset, records_of
from tests.faults.scrape import metric
from tests.support.broker_process import BrokerProcess
from tests.support.wire_client import WireClient

pytestmark = pytest.mark.apt("e2fsprogs", "mount")

SETTINGS = {"hermes.log.dir.min.free.bytes": 0}
"""Nothing is refused before the disk is full."""
DURABILITIES = ("fsync", "replicated")
BATCHES_MAX = 20_000
WAIT_S = 30


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[Path]:
    """An ext4 of 16 MiB."""
    with Ext4Disk(tmp_path, megabytes=16) as ext4:
        yield ext4.path


def batch(number: int, size: int = 3_000) -> list[tuple[bytes | None, bytes | None]]:
    return [(b"%d" % number, b"v" * size)]


def produce_until_full(client: WireClient, topic: str, begin: int) -> int:
    """Records from `begin` on, each stored at its number; the first that was refused."""
    for number in range(begin, BATCHES_MAX):
        answer = client.produce(topic, batch(number))
        if answer.error_code:
            assert answer.error_code == ErrorCode.KAFKA_STORAGE_ERROR
            return number
        assert answer.base_offset == number
    raise AssertionError("the disk was never full")


def produce_again(client: WireClient, topic: str, number: int) -> None:
    """Until it is taken, at its offset: no restart, no hole."""
    deadline = time.monotonic() + WAIT_S
    while (answer := client.produce(topic, batch(number))).error_code:
        assert time.monotonic() < deadline, "writes do not return"
        time.sleep(0.1)
    assert answer.base_offset == number


def read_all(client: WireClient, topic: str) -> list[tuple[int, str]]:
    """[(offset, key)] of partition 0."""
    end = list_offset(client, topic, 0, LATEST)
    found: list[tuple[int, str]] = []
    while len(found) < end:
        data = client.fetch(topic, len(found))
        assert data.error_code == 0, ErrorCode(data.error_code).name
        found += records_of(data, len(found))
    return found


def numbered(count: int) -> list[tuple[int, str]]:
    return [(number, str(number)) for number in range(count)]


@pytest.mark.parametrize("durability", DURABILITIES)
def test_a_roll_on_a_full_disk_refuses_writes_serves_reads_and_heals(
    disk: Path, durability: str
) -> None:
    """Redpanda #12917."""
    with BrokerProcess(disk, SETTINGS) as broker, WireClient(broker.kafka_port) as client:
        client.create_topic("orders", segment_bytes="300000", durability=durability)
        fill(disk / "filler", leave=1_500_000)
        count = produce_until_full(client, "orders", 0)
        fill(disk / "rest")
        for _ in range(20):
            assert client.produce("orders", batch(count)).error_code == 56
            assert client.fetch("orders", 0).error_code == 0
        assert read_all(client, "orders") == numbered(count)
        assert metric(broker, "hermes_offline_partitions") == 0
        (disk / "rest").unlink()
        (disk / "filler").unlink()
        produce_again(client, "orders", count)
        rolled = metric(broker, "hermes_segments_rolled_total") or 0
        deadline = time.monotonic() + WAIT_S
        while (metric(broker, "hermes_segments_rolled_total") or 0) <= rolled:
            assert time.monotonic() < deadline, "nothing is rolled any more"
            for _ in range(10):
                count += 1
                produce_again(client, "orders", count)
        broker.restart()
        with WireClient(broker.kafka_port) as again:
            assert read_all(again, "orders") == numbered(count + 1)


def test_without_an_inode_the_old_segment_goes_on_until_a_new_one_can_be_made(disk: Path) -> None:
    with BrokerProcess(disk, SETTINGS) as broker, WireClient(broker.kafka_port) as client:
        client.create_topic("orders", segment_bytes="300000")
        used_up = disk / "empty"
        used_up.mkdir()
        take_inodes(used_up)
        for number in range(250):  # more than a segment
            assert client.produce("orders", batch(number)).base_offset == number
        assert "no space for a new segment" in wait_for_line(broker, "no space for a new segment")
        assert client.fetch("orders", 0).error_code == 0
        for path in used_up.iterdir():
            path.unlink()
        number = 250
        deadline = time.monotonic() + WAIT_S
        while not metric(broker, "hermes_segments_rolled_total"):
            assert time.monotonic() < deadline, "the roll is not tried again"
            assert client.produce("orders", batch(number)).base_offset == number
            number += 1
        assert read_all(client, "orders") == numbered(number)


def take_inodes(directory: Path) -> None:
    with contextlib.suppress(OSError):
        for number in range(1_000_000):
            (directory / str(number)).touch()


def wait_for_line(broker: BrokerProcess, text: str) -> str:
    deadline = time.monotonic() + WAIT_S
    while text not in (found := broker.log_path.read_text()):
        assert time.monotonic() < deadline, f"the log does not say {text!r}"
        time.sleep(0.05)
    return found


@pytest.mark.parametrize("durability", DURABILITIES)
def test_a_recovery_on_a_full_disk_is_done_whole_by_the_next_start(
    disk: Path, tmp_path: Path, durability: str
) -> None:
    """KAFKA-13773: a start that failed on the full disk left the mark of a clean stop behind."""
    broker = BrokerProcess(tmp_path, SETTINGS)
    broker.data = disk / "data"
    with broker:
        with WireClient(broker.kafka_port) as client:
            client.create_topic("orders", durability=durability)
            fill(disk / "filler", leave=1_500_000)
            count = produce_until_full(client, "orders", 0)
        broker.kill()
        log = next((broker.data / "topics" / "orders" / "partition-00").glob("*.log"))
        torn = log.stat().st_size
        fill(disk / "rest")
        with contextlib.suppress(AssertionError):  # it may refuse to start
            broker.start()
            broker.kill()
        (disk / "rest").unlink()
        (disk / "filler").unlink()
        with log.open("ab") as file:  # a torn tail that only a recovery finds
            file.write(log.read_bytes()[:100])
        broker.start()
        assert log.stat().st_size == torn, "the torn tail is cut off"
        with WireClient(broker.kafka_port) as client:
            assert read_all(client, "orders") == numbered(count)
            client.create_topic("small", durability=durability)
            assert client.produce("small", batch(0, 10)).error_code == 0


def test_a_stop_on_a_full_disk_leaves_nothing_that_the_next_start_would_trust(
    disk: Path, tmp_path: Path
) -> None:
    broker = BrokerProcess(tmp_path, SETTINGS)
    broker.data = disk / "data"
    with broker:
        with WireClient(broker.kafka_port) as client:
            client.create_topic("orders", durability="replicated")
            count = produce_until_full(client, "orders", 0)
        fill(disk / "rest")
        broker.terminate()
        (disk / "rest").unlink()
        log = next((broker.data / "topics" / "orders" / "partition-00").glob("*.log"))
        with log.open("ab") as file:
            file.write(log.read_bytes()[:100])
        broker.start()
        with WireClient(broker.kafka_port) as client:
            assert read_all(client, "orders") == numbered(count)
