"""The client for code without an event loop: calls that always return.

Every call ends within its timeout, by a result or a ClientError; the thread starts with the first
call. One object may be used by many threads. The console imports what it needs of the client from
here. What is refused for one topic, partition, group or resource of many is an item of the result;
a call about one thing raises it.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from types import TracebackType
from typing import TypeVar

from broker.client import admin, admin_configs, admin_groups, admin_partitions
from broker.client.admin import ApiRange, ClusterDescription, NewTopic, TopicCreated
from broker.client.admin_configs import (
    ConfigChange,
    ConfigEntry,
    ConfigOperation,
    ConfigResource,
    ConfigSynonym,
    ResourceKind,
)
from broker.client.admin_groups import GroupDescription, GroupListing, GroupMember
from broker.client.admin_partitions import (
    PREFERRED,
    TO_HIGH_WATERMARK,
    UNCLEAN,
    ActiveProducer,
    LogDir,
    Reassignment,
    ReplicaSize,
)
from broker.client.batches import Batch
from broker.client.blocking_loop import BlockingLoop
from broker.client.blocking_reader import BlockingReader
from broker.client.cluster import ANY_NODE, Cluster, Node, PartitionView, TopicView
from broker.client.failure import (
    BrokerRefusal,
    ClientError,
    ConnectionLost,
    ErrorCode,
    TimedOut,
    Unsupported,
)
from broker.client.fetcher import ConsumedRecord
from broker.client.offsets import (
    EARLIEST,
    EARLIEST_LOCAL,
    LATEST,
    LATEST_TIERED,
    NEWEST_TIMESTAMP,
    CommittedOffset,
    OffsetAtTime,
)
from broker.client.partitioner import murmur2_partition
from broker.client.producer import ACKS_ALL, Producer, RecordMetadata
from broker.client.reading import (
    FETCH_BYTES_DEFAULT,
    READ_COMMITTED,
    READ_UNCOMMITTED,
    Fetched,
    PartitionReader,
)
from broker.client.windows import WindowCounts, count_window, has_window
from broker.model import TopicPartition
from broker.records.iterate import Record
from broker.runtime.guarded import Permit

__all__ = [
    "ANY_NODE",
    "EARLIEST",
    "EARLIEST_LOCAL",
    "FETCH_BYTES_DEFAULT",
    "LATEST",
    "LATEST_TIERED",
    "NEWEST_TIMESTAMP",
    "PREFERRED",
    "READ_COMMITTED",
    "READ_UNCOMMITTED",
    "TO_HIGH_WATERMARK",
    "UNCLEAN",
    "ActiveProducer",
    "ApiRange",
    "Batch",
    "BlockingClient",
    "BlockingReader",
    "BrokerRefusal",
    "ClientError",
    "ClusterDescription",
    "CommittedOffset",
    "ConfigChange",
    "ConfigEntry",
    "ConfigOperation",
    "ConfigResource",
    "ConfigSynonym",
    "ConnectionLost",
    "ConsumedRecord",
    "ErrorCode",
    "Fetched",
    "GroupDescription",
    "GroupListing",
    "GroupMember",
    "LogDir",
    "NewTopic",
    "Node",
    "OffsetAtTime",
    "PartitionView",
    "Reassignment",
    "Record",
    "RecordMetadata",
    "ReplicaSize",
    "ResourceKind",
    "TimedOut",
    "TopicCreated",
    "TopicPartition",
    "TopicView",
    "Unsupported",
    "WindowCounts",
    "has_window",
    "murmur2_partition",
]

T = TypeVar("T")


class BlockingClient:
    """A client of the cluster at `bootstrap` ("host:port,host:port"). Also a context manager.

    `timeout_ms` bounds each call, repeats included. `permit(name, address, port)` raises OSError
    for what must not be connected to, bootstrap and advertised addresses alike.
    """

    def __init__(
        self,
        bootstrap: str,
        *,
        client_id: str = "hermes",
        timeout_ms: int = 10_000,
        permit: Permit | None = None,
    ) -> None:
        self.bootstrap = bootstrap
        self._loop = BlockingLoop(
            bootstrap,
            client_id=client_id,
            timeout_ms=timeout_ms,
            on_close=self._close_producers,
            permit=permit,
        )
        self._producers: dict[tuple[int, str], Producer] = {}

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
        self._loop.close()

    def run(self, work: Callable[[Cluster], Awaitable[T]], *, timeout_ms: int | None = None) -> T:
        """The result of `work`, which runs on the client's loop. Raises what it raises, or
        TimedOut.
        """
        return self._loop.run(work, timeout_ms=timeout_ms)

    def describe_cluster(self) -> ClusterDescription:
        """The cluster's id, controller and brokers."""
        return self.run(admin.describe_cluster)

    def api_versions(self, node_id: int = ANY_NODE) -> list[ApiRange]:
        """What a broker (ANY_NODE: whichever is connected) offers, by key."""
        return self.run(lambda cluster: admin.api_versions(cluster, node_id))

    def list_topics(self, *, with_internal: bool = False) -> list[TopicView]:
        """Every topic, by name."""
        return self.run(lambda cluster: admin.list_topics(cluster, with_internal=with_internal))

    def describe_topic(self, name: str) -> TopicView:
        """One topic as it is now. Raises BrokerRefusal, at once when there is none."""
        return self.run(lambda cluster: admin.describe_topic(cluster, name))

    def describe_topics(self, names: Sequence[str]) -> dict[str, TopicView | BrokerRefusal]:
        """Per topic what it is now, or why it could not be described."""
        return self.run(lambda cluster: admin.describe_topics(cluster, names))

    def create_topic(
        self,
        name: str,
        *,
        partition_count: int = -1,
        replication_factor: int = -1,
        configs: Mapping[str, str | None] | None = None,
        validate_only: bool = False,
    ) -> None:
        """Create a topic; -1 leaves the number to the broker. Raises BrokerRefusal."""
        topic = NewTopic(name, partition_count, replication_factor, configs or {})
        self.run(lambda cluster: admin.create_topics(cluster, [topic], validate_only=validate_only))

    def create_topics(
        self, topics: Sequence[NewTopic], *, validate_only: bool = False
    ) -> dict[str, TopicCreated | BrokerRefusal]:
        """Per topic what it became, or why it was refused."""
        return self.run(
            lambda cluster: admin.create_topics_each(cluster, topics, validate_only=validate_only)
        )

    def delete_topics(self, names: Sequence[str]) -> None:
        """Delete topics and all that is in them. Raises BrokerRefusal for the first refused."""
        self.run(lambda cluster: admin.delete_topics(cluster, names))

    def delete_topics_each(self, names: Sequence[str]) -> dict[str, BrokerRefusal | None]:
        """Per topic None when it is deleted, else why not."""
        return self.run(lambda cluster: admin.delete_topics_each(cluster, names))

    def create_partitions(
        self, topic: str, partition_count: int, *, validate_only: bool = False
    ) -> None:
        """Grow a topic to `partition_count` partitions. Raises BrokerRefusal."""
        self.run(
            lambda cluster: admin.create_partitions(
                cluster, topic, partition_count, validate_only=validate_only
            )
        )

    def describe_configs(
        self, resources: Iterable[ConfigResource]
    ) -> dict[ConfigResource, dict[str, ConfigEntry] | BrokerRefusal]:
        """Per resource: setting -> entry (value, source, type, documentation, synonyms), or why it
        could not be read.
        """
        return self.run(lambda cluster: admin_configs.describe_configs(cluster, resources))

    def alter_configs(
        self,
        changes: Mapping[ConfigResource, Sequence[ConfigChange]],
        *,
        validate_only: bool = False,
    ) -> dict[ConfigResource, BrokerRefusal | None]:
        """Set, delete, append or subtract settings: per resource None when all its changes were
        made, else why none was.
        """
        return self.run(
            lambda cluster: admin_configs.alter_configs(
                cluster, changes, validate_only=validate_only
            )
        )

    def list_config_resources(self, kinds: Iterable[ResourceKind] = ()) -> list[ConfigResource]:
        """The resources that have settings, of these kinds or (none given) of all."""
        return self.run(lambda cluster: admin_configs.list_config_resources(cluster, kinds))

    def topic_configs(self, names: Iterable[str]) -> dict[str, dict[str, ConfigEntry]]:
        """Topic -> setting -> entry. Raises BrokerRefusal for the first that is refused."""
        return self.run(lambda cluster: admin_configs.describe_topic_configs(cluster, names))

    def broker_configs(self, node_id: int) -> dict[str, ConfigEntry]:
        """Setting -> entry of one broker. Raises BrokerRefusal."""
        return self.run(lambda cluster: admin_configs.describe_broker_configs(cluster, node_id))

    def alter_topic_config(
        self, topic: str, changes: Mapping[str, str | None], *, validate_only: bool = False
    ) -> None:
        """Set settings of a topic; None takes an override away. Raises BrokerRefusal."""
        self.run(
            lambda cluster: admin_configs.alter_topic_config(
                cluster, topic, changes, validate_only=validate_only
            )
        )

    def alter_broker_config(
        self,
        changes: Mapping[str, str | None],
        *,
        node_id: int = ANY_NODE,
        validate_only: bool = False,
    ) -> None:
        """Set dynamic settings of one broker, or (ANY_NODE) of all; None takes them away. Raises
        BrokerRefusal.
        """
        self.run(
            lambda cluster: admin_configs.alter_broker_config(
                cluster, changes, node_id=node_id, validate_only=validate_only
            )
        )

    def delete_records(
        self, before: Mapping[TopicPartition, int]
    ) -> dict[TopicPartition, int | BrokerRefusal]:
        """Delete the records below an offset (TO_HIGH_WATERMARK: all). Per partition its new log
        start offset, or why nothing was deleted.
        """
        return self.run(lambda cluster: admin_partitions.delete_records(cluster, before))

    def describe_log_dirs(
        self, node_ids: Iterable[int] | None = None, *, topics: Iterable[str] | None = None
    ) -> dict[int, list[LogDir] | BrokerRefusal]:
        """Per broker (None: all) its data directories with the replicas' sizes (None: of all
        topics), or why it did not say.
        """
        return self.run(
            lambda cluster: admin_partitions.describe_log_dirs(cluster, node_ids, topics=topics)
        )

    def describe_producers(
        self, partitions: Iterable[TopicPartition]
    ) -> dict[TopicPartition, tuple[ActiveProducer, ...] | BrokerRefusal]:
        """Per partition the idempotent producers that its leader remembers."""
        return self.run(lambda cluster: admin_partitions.describe_producers(cluster, partitions))

    def elect_leaders(
        self, partitions: Iterable[TopicPartition] | None = None, *, election_type: int = PREFERRED
    ) -> dict[TopicPartition, BrokerRefusal | None]:
        """Give partitions (None: all that need it) their preferred leader, or (UNCLEAN) any. None
        when elected; ELECTION_NOT_NEEDED when it leads already.
        """
        return self.run(
            lambda cluster: admin_partitions.elect_leaders(
                cluster, partitions, election_type=election_type
            )
        )

    def list_partition_reassignments(
        self, partitions: Iterable[TopicPartition] | None = None
    ) -> dict[TopicPartition, Reassignment]:
        """The partitions (None: of all) that move between brokers now."""
        return self.run(
            lambda cluster: admin_partitions.list_partition_reassignments(cluster, partitions)
        )

    def list_groups(self) -> list[GroupListing]:
        """The groups of all brokers, by id."""
        return self.run(admin_groups.list_groups)

    def describe_groups(self, group_ids: Sequence[str]) -> list[GroupDescription]:
        """State, members and assignments of each group."""
        return self.run(lambda cluster: admin_groups.describe_groups(cluster, group_ids))

    def delete_groups(self, group_ids: Sequence[str]) -> None:
        """Forget groups without members, and their commits. Raises BrokerRefusal for the first that
        is refused.
        """
        self.run(lambda cluster: admin_groups.delete_groups(cluster, group_ids))

    def delete_groups_each(self, group_ids: Sequence[str]) -> dict[str, BrokerRefusal | None]:
        """Per group None when it and its commits are gone, else why not."""
        return self.run(lambda cluster: admin_groups.delete_groups_each(cluster, group_ids))

    def remove_group_members(
        self,
        group_id: str,
        members: Sequence[GroupMember] | None = None,
        *,
        reason: str = "removed by an administrator",
    ) -> dict[str, BrokerRefusal | None]:
        """Take members (None: all) out of their group; one that runs joins again. Per member id
        None when it is gone, else why not.
        """
        return self.run(
            lambda cluster: admin_groups.remove_group_members(
                cluster, group_id, members, reason=reason
            )
        )

    def committed_offsets(
        self, group_ids: Iterable[str]
    ) -> dict[str, dict[TopicPartition, CommittedOffset] | BrokerRefusal]:
        """Per group all its commits, or why they could not be read."""
        return self.run(lambda cluster: admin_groups.committed_offsets(cluster, group_ids))

    def set_committed_offsets(self, group_id: str, offsets: Mapping[TopicPartition, int]) -> None:
        """Store offsets for a group without members; the group begins with it. Raises BrokerRefusal
        (UNKNOWN_MEMBER_ID when it has members).
        """
        self.run(lambda cluster: admin_groups.set_committed_offsets(cluster, group_id, offsets))

    def delete_committed_offsets(
        self, group_id: str, partitions: Iterable[TopicPartition]
    ) -> dict[TopicPartition, BrokerRefusal | None]:
        """Forget a group's commits for these partitions. Per partition None when there is none now,
        else why not (GROUP_SUBSCRIBED_TO_TOPIC: members read that topic).
        """
        return self.run(
            lambda cluster: admin_groups.delete_committed_offsets(cluster, group_id, partitions)
        )

    def offsets(
        self,
        wanted: Mapping[TopicPartition, int],
        *,
        isolation_level: int = READ_UNCOMMITTED,
        is_whole_log: bool = False,
    ) -> dict[TopicPartition, OffsetAtTime]:
        """Per partition the offset at a timestamp (ms), or at EARLIEST, LATEST (the last stable
        offset with READ_COMMITTED), NEWEST_TIMESTAMP, EARLIEST_LOCAL, LATEST_TIERED.

        Partitions that do not exist (any more) are left out. `is_whole_log` also looks at what a
        delivery window hides from consumers.
        """
        return self.run(
            lambda cluster: admin_groups.offsets_where_known(
                cluster, wanted, isolation_level=isolation_level, is_whole_log=is_whole_log
            )
        )

    def count_window(
        self, partitions: Iterable[TopicPartition]
    ) -> dict[TopicPartition, WindowCounts]:
        """Expired, visible and delayed records of partitions of topics with a delivery window."""
        return self.run(lambda cluster: count_window(cluster, partitions))

    def produce(
        self,
        topic: str,
        value: bytes | None,
        *,
        key: bytes | None = None,
        partition: int | None = None,
        headers: Sequence[tuple[str, bytes | None]] = (),
        timestamp_ms: int | None = None,
        acks: int = ACKS_ALL,
        compression: str = "none",
    ) -> RecordMetadata:
        """Store one record; acknowledged by all in-sync replicas, or as `acks` says (1, 0). None is
        a null, b"" an empty key or value. Without `partition` a key goes where murmur2 puts it.
        """

        async def send(cluster: Cluster) -> RecordMetadata:
            producer = self._producers.get((acks, compression))
            if producer is None:
                producer = Producer(cluster, acks=acks, compression=compression)
                self._producers[acks, compression] = producer
                await producer.start()
            delivery = await producer.send(
                topic,
                value,
                key=key,
                partition=partition,
                headers=headers,
                timestamp_ms=timestamp_ms,
            )
            return await delivery

        return self.run(send)

    def open_reader(
        self,
        topic: str,
        partition: int,
        *,
        isolation_level: int = READ_UNCOMMITTED,
        reads_ahead: bool = False,
    ) -> BlockingReader:
        """For looking through a partition batch by batch, fast; a context manager. `reads_ahead`
        fetches the next answer while the caller works on the last.
        """
        return BlockingReader(
            self._loop,
            topic,
            partition,
            isolation_level=isolation_level,
            reads_ahead=reads_ahead,
        )

    def read(
        self,
        topic: str,
        partition: int,
        offset: int,
        *,
        count_max: int,
        wait_ms: int = 1_000,
        bytes_max: int = FETCH_BYTES_DEFAULT,
        isolation_level: int = READ_UNCOMMITTED,
    ) -> list[ConsumedRecord]:
        """Up to `count_max` records from `offset` on; fewer when no more come within `wait_ms`, or
        when `bytes_max` bytes were fetched. Raises BrokerRefusal (OFFSET_OUT_OF_RANGE).
        """

        async def fetch(cluster: Cluster) -> list[ConsumedRecord]:
            reader = PartitionReader(cluster, isolation_level=isolation_level)
            deadline_ms = cluster.clock.monotonic_ms() + wait_ms
            records: list[ConsumedRecord] = []
            position, left_bytes = offset, bytes_max
            try:
                while len(records) < count_max and left_bytes > 0:
                    left_ms = max(0, int(deadline_ms - cluster.clock.monotonic_ms()))
                    found = await reader.fetch(
                        topic, partition, position, bytes_max=left_bytes, wait_ms=left_ms
                    )
                    records += [
                        ConsumedRecord(topic, partition, *record) for record in found.records()
                    ]
                    position = found.next_offset
                    left_bytes -= found.size_bytes
                    if not found.size_bytes and left_ms == 0:
                        break
            finally:
                reader.close()
            return records[:count_max]

        return self.run(fetch)

    async def _close_producers(self) -> None:
        for producer in self._producers.values():
            await producer.close(timeout_ms=500)
