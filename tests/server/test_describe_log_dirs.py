"""DescribeLogDirs against a real broker: the sizes are those of the files."""

from __future__ import annotations

import importlib
import warnings
from collections.abc import Iterator
from typing import Any

import pytest

from broker.wire import api
from broker.wire.messages.describe_log_dirs import (
    DescribableLogDirTopic,
    DescribeLogDirsRequest,
    DescribeLogDirsResult,
)
from tests.support.broker_process import BrokerProcess
from tests.support.wire_client import WireClient

pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning:kafka")


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrokerProcess]:
    with BrokerProcess(tmp_path_factory.mktemp("log-dirs")) as process:
        with WireClient(process.kafka_port) as client:
            client.create_topic("sized", 3)
            client.create_topic("rolled", segment_bytes="4096")
            client.produce("sized", [(b"k", b"v" * 5_000)], partition=1)
            for _ in range(10):
                client.produce("rolled", [(b"k", b"v" * 1_000)])
        yield process


@pytest.fixture
def client(broker: BrokerProcess) -> Iterator[WireClient]:
    with WireClient(broker.kafka_port) as connection:
        yield connection


def describe(
    client: WireClient, topics: dict[str, list[int]] | None, version: int = 4
) -> DescribeLogDirsResult:
    asked = None
    if topics is not None:
        asked = [
            DescribableLogDirTopic(topic=name, partitions=indexes)
            for name, indexes in topics.items()
        ]
    response = client.call(api.DESCRIBE_LOG_DIRS, version, DescribeLogDirsRequest(topics=asked))
    assert response.error_code == 0
    (result,) = response.results
    assert isinstance(result, DescribeLogDirsResult)
    return result


def sizes(result: DescribeLogDirsResult) -> dict[tuple[str, int], int]:
    found = [(topic.name, item) for topic in result.topics for item in topic.partitions]
    assert all(item.offset_lag == 0 and not item.is_future_key for _, item in found)
    return {(name, item.partition_index): item.partition_size for name, item in found}


@pytest.mark.parametrize("version", range(1, 6))
def test_all_partitions_have_the_sizes_of_their_files(
    broker: BrokerProcess, client: WireClient, version: int
) -> None:
    result = describe(client, None, version)
    assert not result.is_cordoned
    assert result.log_dir == str(broker.data.absolute())
    on_disk = {
        (directory.parent.name, int(directory.name.partition("-")[2])): sum(
            path.stat().st_size for path in directory.glob("*.log")
        )
        for directory in broker.data.glob("topics/*/*")
    }
    assert sizes(result) == on_disk
    assert on_disk["sized", 1] > 5_000
    assert on_disk["sized", 0] == 0
    if version >= 4:
        assert result.total_bytes >= result.usable_bytes > 0
    else:
        assert (result.total_bytes, result.usable_bytes) == (-1, -1)


def test_only_what_is_asked_for_and_exists(client: WireClient) -> None:
    assert sizes(describe(client, {})) == {}
    asked = {"sized": [1, 7, -1, 1], "nobody": [0], "rolled": []}
    assert set(sizes(describe(client, asked))) == {("sized", 1)}


def test_kafka_python_reads_the_sizes(broker: BrokerProcess) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        kafka: Any = importlib.import_module("kafka")
    admin = kafka.KafkaAdminClient(bootstrap_servers=broker.bootstrap)
    try:
        found = str(admin.describe_log_dirs())
    finally:
        admin.close()
    assert str(broker.data) in found
    assert "rolled" in found
