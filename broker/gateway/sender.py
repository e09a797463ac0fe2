"""Sends what the lanes hold: one request for each broker and kind of acks, one batch in flight for
each partition, retries that store nothing twice.

Not here: which partition, which ids (putting), which producer identity (ledger). Limits: what is
not surely stored after `request.timeout.ms` fails, unless it may be stored: that is sent again
until the cluster says so.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Mapping
from itertools import repeat
from typing import Final, Protocol

import structlog

from broker.client.cluster import Cluster
from broker.client.failure import BrokerRefusal, ClientError
from broker.errors import OF_ONE_RECORD, ErrorCode, error_code
from broker.gateway.lane import Answer, Batch, Lane, Put, finish_all
from broker.gateway.problem import Problem, problem_of
from broker.model import TopicPartition
from broker.runtime.tasks import TaskScope
from broker.wire import api
from broker.wire.messages.produce import (
    PartitionProduceData,
    PartitionProduceResponse,
    ProduceRequest,
    ProduceResponse,
    TopicProduceData,
)

PURPOSE: Final = "gateway-produce"
SWEEP_S: Final = 0.1
FENCED_PAUSE_MS: Final = 1_000
BATCHES_OF_REQUEST_MAX: Final = 200

_new: Final = tuple.__new__  # what a NamedTuple's constructor calls, without its Python frame
_MOVED: Final = frozenset(
    {
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ErrorCode.LEADER_NOT_AVAILABLE,
        ErrorCode.NOT_LEADER_OR_FOLLOWER,
        ErrorCode.FENCED_LEADER_EPOCH,
        ErrorCode.UNKNOWN_LEADER_EPOCH,
        ErrorCode.KAFKA_STORAGE_ERROR,
    }
)
_UNKNOWN_OUTCOME: Final = frozenset(
    {
        ErrorCode.REQUEST_TIMED_OUT,
        ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND,
        ErrorCode.UNKNOWN_SERVER_ERROR,
        ErrorCode.NETWORK_EXCEPTION,
    }
)
_NUMBERS_LOST: Final = frozenset(
    {
        ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER,
        ErrorCode.UNKNOWN_PRODUCER_ID,
        ErrorCode.DUPLICATE_SEQUENCE_NUMBER,
    }
)
_FENCED: Final = frozenset({ErrorCode.INVALID_PRODUCER_EPOCH, ErrorCode.PRODUCER_FENCED})
_AT_ONCE: Final = frozenset(
    {
        ErrorCode.KAFKA_STORAGE_ERROR,
        ErrorCode.NOT_ENOUGH_REPLICAS,
        ErrorCode.THROTTLING_QUOTA_EXCEEDED,
    }
)
"""Refused now, although the protocol calls them retriable: the client decides how long to wait."""

_log = structlog.get_logger("hermes.gateway")


class Owner(Protocol):
    """What the sender asks of the ledger."""

    async def claim(self, lane: Lane) -> None:
        """Give the lane an identity that nobody else writes with. Raises Problem."""

    async def on_first_batch(self, lane: Lane, batch: Batch, base_offset: int) -> list[Answer]:
        """The answers to the first batch of a claim: what arrived unseen before it counts."""

    async def resolve(self, lane: Lane, batch: Batch) -> Mapping[Put, Answer]:
        """Those puts of a batch that are in the log, although nobody said so. Raises Problem."""

    def known(self, batch: Batch) -> Mapping[Put, Answer]:
        """Those puts of a batch whose ids are known by now: a claim reads the partition."""

    def on_found(self, lane: Lane, put: Put, answer: Answer) -> None:
        """The put is stored, as `resolve` or `known` said."""

    def on_stored(self, lane: Lane, batch: Batch, answers: list[Answer]) -> None:
        """The batch is stored; its puts are not finished yet."""

    def on_failed(self, lane: Lane, batch: Batch) -> None:
        """The batch is given up and surely not stored."""

    def on_fenced(self, reason: str) -> None:
        """Another gateway writes as this one."""


class Sender:
    """`start` it; append puts to a `lane` and tell it `on_appended`; `close` it in the end."""

    def __init__(self, cluster: Cluster, timeout_ms: int) -> None:
        self._cluster = cluster
        self._timeout_ms = timeout_ms
        self._clock = cluster.clock
        self._scope = TaskScope("gateway-sender")
        self._lanes: dict[tuple[str, int], Lane] = {}  # by TopicPartition
        self._ready: dict[Lane, None] = {}
        self._changed = asyncio.Event()
        self._is_draining = False
        self._is_closed = False
        self._owner: Owner | None = None
        self.throttled_until_ms = 0.0
        self.queued_bytes = 0

    async def start(self, owner: Owner) -> None:
        self._owner = owner
        await self._scope.start()
        self._scope.spawn(self._sweep(), "sweep")

    async def close(self) -> None:
        """Give up what is on its way."""
        self.give_up()
        await self._scope.close()
        self.give_up()

    def give_up(self) -> None:
        """Send nothing more; those who wait learn that nothing, or who knows what, was stored."""
        self._is_closed = True
        for lane in self._lanes.values():
            while lane.queue:
                batch = lane.queue.popleft()
                code = "OUTCOME_UNKNOWN" if batch.is_unknown else "NOT_READY"
                problem = Problem(code, "the gateway stops: send again, with the same messageId")
                for put in batch.puts:
                    put.finish(problem)

    @property
    def lanes(self) -> list[Lane]:
        return list(self._lanes.values())

    async def drain(self) -> None:
        """Returns when everything submitted has an outcome."""
        while any(lane.queue or lane.is_in_flight for lane in self._lanes.values()):
            self._changed.clear()
            await self._changed.wait()

    def lane(self, topic: str, partition: int, topic_id: bytes) -> Lane:
        """The lane of a partition, made when new."""
        lane = self._lanes.get((topic, partition))
        if lane is None or lane.topic_id != topic_id:
            if lane is not None and (lane.queue or lane.is_in_flight):
                return lane
            where = TopicPartition(topic, partition)
            lane = self._lanes[where] = Lane(where, topic_id)
        return lane

    def find(self, where: TopicPartition) -> Lane | None:
        """The lane of a partition, None without one."""
        return self._lanes.get(where)

    def drop(self, lane: Lane) -> None:
        """Forget an idle lane."""
        assert not lane.queue, f"{lane.where} has puts in its queue"
        if self._lanes.get(lane.where) is lane:
            del self._lanes[lane.where]

    def on_appended(self, lane: Lane, size: int) -> None:
        """A put was appended to the lane: it leaves with this turn of the loop."""
        self.queued_bytes += size
        if not lane.is_in_flight:
            self._wake(lane)

    def _wake(self, lane: Lane) -> None:
        self._ready[lane] = None
        if not self._is_draining and not self._is_closed:
            self._is_draining = True
            asyncio.get_running_loop().call_soon(self._drain)

    def _drain(self) -> None:
        self._is_draining = False
        if self._is_closed:
            return
        now_ms = self._clock.monotonic_ms()
        groups: dict[tuple[int | None, int], list[Lane]] = {}
        ready, self._ready = self._ready, {}
        for lane in ready:
            if lane.is_in_flight or not lane.queue:
                continue
            head = lane.queue[0]
            if head.not_before_ms > now_ms:
                continue  # the sweep comes back to it
            lane.is_in_flight = True
            if not lane.is_claimed or lane.needs_new_epoch:
                self._scope.spawn(self._guard([lane], self._claim(lane)), "claim")
                continue
            leader = self._cluster.known_leader(*lane.where)
            groups.setdefault((leader, head.acks), []).append(lane)
        for (leader, acks), lanes in groups.items():
            step = BATCHES_OF_REQUEST_MAX if leader is not None else 1
            for begin in range(0, len(lanes), step):
                part = lanes[begin : begin + step]
                self._scope.spawn(self._guard(part, self._attempt(leader, acks, part)), "deliver")

    async def _guard(self, lanes: list[Lane], work: Awaitable[None]) -> None:
        """Whatever happens, the lanes are free again afterwards and nobody waits for ever."""
        try:
            await work
        except Problem as problem:
            for lane in lanes:
                self._retry(lane, problem, is_final=False)
        except ClientError as error:
            for lane in lanes:
                self._on_error(lane, error)
        except Exception as error:  # noqa: BLE001 - a task's root: the puts must not wait for ever
            _log.error("puts cannot be sent", exc_info=error)
            for lane in lanes:
                if lane.queue and not lane.queue[0].is_unknown:
                    self._fail(lane, Problem("INTERNAL_ERROR", f"a bug of the gateway: {error!r}"))
        finally:
            for lane in lanes:
                lane.is_in_flight = False
                if lane.queue:
                    self._wake(lane)
            self._changed.set()

    async def _claim(self, lane: Lane) -> None:
        owner = self._must_own()
        if lane.queue[0].is_unknown:
            found = await owner.resolve(lane, lane.queue[0])
            if not lane.queue:
                return  # given up meanwhile
            self._settle(lane, found)
        await owner.claim(lane)
        if lane.queue:
            self._settle(lane, owner.known(lane.queue[0]))

    def _settle(self, lane: Lane, found: Mapping[Put, Answer]) -> None:
        """Finish the puts of the first batch that are stored already; the rest surely is not."""
        batch = lane.queue[0]
        batch.is_unknown = False
        batch.encoded = None
        if not found:
            return
        rest = [put for put in batch.puts if put not in found]
        size = sum(put.size for put in rest)
        self.queued_bytes -= batch.size - size
        batch.puts, batch.size = rest, size
        if not rest:
            lane.queue.popleft()
        for put, answer in found.items():
            self._must_own().on_found(lane, put, answer)
            put.finish(answer)

    async def _attempt(self, leader: int | None, acks: int, lanes: list[Lane]) -> None:
        if leader is None:
            (lane,) = lanes
            leader = (await self._find_leader(lane)) if lane.queue else None
            if leader is None:
                return
        await self._cluster.version(leader, api.PRODUCE, purpose=PURPOSE)  # connects: sends nothing
        request = ProduceRequest(acks=acks, timeout_ms=self._timeout_ms)
        topics: dict[str, TopicProduceData] = {}
        now_wall_ms = self._clock.wall_ms()
        for lane in lanes:
            row = topics.get(lane.where.topic)
            if row is None:
                row = topics[lane.where.topic] = TopicProduceData(name=lane.where.topic)
            data = lane.encode_head(now_wall_ms)
            row.partition_data.append(
                PartitionProduceData(index=lane.where.partition, records=data)
            )
        request.topic_data = list(topics.values())
        was_unknown = [lane.queue[0].is_unknown for lane in lanes]
        for lane in lanes:
            lane.queue[0].is_unknown = True
        try:
            answer: ProduceResponse = await self._cluster.request(
                leader, api.PRODUCE, request, purpose=PURPOSE, timeout_ms=self._timeout_ms
            )
        except ClientError:
            for lane in lanes:
                self._cluster.forget_topic(lane.where.topic)
            raise
        if answer.throttle_time_ms > 0:
            self.throttled_until_ms = self._clock.monotonic_ms() + answer.throttle_time_ms
        await self._on_answer(lanes, was_unknown, answer)

    async def _find_leader(self, lane: Lane) -> int | None:
        """The leader by fresh metadata; None when the topic is gone, and its puts with it."""
        try:
            leader, _ = await self._cluster.leader(*lane.where)
        except BrokerRefusal as error:
            if error.code is not ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
                raise
            problem = problem_of(error, f"topic {lane.where.topic!r}", field="topic")
            while lane.queue:
                self._fail(lane, problem)
            return None
        view = self._cluster.topics.get(lane.where.topic)
        if view is not None and view.topic_id != lane.topic_id:
            problem = Problem("UNKNOWN_TOPIC", f"topic {lane.where.topic!r} was created anew")
            while lane.queue:
                self._fail(lane, problem)
            return None
        return leader

    async def _on_answer(
        self, lanes: list[Lane], was_unknown: list[bool], answer: ProduceResponse
    ) -> None:
        rows = {
            (topic.name, row.index): row
            for topic in answer.responses
            for row in topic.partition_responses
        }
        for lane, was in zip(lanes, was_unknown, strict=True):
            if not lane.queue:
                continue  # given up meanwhile
            row = rows.get(lane.where)
            if row is None:
                self._on_error(lane, BrokerRefusal(ErrorCode.UNKNOWN_SERVER_ERROR))
            else:
                await self._on_partition(lane, row, was_unknown=was)

    async def _on_partition(
        self, lane: Lane, row: PartitionProduceResponse, *, was_unknown: bool
    ) -> None:
        code = error_code(row.error_code)
        if code is ErrorCode.NONE and row.base_offset >= 0:
            await self._on_stored(lane, row.base_offset)
            return
        batch = lane.queue[0]
        if code in _FENCED:
            batch.not_before_ms = self._clock.monotonic_ms() + FENCED_PAUSE_MS
            batch.is_unknown = was_unknown
            self._must_own().on_fenced(f"{lane.where}: {row.error_message or code.name}")
            return
        if code is ErrorCode.NONE or code in _NUMBERS_LOST:
            # Numbers that the broker does not know any more: look whether the batch is stored
            # (only an earlier attempt may have stored it), then go on in the next epoch.
            lane.needs_new_epoch = True
            batch.is_unknown = was_unknown or code not in _NUMBERS_LOST or _is_duplicate(code)
            self._pause(batch)
            return
        if code not in _UNKNOWN_OUTCOME:
            batch.is_unknown = was_unknown
        if code in OF_ONE_RECORD and not was_unknown and lane.split_head():
            return
        if code in _MOVED:
            self._cluster.forget_topic(lane.where.topic)
            lane.needs_new_epoch |= code is ErrorCode.KAFKA_STORAGE_ERROR and not was_unknown
        self._on_error(lane, BrokerRefusal(code, row.error_message, subject=str(lane.where)))

    async def _on_stored(self, lane: Lane, base_offset: int) -> None:
        batch = lane.queue[0]
        owner = self._must_own()
        end = base_offset + len(batch.puts)
        if batch.acks == -1 and end > lane.high_watermark:
            lane.high_watermark = end
        if lane.checked_end is not None:
            answers = await owner.on_first_batch(lane, batch, base_offset)
            lane.checked_end = None
            if not lane.queue:
                return  # given up meanwhile
        else:
            partition, watermark = lane.where.partition, lane.high_watermark
            offsets = range(base_offset, end)
            rows = zip(repeat(partition), offsets, repeat(watermark), repeat(False))  # noqa: FBT003 - zip's
            answers = list(map(_new, repeat(Answer), rows))
        if base_offset < lane.stored_end:  # offsets begin again: the topic was created anew
            self._cluster.forget_topic(lane.where.topic)
        lane.take_head(is_stored=True)
        lane.stored_end = max(lane.stored_end, end)
        lane.problem = None
        self.queued_bytes -= batch.size
        owner.on_stored(lane, batch, answers)
        finish_all(batch.puts, answers)

    def _on_error(self, lane: Lane, error: ClientError) -> None:
        problem = problem_of(error, str(lane.where))
        code = error.code if isinstance(error, BrokerRefusal) else None
        self._retry(lane, problem, is_final=not error.is_retriable or code in _AT_ONCE)

    def _retry(self, lane: Lane, problem: Problem, *, is_final: bool) -> None:
        """Try the first batch again later, unless that is final and the batch surely not stored."""
        if not lane.queue:
            return
        batch = lane.queue[0]
        lane.problem = problem
        is_final = is_final or problem.kind.code in {"DISK_FULL", "REPLICA_LAGGING", "NOT_READY"}
        if is_final and not batch.is_unknown:
            self._fail(lane, problem)
            return
        self._pause(batch)

    def _pause(self, batch: Batch) -> None:
        """Each time it is sent again later than the last time."""
        settings = self._cluster.settings
        batch.pause_ms = min(
            max(batch.pause_ms * 2, settings.retry_backoff_ms), settings.retry_backoff_max_ms
        )
        pause_ms = self._cluster.jittered(batch.pause_ms)
        batch.not_before_ms = self._clock.monotonic_ms() + pause_ms

    def _fail(self, lane: Lane, problem: Problem) -> None:
        """The first batch; with one that opens an epoch all that waits, or each that waits would
        open another epoch at once, to be refused in its turn.
        """
        takes_all = lane.queue[0].opens_epoch
        while lane.queue:
            batch = lane.take_head(is_stored=False)
            self.queued_bytes -= batch.size
            self._must_own().on_failed(lane, batch)
            for put in batch.puts:
                put.finish(problem)
            if not takes_all:
                return

    async def _sweep(self) -> None:
        """Wakes lanes whose pause is over, and fails what waited for too long."""
        while True:
            await asyncio.sleep(SWEEP_S)
            now_ms = self._clock.monotonic_ms()
            for lane in list(self._lanes.values()):
                if lane.queue:
                    self._sweep_lane(lane, now_ms)

    def _sweep_lane(self, lane: Lane, now_ms: float) -> None:
        kept = []
        for position, batch in enumerate(list(lane.queue)):
            is_busy = position == 0 and (lane.is_in_flight or batch.is_unknown)
            if is_busy or now_ms - batch.created_ms < self._timeout_ms:
                kept.append(batch)
                continue
            problem = lane.problem or Problem(
                "LEADER_NOT_AVAILABLE",
                f"{lane.where}: what came before is not stored yet after {self._timeout_ms} ms; "
                "nothing of this was sent. Send again after Retry-After",
            )
            self.queued_bytes -= batch.size
            self._must_own().on_failed(lane, batch)
            for put in batch.puts:
                put.finish(problem)
        if len(kept) < len(lane.queue):
            lane.queue.clear()
            lane.queue.extend(kept)
            self._changed.set()
        if lane.queue and not lane.is_in_flight and lane.queue[0].not_before_ms <= now_ms:
            self._wake(lane)

    def _must_own(self) -> Owner:
        assert self._owner is not None, "the sender is started before it sends"
        return self._owner


def _is_duplicate(code: ErrorCode) -> bool:
    return code is ErrorCode.DUPLICATE_SEQUENCE_NUMBER
