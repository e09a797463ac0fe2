"""The composition root: one broker built from its ports."""

from __future__ import annotations

from collections.abc import Awaitable
from typing import TYPE_CHECKING, Any

from broker.ports import Clock, Disk, IdSource, Metastore, Network, Worker

if TYPE_CHECKING:
    from broker.server.partitions import PartitionRegistry


class Broker:
    """One node. `await start()`, then it serves until `await stop()`.

    `settings` is an immutable snapshot: read it at use, never keep a field of it.
    """

    partitions: PartitionRegistry
    catalog: Any
    groups: Any
    metrics: Any
    node_id: int
    cluster_id: str
    kafka_port: int
    advertised_host: str
    advertised_port: int

    def __init__(
        self,
        settings: Any,
        disk: Disk,
        clock: Clock,
        network: Network,
        metastore: Metastore,
        ids: IdSource,
        worker: Worker,
    ) -> None:
        self.settings = settings
        self.disk = disk
        self.clock = clock
        self.network = network
        self.metastore = metastore
        self.ids = ids
        self.worker = worker

    async def start(self) -> None:
        """Lock, meta.properties, catalog, partitions, groups, listener. Raises StartupError with a sentence."""
        raise NotImplementedError

    async def stop(self) -> None:
        """Refuse new work, answer what can be answered, checkpoint, close."""
        raise NotImplementedError

    def spawn(self, work: Awaitable[None]) -> None:
        """Run `work` as a task of this broker; cancelled at stop. An exception of it is logged and counted."""
        raise NotImplementedError

    def call_later(self, delay_ms: float, callback: Any) -> Any:
        """A timer on the broker's clock; the result has `.cancel()`."""
        raise NotImplementedError
