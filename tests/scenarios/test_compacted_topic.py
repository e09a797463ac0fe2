"""A compacted topic of a real broker, as three client libraries see it: keys, deletions, gaps, and
an end of which nothing is left.
"""

from __future__ import annotations

import time
import urllib.request
from collections.abc import Iterator

import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewTopic

from tests.scenarios.window_clients import READERS, Seen, WindowReader
from tests.support.broker_process import BrokerProcess

PATIENCE_S = 60.0
YEAR_MS = 365 * 24 * 3_600_000
KEYS = [f"key-{number}" for number in range(10)]
DELETED = KEYS[5:]
CONFIG = {
    "cleanup.policy": "compact",
    "segment.bytes": "2048",
    "min.cleanable.dirty.ratio": "0.01",
    "max.compaction.lag.ms": "300",
    "delete.retention.ms": "500",
    "message.timestamp.after.max.ms": str(20 * YEAR_MS),
}

pytestmark = [
    pytest.mark.timeout(240),
    pytest.mark.filterwarnings("ignore:read_text is deprecated"),  # kafka-python's own
]


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrokerProcess]:
    settings = {"log.cleaner.backoff.ms": 100, "group.initial.rebalance.delay.ms": 0}
    with BrokerProcess(tmp_path_factory.mktemp("compacted"), settings) as process:
        yield process


@pytest.fixture(scope="module", params=["none", "lz4"])
def topic(request: pytest.FixtureRequest, broker: BrokerProcess) -> str:
    """300 values over ten keys with clients' times of any age, then five keys deleted, and all of
    it cleaned: five records are left, and behind them the end of the log.
    """
    name = f"profiles-{request.param}"
    admin = AdminClient({"bootstrap.servers": broker.bootstrap})
    admin.create_topics([NewTopic(name, 1, 1, config=CONFIG)])[name].result(20)
    put = Producer(
        {
            "bootstrap.servers": broker.bootstrap,
            "enable.idempotence": True,
            "compression.type": request.param,
            "linger.ms": 1,
        }
    )
    now_ms = int(time.time() * 1000)
    for number in range(300):
        age_ms = (0, 10 * YEAR_MS, now_ms - 1, -10 * YEAR_MS)[number % 4]
        put.produce(name, f"{number}", KEYS[number % 10], 0, timestamp=now_ms - age_ms)
        if number % 7 == 0:
            assert put.flush(20) == 0
    for key in DELETED:
        put.produce(name, None, key, 0)
    assert put.flush(20) == 0
    wait_until_clean(broker, name)
    return name


def wait_until_clean(broker: BrokerProcess, name: str) -> None:
    """Until five records are left for a reader from the beginning."""
    deadline = time.monotonic() + PATIENCE_S
    found: list[Seen] = []
    while len(found) != len(KEYS) - len(DELETED):
        assert time.monotonic() < deadline, f"not cleaned: {found}"
        reader = READERS["confluent-kafka"](broker.bootstrap, name, "probe", 0, 1, 100)
        found = read_all(reader)
        reader.close()


def read_all(reader: WindowReader) -> list[Seen]:
    """Every record up to the end; fails when the reader does not get there."""
    _, end = reader.ends()
    deadline = time.monotonic() + PATIENCE_S
    found: list[Seen] = []
    quiet_since = time.monotonic()
    while time.monotonic() - quiet_since < 1.0:
        assert time.monotonic() < deadline, "records come without an end"
        more = reader.poll(0.2)
        found += more
        if more:
            quiet_since = time.monotonic()
    assert all(record.offset < end for record in found)
    return found


@pytest.mark.parametrize("client", sorted(READERS))
def test_every_client_reads_the_newest_values_from_anywhere(
    broker: BrokerProcess, topic: str, client: str
) -> None:
    def read_from(start: int) -> list[tuple[int, str]]:
        reader = READERS[client](broker.bootstrap, topic, f"{topic}-{client}", start, 1, 100)
        found = [(record.offset, record.value) for record in read_all(reader)]
        reader.close()
        return found

    everything = read_from(0)
    assert [value for _, value in everything] == [f"{number}" for number in range(290, 295)]
    assert [offset for offset, _ in everything] == list(range(290, 295)), "offsets never change"
    for start in (1, 100, 292, 299, 303):  # gaps, the middle, and behind the last record
        assert read_from(start) == [entry for entry in everything if entry[0] >= start]


@pytest.mark.parametrize("client", sorted(READERS))
def test_every_client_gets_what_comes_behind_an_end_of_which_nothing_is_left(
    broker: BrokerProcess, topic: str, client: str
) -> None:
    reader = READERS[client](broker.bootstrap, topic, f"{topic}-{client}-on", 0, 1, 100)
    read_all(reader)
    put = Producer({"bootstrap.servers": broker.bootstrap})
    put.produce(topic, "new", f"key-of-{client}", 0)
    assert put.flush(20) == 0
    deadline = time.monotonic() + PATIENCE_S
    found: list[Seen] = []
    while not found:
        assert time.monotonic() < deadline, "nothing came"
        found = reader.poll(0.2)
    assert found[-1].value == "new"
    put.produce(topic, None, f"key-of-{client}", 0)
    assert put.flush(20) == 0
    reader.close()
    wait_until_clean(broker, topic)


def test_a_kill_in_the_middle_of_it_all_changes_nothing(broker: BrokerProcess, topic: str) -> None:
    broker.restart()
    reader = READERS["confluent-kafka"](broker.bootstrap, topic, "after", 0, 1, 100)
    assert [record.value for record in read_all(reader)] == ["290", "291", "292", "293", "294"]
    reader.close()


def test_the_cleaner_is_seen_in_the_metrics(broker: BrokerProcess, topic: str) -> None:
    put = Producer({"bootstrap.servers": broker.bootstrap})
    put.produce(topic, "again", KEYS[0], 0)  # the broker may have been restarted
    put.produce(topic, "290", KEYS[0], 0)
    assert put.flush(20) == 0
    deadline = time.monotonic() + PATIENCE_S
    while True:
        text = urllib.request.urlopen(f"{broker.metrics_url}/metrics").read().decode()
        lines = dict(line.rsplit(" ", 1) for line in text.splitlines() if line[:1] not in "#")
        runs = float(lines.get('hermes_cleaner_runs_total{outcome="cleaned"}', 0))
        dirty = float(lines.get(f'hermes_cleaner_dirty_ratio{{topic="{topic}",partition="0"}}', 1))
        if runs and not dirty:
            break
        assert time.monotonic() < deadline, (runs, dirty)
    assert float(lines["hermes_cleaner_read_bytes_total"]) > 0
    assert float(lines["hermes_cleaner_written_bytes_total"]) > 0
    assert float(lines["hermes_cleaner_last_run_timestamp_seconds"]) > time.time() - 120
    assert float(lines["hermes_cleaner_uncleanable_partitions"]) == 0
    assert float(lines["hermes_cleaner_duration_seconds_count"]) >= runs
