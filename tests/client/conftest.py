"""One real broker for all tests of the client, and what tests need to talk to it."""

from __future__ import annotations

import itertools
import os
import time
from collections.abc import AsyncIterator, Callable, Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

from broker.client.cluster import Cluster
from broker.config.client import ClientSettings
from broker.runtime.clock import SystemClock
from broker.runtime.ids import SystemIds
from broker.runtime.network import SystemNetwork
from tests.support.broker_process import BrokerProcess

BROKER_SETTINGS = {
    "group.initial.rebalance.delay.ms": 0,
    "group.min.session.timeout.ms": 500,
    "offsets.topic.num.partitions": 2,
}
_numbers = itertools.count(time.time_ns() // 1_000_000)


def client_settings(bootstrap: str, **changes: object) -> ClientSettings:
    """Short times, so that a test ends."""
    values: dict[str, object] = {
        "bootstrap_servers": (bootstrap,),
        "request_timeout_ms": 10_000,
        "retry_backoff_ms": 20,
        "retry_backoff_max_ms": 200,
        "fetch_max_wait_ms": 100,
        "session_timeout_ms": 3_000,
        "heartbeat_interval_ms": 100,
        "max_poll_interval_ms": 10_000,
        "auto_offset_reset": "earliest",
        "linger_ms": 1,
    }
    return ClientSettings(**(values | changes))  # type: ignore[arg-type]


class ForeignBroker(NamedTuple):
    """A broker that runs already, e.g. Apache Kafka."""

    bootstrap: str

    @property
    def kafka_port(self) -> int:
        return int(self.bootstrap.rpartition(":")[2])


@pytest.fixture(scope="session")
def broker(
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[BrokerProcess | ForeignBroker]:
    """Ours, or the one at CLIENT_TEST_BOOTSTRAP: the client has to suit both."""
    foreign = os.environ.get("CLIENT_TEST_BOOTSTRAP")
    if foreign:
        yield ForeignBroker(foreign)
        return
    directory: Path = tmp_path_factory.mktemp("client-broker")
    with BrokerProcess(directory, BROKER_SETTINGS) as process:
        yield process


@pytest.fixture
def name() -> str:
    """A name that no other test uses."""
    return f"client-test-{next(_numbers)}"


@pytest.fixture
async def open_cluster(broker: BrokerProcess) -> AsyncIterator[Callable[..., Cluster]]:
    """Makes clusters that are closed after the test."""
    opened: list[Cluster] = []

    def make(**changes: object) -> Cluster:
        settings = client_settings(broker.bootstrap, **changes)
        cluster = Cluster(SystemNetwork(), SystemClock(), SystemIds(), settings)
        opened.append(cluster)
        return cluster

    yield make
    for cluster in opened:
        await cluster.close()


@pytest.fixture
async def cluster(open_cluster: Callable[..., Cluster]) -> Cluster:
    return open_cluster()
