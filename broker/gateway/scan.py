"""Reads a stretch of a partition for the ids in its records' headers."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Final, NamedTuple

from broker.client.batches import Record
from broker.client.cluster import Cluster
from broker.client.failure import BrokerRefusal
from broker.client.offsets import EARLIEST, LATEST, list_offsets
from broker.client.reading import PartitionReader
from broker.errors import ErrorCode
from broker.gateway.message import content_digest
from broker.headers import MESSAGE_ID
from broker.model import TopicPartition

FETCH_BYTES: Final = 4 << 20


class Found(NamedTuple):
    """A record with an id. `high_watermark` is the end of its batch, which is what a put of the
    whole batch was answered with; `time_ms` is its own timestamp.
    """

    message_id: bytes
    digest: bytes
    offset: int
    high_watermark: int
    time_ms: int


async def end_offset(cluster: Cluster, where: TopicPartition, *, timestamp: int = LATEST) -> int:
    """The partition's high watermark, or the first offset at a time (the watermark when nothing is
    that young). Raises ClientError.
    """
    found = await cluster.call(
        lambda: list_offsets(cluster, {where: timestamp}), what=f"find the end of {where}"
    )
    if found[where].offset < 0:
        return await end_offset(cluster, where)
    return found[where].offset


async def read_ids(
    cluster: Cluster, where: TopicPartition, begin: int, end: int
) -> AsyncIterator[Found]:
    """Every record with an id from `begin` to `end` (exclusive), in order. Raises ClientError."""
    async for records, batch_end in read_records(cluster, where, begin, end):
        for record in records:
            message_id = id_of(record)
            if message_id:
                yield Found(
                    message_id,
                    content_digest(record.key, record.value, record.headers),
                    record.offset,
                    batch_end,
                    record.timestamp,
                )


async def read_records(
    cluster: Cluster, where: TopicPartition, begin: int, end: int
) -> AsyncIterator[tuple[list[Record], int]]:
    """The records from `begin` to `end` (exclusive) that the partition still holds, a batch at a
    time, with the offset after the batch. Raises ClientError.
    """
    reader = PartitionReader(cluster)
    try:
        while begin < end:
            try:
                fetched = await reader.fetch(*where, begin, bytes_max=FETCH_BYTES)
            except BrokerRefusal as error:
                if error.code is not ErrorCode.OFFSET_OUT_OF_RANGE:
                    raise
                earliest = await end_offset(cluster, where, timestamp=EARLIEST)
                if earliest <= begin:
                    return  # the partition ends before `begin`: it lost its end
                begin = earliest
                continue
            for batch in fetched.batches:
                inside = [record for record in batch.records() if begin <= record.offset < end]
                yield inside, batch.next_offset
                await asyncio.sleep(0)
            if fetched.next_offset <= begin:
                return
            begin = fetched.next_offset
    finally:
        reader.close()


def id_of(record: Record) -> bytes | None:
    """The value of a record's header `message-id`, None without one."""
    for name, value in record.headers:
        if name == MESSAGE_ID.name:
            return value
    return None
