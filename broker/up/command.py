"""The command line of `hermes up`."""

from __future__ import annotations

import argparse
import asyncio
import fcntl
import os
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from broker.up.holders import taken_ports
from broker.up.options import UpOptions
from broker.up.supervisor import StartFailure, Supervisor

DATA_DEFAULT: Final = ".hermes"
HOME = Path(__file__).resolve().parent.parent.parent
"""Where `manage.py` and the package `broker` are: the children's working directory."""
_DESCRIPTION: Final = (
    "Run broker, HTTP gateway and console (and with --demo a workload) on this machine, on "
    "127.0.0.1 only, with embedded storage. Prints the addresses and a one-time sign-in link once "
    "everything answers. "
    "Ctrl-C stops it; once more kills it."
)


def main(arguments: Sequence[str]) -> int:
    """0 after a requested stop, 1 when something could not be started, 2 on wrong usage."""
    options = parse(arguments)
    try:
        options.data.mkdir(parents=True, exist_ok=True)
        with _lock(options.data):
            problems = taken_ports(options.ports())
            for problem in problems:
                _say(f"hermes up: {problem}")
            if problems:
                return 1
            return asyncio.run(_run(options))
    except StartFailure as failure:
        _say(f"hermes up: {failure}")
    except OSError as error:
        reason = error.strerror or error
        _say(f"hermes up: cannot use {options.data} ({reason}): choose a directory with --data DIR")
    return 1


async def _run(options: UpOptions) -> int:
    return await Supervisor(options, _say).run()


def parse(arguments: Sequence[str]) -> UpOptions:
    """The options; exits with usage when they are wrong."""
    parser = argparse.ArgumentParser(prog="hermes up", description=_DESCRIPTION)
    parser.add_argument(
        "--demo", action="store_true", help="produce and consume order events, in six groups"
    )
    parser.add_argument(
        "--data",
        type=Path,
        default=Path(DATA_DEFAULT),
        metavar="DIR",
        help=f"where everything is kept, relative to here (default: {DATA_DEFAULT})",
    )
    _add_port(parser, "--kafka-port", 9092, "the broker, for every Kafka client")
    _add_port(parser, "--gateway-port", 8080, "put, fetch and commit over HTTP")
    _add_port(parser, "--console-port", 8000, "the console, in a browser")
    _add_port(parser, "--metrics-port", 9404, "the broker's /metrics, /healthz and /readyz")
    values = parser.parse_args(arguments)
    return UpOptions(
        home=HOME,
        data=values.data.expanduser().absolute(),
        kafka_port=values.kafka_port,
        gateway_port=values.gateway_port,
        console_port=values.console_port,
        metrics_port=values.metrics_port,
        with_demo=values.demo,
    )


def _add_port(parser: argparse.ArgumentParser, flag: str, default: int, meaning: str) -> None:
    parser.add_argument(
        flag,
        type=_port,
        default=default,
        metavar="PORT",
        help=f"{meaning} (default: {default})",
    )


def _port(text: str) -> int:
    if not text.isdecimal() or not 0 < int(text) < 65536:
        msg = f"a port is a number from 1 to 65535, not {text!r}"
        raise argparse.ArgumentTypeError(msg)
    return int(text)


@contextmanager
def _lock(data: Path) -> Iterator[None]:
    """One supervisor per data directory. Raises StartFailure that names the other one."""
    with (data / "up.lock").open("a+", encoding="ascii") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            file.seek(0)
            msg = (
                f"process {file.read().strip() or '?'} already runs `hermes up` on {data}: "
                "stop it, or choose another directory with --data DIR"
            )
            raise StartFailure(msg) from None
        file.seek(0)
        file.truncate()
        file.write(str(os.getpid()))
        file.flush()
        yield


def _say(line: str) -> None:
    print(line, file=sys.stdout, flush=True)
