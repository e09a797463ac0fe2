"""Topics in the metastore: which transactions make, grow, change and end one.

A topic exists when its key, written last, exists. Its partition keys are written before it (many
transactions for many partitions: one holds `OPERATIONS_PER_TRANSACTION` at most) and removed after
it. Whatever a crash leaves behind, partition keys without a topic or beyond its count, is removed
by `read_topics`.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Iterator, Sequence
from itertools import islice
from typing import Final, NamedTuple, TypeVar

from broker.metastore import keys
from broker.metastore.keys import PartitionValue, TopicValue
from broker.ports import Condition, Delete, Entry, Metastore, Put

OPERATIONS_PER_TRANSACTION: Final = 120
PARTITIONS_PER_STEP: Final = 100
"""Partitions that are decoded, or raised to a new leader epoch, in one step of the loop."""
T = TypeVar("T")


class StoredTopic(NamedTuple):
    """A topic as stored.

    `version` is its key's, `partition_versions` those of its partitions' keys.
    """

    name: str
    version: int
    value: TopicValue
    partitions: tuple[PartitionValue, ...]
    partition_versions: tuple[int, ...]


async def read_topics(metastore: Metastore, node_id: int) -> list[StoredTopic]:
    """Every topic, in name order; leftovers of broken-off changes are removed.

    Raises MetastoreFault.
    """
    topics = await metastore.read_range(keys.TOPICS_PREFIX)
    found = {entry.key: entry for entry in await metastore.read_range(keys.PARTITIONS_PREFIX)}
    stored = [await _stored(entry, found, node_id) for entry in topics]
    await _write(metastore, [Delete(key) for key in found])
    return stored


async def insert_topic(
    metastore: Metastore, name: str, value: TopicValue, partitions: Sequence[PartitionValue]
) -> int | None:
    """The new topic key's version; None when a topic of that name exists. Raises MetastoreFault."""
    await _write(metastore, _partition_puts(value.topic_id, 0, partitions))
    key = keys.topic(name)
    version = await metastore.transact([Condition(key, 0)], [Put(key, value.encode())])
    if version is None:
        await _write(metastore, _partition_deletes(value.topic_id, len(partitions)))
    return version


async def grow_topic(
    metastore: Metastore,
    name: str,
    version: int,
    value: TopicValue,
    added: Sequence[PartitionValue],
) -> int | None:
    """`value` has the new count and `added` its last partitions. As `update_topic`."""
    first = value.partition_count - len(added)
    await _write(metastore, _partition_puts(value.topic_id, first, added))
    return await update_topic(metastore, name, version, value)


async def update_topic(
    metastore: Metastore, name: str, version: int, value: TopicValue
) -> int | None:
    """The topic key's next version; None when it is no longer at `version`.

    Raises MetastoreFault.
    """
    key = keys.topic(name)
    return await metastore.transact([Condition(key, version)], [Put(key, value.encode())])


async def delete_topic(metastore: Metastore, name: str, version: int, value: TopicValue) -> bool:
    """False when the topic key is no longer at `version`. Raises MetastoreFault."""
    key = keys.topic(name)
    if await metastore.transact([Condition(key, version)], [Delete(key)]) is None:
        return False
    await _write(metastore, _partition_deletes(value.topic_id, value.partition_count))
    return True


async def write_partitions(
    metastore: Metastore, changes: Sequence[tuple[str, int, PartitionValue]]
) -> bool:
    """Compare-and-set of partition keys (key, present version, value), in batches.

    False when one has moved on.
    """
    for batch in _batches(changes, OPERATIONS_PER_TRANSACTION // 2):
        conditions = [Condition(key, version) for key, version, _ in batch]
        writes = [Put(key, value.encode()) for key, _, value in batch]
        if await metastore.transact(conditions, writes) is None:
            return False
    return True


def new_partition(node_id: int) -> PartitionValue:
    """A partition that `node_id` has alone."""
    return PartitionValue(
        replicas=(node_id,),
        leader=node_id,
        leader_epoch=0,
        in_sync_replicas=(node_id,),
        partition_epoch=0,
    )


async def _stored(entry: Entry, found: dict[str, Entry], node_id: int) -> StoredTopic:
    """Takes the topic's partition entries out of `found`.

    A partition without a key gets a first state.
    """
    value = TopicValue.decode(entry.value)
    partitions: list[PartitionValue] = []
    versions: list[int] = []
    for index in range(value.partition_count):
        partition = found.pop(keys.partition(value.topic_id, index), None)
        partitions.append(
            new_partition(node_id) if partition is None else PartitionValue.decode(partition.value)
        )
        versions.append(0 if partition is None else partition.version)
        if index % PARTITIONS_PER_STEP == 0:
            await asyncio.sleep(0)
    name = keys.topic_name(entry.key)
    return StoredTopic(name, entry.version, value, tuple(partitions), tuple(versions))


def _partition_puts(
    topic_id: bytes, first: int, partitions: Sequence[PartitionValue]
) -> Iterator[Put]:
    for offset, partition in enumerate(partitions):
        yield Put(keys.partition(topic_id, first + offset), partition.encode())


def _partition_deletes(topic_id: bytes, count: int) -> Iterator[Delete]:
    return (Delete(keys.partition(topic_id, index)) for index in range(count))


async def _write(metastore: Metastore, writes: Iterable[Put | Delete]) -> None:
    """In batches, made as they are written: a topic may have thousands of partitions."""
    for batch in _batches(writes, OPERATIONS_PER_TRANSACTION):
        await metastore.transact([], batch)


def _batches(items: Iterable[T], size: int) -> Iterator[list[T]]:
    pending = iter(items)
    while batch := list(islice(pending, size)):
        yield batch
