"""The composition root: one broker built from its ports.

Start: cluster id, catalog, logs (a bounded number at a time), leader epochs, groups, listener. Stop
is the reverse; whatever was answered is written, and logs are checkpointed so that the next start
recovers nothing.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Coroutine
from typing import Final

import structlog

from broker.config.broker import BrokerSettings
from broker.config.setting import ConfigError
from broker.log.directory import DataDirectoryRefused, claim, read_meta
from broker.metastore import keys
from broker.metastore.keys import ClusterValue, UnreadableValue
from broker.metrics import Metrics
from broker.model import INT64_MAX, BrokerId, format_uuid
from broker.ports import (
    Clock,
    Condition,
    Disk,
    DiskFault,
    IdSource,
    Listener,
    Metastore,
    MetastoreFault,
    Network,
    Put,
    Worker,
)
from broker.runtime.tasks import TaskScope
from broker.server.catalog import Catalog
from broker.server.fetch_sessions import FetchSessions
from broker.server.groups import GroupCoordinator
from broker.server.journal import Journal
from broker.server.limits import (
    FETCH_MEMORY_BYTES,
    FETCH_MEMORY_SHARE,
    REQUEST_MEMORY_SHARE,
    MemoryBudget,
)
from broker.server.listener import ConnectionTable
from broker.server.loop_lag import watch_loop_lag
from broker.server.maintenance import Maintenance
from broker.server.openings import Openings
from broker.server.partitions import PartitionRegistry
from broker.server.routes import build_routes
from broker.server.scrubbing import Scrubbing
from broker.server.space import DiskSpace
from broker.server.startup import StartupError
from broker.server.storage import prepare_directories
from broker.server.synced_ends import SyncedEnds
from broker.server.syncing import SyncRounds
from broker.server.turn import Turn
from broker.server.waiting import Deadline, Deadlines
from broker.wire.api import PRODUCE

_log = structlog.get_logger("hermes.broker")

_CANNOT_START: Final = (
    DataDirectoryRefused,
    DiskFault,
    MetastoreFault,
    UnreadableValue,
    ConfigError,
    OSError,
)
"""What a start may run into besides bugs; each says in one sentence what to do."""


class Broker:
    """One node. `await start()`, then it serves until `await stop()`.

    `settings` is an immutable snapshot that the catalog exchanges: read it at use, never keep a
    field of it. Requests wait for `worker`; the cleaner and the scrub have `upkeep_worker`, else
    the same one.
    """

    def __init__(
        self,
        settings: BrokerSettings,
        disk: Disk,
        clock: Clock,
        network: Network,
        metastore: Metastore,
        ids: IdSource,
        worker: Worker,
        upkeep_worker: Worker | None = None,
    ) -> None:
        self.settings = settings
        self.disk = disk
        self.clock = clock
        self.network = network
        self.metastore = metastore
        self.ids = ids
        self.worker = worker
        self.upkeep_worker = worker if upkeep_worker is None else upkeep_worker
        self.node_id = settings.node_id
        self.broker_id = BrokerId(settings.node_id)
        self.cluster_id = ""
        self.advertised_host = ""
        self.advertised_port = 0
        self.kafka_port = 0
        self.started_ms = clock.monotonic_ms()
        self.is_ready = False
        self.metrics = Metrics()
        self.turn = Turn()
        self.deadlines = Deadlines(clock, self.turn.settle)
        self.fetch_memory = MemoryBudget(FETCH_MEMORY_BYTES)
        self.request_bytes_max = INT64_MAX
        self.fetch_sessions = FetchSessions(ids)
        self.routes = build_routes(self.metrics)
        self.produce_metrics = self.routes[PRODUCE].metrics
        self.maintenance = Maintenance(self)
        self.scrubbing = Scrubbing(self)
        self.space = DiskSpace(self)
        self.openings = Openings(worker, self.metrics)
        self.journal = Journal(
            disk, clock, ids, self.metrics, self.spawn, lambda: self.space.mark_bytes
        )
        self.sync_rounds = SyncRounds(disk, clock, self.metrics, self.turn, self.journal)
        self.synced_ends = SyncedEnds(self)
        self.partitions = PartitionRegistry(self)
        self.catalog = Catalog(self)
        self.groups = GroupCoordinator(self)
        self.connections = ConnectionTable(self)
        self._tasks = TaskScope(f"broker-{self.node_id}")
        self._listener: Listener | None = None
        self._is_stopped = False

    def limit_memory(self, memory_bytes: int) -> None:
        """Before `start`: the process may use so much in all."""
        self.fetch_memory.limit_bytes = min(FETCH_MEMORY_BYTES, memory_bytes // FETCH_MEMORY_SHARE)
        self.request_bytes_max = memory_bytes // REQUEST_MEMORY_SHARE

    async def start(self) -> None:
        """Serve. Raises StartupError with one sentence for the operator."""
        try:
            await self._start()
        except OSError as error:
            raise StartupError(error.strerror or str(error)) from error  # without its number
        except _CANNOT_START as error:
            raise StartupError(str(error)) from error

    async def stop(self) -> None:
        """Refuse new work, answer what can be answered, checkpoint, close. Stopping twice is
        fine.
        """
        self.is_ready = False
        if self._listener is not None:
            await self._listener.close()
            self._listener = None
        await self.groups.stop()
        await self.connections.close_all(self.settings.hermes_shutdown_timeout_ms)
        self._is_stopped = True
        await self._tasks.close()
        self.turn.settle()
        self.deadlines.close()
        await self.sync_rounds.settle_at_stop()
        await self.partitions.close()
        _log.info("stopped", node_id=self.node_id)

    def spawn(self, work: Awaitable[None]) -> None:
        """Run `work` as a task of this broker; cancelled at stop, not begun after it. An exception
        of it is logged.
        """
        if self._is_stopped and isinstance(work, Coroutine):
            work.close()
            return
        self._tasks.spawn(work)

    def call_later(self, delay_ms: float, callback: Callable[[], None]) -> Deadline:
        """Run `callback` on the loop after `delay_ms` on the broker's clock; the result has
        `cancel()`.
        """
        return self.deadlines.add(delay_ms, callback)

    async def _start(self) -> None:
        await self._tasks.start()
        self.spawn(self.sync_rounds.run())
        self.spawn(self.sync_rounds.settle_forever())
        await self._claim()
        await prepare_directories(self.disk)
        await self.catalog.load()
        self.synced_ends.load()
        await self.journal.replay()
        opened = await self.partitions.open_logs(self.catalog.topics())
        known: dict[tuple[bytes, int], int] = {
            (found.topic.topic_id, found.partition): found.log.latest_epoch
            for found in opened
            if found.log is not None
        }
        await self.catalog.begin_leader_epochs(known)
        await self.partitions.serve(opened)
        self.maintenance.start()
        self.scrubbing.start()
        self.spawn(self.sync_rounds.try_sync_all())
        self.spawn(self.synced_ends.run())
        self.spawn(self.space.watch())
        self.spawn(watch_loop_lag(self.clock, self.metrics))
        self.spawn(self.connections.sweep_forever())
        await self.groups.start()
        await self._listen()
        self.is_ready = True
        _log.info(
            "serving",
            node_id=self.node_id,
            cluster_id=self.cluster_id,
            kafka=f"{self.advertised_host}:{self.advertised_port}",
            partitions=len(self.partitions),
        )

    async def _listen(self) -> None:
        address = self.settings.listener
        self._listener = await self.network.listen(
            address.host, address.port, self.connections.make
        )
        self.kafka_port = self._listener.port
        advertised = self.settings.advertised_listener
        self.advertised_host = advertised.host if advertised else address.host
        self.advertised_port = advertised.port if advertised else self.kafka_port

    async def _claim(self) -> None:
        """Make sure that directory and metastore belong together; a new pair becomes ours.

        The metastore is written first: whatever a crash leaves in between is taken up again.
        """
        meta = read_meta(self.disk)
        entry = await self.metastore.read(keys.CLUSTER)
        if entry is not None:
            self.cluster_id = ClusterValue.decode(entry.value).cluster_id
        elif meta is not None:
            raise StartupError(
                "the metastore is empty although the data directory is not: restore the "
                "metastore's file from a backup"
            )
        else:
            self.cluster_id = format_uuid(self.ids.uuid())
            put = Put(keys.CLUSTER, ClusterValue(self.cluster_id).encode())
            if await self.metastore.transact([Condition(keys.CLUSTER, 0)], [put]) is None:
                raise StartupError("another broker founds a cluster here: start again")
        await claim(self.disk, node_id=self.node_id, cluster_id=self.cluster_id)
