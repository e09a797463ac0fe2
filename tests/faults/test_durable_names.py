"""Every name that a broker relies on is durable when the broker says so: content is synced before
the rename, its directory after it. Seen in the system calls of a real broker.
"""

from __future__ import annotations

import re
import time
from pathlib import Path
from typing import NamedTuple

import pytest

from broker.wire import api
from broker.wire.messages.delete_records import (
    DeleteRecordsPartition,
    DeleteRecordsRequest,
    DeleteRecordsTopic,
)
from broker.wire.messages.delete_topics import DeleteTopicsRequest, DeleteTopicState
from tests.faults.scrape import metric
from tests.faults.syscalls import Call, Files, read_calls, trace
from tests.support.broker_process import BrokerProcess
from tests.support.wire_client import WireClient

pytestmark = pytest.mark.apt("strace")

RECORDS: list[tuple[bytes | None, bytes | None]] = [(b"key", b"v" * 1_000)]
SETTINGS = {
    "hermes.log.dir.min.free.bytes": 0,
    "log.cleaner.backoff.ms": 100,
    "log.retention.check.interval.ms": 500,
}
WAIT_S = 40


class Life(NamedTuple):
    """A broker's calls on its data directory, and when which step was done, as its client heard;
    `acknowledged_s` is that of each record in orders-0.
    """

    data: Path
    calls: list[Call]
    moments: dict[str, float]
    acknowledged_s: list[float]

    def at(self, moment: str) -> Files:
        """The files as they were then."""
        return self.files(self.moments[moment])

    def files(self, at_s: float) -> Files:
        """As they were at that time."""
        return Files().absorb([call for call in self.calls if call.end_s <= at_s])

    def renames(self, suffix: str) -> list[Call]:
        """Renames to a name with that ending."""
        return [
            call
            for call in self.calls
            if call.name.startswith("rename") and call.paths[-1].endswith(suffix)
        ]


@pytest.fixture(scope="module")
def life(tmp_path_factory: pytest.TempPathFactory) -> Life:
    """One broker does everything that makes, renames or removes files."""
    directory = tmp_path_factory.mktemp("names")
    output = directory / "strace.txt"
    broker = BrokerProcess(directory, SETTINGS, prefix=trace(output))
    broker.data = directory / "made" / "on" / "demand"
    moments: dict[str, float] = {}
    with broker, WireClient(broker.kafka_port, WAIT_S) as client:
        moments["started"] = time.time()
        client.create_topic("orders", 2, segment_bytes="100000")
        moments["topic created"] = time.time()
        acknowledged_s = produce_until_rolled(broker, client, "orders", 3)
        delete_records(client, "orders", len(acknowledged_s) - 20)
        moments["records deleted"] = time.time()
        wait_for(broker, "hermes_retention_deleted_segments_total", 2)
        moments["segments deleted"] = time.time()
        compact(broker, client)
        moments["compacted"] = time.time()
        request = DeleteTopicsRequest(topics=[DeleteTopicState(name="orders")], timeout_ms=20_000)
        (answer,) = client.call(api.DELETE_TOPICS, 6, request).responses
        assert answer.error_code == 0
        moments["topic deleted"] = time.time()
        assert client.produce("keyed", RECORDS).error_code == 0
        broker.terminate(timeout=WAIT_S)
        moments["stopped"] = time.time()
    return Life(broker.data, read_calls(output, directory), moments, acknowledged_s)


def compact(broker: BrokerProcess, client: WireClient) -> None:
    settings = {"segment_bytes": "100000", "cleanup_policy": "compact"}
    client.create_topic("keyed", 1, **settings, min_cleanable_dirty_ratio="0.01")
    rolled = metric(broker, "hermes_segments_rolled_total") or 0
    produce_until_rolled(broker, client, "keyed", rolled + 2)
    wait_for(broker, "hermes_cleaner_runs_total", 1, outcome="cleaned")


def produce_until_rolled(
    broker: BrokerProcess, client: WireClient, topic: str, rolled: float
) -> list[float]:
    """When each record was acknowledged, until so many segments were begun in the broker's life."""
    deadline = time.monotonic() + WAIT_S
    acknowledged_s: list[float] = []
    while (metric(broker, "hermes_segments_rolled_total") or 0) < rolled:
        assert time.monotonic() < deadline, f"fewer than {rolled} segments are rolled"
        for _ in range(50):
            assert client.produce(topic, RECORDS).base_offset == len(acknowledged_s)
            acknowledged_s.append(time.time())
    return acknowledged_s


