"""Administration of partitions: cut them off, how large they are, who writes to them, who leads.

Every function repeats itself within the request timeout while failures may pass, and raises
ClientError; what is refused for one partition or broker is an item of the result.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Final, NamedTuple

from broker.client.cluster import Cluster
from broker.client.failure import BrokerRefusal
from broker.client.settle import by_leader, by_topic, settle
from broker.errors import ErrorCode, error_code
from broker.model import TopicPartition
from broker.wire import api
from broker.wire.messages.delete_records import (
    DeleteRecordsPartition,
    DeleteRecordsRequest,
    DeleteRecordsTopic,
)
from broker.wire.messages.describe_log_dirs import (
    DescribableLogDirTopic,
    DescribeLogDirsRequest,
    DescribeLogDirsResult,
)
from broker.wire.messages.describe_producers import DescribeProducersRequest, TopicRequest
from broker.wire.messages.elect_leaders import ElectLeadersRequest, TopicPartitions
from broker.wire.messages.list_partition_reassignments import (
    ListPartitionReassignmentsRequest,
    ListPartitionReassignmentsTopics,
)

TO_HIGH_WATERMARK: Final = -1
"""`delete_records` up to here deletes everything that consumers can see."""
PREFERRED: Final = 0
UNCLEAN: Final = 1


class ReplicaSize(NamedTuple):
    """A replica on a disk. `size_bytes` counts its segments, `offset_lag` how far it is behind."""

    size_bytes: int
    offset_lag: int
    is_future: bool


class LogDir(NamedTuple):
    """A data directory. `total_bytes` and `usable_bytes` of its disk are -1 when unknown; `error`
    says why the directory is offline.
    """

    path: str
    replicas: Mapping[TopicPartition, ReplicaSize]
    total_bytes: int
    usable_bytes: int
    error: BrokerRefusal | None = None


class ActiveProducer(NamedTuple):
    """An idempotent producer that a partition remembers. `transaction_start_offset` is -1 when it
    has no open transaction there.
    """

    producer_id: int
    producer_epoch: int
    last_sequence: int
    last_timestamp_ms: int
    coordinator_epoch: int
    transaction_start_offset: int


class Reassignment(NamedTuple):
    """A partition that moves between brokers."""

    replicas: tuple[int, ...]
    adding: tuple[int, ...]
    removing: tuple[int, ...]


async def delete_records(
    cluster: Cluster, before: Mapping[TopicPartition, int]
) -> dict[TopicPartition, int | BrokerRefusal]:
    """Delete the records below an offset (TO_HIGH_WATERMARK: all). Per partition its new log start
    offset, or why nothing was deleted.
    """

    async def ask(asked: Sequence[TopicPartition]) -> dict[TopicPartition, int | BrokerRefusal]:
        leaders, refused = await by_leader(cluster, asked)
        found: dict[TopicPartition, int | BrokerRefusal] = dict(refused)
        for node_id, topics in leaders.items():
            request = DeleteRecordsRequest(
                topics=[
                    DeleteRecordsTopic(
                        name=name,
                        partitions=[
                            DeleteRecordsPartition(
                                partition_index=each, offset=before[TopicPartition(name, each)]
                            )
                            for each in partitions
                        ],
                    )
                    for name, partitions in topics.items()
                ],
                timeout_ms=cluster.settings.request_timeout_ms,
            )
            answer = await cluster.request(node_id, api.DELETE_RECORDS, request)
            for topic in answer.topics:
                for row in topic.partitions:
                    where = TopicPartition(topic.name, row.partition_index)
                    refusal = _refusal(cluster, row.error_code, None, where)
                    found[where] = row.low_watermark if refusal is None else refusal
        return found

    return await settle(cluster, before, ask, what="delete records")


async def describe_log_dirs(
    cluster: Cluster,
    node_ids: Iterable[int] | None = None,
    *,
    topics: Iterable[str] | None = None,
) -> dict[int, list[LogDir] | BrokerRefusal]:
    """Per broker (None: all of them) its data directories with the replicas in them (None: of all
    topics), or why it did not say.
    """
    if node_ids is None:
        await cluster.call(lambda: cluster.refresh([]), what="find the brokers")
        asked_nodes = sorted(cluster.nodes)
    else:
        asked_nodes = list(node_ids)
    rows: list[DescribableLogDirTopic] | None = None
    if topics is not None:
        rows = []
        for name in topics:
            view = await cluster.call(
                lambda name=name: cluster.topic(name),  # type: ignore[misc]
                what=f"find topic {name!r}",
            )
            indexes = [row.partition for row in view.partitions]
            rows.append(DescribableLogDirTopic(topic=name, partitions=indexes))

    async def ask(asked: Sequence[int]) -> dict[int, list[LogDir] | BrokerRefusal]:
        found: dict[int, list[LogDir] | BrokerRefusal] = {}
        for node_id in asked:
            request = DescribeLogDirsRequest(topics=rows)
            answer = await cluster.request(node_id, api.DESCRIBE_LOG_DIRS, request)
            if answer.error_code:
                found[node_id] = BrokerRefusal(
                    error_code(answer.error_code), subject=f"log directories of broker {node_id}"
                )
            else:
                found[node_id] = [_log_dir(row) for row in answer.results]
        return found

    return await settle(cluster, asked_nodes, ask, what="read the sizes of partitions")


def _log_dir(row: DescribeLogDirsResult) -> LogDir:
    error = None
    if row.error_code:
        error = BrokerRefusal(error_code(row.error_code), subject=f"directory {row.log_dir}")
    return LogDir(
        row.log_dir,
        {
            TopicPartition(topic.name, each.partition_index): ReplicaSize(
                each.partition_size, each.offset_lag, each.is_future_key
            )
            for topic in row.topics
            for each in topic.partitions
        },
        row.total_bytes,
        row.usable_bytes,
        error,
    )


async def describe_producers(
    cluster: Cluster, partitions: Iterable[TopicPartition]
) -> dict[TopicPartition, tuple[ActiveProducer, ...] | BrokerRefusal]:
    """Per partition the idempotent producers that its leader remembers, or why it did not say."""

    async def ask(
        asked: Sequence[TopicPartition],
    ) -> dict[TopicPartition, tuple[ActiveProducer, ...] | BrokerRefusal]:
        leaders, refused = await by_leader(cluster, asked)
        found: dict[TopicPartition, tuple[ActiveProducer, ...] | BrokerRefusal] = dict(refused)
        for node_id, topics in leaders.items():
            request = DescribeProducersRequest(
                topics=[
                    TopicRequest(name=name, partition_indexes=indexes)
                    for name, indexes in topics.items()
                ]
            )
            answer = await cluster.request(node_id, api.DESCRIBE_PRODUCERS, request)
            for topic in answer.topics:
                for row in topic.partitions:
                    where = TopicPartition(topic.name, row.partition_index)
                    refusal = _refusal(cluster, row.error_code, row.error_message, where)
                    found[where] = refusal or tuple(
                        ActiveProducer(
                            each.producer_id,
                            each.producer_epoch,
                            each.last_sequence,
                            each.last_timestamp,
                            each.coordinator_epoch,
                            each.current_txn_start_offset,
                        )
                        for each in row.active_producers
                    )
        return found

    return await settle(cluster, partitions, ask, what="find producers")


async def elect_leaders(
    cluster: Cluster,
    partitions: Iterable[TopicPartition] | None = None,
    *,
    election_type: int = PREFERRED,
) -> dict[TopicPartition, BrokerRefusal | None]:
    """Give partitions (None: all that need it) their preferred leader, or with UNCLEAN any leader.
    Per partition None when it was elected; ELECTION_NOT_NEEDED says that it leads already.
    """
    rows = None
    if partitions is not None:
        rows = [
            TopicPartitions(topic=name, partitions=indexes)
            for name, indexes in by_topic(partitions).items()
        ]

    async def attempt() -> dict[TopicPartition, BrokerRefusal | None]:
        request = ElectLeadersRequest(
            election_type=election_type,
            topic_partitions=rows,
            timeout_ms=cluster.settings.request_timeout_ms,
        )
        answer = await cluster.request(await cluster.controller(), api.ELECT_LEADERS, request)
        if answer.error_code:
            _raise_from_controller(cluster, answer.error_code, None, "leader election")
        return {
            (where := TopicPartition(row.topic, each.partition_id)): _refusal(
                cluster, each.error_code, each.error_message, where
            )
            for row in answer.replica_election_results
            for each in row.partition_result
        }

    return await cluster.call(attempt, what="elect leaders")


async def list_partition_reassignments(
    cluster: Cluster, partitions: Iterable[TopicPartition] | None = None
) -> dict[TopicPartition, Reassignment]:
    """The partitions (None: of all) that move between brokers now."""
    rows = None
    if partitions is not None:
        rows = [
            ListPartitionReassignmentsTopics(name=name, partition_indexes=indexes)
            for name, indexes in by_topic(partitions).items()
        ]

    async def attempt() -> dict[TopicPartition, Reassignment]:
        request = ListPartitionReassignmentsRequest(
            timeout_ms=cluster.settings.request_timeout_ms, topics=rows
        )
        node_id = await cluster.controller()
        answer = await cluster.request(node_id, api.LIST_PARTITION_REASSIGNMENTS, request)
        if answer.error_code:
            _raise_from_controller(
                cluster, answer.error_code, answer.error_message, "reassignments"
            )
        return {
            TopicPartition(topic.name, row.partition_index): Reassignment(
                tuple(row.replicas), tuple(row.adding_replicas), tuple(row.removing_replicas)
            )
            for topic in answer.topics
            for row in topic.partitions
        }

    return await cluster.call(attempt, what="list reassignments")


def _raise_from_controller(cluster: Cluster, code: int, message: str | None, subject: str) -> None:
    refusal = BrokerRefusal(error_code(code), message, subject=subject)
    if refusal.code is ErrorCode.NOT_CONTROLLER:
        cluster.forget_controller()
    raise refusal


def _refusal(
    cluster: Cluster, code: int, message: str | None, where: TopicPartition
) -> BrokerRefusal | None:
    if not code:
        return None
    cluster.forget_topic(where.topic)
    return BrokerRefusal(error_code(code), message, subject=f"{where.topic}-{where.partition}")
