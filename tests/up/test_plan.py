"""What `hermes up` tells its children."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import pytest

from broker.up.options import UpOptions
from broker.up.plan import console_plan
from hermes_console.environment import read_environment
from hermes_console.reach import NotPermitted, policy_for

OPTIONS = UpOptions(
    home=Path("/opt/hermesmq"),
    data=Path("/var/lib/hermesmq"),
    kafka_port=19092,
    gateway_port=18081,
    console_port=18000,
    metrics_port=19404,
    with_demo=False,
)


@pytest.mark.parametrize("own_ports", ["", "17000"])
def test_console_connects_to_no_service_of_the_installation_but_its_broker(own_ports: str) -> None:
    plan = console_plan(OPTIONS, "python", own_ports)
    policy = dataclasses.replace(
        policy_for(read_environment(plan.environment, OPTIONS.data), ()), is_local=lambda _: True
    )
    policy.permit("127.0.0.1", "127.0.0.1", OPTIONS.kafka_port)
    refused = [OPTIONS.gateway_port, OPTIONS.console_port, OPTIONS.metrics_port]
    for port in [*refused, *map(int, own_ports.split())]:
        with pytest.raises(NotPermitted, match="a service of this installation itself"):
            policy.permit("127.0.0.1", "127.0.0.1", port)
