"""A broker (or the cluster that HERMES_CONFORMANCE_BOOTSTRAP names), a gateway, topics of a test's
own.
"""

from __future__ import annotations

import itertools
import os
from collections.abc import Callable, Iterator

import pytest

from tests.gateway.gateway_process import GatewayProcess
from tests.gateway.records import create_topic
from tests.support.broker_process import BrokerProcess

BOOTSTRAP_VARIABLE = "HERMES_CONFORMANCE_BOOTSTRAP"


@pytest.fixture(scope="session")
def bootstrap(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """A real broker process, or the cluster that HERMES_CONFORMANCE_BOOTSTRAP names."""
    elsewhere = os.environ.get(BOOTSTRAP_VARIABLE)
    if elsewhere:
        yield elsewhere
        return
    settings = {"group.initial.rebalance.delay.ms": 0, "offsets.topic.num.partitions": 2}
    with BrokerProcess(tmp_path_factory.mktemp("gateway-broker"), settings) as broker:
        yield broker.bootstrap


@pytest.fixture(scope="session")
def gateway(bootstrap: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[GatewayProcess]:
    """A gateway with the default settings."""
    with GatewayProcess(tmp_path_factory.mktemp("gateway"), bootstrap) as process:
        yield process


@pytest.fixture
def new_topic(bootstrap: str, request: pytest.FixtureRequest) -> Callable[..., str]:
    """Creates a topic with that many partitions, named after the test."""
    stem = "".join(c if c.isalnum() else "-" for c in request.node.name)[:120]
    numbers = itertools.count()

    def create(partitions: int = 1, **config: str) -> str:
        name = f"{stem}-{os.getpid()}-{next(numbers)}"
        create_topic(bootstrap, name, partitions, **config)
        return name

    return create
