"""The ids topic: who owns it, which partitions the owner may write to, and the ids it has stored.

A record's `message-id` header is written with the record itself, so the topics are the truth; the
ids topic is an index of them with positions. A put is answered without waiting for it: ids are
written in blocks, a moment later. After a crash what a block does not hold is read from the
partitions, each from its claim's position on. Invariants: nothing is sent to a partition before its
claim is stored; what lies below a claim's position is in blocks; each claim's producer identity is
newer than any before it, so that nothing of an earlier process can arrive after its first batch.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Final

import structlog

from broker.client.cluster import ANY_NODE, Cluster
from broker.client.failure import BrokerRefusal, ClientError
from broker.errors import ErrorCode, error_code
from broker.gateway.ids import (
    CLAIMS,
    CLAIMS_OF_RECORD_MAX,
    IDS,
    IDS_OF_RECORD_MAX,
    OWNER,
    Block,
    Claim,
    EntryRow,
    FirstAnswer,
    IdIndex,
    Owner,
    encode_block,
    encode_claims,
    encode_owner,
    id_key,
)
from broker.gateway.lane import EPOCH_MAX, Answer, Batch, Call, Lane, Put
from broker.gateway.problem import Problem, problem_of
from broker.gateway.scan import end_offset, read_ids
from broker.gateway.sender import Sender
from broker.metrics import GatewayMetrics
from broker.model import TopicPartition
from broker.records.build import encode_body
from broker.wire import api
from broker.wire.messages.init_producer_id import InitProducerIdRequest

RECORD_MS: Final = 100
IDLE_MS: Final = 10_000
"""A partition without puts for this long is closed: nothing of it is read after a crash."""
UNREAD_MS: Final = 60_000
"""After this long nothing of an earlier process is waited for any more."""
REFRESH_SHARE: Final = 0.25
"""Owner and claims are written again after this share of the window, so that they outlive it."""
STALE_SHARE: Final = 0.5
"""Without a write to the ids topic for this share of the window nothing is accepted."""

_log = structlog.get_logger("hermes.gateway")


class Ledger:
    """Implements `sender.Owner`; opened by `recovery.recover`."""

    def __init__(
        self,
        cluster: Cluster,
        sender: Sender,
        metrics: GatewayMetrics,
        lane: Lane,
        owner: Owner,
        *,
        producer_id: int,
        window_ms: int,
        on_fenced: Callable[[str], None],
    ) -> None:
        self.index = IdIndex(window_ms)
        self.pending: dict[bytes, Put] = {}
        """Puts on their way whose ids are kept."""
        self.claims: dict[TopicPartition, Claim] = {}
        self.unread: set[TopicPartition] = set()
        """Claims of the process before: what it wrote last may not be in a block."""
        self._cluster = cluster
        self._clock = cluster.clock
        self._sender = sender
        self._metrics = metrics
        self._lane = lane
        self._owner = owner
        self._producer_id = producer_id
        self._window_ms = window_ms
        self._fenced = on_fenced
        self._written_ms = cluster.clock.monotonic_ms()
        self._refreshed_ms = self._opened_ms = self._written_ms
        self._reading = asyncio.Lock()
        self._is_epoch_told = True
        """Whether the owner record of the epoch that we write in is stored."""

    @property
    def unrecorded(self) -> int:
        """Ids that only this process knows, and the topics."""
        return sum(len(lane.unrecorded) for lane in self._sender.lanes)

    def check_writable(self) -> None:
        """Raises Problem when the ids topic could not be written for too long: what is accepted
        now might be accepted again after a crash.
        """
        stale_ms = self._clock.monotonic_ms() - self._written_ms
        if stale_ms > self._window_ms * STALE_SHARE:
            raise Problem(
                "LEADER_NOT_AVAILABLE",
                f"the topic of ids, {self._lane.where.topic}, could not be written for "
                f"{stale_ms / 1000:.0f} s: nothing is accepted until it can",
            )

    async def claim(self, lane: Lane) -> None:
        """See sender.Owner. The claim is stored when this returns."""
        if lane is self._lane:
            self._own_again()
            return
        now_ms = self._clock.monotonic_ms()
        lane.used_ms = now_ms
        old = self.claims.get(lane.where)
        is_known = old is not None and old.topic_id == lane.topic_id
        if not lane.is_claimed:
            await self.read_claims(lane.where.topic)
            old = self.claims.get(lane.where)
            if is_known and old is not None and old.is_open:
                position = old.position
            else:
                position = await self._end(lane.where)
            lane.position = lane.stored_end = position
            lane.high_watermark = max(lane.high_watermark, position)
            lane.checked_end = position if lane.where in self.unread else None
        if is_known and old is not None and old.producer_epoch < EPOCH_MAX:
            identity = old.producer_id, old.producer_epoch + 1
        elif is_known:
            identity = (await new_identity(self._cluster)).producer_id, 0
        else:
            identity = self._producer_id, 0
        claim = Claim(lane.where, lane.topic_id, lane.position, *identity, is_open=True)
        await self._write([(CLAIMS, encode_claims([claim]))])
        self.claims[lane.where] = claim
        lane.identify(*identity)
        lane.is_claimed = True

    async def read_claims(self, topic: str) -> None:
        """Read what the process before wrote to the topic's partitions and did not put into blocks.
        Raises Problem.
        """
        async with self._reading:
            await self._drop_deleted(topic)
            for where in [each for each in self.unread if each.topic == topic]:
                claim = self.claims[where]
                try:
                    end = await end_offset(self._cluster, where)
                    entries = await self._read(where, claim.topic_id, claim.position, end)
                except ClientError as error:
                    raise problem_of(error, f"{where} must be read before puts") from None
                if end > claim.position:
                    await self._write(_blocks(claim, entries, end))
                    self.claims[where] = claim._replace(position=end)

    async def _drop_deleted(self, topic: str) -> None:
        """Forget claims on partitions of a topic that is gone, or was created anew."""
        try:
            topic_id = (await self._cluster.topic(topic)).topic_id
        except BrokerRefusal as error:
            if error.code is not ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
                raise problem_of(error, f"topic {topic!r}") from None
            topic_id = b""
        except ClientError as error:
            raise problem_of(error, f"topic {topic!r}") from None
        for where in [each for each in self.unread if each.topic == topic]:
            if self.claims[where].topic_id != topic_id:
                self.unread.discard(where)
                del self.claims[where]

    async def on_first_batch(self, lane: Lane, batch: Batch, base_offset: int) -> list[Answer]:
        """See sender.Owner: from now on nothing of an earlier process can arrive any more."""
        self.unread.discard(lane.where)
        watermark = lane.high_watermark
        answers = [
            Answer(lane.where.partition, base_offset + position, watermark)
            for position in range(len(batch.puts))
        ]
        begin = lane.checked_end
        if begin is None or begin >= base_offset:
            return answers
        try:
            await self._read(lane.where, lane.topic_id, begin, base_offset)
        except ClientError as error:
            _log.warning(
                "cannot be read for late puts", partition=str(lane.where), error=str(error)
            )
        for position, put in enumerate(batch.puts):
            first = self.index.find(put.id_key)
            if first is not None and first.offset >= 0:
                self._metrics.double_stores_total.add()
                answers[position] = _repeated(first)
        return answers

    async def resolve(self, lane: Lane, batch: Batch) -> Mapping[Put, Answer]:
        """See sender.Owner."""
        by_key = {put.id_key: put for put in batch.puts}
        found: dict[Put, Answer] = {}
        if lane is self._lane:
            return found  # a block twice says the same twice
        try:
            end = await end_offset(self._cluster, lane.where)
            async for row in read_ids(self._cluster, lane.where, lane.position, end):
                key = id_key(lane.where.topic, lane.topic_id, row.message_id)
                put = by_key.get(key)
                if put is not None and put not in found:
                    found[put] = Answer(lane.where.partition, row.offset, row.high_watermark)
        except ClientError as error:
            raise problem_of(error, f"{lane.where} must be read first") from None
        return found

    def known(self, batch: Batch) -> Mapping[Put, Answer]:
        """See sender.Owner."""
        found: dict[Put, Answer] = {}
        for put in batch.puts:
            first = self.index.find(put.id_key)
            if first is not None:
                found[put] = _repeated(first)
        return found

    def on_found(self, lane: Lane, put: Put, answer: Answer) -> None:
        """See sender.Owner."""
        self.pending.pop(put.id_key, None)
        if put.is_kept and not answer.is_duplicate:
            lane.stored_end = max(lane.stored_end, answer.offset + 1)
            entry = put.id_key, put.digest, answer.offset, answer.high_watermark
            self._keep(lane, [(*entry, self._clock.wall_ms())])

    def on_stored(self, lane: Lane, batch: Batch, answers: list[Answer]) -> None:
        """See sender.Owner."""
        if lane is self._lane:
            self._written_ms = self._clock.monotonic_ms()
            self._is_epoch_told |= batch.opens_epoch
            return
        lane.used_ms = self._clock.monotonic_ms()
        self._metrics.messages_stored_total.add(len(answers))
        now_wall_ms = self._clock.wall_ms()
        kept = [
            (put.id_key, put.digest, answer[1], answer[2], now_wall_ms)
            for put, answer in zip(batch.puts, answers, strict=True)
            if put.is_kept and not answer[3]
        ]
        self._keep(lane, kept)
        for put in batch.puts:
            if put.is_kept:
                self.pending.pop(put.id_key, None)

    def on_failed(self, lane: Lane, batch: Batch) -> None:
        """See sender.Owner."""
        if batch.opens_epoch:
            lane.needs_new_epoch = True  # nothing else may be the first of that epoch
        for put in batch.puts:
            if put.is_kept:
                self.pending.pop(put.id_key, None)

    def on_fenced(self, reason: str) -> None:
        """See sender.Owner."""
        self._fenced(reason)

    def _keep(self, lane: Lane, entries: list[EntryRow]) -> None:
        """Ids that are stored now."""
        self.index.add_new(entries, lane.where.partition, self._clock.monotonic_ms())
        lane.unrecorded += entries

    async def run(self) -> None:
        """Write blocks, close idle partitions, write owner and claims again; until cancelled."""
        while True:
            await asyncio.sleep(RECORD_MS / 1000)
            try:
                await self.record()
                now_ms = self._clock.monotonic_ms()
                self.index.expire(now_ms)
                await self._close_idle(now_ms - IDLE_MS)
                if self.unread and now_ms - self._opened_ms > UNREAD_MS:
                    await self._close_unread()
                if now_ms - self._refreshed_ms > self._window_ms * REFRESH_SHARE:
                    await self._refresh(now_ms)
            except Problem as problem:
                _log.warning("the ids topic cannot be written", reason=problem.detail)
                await asyncio.sleep(1)

    async def record(self) -> None:
        """Write the ids that are in no block yet. Raises Problem; then they are kept for later."""
        taken = []
        records = []
        for lane in self._sender.lanes:
            if lane is self._lane or lane.stored_end <= lane.position:
                continue
            entries, end = lane.unrecorded, lane.stored_end
            lane.unrecorded = []
            taken.append((lane, entries, end))
            records += list(_blocks(lane, entries, end))
        if not records:
            return
        try:
            await self._write(records)
        except BaseException:
            for lane, entries, _ in taken:
                lane.unrecorded = entries + lane.unrecorded
            raise
        for lane, _, end in taken:
            lane.position = end
            self._move(lane)

    async def close(self) -> None:
        """Write what is left and close every claim: the next start reads no partition. Failures are
        logged.
        """
        try:
            await self.record()
            await self._close_idle(float("inf"))
        except Problem as problem:
            _log.warning("the claims stay open", reason=problem.detail)

    def _move(self, lane: Lane) -> None:
        claim = self.claims.get(lane.where)
        if claim is not None:
            self.claims[lane.where] = claim._replace(position=lane.position)

    async def _close_idle(self, used_before_ms: float) -> None:
        idle = [
            lane
            for lane in self._sender.lanes
            if lane is not self._lane
            and lane.is_claimed
            and lane.used_ms < used_before_ms
            and not (lane.queue or lane.is_in_flight)
            and lane.position >= lane.stored_end
        ]
        if not idle:
            return
        closed = []
        for lane in idle:
            lane.is_claimed = False
            self._sender.drop(lane)
            claim = self.claims[lane.where]
            self.claims[lane.where] = claim._replace(is_open=False, position=lane.position)
            closed.append(self.claims[lane.where])
        await self._write_claims(closed)

    async def _close_unread(self) -> None:
        """Read a last time what the process before had open, and close it."""
        for topic in {where.topic for where in self.unread}:
            await self.read_claims(topic)
        for where in list(self.unread):
            lane = self._sender.find(where)
            if lane is None or not lane.is_claimed:
                self.claims[where] = self.claims[where]._replace(is_open=False)
                await self._write_claims([self.claims[where]])
            self.unread.discard(where)

    async def _refresh(self, now_ms: float) -> None:
        await self._write([(OWNER, encode_owner(self._owner))])
        await self._write_claims(list(self.claims.values()))
        self._refreshed_ms = now_ms

    async def _write_claims(self, claims: list[Claim]) -> None:
        records = [
            (CLAIMS, encode_claims(claims[begin : begin + CLAIMS_OF_RECORD_MAX]))
            for begin in range(0, len(claims), CLAIMS_OF_RECORD_MAX)
        ]
        if records:
            await self._write(records)

    async def _write(self, records: Iterable[tuple[bytes, bytes]]) -> None:
        """Returns when they are stored. Raises Problem."""
        rows = list(records)
        loop = asyncio.get_running_loop()
        call = Call(len(rows), loop.create_future(), float("inf"))
        now_ms = self._clock.monotonic_ms()
        for position, (kind, value) in enumerate(rows):
            put = Put(encode_body(kind, value, ()), b"", b"", call, position, is_kept=False)
            self._lane.append(put, -1, now_ms)
            self._sender.on_appended(self._lane, put.size)
        await call.future
        for outcome in call.outcomes:
            if isinstance(outcome, Problem):
                raise Problem(
                    outcome.kind.code, f"the topic of ids cannot be written: {outcome.detail}"
                )

    def _own_again(self) -> None:
        """The cluster does not know our numbers any more: go on in the next epoch, which the first
        record of it tells. One whose owner record was refused is tried again: it holds nothing.
        Raises Problem.
        """
        lane = self._lane
        is_head = lane.queue[0].opens_epoch
        if self._is_epoch_told or is_head:
            if self._owner.producer_epoch >= EPOCH_MAX:
                raise Problem("NOT_READY", f"the epochs of {lane.where} are used up: start anew")
            before = self._owner
            self._owner = before._replace(producer_epoch=before.producer_epoch + 1)
            self._tell_newest(_owner_body(before))
        lane.identify(self._owner.producer_id, self._owner.producer_epoch)
        self._is_epoch_told = False
        if not is_head:
            batch = Batch(-1, self._clock.monotonic_ms())
            body = _owner_body(self._owner)
            batch.puts.append(Put(body, b"", b"", None, 0, is_kept=False))
            batch.is_closed = batch.opens_epoch = True
            lane.queue.appendleft(batch)

    def _tell_newest(self, before: bytes) -> None:
        """An owner record that waits tells the epoch that it will be stored in: an older one behind
        a newer would have the next start take an epoch that is taken.
        """
        for batch in self._lane.queue:
            for put in batch.puts:
                if put.body == before:
                    put.body = _owner_body(self._owner)
                    batch.encoded = None

    async def _end(self, where: TopicPartition) -> int:
        try:
            return await end_offset(self._cluster, where)
        except ClientError as error:
            raise problem_of(error, str(where)) from None

    async def _read(
        self, where: TopicPartition, topic_id: bytes, begin: int, end: int
    ) -> list[EntryRow]:
        """Put the ids between two offsets into the index; the entries for their blocks."""
        now_ms, now_wall_ms = self._clock.monotonic_ms(), self._clock.wall_ms()
        entries: list[EntryRow] = []
        async for row in read_ids(self._cluster, where, begin, end):
            age_ms = max(0, now_wall_ms - row.time_ms)
            if age_ms > self._window_ms:
                continue
            key = id_key(where.topic, topic_id, row.message_id)
            answer = FirstAnswer(where.partition, row.offset, row.high_watermark, row.digest)
            self.index.add(key, answer, now_ms - age_ms)
            entries.append((key, row.digest, row.offset, row.high_watermark, row.time_ms))
        self._metrics.recovered_ids_total.add(len(entries), source="topic")
        return entries


def _owner_body(owner: Owner) -> bytes:
    return encode_body(OWNER, encode_owner(owner), ())


def _repeated(first: FirstAnswer) -> Answer:
    return Answer(first.partition, first.offset, first.high_watermark, is_duplicate=True)


def _blocks(
    place: Lane | Claim, entries: list[EntryRow], end: int
) -> Iterator[tuple[bytes, bytes]]:
    """Records for the entries; only the last one moves the position to `end`."""
    for begin in range(0, max(len(entries), 1), IDS_OF_RECORD_MAX):
        is_last = begin + IDS_OF_RECORD_MAX >= len(entries)
        block = Block(
            place.where,
            place.topic_id,
            end if is_last else place.position,
            entries[begin : begin + IDS_OF_RECORD_MAX],
        )
        yield IDS, encode_block(block)


async def new_identity(cluster: Cluster) -> Owner:
    """A producer identity of our own, with epoch 0 (`gateway` is empty). Raises ClientError."""

    async def attempt() -> Owner:
        request = InitProducerIdRequest(transactional_id=None)
        answer = await cluster.request(ANY_NODE, api.INIT_PRODUCER_ID, request)
        if answer.error_code:
            raise BrokerRefusal(error_code(answer.error_code), subject="producer id")
        return Owner("", answer.producer_id, answer.producer_epoch)

    return await cluster.call(attempt, what="get a producer id")
