"""How many batches a broker opened before it stored them."""

from __future__ import annotations

from urllib.request import urlopen

from tests.support.broker_process import BrokerProcess


def opened_batches(broker: BrokerProcess, place: str) -> int:
    """By its own count; `place` is "loop" or "worker"."""
    with urlopen(f"{broker.metrics_url}/metrics") as answer:
        lines = answer.read().decode().splitlines()
    wanted = f'hermes_batches_opened_total{{place="{place}"}} '
    return sum(int(float(line.split()[-1])) for line in lines if line.startswith(wanted))
