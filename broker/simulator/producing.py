"""Simulated producers: they know what they sent, retry as real ones do, and tell the history.

A lane is one producer's stream into one partition: batches in sequence order, at most five
unanswered, resent until they are answered for good. An idempotent lane also asks now and then for a
batch that was acknowledged long ago: the same offset must come back (KIP-98: the last five batches
of a producer are remembered).
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Final

from broker.errors import RETRIABLE, ErrorCode
from broker.records.build import build_batch
from broker.simulator.history import FAIL, INFO, OK
from broker.simulator.poison import (
    BIG_BATCH_PROBABILITY,
    BIG_COMPRESSION,
    BIG_PADDING_BYTES,
    POISON_PROBABILITY,
    poisoned_batch,
)
from broker.simulator.session import ClientError, Session
from broker.simulator.world import Node, World
from broker.wire.messages.init_producer_id import InitProducerIdRequest
from broker.wire.messages.produce import (
    PartitionProduceData,
    PartitionProduceResponse,
    ProduceRequest,
    TopicProduceData,
)

BATCHES_IN_FLIGHT_MAX: Final = 5
RECORDS_PER_BATCH_MAX: Final = 4
PADDING_BYTES_MAX: Final = 300
PAUSE_S_MAX: Final = 0.5
OLD_BATCH_PROBABILITY: Final = 0.05
PRODUCE_VERSION_MIN: Final = 3
PRODUCE_VERSION_MAX: Final = 11
ZSTD_VERSION_MIN: Final = 7
"""KIP-110."""
_COMPRESSIONS: Final = ("none", "none", "none", "gzip", "snappy", "lz4")


@dataclass(frozen=True, slots=True)
class Target:
    """Where to: `label` is the topic's name in the history, with its incarnation."""

    topic: str
    label: str
    partition: int


@dataclass(slots=True)
class Batch:
    """Records that travel together. `identities` are their sends in the history."""

    base_sequence: int
    encoded: bytes = field(repr=False)
    record_count: int
    identities: list[int]
    attempts: int = 0
    offset: int | None = None


@dataclass(slots=True)
class ProducerId:
    """What the broker gave an idempotent producer; -1 for others."""

    number: int = -1
    epoch: int = -1


