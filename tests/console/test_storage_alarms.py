"""What is wrong with a broker's disk and logs stands on the overview, the brokers' pages and the
topic's page; seen on a real broker.
"""

from __future__ import annotations

import json
from collections.abc import Iterator

import pytest
from django.test import Client

from broker.errors import ErrorCode
from broker.metrics import METRICS
from hermes_console.clusters import Cluster
from hermes_console.live.clusterstate import ClusterState
from hermes_console.live.look import ClusterLook
from hermes_console.live.metricstext import read_metrics
from hermes_console.samples.snapshot import ClusterSnapshot, FlaggedPartition, Storage
from hermes_console.samples.store import SampleStore
from hermes_console.storagealarms import (
    PARTITION_FLAGS,
    PARTITIONS_NAMED_MAX,
    storage_alarms,
)
from tests.console.conftest import group, snapshot_of
from tests.console.topic_pages import point_at, words_of
from tests.support.broker_process import BrokerProcess
from tests.support.wire_client import WireClient

pytestmark = [pytest.mark.django_db(databases="__all__"), pytest.mark.timeout(180)]
TAKES_NO_RECORDS = "takes no records"


def offline(*names: str) -> tuple[FlaggedPartition, ...]:
    return tuple(FlaggedPartition("offline", name, 0) for name in names)


@pytest.fixture(scope="module")
def ailing(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrokerProcess]:
    """A broker whose disk has less than its mark, one partition that cannot be opened, and one with
    a broken record.
    """
    with BrokerProcess(tmp_path_factory.mktemp("ailing")) as broker:
        with WireClient(broker.kafka_port) as client:
            client.create_topic("orders", 2)
            client.create_topic("fine")
            client.create_topic("spoilt")
            client.produce("spoilt", [(b"k", b"v")])
        broker.terminate()
        topics = broker.data / "topics"
        (topics / "orders" / "partition-01" / "partition.json").write_text("{")
        (segment,) = (topics / "spoilt" / "partition-00").glob("*.log")
        content = bytearray(segment.read_bytes())
        content[-1] ^= 1
        segment.write_bytes(content)
        broker.settings["hermes.log.dir.min.free.bytes"] = 1 << 50
        broker.start()
        with WireClient(broker.kafka_port) as client:
            assert client.fetch("spoilt", 0).error_code == ErrorCode.CORRUPT_MESSAGE
        yield broker


def test_a_real_brokers_faults_are_named_on_every_page_that_they_concern(
    signed_in: Client, cluster: Cluster, ailing: BrokerProcess
) -> None:
    point_at(cluster, ailing.bootstrap)
    look = ClusterLook(ailing.bootstrap, f"{ailing.metrics_url}/metrics")
    try:
        snapshot, details = ClusterState().absorb(look.look())
    finally:
        look.close()
    SampleStore(cluster.pk).write(snapshot, details)
    for page in ("", "brokers", "brokers/0", "topics/orders"):
        words = words_of(signed_in.get(f"/clusters/local/{page}", follow=True))
        assert f"Broker 0 {TAKES_NO_RECORDS}: its disk has" in words, page
        assert "A partition is offline" in words, page
        assert "orders-1" in words, page
    words = words_of(signed_in.get("/clusters/local/topics/fine", follow=True))
    assert TAKES_NO_RECORDS in words, "that concerns every topic"
    assert "offline" not in words
    assert "damaged" not in words
    for page in ("", "brokers/0", "topics/spoilt"):
        words = words_of(signed_in.get(f"/clusters/local/{page}", follow=True))
        assert "A partition is damaged on disk" in words, page
        assert "spoilt-0" in words, page


def test_a_snapshot_keeps_alarms_as_text_and_an_older_ones_text_has_none() -> None:
    storage = Storage(0, True, 5_000, offline("orders"), {"offline": 1}, 2, {"profiles": 0.5})
    snapshot = snapshot_of(group("app"), storage=storage)
    assert ClusterSnapshot.from_text(snapshot.to_text()) == snapshot
    fields = json.loads(snapshot.to_text())
    del fields["storage"]
    assert ClusterSnapshot.from_text(json.dumps(fields)).storage == Storage()


def test_a_broker_that_is_not_reached_has_that_as_its_news_alone() -> None:
    storage = Storage(0, True, 5_000, offline("orders"), {"offline": 1})
    assert storage_alarms(snapshot_of(storage=storage))
    assert storage_alarms(snapshot_of(storage=storage, trouble="refused")) == []
    assert storage_alarms(None) == []


def test_of_many_partitions_some_are_named_and_all_counted() -> None:
    names = [f"t{number:03}" for number in range(50)]
    storage = Storage(0, False, 0, offline(*names), {"offline": 3_000})
    (alarm,) = storage_alarms(snapshot_of(storage=storage))
    assert alarm.title.startswith("3,000 partitions are offline")
    assert len(alarm.partitions) == PARTITIONS_NAMED_MAX
    assert alarm.more_count == 3_000 - PARTITIONS_NAMED_MAX
    (own,) = storage_alarms(snapshot_of(storage=storage), "t049")
    assert [one.topic for one in own.partitions] == ["t049"]
    assert own.more_count == 0


def test_what_compaction_passes_over_is_told_for_the_broker() -> None:
    snapshot = snapshot_of(storage=Storage(0, uncleanable_count=2))
    (alarm,) = storage_alarms(snapshot)
    assert alarm.title == "Broker 0 leaves a part of 2 partitions uncompacted."
    assert storage_alarms(snapshot, "orders") == [], "nobody says which topic's"


def test_each_flag_is_a_gauge_of_the_broker_by_topic_and_partition() -> None:
    labels = {spec.name: spec.labels for spec in METRICS}
    for flag in PARTITION_FLAGS:
        assert labels[flag.metric] == ("topic", "partition")
        found = read_metrics(f'{flag.metric}{{topic="a\\"b",partition="3"}} 1\n')
        assert found.storage.flagged == (FlaggedPartition(flag.key, 'a"b', 3),)
        assert read_metrics(f'{flag.metric}{{topic="a",partition="3"}} 0\n').storage == Storage()
