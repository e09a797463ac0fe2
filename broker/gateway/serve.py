"""`hermes gateway`: one gateway, from its settings to its exit code.

Exit codes: 0 stopped as asked, 1 another gateway took over, 2 cannot start (one sentence on stderr
says why and what to do). It listens at once and answers 503 until the cluster answers and the ids
of the window are read.
"""

from __future__ import annotations

import asyncio
import gc
import os
import signal
import sys
from collections.abc import Callable, Sequence
from typing import Final, cast

import structlog

from broker.client.cluster import Cluster, parse_address
from broker.client.failure import ClientError, Unsupported
from broker.config.client import ClientSettings
from broker.config.gateway import GatewaySettings
from broker.config.setting import ConfigError
from broker.config.sources import GATEWAY_PREFIX
from broker.gateway.access_log import AccessLog
from broker.gateway.api import Api, Services
from broker.gateway.health import Health
from broker.gateway.ledger import Ledger
from broker.gateway.problem import Problem
from broker.gateway.putting import Putting
from broker.gateway.reading import Reading
from broker.gateway.recovery import TopicRefused, recover, refusal_of
from broker.gateway.sender import Sender
from broker.gateway.server import GatewayServer
from broker.metrics import GatewayMetrics
from broker.model import format_uuid
from broker.ports import Listener, StreamHandler
from broker.runtime.clock import SystemClock
from broker.runtime.descriptors import raise_descriptor_limit
from broker.runtime.ids import SystemIds
from broker.runtime.logs import configure_logging
from broker.runtime.memory import tune_allocator
from broker.runtime.memory_limit import memory_limit_bytes
from broker.runtime.network import SystemNetwork
from broker.runtime.settings_source import read_settings
from broker.runtime.tasks import TaskScope

SUPERVISED_FLAG: Final = "--supervised"
CLIENT_ID: Final = "hermes-gateway"
EXIT_STOPPED: Final = 0
EXIT_FENCED: Final = 1
EXIT_CANNOT_START: Final = 2
RETRY_S: Final = 0.5
COLLECT_AFTER: Final = (20_000, 20, 20)
"""A batch makes thousands of objects that end with it: looking through them costs a tenth."""
METADATA_MS: Final = 10_000
"""How soon it is seen that a topic has grown, or was created anew."""
DRAIN_S: Final = 5.0
CLOSE_S: Final = 3.0

_log = structlog.get_logger("hermes.gateway")


class CannotStart(Exception):
    """The sentence says why and what to do."""


def main(arguments: Sequence[str]) -> int:
    """`hermes gateway ARGUMENTS`: the exit code."""
    is_supervised = SUPERVISED_FLAG in arguments
    words = [text for text in arguments if text != SUPERVISED_FLAG]
    try:
        settings = read_settings(GatewaySettings, GATEWAY_PREFIX, words)
        for address in settings.bootstrap_servers:
            parse_address(address)
    except (ConfigError, Unsupported) as error:
        return _refuse(str(error))
    configure_logging(settings.log_level, settings.log_format)
    tune_allocator(memory_limit_bytes())
    raise_descriptor_limit()
    gc.set_threshold(*COLLECT_AFTER)
    gc.collect()
    gc.freeze()
    try:
        return asyncio.run(Gateway(settings).run(is_supervised=is_supervised))
    except CannotStart as error:
        return _refuse(str(error))


