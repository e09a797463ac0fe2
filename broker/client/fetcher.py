"""Reads partitions from given positions: one fetch per leader and call, whole batches, in order per
partition.

Not here: groups, commits. A position is the next offset to hand out; it moves only when records
were handed out (or batches without records for us were passed). Positions out of range are reset as
`auto.offset.reset` says.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Final, NamedTuple

from broker.client.aborted import AbortedFilter, AbortedRange
from broker.client.cluster import Cluster
from broker.client.failure import BrokerRefusal, ClientError
from broker.client.offsets import EARLIEST, LATEST, list_offsets
from broker.errors import ErrorCode, Refusal, error_code
from broker.model import NO_TOPIC_ID, TopicPartition
from broker.records.batch import is_intact, read_header
from broker.records.iterate import iterate_batches, iterate_records
from broker.wire import api
from broker.wire.messages.fetch import (
    FetchPartition,
    FetchRequest,
    FetchResponse,
    FetchTopic,
    PartitionData,
)

NAMED_TOPICS_VERSION_MAX: Final = 12
RESET_TIMESTAMPS: Final = {"earliest": EARLIEST, "latest": LATEST}


class ConsumedRecord(NamedTuple):
    """A record as it was read."""

    topic: str
    partition: int
    offset: int
    timestamp_ms: int
    key: bytes | None
    value: bytes | None
    headers: tuple[tuple[str, bytes | None], ...]


class Fetcher:
    """`assign` what to read, `poll` for records, `close` in the end."""

    def __init__(self, cluster: Cluster, *, isolation_level: int = 0) -> None:
        self._cluster = cluster
        self._settings = cluster.settings
        self._isolation_level = isolation_level
        self._purpose = cluster.new_purpose("fetch")
        self._positions: dict[TopicPartition, int] = {}
        self._turn = 0
        self._pause_ms: float = 0
        self.damage: BrokerRefusal | None = None
        """The last place whose records are damaged: `poll` cannot get past it by trying again."""

    @property
    def positions(self) -> Mapping[TopicPartition, int]:
        """Per assigned partition the next offset to be handed out."""
        return self._positions

    def assign(self, positions: Mapping[TopicPartition, int]) -> None:
        """Read these partitions, from these offsets, and no others."""
        self._positions = dict(positions)

    def seek(self, where: TopicPartition, offset: int) -> None:
        """Go on from `offset`; the partition is assigned."""
        assert where in self._positions, f"{where} is not assigned"
        self._positions[where] = offset

    def close(self) -> None:
        self._positions = {}
        self._cluster.release(self._purpose)

    async def poll(self, max_wait_ms: int) -> list[ConsumedRecord]:
        """Records, or [] when none came within about `max_wait_ms`, or after a failure that may
        pass.

        Raises a ClientError that is final. Cancellation loses nothing: positions move with the
        return.
        """
        if not self._positions:
            await asyncio.sleep(max_wait_ms / 1000)
            return []
        asked = dict(self._positions)
        try:
            requests = await self._requests()
            answers = await self._ask_all(requests, max_wait_ms)
            records = await self._take(asked, answers)
        except ClientError as error:
            if not error.is_retriable:
                raise
            await self._back_off(max_wait_ms)
            return []
        self._pause_ms = 0
        return records

    async def _back_off(self, max_wait_ms: int) -> None:
        settings = self._settings
        self._pause_ms = min(
            max(self._pause_ms * 2, settings.retry_backoff_ms), settings.retry_backoff_max_ms
        )
        await asyncio.sleep(self._cluster.jittered(min(self._pause_ms, max_wait_ms)) / 1000)

    async def _requests(self) -> dict[int, dict[str, FetchTopic]]:
        """Leader -> topic -> what to ask; the partitions take turns at being first."""
        self._turn += 1
        order = list(self._positions)
        start = self._turn % len(order)
        by_leader: dict[int, dict[str, FetchTopic]] = {}
        for where in order[start:] + order[:start]:
            leader = self._cluster.known_leader(*where)
            if leader is None:
                leader, _ = await self._cluster.leader(*where)
            row = by_leader.setdefault(leader, {}).setdefault(
                where.topic, FetchTopic(topic=where.topic, topic_id=NO_TOPIC_ID)
            )
            row.partitions.append(
                FetchPartition(
                    partition=where.partition,
                    fetch_offset=self._positions[where],
                    partition_max_bytes=self._settings.max_partition_fetch_bytes,
                )
            )
        return by_leader

    async def _ask_all(
        self, requests: Mapping[int, dict[str, FetchTopic]], max_wait_ms: int
    ) -> list[tuple[TopicPartition, PartitionData]]:
        """Answers of every leader that answered. Raises the last failure when none did."""
        answers: list[tuple[TopicPartition, PartitionData]] = []
        failures: list[ClientError] = []

        async def ask(leader: int, topics: dict[str, FetchTopic]) -> None:
            try:
                answers.extend(await self._ask(leader, topics, max_wait_ms))
            except ClientError as error:
                failures.append(error)
                for topic in topics:
                    self._cluster.forget_topic(topic)

        if len(requests) == 1:
            ((leader, topics),) = requests.items()
            await ask(leader, topics)
        else:
            async with asyncio.TaskGroup() as group:
                for leader, topics in requests.items():
                    group.create_task(ask(leader, topics))
        if failures and not answers:
            raise failures[-1]
        return answers

    async def _ask(
        self, leader: int, topics: dict[str, FetchTopic], max_wait_ms: int
    ) -> list[tuple[TopicPartition, PartitionData]]:
        version = await self._cluster.version(leader, api.FETCH, purpose=self._purpose)
        names: dict[bytes, str] = {}
        max_version: int | None = None
        for name, row in topics.items():
            row.topic_id = self._cluster.topic_id(name)
            names[row.topic_id] = name
        if NO_TOPIC_ID in names or version <= NAMED_TOPICS_VERSION_MAX:
            max_version = NAMED_TOPICS_VERSION_MAX
        request = FetchRequest(
            max_wait_ms=min(max_wait_ms, self._settings.fetch_max_wait_ms),
            min_bytes=self._settings.fetch_min_bytes,
            max_bytes=self._settings.fetch_max_bytes,
            isolation_level=self._isolation_level,
            topics=list(topics.values()),
        )
        answer: FetchResponse = await self._cluster.request(
            leader,
            api.FETCH,
            request,
            purpose=self._purpose,
            timeout_ms=max_wait_ms,
            max_version=max_version,
        )
        if answer.error_code:
            raise BrokerRefusal(error_code(answer.error_code), subject="fetch")
        return [
            (TopicPartition(row.topic or names.get(row.topic_id, ""), each.partition_index), each)
            for row in answer.responses
            for each in row.partitions
        ]

    async def _take(
        self,
        asked: dict[TopicPartition, int],
        answers: list[tuple[TopicPartition, PartitionData]],
    ) -> list[ConsumedRecord]:
        """The records of the answers; moves positions, but for what moved meanwhile."""
        failure: ClientError | None = None
        out_of_range: list[TopicPartition] = []
        records: list[ConsumedRecord] = []
        moved: dict[TopicPartition, int] = {}
        for where, data in answers:
            if self._positions.get(where, -1) != asked.get(where):
                continue
            code = error_code(data.error_code)
            if code is ErrorCode.OFFSET_OUT_OF_RANGE:
                out_of_range.append(where)
            elif code is ErrorCode.CORRUPT_MESSAGE:
                failure = self._damaged(where, asked[where])
            elif code is not ErrorCode.NONE:
                self._cluster.forget_topic(where.topic)
                failure = BrokerRefusal(code, subject=str(where))
            else:
                moved[where], damage = self._open(where, asked[where], data, records)
                failure = damage or failure
        self._positions.update(moved)
        if out_of_range:
            for where, position in (await self._reset(out_of_range)).items():
                if self._positions.get(where, -1) == asked[where]:
                    self._positions[where] = position
        if failure is not None and not records:
            raise failure
        return records

    def _open(
        self,
        where: TopicPartition,
        position: int,
        data: PartitionData,
        records: list[ConsumedRecord],
    ) -> tuple[int, BrokerRefusal | None]:
        """Append the records from `position` on to `records`, as far as they can be read. (The
        position after them, what is damaged there or None). Raises BrokerRefusal for a batch that
        is not damaged and cannot be opened.
        """
        content = data.records
        if content is None or not len(content):
            return position, None
        assert isinstance(content, memoryview), "decoded records are a view"
        aborted = AbortedFilter(
            AbortedRange(row.producer_id, row.first_offset)
            for row in data.aborted_transactions or ()
        )
        end = position
        try:
            for batch in iterate_batches(content):
                header = read_header(batch)
                end = header.base_offset + header.last_offset_delta + 1
                if end <= position:
                    continue
                if not is_intact(batch):
                    return position, self._damaged(where, position)
                if not aborted.leaves_out(header, batch):
                    records += [  # all of a batch at once, or nothing
                        ConsumedRecord(where.topic, where.partition, *record)
                        for record in iterate_records(batch)
                        if record.offset >= position
                    ]
                position = end
        except Refusal as error:
            if error.code is not ErrorCode.CORRUPT_MESSAGE:
                raise BrokerRefusal(error.code, error.message, subject=str(where)) from error
            return position, self._damaged(where, position, end)
        return position, None

    def _damaged(self, where: TopicPartition, offset: int, end: int = -1) -> BrokerRefusal:
        """`end` is where the damaged records end, when their batch's header can be believed."""
        place = f"partition {where.partition} of topic {where.topic!r} at offset {offset}"
        words = f"{ErrorCode.CORRUPT_MESSAGE.name}: the records there are damaged"
        if end > offset:
            words += f", the next ones begin at {end}"
        self.damage = BrokerRefusal(ErrorCode.CORRUPT_MESSAGE, words, subject=place)
        return self.damage

    async def _reset(self, partitions: list[TopicPartition]) -> dict[TopicPartition, int]:
        timestamp = RESET_TIMESTAMPS.get(self._settings.auto_offset_reset)
        if timestamp is None:
            raise BrokerRefusal(ErrorCode.OFFSET_OUT_OF_RANGE, subject=str(partitions[0]))
        found = await list_offsets(self._cluster, dict.fromkeys(partitions, timestamp))
        return {where: row.offset for where, row in found.items()}
