"""/metrics, /healthz and /readyz of a real broker."""

from __future__ import annotations

import asyncio
import os
import socket
import time
import urllib.error
import urllib.request
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest
from prometheus_client.parser import text_string_to_metric_families

from broker.config.broker import BrokerSettings
from broker.metastore.memory import MemoryMetastore
from broker.metrics import METRICS
from broker.runtime.clock import SystemClock
from broker.runtime.disk import SystemDisk
from broker.runtime.ids import SystemIds
from broker.runtime.network import SystemNetwork
from broker.runtime.worker import ProcessWorker
from broker.server import computed_metrics
from broker.server.lag import LagReader
from broker.server.metrics_endpoint import MetricsEndpoint, not_ready_reasons, scrape
from broker.server.node import Broker
from broker.server.startup import StartupError
from broker.server.topic_rules import WantedTopic
from broker.wire import api
from broker.wire.messages.find_coordinator import FindCoordinatorRequest
from broker.wire.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from tests.support.broker_process import BrokerProcess
from tests.support.wire_client import WireClient, batch_of

Samples = dict[tuple[str, tuple[tuple[str, str], ...]], float]


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrokerProcess]:
    settings = {"offsets.topic.num.partitions": 2}
    with BrokerProcess(tmp_path_factory.mktemp("metrics"), settings) as process:
        yield process


def get(broker: BrokerProcess, path: str) -> str:
    with urllib.request.urlopen(f"{broker.metrics_url}{path}", timeout=10) as response:
        return str(response.read().decode())


def samples(broker: BrokerProcess) -> Samples:
    found: Samples = {}
    for family in text_string_to_metric_families(get(broker, "/metrics")):
        for sample in family.samples:
            found[sample.name, tuple(sorted(sample.labels.items()))] = sample.value
    return found


def commit(client: WireClient, group: str, topic: str, offset: int) -> None:
    wanted = OffsetCommitRequestPartition(partition_index=0, committed_offset=offset)
    request = OffsetCommitRequest(
        group_id=group,
        topics=[OffsetCommitRequestTopic(name=topic, partitions=[wanted])],
    )
    finder = FindCoordinatorRequest(key=group)
    for _ in range(100):
        client.call(api.FIND_COORDINATOR, 2, finder)
        answer = client.call(api.OFFSET_COMMIT, 8, request).topics[0].partitions[0]
        if answer.error_code == 0:
            return
        time.sleep(0.05)
    raise AssertionError(f"no commit: {answer}")


def test_every_metric_of_the_table_is_served_with_its_help(broker: BrokerProcess) -> None:
    families = {f.name: f for f in text_string_to_metric_families(get(broker, "/metrics"))}
    for spec in METRICS:
        family = families[spec.name.removesuffix("_total")]
        assert family.documentation == spec.documentation
        assert family.type == spec.kind


def test_requests_errors_data_and_the_process_are_counted(broker: BrokerProcess) -> None:
    before = samples(broker)
    with WireClient(broker.kafka_port) as client:
        client.create_topic("counted", 2)
        client.produce("counted", [(b"k", b"v")] * 5)
        client.fetch("counted", 0)
        client.fetch("nobody", 0)
        after = samples(broker)
    topic = (("topic", "counted"),)
    partition = (("partition", "0"), *topic)
    assert after["hermes_records_in_total", topic] == 5
    assert after["hermes_records_out_total", topic] == 5
    assert after["hermes_bytes_in_total", topic] == after["hermes_log_size_bytes", partition] > 0
    assert after["hermes_high_watermark", partition] == 5
    assert after["hermes_connections", ()] >= 1
    produce = (("api", "Produce"),)
    key = ("hermes_requests_total", produce)
    assert after[key] == before.get(key, 0) + 1
    assert after["hermes_request_duration_seconds_count", produce] >= 1
    assert after["hermes_request_duration_quantile_seconds", (*produce, ("quantile", "0.99"))] > 0
    error = (("api", "Fetch"), ("error", "UNKNOWN_TOPIC_OR_PARTITION"))
    assert after["hermes_request_errors_total", error] == 1
    assert after["hermes_descriptors_open", ()] < after["hermes_descriptors_limit", ()]
    assert after["hermes_disk_free_bytes", ()] > 0
    assert 0 < after["hermes_process_resident_memory_bytes", ()] < 80e6
    assert after["hermes_offline_partitions", ()] == 0
    assert after["hermes_ready", ()] == 1


def test_lag_in_records_and_seconds_drains_with_the_commits(broker: BrokerProcess) -> None:
    with WireClient(broker.kafka_port) as client:
        client.create_topic("lagging")
        for count, pause in ((3, 1.2), (2, 0)):
            now_ms = int(time.time() * 1000)
            client.produce("lagging", batch_of([(b"k", b"v")] * count, timestamp_ms=now_ms))
            time.sleep(pause)
        for group, offset in (("behind", 0), ("near", 3), ("there", 5), ("rewound", 9)):
            commit(client, group, "lagging", offset)
        found = samples(broker)

        def labels(group: str) -> tuple[tuple[str, str], ...]:
            return (("group", group), ("partition", "0"), ("topic", "lagging"))

        lag = {g: found["hermes_group_lag_records", labels(g)] for g in ("behind", "near", "there")}
        assert lag == {"behind": 5, "near": 2, "there": 0}
        assert found["hermes_group_lag_records", labels("rewound")] == 0
        assert found["hermes_group_committed_offset", labels("near")] == 3
        age = "hermes_group_oldest_unread_seconds"
        assert 1.2 <= found[age, labels("behind")] < 10
        assert found[age, labels("near")] < found[age, labels("behind")] - 1
        assert found[age, labels("there")] == 0
        commit(client, "behind", "lagging", 5)
        assert samples(broker)["hermes_group_lag_records", labels("behind")] == 0
        assert not any("nobody" in str(key) for key in found), "no commit has no lag"


