"""Reads one partition batch by batch, from any offset, for those who look through it: browsing,
search, copying, counting.

Not here: groups, positions that reset themselves (fetcher); several partitions in one request, what
readers never see (batches). A batch is handed out as it arrived, its checksum proved; it is opened
when its bytes or records are asked for. Records of aborted transactions are left out for
READ_COMMITTED.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final, NamedTuple

from broker.client.aborted import AbortedFilter
from broker.client.batches import Batch, FetchedBatches, fetch_batches
from broker.client.cluster import Cluster
from broker.client.failure import BrokerRefusal
from broker.errors import ErrorCode, Refusal
from broker.model import TopicPartition
from broker.records.iterate import Record

READ_UNCOMMITTED: Final = 0
READ_COMMITTED: Final = 1
FETCH_BYTES_DEFAULT: Final = 4 * 1024 * 1024


class Fetched(NamedTuple):
    """An answer to a reader at `offset`. `next_offset` is where to go on: beyond `batches`, and
    beyond control batches and aborted records that were left out. `size_bytes` was transferred.

    `last_stable_offset` and `log_start_offset` are -1 from brokers too old to say. There is no more
    to read for now when `next_offset` has reached `end_offset`.
    """

    offset: int
    batches: tuple[Batch, ...]
    next_offset: int
    high_watermark: int
    last_stable_offset: int
    log_start_offset: int
    end_offset: int
    size_bytes: int

    def records(self) -> Iterator[Record]:
        """The records from `offset` on, in order (the first batch may begin before). Raises
        BrokerRefusal for damage or a bomb.
        """
        for batch in self.batches:
            if batch.base_offset >= self.offset:
                yield from batch.records()
            else:
                yield from (each for each in batch.records() if each.offset >= self.offset)


class PartitionReader:
    """Has connections of its own, so that its waiting holds up nobody: `close` it."""

    def __init__(self, cluster: Cluster, *, isolation_level: int = READ_UNCOMMITTED) -> None:
        self._cluster = cluster
        self._isolation_level = isolation_level
        self._purpose = cluster.new_purpose("read")

    def close(self) -> None:
        """End its connections. Closing twice is fine."""
        self._cluster.release(self._purpose)

    async def fetch(
        self,
        topic: str,
        partition: int,
        offset: int,
        *,
        bytes_max: int = FETCH_BYTES_DEFAULT,
        wait_ms: int = 0,
    ) -> Fetched:
        """About `bytes_max` bytes of whole batches from `offset` on, at least one if there is one;
        without batches when none came within `wait_ms`.

        Raises BrokerRefusal: OFFSET_OUT_OF_RANGE when the partition has no such offset (any more),
        CORRUPT_MESSAGE for damage. Moves of the leader are followed within the request timeout.
        """
        where = TopicPartition(topic, partition)

        async def attempt() -> Fetched:
            answers = await fetch_batches(
                self._cluster,
                {where: offset},
                partition_bytes=bytes_max,
                total_bytes=bytes_max,
                isolation_level=self._isolation_level,
                wait_ms=wait_ms,
                purpose=self._purpose,
            )
            found = answers.get(where)
            if found is None:
                text = "the broker's answer leaves it out"
                raise BrokerRefusal(ErrorCode.UNKNOWN_SERVER_ERROR, text, subject=_name(where))
            if isinstance(found, BrokerRefusal):
                if found.code is ErrorCode.OFFSET_OUT_OF_RANGE:
                    text = f"offset {offset} is not in it: deleted already, or not written yet"
                    raise BrokerRefusal(found.code, text, subject=_name(where))
                raise found
            return read_answer(found, offset, is_committed=self._isolation_level == READ_COMMITTED)

        allowed_ms = self._cluster.settings.request_timeout_ms + wait_ms
        return await self._cluster.call(
            attempt, what=f"read {_name(where)} at {offset}", timeout_ms=allowed_ms
        )


def read_answer(found: FetchedBatches, offset: int, *, is_committed: bool) -> Fetched:
    """What an answer has for a reader at `offset`. Raises BrokerRefusal for damage."""
    aborted = AbortedFilter(found.aborted)
    batches: list[Batch] = []
    position = offset
    try:
        for batch in found.batches():
            if batch.next_offset <= position:
                continue
            batch.check()
            if not aborted.leaves_out(batch.header, batch.content):
                batches.append(batch)
            position = batch.next_offset
    except Refusal as error:
        raise BrokerRefusal(error.code, error.message, subject=f"batch at {position}") from error
    has_stable = is_committed and found.last_stable_offset >= 0
    return Fetched(
        offset,
        tuple(batches),
        position,
        found.high_watermark,
        found.last_stable_offset,
        found.log_start_offset,
        found.last_stable_offset if has_stable else found.high_watermark,
        found.size,
    )


def _name(where: TopicPartition) -> str:
    return f"{where.topic}-{where.partition}"
