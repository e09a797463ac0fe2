"""The client for code without an event loop: a thread with a loop of its own, and calls that always
return.

Every call ends within its timeout, by a result or a ClientError; the thread starts with the first
call. One object may be used by many threads. The console imports what it needs of the client from
here.
"""

from __future__ import annotations

import asyncio
import concurrent.futures
import threading
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from types import TracebackType
from typing import Final, TypeVar

from broker.client import admin, admin_groups
from broker.client.admin import ClusterDescription, ConfigEntry, NewTopic
from broker.client.admin_groups import GroupDescription, GroupListing, GroupMember
from broker.client.cluster import Cluster, Node, PartitionView, TopicView
from broker.client.failure import (
    BrokerRefusal,
    ClientError,
    ConnectionLost,
    ErrorCode,
    TimedOut,
    Unsupported,
)
from broker.client.fetcher import ConsumedRecord, Fetcher
from broker.client.offsets import (
    EARLIEST,
    LATEST,
    NEWEST_TIMESTAMP,
    CommittedOffset,
    OffsetAtTime,
)
from broker.client.producer import Producer, RecordMetadata
from broker.config.client import ClientSettings
from broker.model import TopicPartition
from broker.runtime.clock import SystemClock
from broker.runtime.ids import SystemIds
from broker.runtime.network import SystemNetwork

__all__ = [
    "EARLIEST",
    "LATEST",
    "NEWEST_TIMESTAMP",
    "BlockingClient",
    "BrokerRefusal",
    "ClientError",
    "ClusterDescription",
    "CommittedOffset",
    "ConfigEntry",
    "ConnectionLost",
    "ConsumedRecord",
    "ErrorCode",
    "GroupDescription",
    "GroupListing",
    "GroupMember",
    "NewTopic",
    "Node",
    "OffsetAtTime",
    "PartitionView",
    "RecordMetadata",
    "TimedOut",
    "TopicPartition",
    "TopicView",
    "Unsupported",
]

T = TypeVar("T")
GRACE_S: Final = 2.0
"""How much longer than its timeout a call may take before its thread is given up."""
READ_STEP_MS: Final = 250


