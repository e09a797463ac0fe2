"""The command line of `hermes demo`."""

from __future__ import annotations

import argparse
import os
import random
import signal
import sys
import threading
import time
from collections.abc import Sequence
from typing import Any, Final

from broker.demo.groups import GROUPS, Member
from broker.demo.orders import Load
from broker.demo.service import OrderService, ensure_topic

REPORT_S: Final = 30.0
_DESCRIPTION: Final = (
    "Send order events to a cluster and read them in six groups, one of which is slow, until "
    "Ctrl-C. For a minute out of five the rate goes up and the slow group falls behind."
)


def main(arguments: Sequence[str]) -> int:
    """0 once it was told to stop."""
    options = _parser().parse_args(arguments)
    stop = threading.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda *_: stop.set())
    if options.supervised:
        threading.Thread(target=_watch_supervisor, args=(stop,), daemon=True).start()
    settings: dict[str, Any] = {
        "bootstrap.servers": options.bootstrap,
        "client.id": "hermes-demo",
        "log_level": 2,  # what level 3 would log comes to error_cb too, which does not repeat it
        "reconnect.backoff.max.ms": 2_000,
        "error_cb": _ErrorReport(),
    }
    ensure_topic(settings, options.topic, options.partitions, stop, _say)
    members = [
        Member(group, settings, options.topic, stop, _say)
        for group in GROUPS
        for _ in range(group.members)
    ]
    for member in members:
        member.start()
    load = Load(steady=options.rate, spike=options.spike_rate)
    service = OrderService(settings, options.topic, load, stop, random.Random(options.seed))
    threading.Thread(target=_report, args=(service, members, stop), daemon=True).start()
    service.run()
    for member in members:
        member.join(timeout_s=3)
    _say(f"stopped after {service.delivered} events")
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="hermes demo", description=_DESCRIPTION)
    parser.add_argument("--bootstrap", default="127.0.0.1:9092", metavar="HOST:PORT")
    parser.add_argument("--topic", default="order-events")
    parser.add_argument("--partitions", type=int, default=6, help="of a topic that is created")
    parser.add_argument("--rate", type=float, default=40, help="events a second (default: 40)")
    parser.add_argument(
        "--spike-rate", type=float, default=150, help="events a second in a spike (default: 150)"
    )
    parser.add_argument("--seed", type=int, help="the same orders again")
    parser.add_argument("--supervised", action="store_true", help="stop when standard input closes")
    return parser


def _watch_supervisor(stop: threading.Event) -> None:
    # os.read: a thread inside sys.stdin would hold its lock when the interpreter ends.
    while os.read(sys.stdin.fileno(), 1024):
        pass
    stop.set()


def _report(service: OrderService, members: list[Member], stop: threading.Event) -> None:
    while not stop.wait(REPORT_S):
        done: dict[str, int] = {}
        for member in members:
            done[member.group.name] = done.get(member.group.name, 0) + member.done
        read = ", ".join(f"{name} {count}" for name, count in done.items())
        failed = f", {service.failed} failed" if service.failed else ""
        _say(f"sent {service.delivered}{failed}; read: {read}")


class _ErrorReport:
    """Says what librdkafka's clients report, each text at most once in REPORT_S seconds."""

    def __init__(self) -> None:
        self._said: dict[str, float] = {}

    def __call__(self, error: Any) -> None:
        now_s = time.monotonic()
        text = error.name()
        if now_s - self._said.get(text, -REPORT_S) >= REPORT_S:
            self._said[text] = now_s
            _say(f"{text}: {error.str()}")


def _say(line: str) -> None:
    print(time.strftime("%H:%M:%S"), line, flush=True)