def test_health_and_unknown_paths(broker: BrokerProcess) -> None:
    assert get(broker, "/healthz") == "ok\n"
    assert get(broker, "/readyz") == "ready\n"
    with pytest.raises(urllib.error.HTTPError) as caught:
        get(broker, "/")
    assert caught.value.code == 404
    caught.value.close()


@pytest.fixture
async def node(tmp_path: Path) -> AsyncIterator[Broker]:
    settings = BrokerSettings(
        listeners="PLAINTEXT://127.0.0.1:0", hermes_metrics_port=0, log_dir=str(tmp_path)
    )
    disk, worker = SystemDisk(str(tmp_path)), ProcessWorker()
    clock, network = SystemClock(), SystemNetwork()
    made = Broker(settings, disk, clock, network, MemoryMetastore(), SystemIds(), worker)
    yield made
    await made.stop()
    worker.close()
    disk.close()


async def test_readiness_says_why_not(node: Broker) -> None:
    assert not_ready_reasons(node) == ["the broker is starting or stopping"]
    await node.start()
    assert not_ready_reasons(node) == []


async def test_a_taken_port_is_one_sentence(node: Broker) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        node.settings = BrokerSettings(hermes_metrics_port=port)
        with pytest.raises(StartupError, match=f"cannot serve metrics on 127.0.0.1:{port}"):
            await MetricsEndpoint(node).start()
        node.settings = BrokerSettings(hermes_metrics_port=-1)
        endpoint = MetricsEndpoint(node)
        await endpoint.start()
        assert endpoint.port == 0
        node.settings = BrokerSettings(listeners="PLAINTEXT://127.0.0.1:0", hermes_metrics_port=0)


async def test_a_scrape_of_many_partitions_lets_the_loop_go_on(node: Broker) -> None:
    await node.start()
    await node.catalog.create_topic(WantedTopic("wide", 500))
    turns = 0

    async def count_turns() -> None:
        nonlocal turns
        while True:
            await asyncio.sleep(0)
            turns += 1

    async with asyncio.TaskGroup() as group:
        counter = group.create_task(count_turns())
        began_ms = node.clock.monotonic_ms()
        lines = "".join([text async for text in scrape(node, LagReader(node))]).splitlines()
        elapsed_ms = node.clock.monotonic_ms() - began_ms
        counter.cancel()
    assert len([line for line in lines if 'topic="wide",partition=' in line]) == 1_500
    assert turns >= elapsed_ms / 10, "the scrape held the loop"


@pytest.mark.parametrize(
    "name",
    [
        "hermes_damaged_ranges",
        "hermes_cleaner_dirty_ratio",
        "hermes_cleaner_uncleanable_partitions",
        "hermes_delivery_delayed_records",
    ],
)
async def test_a_metric_with_few_samples_of_many_partitions_lets_the_loop_go_on(
    node: Broker, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    await node.start()
    await node.catalog.create_topic(WantedTopic("wide", 60))
    monkeypatch.setattr(computed_metrics, "PARTITIONS_PER_STEP", 20)
    others: list[str] = []
    asyncio.get_running_loop().call_soon(others.append, "went on")
    found = [value async for _, value in computed_metrics.COMPUTED[name](node, LagReader(node))]
    assert sum(found) == 0
    assert others == ["went on"]


def reads(broker: BrokerProcess, source: str) -> tuple[float, float]:
    """(reads, bytes) from there so far."""
    found = samples(broker)
    labels = (("source", source),)
    return (
        found.get(("hermes_fetch_reads_total", labels), 0.0),
        found.get(("hermes_fetch_read_bytes_total", labels), 0.0),
    )


def test_a_fetch_counts_as_read_from_memory_or_from_the_device(
    broker: BrokerProcess,
) -> None:
    with WireClient(broker.kafka_port) as client:
        client.create_topic("cold")
        client.produce("cold", [(b"k", bytes(900_000))])
        warm, device = reads(broker, "page_cache"), reads(broker, "device")
        size = len(client.fetch("cold", 0).records)
        assert reads(broker, "page_cache") == (warm[0] + 1, warm[1] + size)
        assert reads(broker, "device") == device
        (segment,) = broker.data.glob("topics/cold/*/*.log")
        for _ in range(50):  # a page that is still being written cannot be dropped
            descriptor = os.open(segment, os.O_RDONLY)
            os.fdatasync(descriptor)
            os.posix_fadvise(descriptor, 0, 0, os.POSIX_FADV_DONTNEED)
            os.close(descriptor)
            client.fetch("cold", 0)
            if reads(broker, "device") != device:
                break
        assert reads(broker, "device") == (device[0] + 1, device[1] + size)
