"""A simulated compacted topic: who writes keys and deletes them, who follows, and its end.

A keeper writes and deletes keys, a batch at a time, until each is answered. A follower reads from
the beginning on, now and then pausing, sometimes for longer than tombstones are kept. In the end
the whole topic is read, and offsets are asked for by time: what is asked must fit what is read, so
both are done until nothing was cleaned between.
"""

from __future__ import annotations

import asyncio
from typing import Final

from broker.errors import RETRIABLE, ErrorCode
from broker.records.batch import is_intact, read_header
from broker.records.build import NewRecord, build_batch
from broker.records.iterate import iterate_batches, iterate_records
from broker.simulator.fetching import UNPACKED_BYTES_MAX, Cursor, DamagedRecords, Dialogue
from broker.simulator.history import FAIL, OK
from broker.simulator.producing import ProducerId, obtain_producer_id
from broker.simulator.reading import EARLIEST, LATEST, find_topic_id, list_offset
from broker.simulator.session import ClientError, Session
from broker.simulator.world import Node, World
from broker.wire.messages.fetch import PartitionData
from broker.wire.messages.produce import (
    PartitionProduceData,
    PartitionProduceResponse,
    ProduceRequest,
    TopicProduceData,
)

COMPACTED_TOPIC: Final = "profiles"
PLACE: Final = {"topic": COMPACTED_TOPIC, "partition": 0}
DELETE_RETENTION_MS: Final = 8_000
CONFIGS: Final = {
    "cleanup.policy": "compact",
    "segment.bytes": "1024",
    "index.interval.bytes": "256",
    "min.cleanable.dirty.ratio": "0.05",
    "max.compaction.lag.ms": "3000",
    "delete.retention.ms": str(DELETE_RETENTION_MS),
}
KEYS: Final = 40
RECORDS_PER_BATCH_MAX: Final = 5
DELETION_PROBABILITY: Final = 0.35
PAUSE_S_MAX: Final = 0.3
FOLLOW_PAUSE_S_MAX: Final = 5.0
LONG_PAUSE_PROBABILITY: Final = 0.01
CATCH_UP_PAUSE_S: Final = 0.02
JITTER_MS: Final = 400
"""Records' times are out of order by so much."""
QUESTIONS_MAX: Final = 12
READS_MAX: Final = 20
PRODUCE_VERSION: Final = 9
_CODECS: Final = ("none", "none", "gzip", "snappy", "lz4")

Entry = tuple[int, int, str, str | None]
"""(offset, timestamp, key, value or None for a deletion)."""


class Keeper:
    """See the module."""

    def __init__(self, world: World, node: Node) -> None:
        self.world = world
        self.node = node
        self.is_done = False
        self._session = Session(node)
        self._number = 0

    async def run(self) -> None:
        identity = await obtain_producer_id(self._session)
        while not self.world.is_healing:
            await self._put(identity)
            await asyncio.sleep(self.node.random.random() * PAUSE_S_MAX)
        self.is_done = True
        self._session.close()

    async def _put(self, identity: ProducerId) -> None:
        """One batch, sent until it is answered for good."""
        world, random = self.world, self.node.random
        records, puts, sequence = [], [], self._number
        for _ in range(random.randint(1, RECORDS_PER_BATCH_MAX)):
            key = f"key-{int(random.random() ** 2 * KEYS)}"
            is_deletion = random.random() < DELETION_PROBABILITY
            value = None if is_deletion else f"{self.node.name}/{self._number}"
            time_ms = self.node.clock.wall_ms() + random.randint(-JITTER_MS, JITTER_MS)
            content = None if value is None else value.encode()
            records.append(NewRecord(key.encode(), content, (), time_ms))
            now_s = world.loop.time()
            puts.append(world.history.invoke(now_s, "put", key=key, value=value, **PLACE))
            self._number += 1
        batch = build_batch(
            records,
            timestamp_ms=0,
            compression=random.choice(_CODECS),
            producer_id=identity.number,
            producer_epoch=identity.epoch,
            base_sequence=sequence,
        )
        while (answer := await self._send(bytes(batch))) is None:
            await self._session.back_off()
        code, kind = ErrorCode(answer.error_code), OK
        if code is not ErrorCode.NONE:
            kind = FAIL
            world.find("a valid batch is refused", f"{self.node.name} {COMPACTED_TOPIC}: {code}")
        for place, put in enumerate(puts):
            offset = {"offset": answer.base_offset + place} if kind == OK else {}
            world.history.end(world.loop.time(), put, kind, "put", **offset)
        world.counters["keys deleted"] += sum(record.value is None for record in records)

    async def _send(self, batch: bytes) -> PartitionProduceResponse | None:
        """None when it must be sent again."""
        data = PartitionProduceData(index=0, records=batch)
        topic = TopicProduceData(name=COMPACTED_TOPIC, partition_data=[data])
        request = ProduceRequest(acks=-1, timeout_ms=5_000, topic_data=[topic])
        try:
            response = await self._session.ask(request, PRODUCE_VERSION)
        except ClientError:
            return None
        answer = response.responses[0].partition_responses[0]
        assert isinstance(answer, PartitionProduceResponse), "one partition was asked"
        return None if answer.error_code in RETRIABLE else answer