class BlockingClient:
    """A client of the cluster at `bootstrap` ("host:port,host:port"). Also a context manager.

    `timeout_ms` bounds each call, repeats included.
    """

    def __init__(
        self, bootstrap: str, *, client_id: str = "hermes", timeout_ms: int = 10_000
    ) -> None:
        servers = tuple(part.strip() for part in bootstrap.split(",") if part.strip())
        if not servers:
            msg = "no bootstrap address"
            raise Unsupported(msg)
        self.bootstrap = bootstrap
        self._timeout_ms = timeout_ms
        self._settings = ClientSettings(
            bootstrap_servers=servers,
            client_id=client_id,
            request_timeout_ms=timeout_ms,
            socket_connection_setup_timeout_ms=max(1, timeout_ms // 2),
            delivery_timeout_ms=timeout_ms,
            linger_ms=0,
        )
        self._lock = threading.Lock()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._thread: threading.Thread | None = None
        self._cluster: Cluster | None = None
        self._producer: Producer | None = None
        self._is_closed = False

    def __enter__(self) -> BlockingClient:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def close(self) -> None:
        """End connections and the thread; calls that wait fail. Closing twice is fine."""
        with self._lock:
            self._is_closed = True
            loop, thread = self._loop, self._thread
            self._loop = None
        if loop is None or thread is None:
            return
        asyncio.run_coroutine_threadsafe(self._shut_down(), loop)
        thread.join(GRACE_S)

    def describe_cluster(self) -> ClusterDescription:
        """The cluster's id, controller and brokers."""
        return self.run(admin.describe_cluster)

    def list_topics(self, *, with_internal: bool = False) -> list[TopicView]:
        """Every topic, by name."""
        return self.run(lambda cluster: admin.list_topics(cluster, with_internal=with_internal))

    def describe_topic(self, name: str) -> TopicView:
        """One topic as it is now."""
        return self.run(lambda cluster: admin.describe_topic(cluster, name))

    def create_topic(
        self,
        name: str,
        *,
        partition_count: int = -1,
        replication_factor: int = -1,
        configs: Mapping[str, str] | None = None,
        validate_only: bool = False,
    ) -> None:
        """Create a topic; -1 leaves the number to the broker."""
        topic = NewTopic(name, partition_count, replication_factor, configs or {})
        self.run(lambda cluster: admin.create_topics(cluster, [topic], validate_only=validate_only))

    def delete_topics(self, names: Sequence[str]) -> None:
        """Delete topics and everything in them."""
        self.run(lambda cluster: admin.delete_topics(cluster, names))

    def create_partitions(self, topic: str, partition_count: int) -> None:
        """Grow a topic to `partition_count` partitions."""
        self.run(lambda cluster: admin.create_partitions(cluster, topic, partition_count))

    def topic_configs(self, names: Iterable[str]) -> dict[str, dict[str, ConfigEntry]]:
        """Topic -> setting -> entry."""
        return self.run(lambda cluster: admin.describe_topic_configs(cluster, names))

    def broker_configs(self, node_id: int) -> dict[str, ConfigEntry]:
        """Setting -> entry of one broker."""
        return self.run(lambda cluster: admin.describe_broker_configs(cluster, node_id))

    def alter_topic_config(
        self, topic: str, changes: Mapping[str, str | None], *, validate_only: bool = False
    ) -> None:
        """Set settings of a topic; None takes an override away."""
        self.run(
            lambda cluster: admin.alter_topic_config(
                cluster, topic, changes, validate_only=validate_only
            )
        )

    def alter_broker_config(
        self, changes: Mapping[str, str | None], *, node_id: int = admin.BROKER_DEFAULT
    ) -> None:
        """Set dynamic settings of one broker, or of all; None takes them away."""
        self.run(lambda cluster: admin.alter_broker_config(cluster, changes, node_id=node_id))

    def list_groups(self) -> list[GroupListing]:
        """The groups of all brokers, by id."""
        return self.run(admin_groups.list_groups)

    def describe_groups(self, group_ids: Sequence[str]) -> list[GroupDescription]:
        """State, members and assignments of each group."""
        return self.run(lambda cluster: admin_groups.describe_groups(cluster, group_ids))

    def delete_groups(self, group_ids: Sequence[str]) -> None:
        """Forget groups without members, and their commits."""
        self.run(lambda cluster: admin_groups.delete_groups(cluster, group_ids))

    def committed_offsets(
        self, group_ids: Iterable[str]
    ) -> dict[str, dict[TopicPartition, CommittedOffset] | BrokerRefusal]:
        """Per group all its commits, or why they could not be read."""
        return self.run(lambda cluster: admin_groups.committed_offsets(cluster, group_ids))

    def set_committed_offsets(self, group_id: str, offsets: Mapping[TopicPartition, int]) -> None:
        """Store offsets for a group without members."""
        self.run(lambda cluster: admin_groups.set_committed_offsets(cluster, group_id, offsets))

    def offsets(self, wanted: Mapping[TopicPartition, int]) -> dict[TopicPartition, OffsetAtTime]:
        """Per partition the offset at a timestamp (ms), or at EARLIEST, LATEST, NEWEST_TIMESTAMP.

        Partitions that do not exist (any more) are left out.
        """
        return self.run(lambda cluster: admin_groups.offsets_where_known(cluster, wanted))

    def produce(
        self,
        topic: str,
        value: bytes | None,
        *,
        key: bytes | None = None,
        partition: int | None = None,
        headers: Sequence[tuple[str, bytes | None]] = (),
    ) -> RecordMetadata:
        """Store one record, acknowledged by all in-sync replicas."""

        async def send(cluster: Cluster) -> RecordMetadata:
            if self._producer is None:
                self._producer = Producer(cluster)
                await self._producer.start()
            return await self._producer.send_and_wait(
                topic, value, key=key, partition=partition, headers=headers
            )

        return self.run(send)

    def read(
        self, topic: str, partition: int, offset: int, *, count_max: int, wait_ms: int = 1_000
    ) -> list[ConsumedRecord]:
        """Up to `count_max` records from `offset` on; fewer when no more come within `wait_ms`."""

        async def fetch(cluster: Cluster) -> list[ConsumedRecord]:
            fetcher = Fetcher(cluster)
            fetcher.assign({TopicPartition(topic, partition): offset})
            deadline_ms = cluster.clock.monotonic_ms() + wait_ms
            records: list[ConsumedRecord] = []
            try:
                while len(records) < count_max:
                    left_ms = int(deadline_ms - cluster.clock.monotonic_ms())
                    if left_ms <= 0:
                        break
                    records += await fetcher.poll(min(left_ms, READ_STEP_MS))
            finally:
                fetcher.close()
            return records[:count_max]

        return self.run(fetch)

    def run(self, work: Callable[[Cluster], Awaitable[T]], *, timeout_ms: int | None = None) -> T:
        """The result of `work`, which runs on the client's loop. Raises what it raises, or
        TimedOut.
        """
        allowed_ms = self._timeout_ms if timeout_ms is None else timeout_ms
        loop = self._start()
        assert threading.current_thread() is not self._thread, "a call from the client's own thread"
        future = asyncio.run_coroutine_threadsafe(self._bounded(work, allowed_ms), loop)
        try:
            return future.result(allowed_ms / 1000 + GRACE_S)
        except concurrent.futures.TimeoutError:
            future.cancel()
            msg = f"no result within {allowed_ms} ms"
            raise TimedOut(msg) from None
        except concurrent.futures.CancelledError:
            msg = "the client was closed"
            raise ClientError(msg) from None

    async def _bounded(self, work: Callable[[Cluster], Awaitable[T]], timeout_ms: int) -> T:
        assert self._cluster is not None, "the loop runs with a cluster"
        try:
            async with asyncio.timeout(timeout_ms / 1000):
                return await work(self._cluster)
        except TimeoutError:
            msg = f"no result within {timeout_ms} ms from {self.bootstrap}"
            raise TimedOut(msg) from None

    def _start(self) -> asyncio.AbstractEventLoop:
        with self._lock:
            if self._is_closed:
                msg = "the client is closed"
                raise ClientError(msg)
            if self._loop is None:
                self._loop = asyncio.new_event_loop()
                self._cluster = Cluster(SystemNetwork(), SystemClock(), SystemIds(), self._settings)
                self._thread = threading.Thread(
                    target=_run_loop, args=(self._loop,), name="hermes-client", daemon=True
                )
                self._thread.start()
            return self._loop

    async def _shut_down(self) -> None:
        loop = asyncio.get_running_loop()
        me = asyncio.current_task()
        if self._producer is not None:
            await self._producer.close(timeout_ms=500)
        if self._cluster is not None:
            await self._cluster.close()
        others = [task for task in asyncio.all_tasks() if task is not me]
        for task in others:
            task.cancel()
        if others:
            await asyncio.wait(others, timeout=GRACE_S / 2)
        loop.call_soon(loop.stop)


def _run_loop(loop: asyncio.AbstractEventLoop) -> None:
    asyncio.set_event_loop(loop)
    try:
        loop.run_forever()
    finally:
        loop.close()