class Gateway:
    """One process's composition. `await run()` returns its exit code."""

    def __init__(self, settings: GatewaySettings) -> None:
        self.settings = settings
        self.metrics = GatewayMetrics()
        self.clock = SystemClock()
        self.ids = SystemIds()
        self._stopping = asyncio.Event()
        self._exit_code = EXIT_STOPPED
        self._failure: CannotStart | None = None
        self._scope = TaskScope("gateway")
        self._cluster: Cluster | None = None
        self._sender: Sender | None = None
        self._ledger: Ledger | None = None
        self._reading: Reading | None = None
        self._health = Health(self.metrics)
        self._access_log = AccessLog(
            self.clock, kinds=settings.access_log, is_json=settings.log_format == "json"
        )
        self._api = Api(
            self.clock, self.ids, settings, self.metrics, self._health, self._access_log
        )

    async def run(self, *, is_supervised: bool) -> int:
        """Serve until SIGINT, SIGTERM or, supervised, the end of standard input. Raises
        CannotStart.
        """
        loop = asyncio.get_running_loop()
        for number in (signal.SIGINT, signal.SIGTERM):
            loop.add_signal_handler(number, self._stopping.set)
        if is_supervised:
            loop.add_reader(sys.stdin.fileno(), self._watch_supervisor)
        server = GatewayServer(
            self._api.handle,
            self.metrics,
            connections_max=self.settings.connections_max,
            read_ms=self.settings.request_read_ms,
            body_bytes_max=self.settings.request_bytes_max,
        )
        await self._scope.start()
        listener: Listener | None = None
        try:
            listener = await self._listen(server)
            host = self.settings.host or "localhost"  # "" is every interface
            shown = f"[{host}]" if ":" in host else host
            address = f"http://{shown}:{listener.port}"
            self._scope.spawn(server.sweep(), "sweep")
            self._scope.spawn(self._access_log.run(), "access-log")
            self._scope.spawn(self._open(address), "open")
            await self._stopping.wait()
        finally:
            self._health.reasons = ["the gateway stops"]
            if listener is not None:
                await listener.close()
            await self._stop(server)
        if self._failure is not None:
            raise self._failure
        return self._exit_code

    async def _listen(self, server: GatewayServer) -> Listener:
        """The listener that stays alive without descriptors. Raises CannotStart."""
        host, port = self.settings.host, self.settings.port
        make = cast("Callable[[], StreamHandler]", server)  # asyncio tells kinds of protocols apart
        try:
            return await SystemNetwork().listen(host, port, make)
        except OSError as error:
            raise CannotStart(f"{error.strerror} (--host, --port)") from None

    async def _open(self, address: str) -> None:
        """Reach the cluster and read the ids, again and again until that works."""
        gateway = format_uuid(self.ids.uuid())
        while True:
            try:
                await self._open_once(gateway)
                break
            except TopicRefused as error:
                self._failure = CannotStart(str(error))
                self._stopping.set()
                return
            except (ClientError, Problem) as error:
                reason = refusal_of(error)
                if self._health.reasons != [reason]:
                    _log.warning("not ready", reason=reason)
                self._health.reasons = [reason]
            await self._discard()
            await asyncio.sleep(RETRY_S)
        gc.collect()
        gc.freeze()
        self._health.reasons = []
        print(f"ready gateway={address}", flush=True)  # noqa: T201 - the supervisor reads it

    async def _open_once(self, gateway: str) -> None:
        settings = self.settings
        client = ClientSettings(
            bootstrap_servers=settings.bootstrap_servers,
            client_id=CLIENT_ID,
            request_timeout_ms=settings.request_timeout_ms,
            metadata_max_age_ms=METADATA_MS,
        )
        cluster = self._cluster = Cluster(SystemNetwork(), self.clock, self.ids, client)
        await cluster.start()
        sender = self._sender = Sender(cluster, settings.request_timeout_ms)
        ledger = await recover(
            cluster, sender, self.metrics, settings, gateway=gateway, on_fenced=self._on_fenced
        )
        putting = Putting(cluster, sender, ledger, settings, self.metrics)
        self._reading = Reading(cluster, settings, self.metrics)
        self._ledger = self._health.ledger = ledger
        self._scope.spawn(ledger.run(), "ledger")
        self._scope.spawn(putting.run(), "putting")
        self._api.services = Services(putting, self._reading)
        _log.info("ids", count=len(ledger.index), open_partitions=len(ledger.unread))

    async def _discard(self) -> None:
        """Undo what an attempt to open has begun."""
        if self._sender is not None:
            await self._sender.close()
            self._sender = None
        if self._cluster is not None:
            await self._cluster.close()
            self._cluster = None

    def _on_fenced(self, reason: str) -> None:
        if self._stopping.is_set():
            return
        _log.error(
            "another gateway took over these ids: this one stops",
            topic=self.settings.dedup_topic,
            reason=reason,
        )
        self._exit_code = EXIT_FENCED
        self._api.services = None
        self._health.reasons = ["another gateway took over"]
        if self._sender is not None:
            self._sender.give_up()
        self._stopping.set()

    async def _stop(self, server: GatewayServer) -> None:
        await asyncio.sleep(0)  # requests that have arrived begin before idle connections end
        server.pre_shutdown()
        await server.shutdown(DRAIN_S)
        sender, ledger = self._sender, self._ledger
        if sender is not None and ledger is not None and self._exit_code == EXIT_STOPPED:
            try:
                async with asyncio.timeout(CLOSE_S):
                    await sender.drain()
                    await self._scope.close()
                    await ledger.close()
            except TimeoutError:
                _log.warning("the cluster did not answer: the next start reads what is open")
        await self._scope.close()
        if self._reading is not None:
            self._reading.close()
        await self._discard()
        self._access_log.close()

    def _watch_supervisor(self) -> None:
        """The supervisor never writes: readable means that its end of the pipe is gone."""
        if not os.read(sys.stdin.fileno(), 1024):
            asyncio.get_running_loop().remove_reader(sys.stdin.fileno())
            self._stopping.set()


def _refuse(reason: str) -> int:
    print(f"hermes gateway: {reason}", file=sys.stderr)  # noqa: T201 - the operator reads it
    return EXIT_CANNOT_START
