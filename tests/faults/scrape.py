"""One broker's metrics, as numbers by name and labels."""

from __future__ import annotations

import time
import urllib.request

from prometheus_client.parser import text_string_to_metric_families

from tests.support.broker_process import BrokerProcess


def metric(broker: BrokerProcess, name: str, **labels: str) -> float | None:
    """The sample with these labels, None when there is none."""
    with urllib.request.urlopen(f"{broker.metrics_url}/metrics", timeout=10) as response:
        text = response.read().decode()
    for family in text_string_to_metric_families(text):
        for sample in family.samples:
            if sample.name == name and sample.labels == labels:
                return float(sample.value)
    return None


def wait_for_metric(
    broker: BrokerProcess, name: str, value: float, *, timeout_s: float = 20, **labels: str
) -> None:
    """Until the sample has `value`."""
    deadline = time.monotonic() + timeout_s
    while (found := metric(broker, name, **labels)) != value:
        assert time.monotonic() < deadline, f"{name} is {found}, not {value}, in {timeout_s} s"
        time.sleep(0.05)


def is_ready(broker: BrokerProcess) -> bool:
    """Whether /readyz says so; anything but 200 raises."""
    with urllib.request.urlopen(f"{broker.metrics_url}/readyz", timeout=10) as response:
        return bool(response.status == 200)
