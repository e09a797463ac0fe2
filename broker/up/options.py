"""What `hermes up` was asked for, and the places that follow from it."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Final, NamedTuple

HOST: Final = "127.0.0.1"
"""The only address until there is authentication."""


class Port(NamedTuple):
    """A port that a child will listen on: whose it is and the flag that moves it."""

    purpose: str
    flag: str
    number: int


@dataclass(frozen=True, slots=True)
class UpOptions:
    """Ports are 1 to 65535; `data` is absolute; `home` holds manage.py."""

    home: Path
    data: Path
    kafka_port: int
    gateway_port: int
    console_port: int
    metrics_port: int
    with_demo: bool

    @property
    def broker_data(self) -> Path:
        return self.data / "broker"

    @property
    def logs(self) -> Path:
        return self.data / "logs"

    @property
    def bootstrap(self) -> str:
        return f"{HOST}:{self.kafka_port}"

    @property
    def console_url(self) -> str:
        return f"http://{HOST}:{self.console_port}"

    @property
    def gateway_url(self) -> str:
        return f"http://{HOST}:{self.gateway_port}"

    @property
    def metrics_url(self) -> str:
        return f"http://{HOST}:{self.metrics_port}"

    def ports(self) -> tuple[Port, ...]:
        """Every port that something will listen on."""
        return (
            Port("Kafka", "--kafka-port", self.kafka_port),
            Port("gateway", "--gateway-port", self.gateway_port),
            Port("console", "--console-port", self.console_port),
            Port("metrics", "--metrics-port", self.metrics_port),
        )
