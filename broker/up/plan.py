"""What `hermes up` starts: one row per child, decided from the options. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from broker.up.options import HOST, UpOptions

BROKER_GRACE_S: Final = 20.0
CONSOLE_GRACE_S: Final = 10.0
GATEWAY_GRACE_S: Final = 15.0
DEMO_GRACE_S: Final = 5.0


@dataclass(frozen=True, slots=True)
class ChildPlan:
    """One child process: `command`, at its first start followed by `first_flags`.

    `environment` is added to the supervisor's own; `ready_url` answers once the child serves
    (None: a child that runs is ready); after SIGTERM it has `grace_s` seconds to end before its
    session is killed.
    """

    name: str
    command: tuple[str, ...]
    environment: Mapping[str, str]
    working_directory: Path
    ready_url: str | None
    grace_s: float
    first_flags: tuple[str, ...] = ()


def broker_plan(options: UpOptions, python: str) -> ChildPlan:
    """The broker, on the loopback address."""
    flags = {
        "--log-dir": str(options.broker_data),
        "--listeners": f"PLAINTEXT://{options.bootstrap}",
        "--hermes-metrics-port": str(options.metrics_port),
    }
    return ChildPlan(
        name="broker",
        command=(python, "-m", "broker", "serve", "--supervised", *_flat(flags)),
        environment={},
        working_directory=options.home,
        ready_url=f"{options.metrics_url}/readyz",
        grace_s=BROKER_GRACE_S,
    )


def gateway_plan(options: UpOptions, python: str) -> ChildPlan:
    """The HTTP gateway, on the loopback address."""
    flags = {
        "--host": HOST,
        "--port": str(options.gateway_port),
        "--bootstrap-servers": options.bootstrap,
    }
    return ChildPlan(
        name="gateway",
        command=(python, "-m", "broker", "gateway", "--supervised", *_flat(flags)),
        environment={},
        working_directory=options.home,
        ready_url=f"{options.gateway_url}/readyz",
        grace_s=GATEWAY_GRACE_S,
    )


def console_plan(options: UpOptions, python: str, own_ports: str = "") -> ChildPlan:
    """The console with its worker and beat; it migrates its databases, after a backup. `own_ports`
    is the operator's HERMES_OWN_PORTS: the gateway's port is added to it.
    """
    return ChildPlan(
        name="console",
        command=(
            python,
            *("manage.py", "console", "--supervised", "--tasks"),
            *_flat({"--host": HOST, "--port": str(options.console_port)}),
        ),
        environment={
            "HERMES_DATA_DIR": str(options.data),
            "HERMES_BOOTSTRAP": options.bootstrap,
            "HERMES_METRICS_URL": f"{options.metrics_url}/metrics",
            "HERMES_CONSOLE_URL": options.console_url,
            "HERMES_OWN_PORTS": ",".join(filter(None, (own_ports, str(options.gateway_port)))),
        },
        working_directory=options.home,
        ready_url=f"{options.console_url}/readyz",
        grace_s=CONSOLE_GRACE_S,
        first_flags=("--signin-link-file", str(sign_in_link_file(options))),
    )


def sign_in_link_file(options: UpOptions) -> Path:
    """Where the console leaves the first one-time link: not in its log, which people share."""
    return options.data / "signin-link"


def demo_plan(options: UpOptions, python: str) -> ChildPlan:
    """The workload, through the same port as every other client."""
    flags = {"--bootstrap": options.bootstrap}
    return ChildPlan(
        name="demo",
        command=(python, "-m", "broker", "demo", "--supervised", *_flat(flags)),
        environment={},
        working_directory=options.home,
        ready_url=None,
        grace_s=DEMO_GRACE_S,
    )


def _flat(flags: Mapping[str, str]) -> list[str]:
    return [word for pair in flags.items() for word in pair]
