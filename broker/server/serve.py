"""`hermes serve`: one broker on this machine's ports, from its settings to its exit code.

Exit codes: 0 stopped as asked, 1 crashed, 2 cannot start (one sentence on stderr says why and what
to do).
"""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from collections.abc import Sequence
from typing import Final

import structlog

from broker.config.broker import BrokerSettings
from broker.config.setting import ConfigError
from broker.log.directory import DataDirectoryRefused, read_meta
from broker.metastore.sqlite import SqliteMetastore
from broker.ports import DiskFault, MetastoreFault
from broker.runtime.clock import SystemClock
from broker.runtime.descriptors import raise_descriptor_limit
from broker.runtime.disk import SystemDisk
from broker.runtime.ids import SystemIds
from broker.runtime.loading import end_loading
from broker.runtime.logs import configure_logging
from broker.runtime.memory import tune_allocator
from broker.runtime.memory_limit import memory_limit_bytes
from broker.runtime.network import SystemNetwork
from broker.runtime.settings_source import read_broker_settings
from broker.runtime.worker import REQUESTS_NICENESS, UPKEEP_NICENESS, ProcessWorker
from broker.server.metrics_endpoint import MetricsEndpoint
from broker.server.node import Broker
from broker.server.startup import StartupError

SUPERVISED_FLAG: Final = "--supervised"
METASTORE_FILE: Final = "metastore.db"
EXIT_STOPPED: Final = 0
EXIT_CANNOT_START: Final = 2

_log = structlog.get_logger("hermes.serve")


def main(arguments: Sequence[str]) -> int:
    """`hermes serve ARGUMENTS`: the exit code."""
    is_supervised = SUPERVISED_FLAG in arguments
    try:
        settings = read_broker_settings([text for text in arguments if text != SUPERVISED_FLAG])
    except ConfigError as error:
        return _refuse(str(error))
    return run(settings, is_supervised=is_supervised)


def run(settings: BrokerSettings, *, is_supervised: bool = False) -> int:
    """Serve until a signal (or, supervised, the end of standard input): the exit code."""
    if sys.flags.optimize:
        return _refuse("refusing to run under python -O: asserts are part of this broker")
    configure_logging(settings.hermes_log_level, settings.hermes_log_format)
    tune_allocator(memory_limit_bytes())
    raise_descriptor_limit()
    try:
        asyncio.run(serve(settings, is_supervised=is_supervised))
    except StartupError as error:
        return _refuse(str(error))
    return EXIT_STOPPED


async def serve(settings: BrokerSettings, *, is_supervised: bool = False) -> None:
    """Serve until SIGINT, SIGTERM or, supervised, the end of standard input. Raises
    StartupError.
    """
    stopping = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, stopping.set)
    if is_supervised:
        loop.add_reader(sys.stdin.fileno(), _watch_supervisor, stopping)
    clock = SystemClock()
    disk, metastore = await _open_storage(settings, clock)
    workers = ProcessWorker(REQUESTS_NICENESS), ProcessWorker(UPKEEP_NICENESS)
    broker = Broker(settings, disk, clock, SystemNetwork(), metastore, SystemIds(), *workers)
    broker.limit_memory(memory_limit_bytes())
    endpoint = MetricsEndpoint(broker)
    try:
        await endpoint.start()
        await broker.start()
        end_loading()
        print(ready_line(broker, endpoint), flush=True)  # noqa: T201 - the supervisor reads it
        await stopping.wait()
    finally:
        await broker.stop()
        await endpoint.stop()
        for worker in workers:
            worker.close()
        await metastore.close()
        disk.close()


def ready_line(broker: Broker, endpoint: MetricsEndpoint) -> str:
    """What a supervisor waits for on standard output.

    Port 0 of metrics means that none are served.
    """
    kafka = f"{broker.advertised_host}:{broker.advertised_port}"
    return f"ready kafka={kafka} metrics={broker.settings.hermes_metrics_host}:{endpoint.port}"


async def _open_storage(
    settings: BrokerSettings, clock: SystemClock
) -> tuple[SystemDisk, SqliteMetastore]:
    try:
        disk = SystemDisk(settings.log_dir)
        disk.lock()
        is_known = read_meta(disk) is not None
        if is_known and not disk.exists(METASTORE_FILE):
            raise StartupError(
                f"{disk.root / METASTORE_FILE} is missing, and with it the list of topics whose "
                "records are here: restore that file from a backup. Nothing was changed."
            )
        return disk, await SqliteMetastore.open(disk.root / METASTORE_FILE, clock)
    except (DataDirectoryRefused, DiskFault, MetastoreFault) as error:
        raise StartupError(str(error)) from error


def _watch_supervisor(stopping: asyncio.Event) -> None:
    """The supervisor never writes: readable means that its end of the pipe is gone."""
    if not os.read(sys.stdin.fileno(), 1024):
        asyncio.get_running_loop().remove_reader(sys.stdin.fileno())
        stopping.set()


def _refuse(reason: str) -> int:
    print(f"hermes serve: {reason}", file=sys.stderr)  # noqa: T201 - the operator reads it
    return EXIT_CANNOT_START