class Follower:
    """See the module."""

    def __init__(self, world: World, node: Node) -> None:
        self.world = world
        self.node = node
        self.is_done = False
        self._session = Session(node)
        self._cursor = Cursor(node.name, COMPACTED_TOPIC, 0, 0)

    async def run(self) -> None:
        topic_id = None
        while topic_id is None:
            await self._session.back_off()
            topic_id = await find_topic_id(self._session, COMPACTED_TOPIC)
        dialogue = Dialogue(self.world, self._session, COMPACTED_TOPIC, topic_id)
        while True:
            has_all = await self._poll(dialogue)
            if has_all and self.world.is_over:
                break
            await asyncio.sleep(self._pause_s() if has_all else CATCH_UP_PAUSE_S)
        self.is_done = True
        self._session.close()

    def _pause_s(self) -> float:
        random = self.node.random
        if self.world.is_healing:
            return 0.1
        if random.random() < LONG_PAUSE_PROBABILITY:
            return DELETE_RETENTION_MS / 500
        return random.random() ** 2 * FOLLOW_PAUSE_S_MAX

    async def _poll(self, dialogue: Dialogue) -> bool:
        """Whether it has read all there is."""
        cursor, asked_s = self._cursor, self.world.loop.time()
        size = self.node.random.choice((1, 2_000, 1 << 20))
        try:
            answers = await dialogue.fetch([cursor], max_wait_ms=100, max_bytes=size)
        except ClientError:
            await self._session.back_off()
            return False
        data = answers[0]
        code = ErrorCode(data.error_code)
        if code is not ErrorCode.NONE:
            if code not in RETRIABLE:
                evidence = f"{cursor.reader} at {cursor.position}: {code.name}"
                self.world.find("a valid fetch is refused", evidence)
            return False
        found, next_position = entries_from(data, cursor.position)
        self.world.history.record(
            self.world.loop.time(),
            "follow",
            reader=cursor.reader,
            position=cursor.position,
            next_position=next_position,
            entries=found,
            high_watermark=data.high_watermark,
            asked_s=round(asked_s, 6),
            **PLACE,
        )
        self.world.counters["entries followed"] += len(found)
        cursor.position = next_position
        return next_position >= data.high_watermark


def entries_from(data: PartitionData, position: int) -> tuple[list[Entry], int]:
    """(entries at `position` and above, where to go on): a batch may be empty. Raises
    DamagedRecords.
    """
    found: list[Entry] = []
    blob = data.records
    if not isinstance(blob, bytes | bytearray | memoryview):
        return found, position
    for batch in iterate_batches(blob):
        if not is_intact(batch):
            raise DamagedRecords(f"at position {position}: {bytes(batch[:61]).hex()}")
        for record in iterate_records(batch, size_max=UNPACKED_BYTES_MAX):
            if record.offset >= position:
                value = None if record.value is None else record.value.decode()
                key = (record.key or b"").decode()
                found.append((record.offset, record.timestamp, key, value))
        position = max(position, read_header(batch).next_offset)
    return found, position


async def read_keys(world: World, session: Session) -> bool:
    """Read the topic from its start to its end, and ask for offsets by time, into a `keys` event.
    False when it fails now.
    """
    before = await _read(world, session)
    for _ in range(READS_MAX):
        if before is None:
            return False
        lookups = await _ask_by_time(world, session, before)
        after = await _read(world, session)
        if lookups is not None and after == before:
            world.history.record(
                world.loop.time(), "keys", entries=before, lookups=lookups, **PLACE
            )
            world.counters["offsets found by time"] += len(lookups)
            return True
        before = after
    return False


async def _read(world: World, session: Session) -> list[Entry] | None:
    start = await list_offset(session, COMPACTED_TOPIC, 0, EARLIEST)
    end = await list_offset(session, COMPACTED_TOPIC, 0, LATEST)
    topic_id = await find_topic_id(session, COMPACTED_TOPIC)
    if start is None or end is None or topic_id is None:
        return None
    dialogue = Dialogue(world, session, COMPACTED_TOPIC, topic_id)
    cursor = Cursor(session.node.name, COMPACTED_TOPIC, 0, start)
    entries: list[Entry] = []
    while cursor.position < end:
        try:
            answers = await dialogue.fetch([cursor], max_wait_ms=100, max_bytes=1 << 20)
        except ClientError:
            return None
        found, next_position = entries_from(answers[0], cursor.position)
        if answers[0].error_code or next_position == cursor.position:
            return None
        entries += found
        cursor.position = next_position
    return entries


async def _ask_by_time(
    world: World, session: Session, entries: list[Entry]
) -> list[tuple[int, int]] | None:
    """(timestamp, offset found, -1 for none) for some of the entries' times and beside them."""
    random = session.node.random
    times = [0, *(entry[1] for entry in entries)]
    chosen = random.sample(times, min(len(times), QUESTIONS_MAX))
    lookups: list[tuple[int, int]] = []
    for time_ms in [time_ms + random.randint(0, 1) for time_ms in chosen]:
        offset = await list_offset(session, COMPACTED_TOPIC, 0, time_ms)
        if offset is None:
            return None
        lookups.append((time_ms, offset))
    return lookups