def wait_for(broker: BrokerProcess, name: str, least: float, **labels: str) -> None:
    deadline = time.monotonic() + WAIT_S
    while (metric(broker, name, **labels) or 0) < least:
        assert time.monotonic() < deadline, f"{name} does not reach {least}"
        time.sleep(0.1)


def delete_records(client: WireClient, topic: str, offset: int) -> None:
    wanted = DeleteRecordsPartition(partition_index=0, offset=offset)
    request = DeleteRecordsRequest(
        topics=[DeleteRecordsTopic(name=topic, partitions=[wanted])], timeout_ms=20_000
    )
    assert client.call(api.DELETE_RECORDS, 2, request).topics[0].partitions[0].error_code == 0


def lasting(found: list[str]) -> list[str]:
    """Without the metastore's files, which SQLite keeps, the lock, which says nothing after a cut,
    and the log of the process.
    """
    return [
        path
        for path in found
        if not Path(path).name.startswith(("metastore.db", "lock", "broker.log"))
    ]


def test_no_file_gets_a_lasting_name_before_its_content_is_synced(life: Life) -> None:
    files = life.at("stopped")
    assert files.broken == []
    assert len(life.renames(".snapshot")) > 5, "checkpoints are written aside"
    assert life.renames("/leader-epochs")
    assert len(life.renames("/partition-00")) > 1, "new logs are made aside"
    assert life.renames("/meta.properties")
    assert life.renames(".swap")
    assert life.renames(".log"), "segments are begun aside"
    assert life.renames(".deleted")


PROMISED = {
    "started": r"(demand|on|made|meta\.properties|/topics|/trash)$",
    "topic created": r"/topics/orders(/.*)?$",
    "records deleted": r"/topics/orders/partition-00/.*\.snapshot$",
    "topic deleted": r"(/topics/orders|/trash/.*)$",
    "stopped": r"",
}
"""Which names the broker says are there, or gone, at that moment; others may be under way."""


@pytest.mark.parametrize("moment", PROMISED)
def test_what_the_broker_says_is_done_keeps_its_names(life: Life, moment: str) -> None:
    pending = lasting(life.at(moment).names_not_durable())
    assert [path for path in pending if re.search(PROMISED[moment], path)] == []


def test_a_new_segments_name_is_durable_before_anything_in_it_is_acknowledged(life: Life) -> None:
    """KAFKA-3968. Its own checkpoint comes later, and would make the name durable, too."""
    begun = [call.paths[-1] for call in life.renames(".log") if "/orders/" in call.paths[-1]]
    first_s = {
        path: life.acknowledged_s[int(Path(path).stem)]
        for path in begun
        if int(Path(path).stem) < len(life.acknowledged_s)
    }
    assert len(first_s) >= 2
    for path, at_s in first_s.items():
        assert path not in life.files(at_s).names_not_durable()


def test_segments_make_way_for_a_compacted_one_only_when_its_name_is_durable(life: Life) -> None:
    swaps = life.renames(".swap")
    assert swaps
    for swap in swaps:
        directory = swap.paths[-1].rpartition("/")[0]
        later = [call for call in life.calls if call.begin_s >= swap.end_s]
        synced = next(call for call in later if call.paths[0] == directory)
        assert synced.name == "fsync"
        gone = [call for call in life.renames(".deleted") if call.paths[0].startswith(directory)]
        first = next(call for call in gone if call.begin_s >= swap.end_s)
        assert synced.end_s <= first.begin_s


def test_a_stop_leaves_no_content_in_memory(life: Life) -> None:
    assert lasting(life.at("stopped").contents_not_durable()) == []


def test_a_data_directory_that_was_made_is_durable_with_all_above_it(life: Life) -> None:
    made = [call.paths[0] for call in life.calls if call.name.startswith("mkdir")]
    assert str(life.data) in made
    above = [str(path) for path in (life.data.parent, life.data.parent.parent)]
    synced = {call.paths[0] for call in life.calls if call.name == "fsync"}
    assert set(above) <= synced