@dataclass(slots=True)
class Lane:
    """See the module."""

    world: World
    session: Session
    target: Target
    producer: str
    identity: ProducerId
    acks: int
    window: int
    next_sequence: int = 0
    pending: deque[Batch] = field(default_factory=deque)
    acknowledged: deque[Batch] = field(default_factory=lambda: deque(maxlen=BATCHES_IN_FLIGHT_MAX))

    @property
    def is_idempotent(self) -> bool:
        return self.identity.number >= 0

    async def run_round(self, *, may_start: bool) -> None:
        """Send what is unanswered and, with `may_start`, new batches behind it; wait for the
        answers.
        """
        random = self.session.node.random
        if may_start and len(self.pending) < self.window:
            for _ in range(random.randint(1, self.window - len(self.pending))):
                self.pending.append(self._new_batch())
        sent = list(self.pending)
        if not sent:
            return
        try:
            await self.session.open()
        except ClientError:
            await self.session.back_off()
            return
        if self.acks == 0:
            await self._send_unheard(sent)
            return
        if self.target.topic in self.world.full_topics and random.random() < POISON_PROBABILITY:
            await self._send_poison()
        async with asyncio.TaskGroup() as group:
            answers = [group.create_task(self._send(batch)) for batch in sent]
        is_clean = True
        for batch, answer in zip(sent, answers, strict=True):
            is_clean = self._settle(batch, answer.result(), is_clean=is_clean) and is_clean
        if not is_clean:
            await self.session.back_off()
        elif self.acknowledged and random.random() < OLD_BATCH_PROBABILITY:
            await self._ask_again(random.choice(list(self.acknowledged)))

    def _new_batch(self) -> Batch:
        node, world = self.session.node, self.world
        records, identities = [], []
        base_sequence = self.next_sequence
        is_big = node.random.random() < BIG_BATCH_PROBABILITY
        world.counters["big batches"] += is_big
        for number in range(node.random.randint(1, RECORDS_PER_BATCH_MAX)):
            value = f"{self.producer}/{self.next_sequence}"
            identities.append(
                world.history.invoke(
                    world.loop.time(),
                    "send",
                    producer=self.producer,
                    is_idempotent=self.is_idempotent,
                    topic=self.target.label,
                    partition=self.target.partition,
                    value=value,
                    sequence=self.next_sequence,
                )
            )
            size = node.random.randint(0, PADDING_BYTES_MAX)
            padding = " " * (BIG_PADDING_BYTES if is_big and number == 0 else size)
            records.append((self.producer.encode(), (value + padding).encode()))
            self.next_sequence += 1
        encoded = build_batch(
            records,
            timestamp_ms=node.clock.wall_ms(),
            compression=BIG_COMPRESSION
            if is_big
            else node.random.choice((*_COMPRESSIONS, "zstd") if world.uses_zstd else _COMPRESSIONS),
            producer_id=self.identity.number,
            producer_epoch=self.identity.epoch,
            base_sequence=base_sequence if self.is_idempotent else -1,
        )
        return Batch(base_sequence, bytes(encoded), len(records), identities)

    async def _send_poison(self) -> None:
        """It is refused, now and whenever the broker cannot look at it; a reader who meets it tells
        the history of a value that nobody sent.
        """
        node = self.session.node
        value = f"{self.producer}/poison-{self.next_sequence}".encode()
        is_big = node.random.random() < 0.7
        encoded = poisoned_batch(value, node.clock.wall_ms(), is_big=is_big)
        answer = await self._send(Batch(-1, encoded, 2, []))
        if answer is None:
            return
        self.world.counters["poisoned batches refused"] += 1
        code = ErrorCode(answer.error_code)
        if code is not ErrorCode.INVALID_RECORD and code not in RETRIABLE:
            self.world.find("a poisoned batch is refused", f"{self.target}: {code.name}")

    async def _send(self, batch: Batch) -> PartitionProduceResponse | None:
        """The partition's answer; None when there was none."""
        request, version = self._request(batch)
        try:
            response = await self.session.ask(request, version)
        except ClientError:
            return None
        answer = response.responses[0].partition_responses[0]
        assert isinstance(answer, PartitionProduceResponse), "one partition was asked"
        return answer

    async def _send_unheard(self, batches: Sequence[Batch]) -> None:
        """With acks=0 nobody ever knows."""
        for batch in batches:
            request, version = self._request(batch)
            with suppress(ClientError):
                await self.session.tell(request, version)
                self.world.counters["batches sent unheard"] += 1
            self._give_up(batch, INFO)

    def _request(self, batch: Batch) -> tuple[ProduceRequest, int]:
        batch.attempts += 1
        self.world.counters["batches sent"] += 1
        data = PartitionProduceData(index=self.target.partition, records=batch.encoded)
        request = ProduceRequest(
            acks=self.acks,
            timeout_ms=5_000,
            topic_data=[TopicProduceData(name=self.target.topic, partition_data=[data])],
        )
        lowest = ZSTD_VERSION_MIN if self.world.uses_zstd else PRODUCE_VERSION_MIN
        return request, self.session.node.random.randint(lowest, PRODUCE_VERSION_MAX)

    def _settle(
        self, batch: Batch, answer: PartitionProduceResponse | None, *, is_clean: bool
    ) -> bool:
        """Act on one answer. False when the batch must be sent again."""
        if answer is None:
            return False
        code = ErrorCode(answer.error_code)
        if code is ErrorCode.NONE:
            self._acknowledge(batch, answer.base_offset)
            return True
        if code is ErrorCode.DUPLICATE_SEQUENCE_NUMBER and self.is_idempotent:
            self._acknowledge(batch, None)
            return True
        if code in RETRIABLE:
            return False
        if code is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER and not is_clean:
            return False  # its predecessor of the same round was refused
        self.world.find(
            "a valid batch is refused", f"{self.producer} {self.target}: {code.name} {batch}"
        )
        self._give_up(batch, FAIL)
        return True

    def _acknowledge(self, batch: Batch, base_offset: int | None) -> None:
        self.pending.remove(batch)
        batch.offset = base_offset
        self.acknowledged.append(batch)
        now_s = self.world.loop.time()
        self.world.counters["records acknowledged"] += batch.record_count
        if batch.attempts > 1:
            self.world.counters["batches acknowledged after a retry"] += 1
        for index, identity in enumerate(batch.identities):
            offset = None if base_offset is None else base_offset + index
            self.world.history.end(now_s, identity, OK, "send", offset=offset)

    def _give_up(self, batch: Batch, kind: str) -> None:
        self.pending.remove(batch)
        for identity in batch.identities:
            self.world.history.end(self.world.loop.time(), identity, kind, "send")

    async def _ask_again(self, batch: Batch) -> None:
        """A retry of what was acknowledged must give the same answer."""
        if not self.is_idempotent or self.pending:
            return
        answer = await self._send(batch)
        if answer is None or answer.error_code in RETRIABLE:
            return
        self.world.counters["old batches asked again"] += 1
        is_known = answer.error_code == ErrorCode.DUPLICATE_SEQUENCE_NUMBER
        is_same = answer.error_code == 0 and batch.offset in (None, answer.base_offset)
        if not (is_known or is_same):
            self.world.find(
                "a retry gets the same offset",
                f"{self.producer} {self.target}: {batch.base_sequence} was at {batch.offset}, "
                f"now {answer.base_offset} (error {answer.error_code})",
            )


async def obtain_producer_id(session: Session) -> ProducerId:
    """Ask until there is one."""
    while True:
        try:
            response = await session.ask_any_version(
                InitProducerIdRequest(transactional_id=None, transaction_timeout_ms=60_000)
            )
        except ClientError:
            await session.back_off()
            continue
        if response.error_code == 0:
            return ProducerId(response.producer_id, response.producer_epoch)
        await session.back_off()


class Producer:
    """A process that sends to some partitions until the world heals, then finishes what is open."""

    def __init__(self, world: World, node: Node, topic: str, partitions: int) -> None:
        self.world = world
        self.node = node
        self.is_done = False
        random = node.random
        self._session = Session(node)
        self._is_idempotent = random.random() < 0.7
        self._lanes_wanted = [
            Target(topic, topic, index) for index in range(partitions) if random.random() < 0.8
        ] or [Target(topic, topic, 0)]
        self._window = random.choice((1, 1, BATCHES_IN_FLIGHT_MAX))
        self._acks = random.choice((-1, -1, 1) if self._is_idempotent else (-1, 1, 0))

    async def run(self) -> None:
        identity = await obtain_producer_id(self._session) if self._is_idempotent else ProducerId()
        lanes = [
            Lane(
                self.world,
                self._session,
                target,
                f"{self.node.name}:{target.partition}",
                identity,
                self._acks,
                self._window,
            )
            for target in self._lanes_wanted
        ]
        async with asyncio.TaskGroup() as group:
            for lane in lanes:
                group.create_task(self._run_lane(lane))
        self.is_done = True
        self._session.close()

    async def _run_lane(self, lane: Lane) -> None:
        while lane.pending or not self.world.is_healing:
            await lane.run_round(may_start=not self.world.is_healing)
            if not lane.pending:
                await asyncio.sleep(self.node.random.random() * PAUSE_S_MAX)
