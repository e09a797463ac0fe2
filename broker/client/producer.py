"""Sends records: batches them per partition, keeps their order, tries again, stores each once.

Not here: the queue of a partition (lane). One batch per partition is in flight, any number of
partitions travel in one request. With `enable.idempotence` and acks=all the broker drops what
arrives twice. Limits: `buffer.memory` makes `send` wait, `delivery.timeout.ms` ends a record's
life.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Final

import structlog

from broker.client.cluster import ANY_NODE, Cluster
from broker.client.failure import BrokerRefusal, ClientError, TimedOut
from broker.client.lane import Delivery, Lane, RecordMetadata, record_size
from broker.client.partitioner import StickyPartitioner, murmur2_partition
from broker.errors import OF_ONE_RECORD, ErrorCode, error_code
from broker.model import NO_PRODUCER_ID
from broker.records.build import NewRecord
from broker.runtime.tasks import TaskScope
from broker.wire import api
from broker.wire.messages.init_producer_id import InitProducerIdRequest
from broker.wire.messages.produce import (
    PartitionProduceData,
    PartitionProduceResponse,
    ProduceRequest,
    ProduceResponse,
    TopicProduceData,
)

__all__ = ["Producer", "RecordMetadata"]

ACKS_NONE: Final = 0
ACKS_LEADER: Final = 1
ACKS_ALL: Final = -1
PURPOSE: Final = "produce"

_log = structlog.get_logger("hermes.client")

_STORED: Final = frozenset({ErrorCode.NONE, ErrorCode.DUPLICATE_SEQUENCE_NUMBER})
_NEW_EPOCH: Final = frozenset(
    {
        ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER,
        ErrorCode.UNKNOWN_PRODUCER_ID,
        ErrorCode.INVALID_PRODUCER_EPOCH,
    }
)
_MOVED: Final = frozenset(
    {
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ErrorCode.LEADER_NOT_AVAILABLE,
        ErrorCode.NOT_LEADER_OR_FOLLOWER,
        ErrorCode.FENCED_LEADER_EPOCH,
        ErrorCode.KAFKA_STORAGE_ERROR,
    }
)
_UNKNOWN_OUTCOME: Final = frozenset(
    {
        ErrorCode.REQUEST_TIMED_OUT,
        ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND,
        ErrorCode.UNKNOWN_SERVER_ERROR,
    }
)


class Producer:
    """`start` it, `close` it. Shares its cluster with others."""

    def __init__(
        self, cluster: Cluster, *, acks: int = ACKS_ALL, compression: str = "none"
    ) -> None:
        self._cluster = cluster
        self._settings = cluster.settings
        self._clock = cluster.clock
        self._acks = acks
        self._compression = compression
        self._is_idempotent = cluster.settings.enable_idempotence and acks == ACKS_ALL
        self._sticky = StickyPartitioner(cluster.ids, cluster.settings.batch_size)
        self._lanes: dict[tuple[str, int], Lane] = {}
        self._scope = TaskScope("producer")
        self._wake = asyncio.Event()
        self._room = asyncio.Event()
        self._buffered_bytes = 0
        self._flush_count = 0
        self._is_closed = False
        self._identity: tuple[int, int] | None = None
        self._identity_lock = asyncio.Lock()
        self._checks = 0
        self._check_lock = asyncio.Lock()

    @property
    def buffered_bytes(self) -> int:
        """About the bytes of records that are not yet stored or given up."""
        return self._buffered_bytes

    async def start(self) -> None:
        """Start the sender."""
        await self._scope.start()
        self._scope.spawn(self._run(), "sender")

    async def send(
        self,
        topic: str,
        value: bytes | None,
        *,
        key: bytes | None = None,
        partition: int | None = None,
        headers: Sequence[tuple[str, bytes | None]] = (),
        timestamp_ms: int | None = None,
    ) -> Delivery:
        """Queue a record; the future returned is done when it is stored (or sent, with acks=0) or
        given up.

        Waits for the topic's metadata and for room in the buffer. Raises ClientError. The future
        fails with a ClientError; after TimedOut or ConnectionLost the record may be stored
        nevertheless.
        """
        if self._is_closed:
            msg = "the producer is closed"
            raise ClientError(msg)
        stamp = self._clock.wall_ms() if timestamp_ms is None else timestamp_ms
        record = NewRecord(key, value, tuple(headers), stamp)
        size = record_size(record)
        if partition is None:
            partition = await self._choose_partition(topic, key, size)
        elif self._checks or self._cluster.known_leader(topic, partition) is None:
            await self._check_in_turn(topic, partition)
        await self._wait_for_room(size)
        delivery: Delivery = asyncio.get_running_loop().create_future()
        delivery.add_done_callback(_retrieve)
        lane = self._lanes.get((topic, partition))
        if lane is None:
            lane = self._lanes[topic, partition] = Lane(topic, partition)
        self._buffered_bytes += size
        lane.append(
            record,
            delivery,
            now_ms=self._clock.monotonic_ms(),
            batch_bytes=self._settings.batch_size,
        )
        self._wake.set()
        return delivery

    async def send_and_wait(
        self,
        topic: str,
        value: bytes | None,
        *,
        key: bytes | None = None,
        partition: int | None = None,
        headers: Sequence[tuple[str, bytes | None]] = (),
    ) -> RecordMetadata:
        """`send`, and wait until the record is stored."""
        return await (await self.send(topic, value, key=key, partition=partition, headers=headers))

    async def flush(self) -> None:
        """Returns when everything sent so far is stored or given up."""
        waiting = [
            delivery
            for lane in self._lanes.values()
            for batch in lane.queue
            for delivery in batch.deliveries
            if not delivery.done()
        ]
        if not waiting:
            return
        self._flush_count += 1
        self._wake.set()
        try:
            await asyncio.wait(waiting)
        finally:
            self._flush_count -= 1

    async def close(self, *, timeout_ms: int = 5_000) -> None:
        """Flush for at most `timeout_ms`, then give up the rest. Closing twice is fine."""
        self._is_closed = True
        self._room.set()
        try:
            async with asyncio.timeout(timeout_ms / 1000):
                await self.flush()
        except TimeoutError:
            pass
        await self._scope.close()
        for lane in self._lanes.values():
            while lane.queue:
                self._release(lane.fail(ClientError("the producer was closed")))

    async def _choose_partition(self, topic: str, key: bytes | None, size: int) -> int:
        view = await self._cluster.call(
            lambda: self._cluster.topic(topic, creates=True), what=f"find topic {topic!r}"
        )
        count = len(view.partitions)
        if not count:
            raise BrokerRefusal(ErrorCode.LEADER_NOT_AVAILABLE, subject=f"topic {topic!r}")
        if key is None:
            return self._sticky.partition(topic, count, size)
        return murmur2_partition(key, count)

    async def _check_in_turn(self, topic: str, partition: int) -> None:
        """As `_check_partition`, once for each partition. Records stay in the order of their sends:
        one that comes while another's partition is looked up waits behind it.
        """
        self._checks += 1
        try:
            async with self._check_lock:
                is_known = self._cluster.known_leader(topic, partition) is not None
                if not is_known and (topic, partition) not in self._lanes:
                    await self._check_partition(topic, partition)
        finally:
            self._checks -= 1

    async def _check_partition(self, topic: str, partition: int) -> None:
        """Raises BrokerRefusal when the topic is known to have no such partition. Whether it has
        is looked up once: a cluster that is away is the delivery's business.
        """
        view = self._cluster.topics.get(topic)
        if view is None or partition >= len(view.partitions):
            self._cluster.forget_topic(topic)
            try:
                view = await self._cluster.topic(topic, creates=True)
            except ClientError:
                return
        if view is None or partition < len(view.partitions):
            return
        count = len(view.partitions)
        text = f"it has {count} partition{'s' * (count != 1)}, numbered from 0"
        subject = f"{topic}-{partition}"
        refusal = BrokerRefusal(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, text, subject=subject)
        refusal.is_retriable = False
        raise refusal

    async def _wait_for_room(self, size: int) -> None:
        if self._buffered_bytes == 0 or self._buffered_bytes + size <= self._settings.buffer_memory:
            return
        try:
            async with asyncio.timeout(self._settings.request_timeout_ms / 1000):
                while self._buffered_bytes + size > self._settings.buffer_memory:
                    if self._is_closed:
                        msg = "the producer is closed"
                        raise ClientError(msg)
                    if self._buffered_bytes == 0:
                        return
                    self._room.clear()
                    await self._room.wait()
        except TimeoutError:
            msg = f"no room in the buffer of {self._settings.buffer_memory} bytes"
            raise TimedOut(msg) from None

    def _release(self, batch_bytes: int) -> None:
        self._buffered_bytes = max(0, self._buffered_bytes - batch_bytes)
        self._room.set()

    async def _run(self) -> None:
        while True:
            self._wake.clear()
            delay_ms = self._drain(self._clock.monotonic_ms())
            try:
                async with asyncio.timeout(None if delay_ms is None else delay_ms / 1000):
                    await self._wake.wait()
            except TimeoutError:
                pass

    def _drain(self, now_ms: float) -> float | None:
        """Send what is due. Returns in how many ms the next batch is, None when there is none."""
        due: dict[int | None, list[Lane]] = {}
        delay_ms: float | None = None
        for lane in self._lanes.values():
            if lane.is_in_flight or not lane.queue:
                continue
            wait_ms = self._wait_of(lane, now_ms)
            if wait_ms > 0:
                delay_ms = wait_ms if delay_ms is None else min(delay_ms, wait_ms)
                continue
            leader = self._cluster.known_leader(lane.topic, lane.partition)
            due.setdefault(leader, []).append(lane)
        for leader, lanes in due.items():
            for group in [lanes] if leader is not None else [[lane] for lane in lanes]:
                for lane in group:
                    lane.is_in_flight = True
                    lane.queue[0].is_closed = True
                self._scope.spawn(self._deliver(leader, group), "deliver")
        return delay_ms

    def _wait_of(self, lane: Lane, now_ms: float) -> float:
        """In how many ms the lane's first batch is due."""
        batch = lane.queue[0]
        if self._flush_count or batch.is_closed:
            return batch.not_before_ms - now_ms
        return batch.created_ms + self._settings.linger_ms - now_ms

    async def _deliver(self, leader: int | None, lanes: list[Lane]) -> None:
        try:
            await self._attempt(leader, lanes)
        except ClientError as error:
            for lane in lanes:
                self._on_failure(lane, error)
        except Exception as error:  # noqa: BLE001 - a task's root: the records must not wait for ever
            _log.error("a batch cannot be sent", exc_info=error)
            for lane in lanes:
                self._release(lane.fail(ClientError(f"a bug in this client: {error!r}")))
        finally:
            for lane in lanes:
                lane.is_in_flight = False
            self._wake.set()

    async def _attempt(self, leader: int | None, lanes: list[Lane]) -> None:
        if leader is None:
            (lane,) = lanes
            leader, _ = await self._cluster.leader(lane.topic, lane.partition)
        if self._is_idempotent:
            await self._identify(lanes)
        request = ProduceRequest(acks=self._acks, timeout_ms=self._settings.request_timeout_ms)
        topics: dict[str, TopicProduceData] = {}
        for lane in lanes:
            data = lane.encode_head(
                is_idempotent=self._is_idempotent,
                compression=self._compression,
                now_wall_ms=self._clock.wall_ms(),
            )
            row = topics.setdefault(lane.topic, TopicProduceData(name=lane.topic))
            row.partition_data.append(PartitionProduceData(index=lane.partition, records=data))
        request.topic_data = list(topics.values())
        if self._acks == ACKS_NONE:
            await self._cluster.send(leader, api.PRODUCE, request, purpose=PURPOSE)
            for lane in lanes:
                self._release(lane.succeed(-1, -1))
            return
        try:
            answer: ProduceResponse = await self._cluster.request(
                leader,
                api.PRODUCE,
                request,
                purpose=PURPOSE,
                timeout_ms=self._settings.request_timeout_ms,
            )
        except ClientError:
            for lane in lanes:
                lane.queue[0].is_outcome_unknown = True
                self._cluster.forget_topic(lane.topic)
            raise
        self._on_answer(lanes, answer)

    def _on_answer(self, lanes: list[Lane], answer: ProduceResponse) -> None:
        rows = {
            (topic.name, row.index): row
            for topic in answer.responses
            for row in topic.partition_responses
        }
        for lane in lanes:
            row = rows.get((lane.topic, lane.partition))
            if row is None:
                lane.queue[0].is_outcome_unknown = True
                self._on_failure(lane, BrokerRefusal(ErrorCode.UNKNOWN_SERVER_ERROR))
            else:
                self._on_partition(lane, row)

    def _on_partition(self, lane: Lane, row: PartitionProduceResponse) -> None:
        code = error_code(row.error_code)
        if code in _STORED:
            offset = row.base_offset if code is ErrorCode.NONE else -1
            self._release(lane.succeed(offset, row.log_append_time_ms))
            return
        if code in OF_ONE_RECORD and lane.split_head():
            return
        batch = lane.queue[0]
        subject = f"{lane.topic}-{lane.partition}"
        error: ClientError = BrokerRefusal(code, row.error_message, subject=subject)
        if code in _NEW_EPOCH and self._is_idempotent:
            batch.is_outcome_unknown = True
            lane.take_back_sequence()
            error.is_retriable = True
        elif code in _UNKNOWN_OUTCOME:
            batch.is_outcome_unknown = True
        if code in _MOVED:
            self._cluster.forget_topic(lane.topic)
        self._on_failure(lane, error)

    def _on_failure(self, lane: Lane, error: ClientError) -> None:
        """Try the lane's first batch again later, or give it up."""
        batch = lane.queue[0]
        now_ms = self._clock.monotonic_ms()
        batch.pause_ms = min(
            max(batch.pause_ms * 2, self._settings.retry_backoff_ms),
            self._settings.retry_backoff_max_ms,
        )
        pause_ms = self._cluster.jittered(batch.pause_ms)
        expires_ms = batch.created_ms + self._settings.delivery_timeout_ms
        if not error.is_retriable:
            self._release(lane.fail(error))
        elif now_ms + pause_ms >= expires_ms:
            msg = f"not delivered within {self._settings.delivery_timeout_ms} ms: {error}"
            failure = TimedOut(msg)
            failure.__cause__ = error
            self._release(lane.fail(failure))
        else:
            batch.not_before_ms = now_ms + pause_ms

    async def _identify(self, lanes: list[Lane]) -> None:
        """Give a producer id to lanes that have none; they share one while its epochs last."""
        for lane in lanes:
            if lane.producer_id == NO_PRODUCER_ID:
                async with self._identity_lock:
                    if self._identity is None or lane.producer_epoch >= 0:
                        self._identity = await self._new_identity()
                    lane.identify(*self._identity)

    async def _new_identity(self) -> tuple[int, int]:
        answer = await self._cluster.request(
            ANY_NODE, api.INIT_PRODUCER_ID, InitProducerIdRequest(transactional_id=None)
        )
        if answer.error_code:
            raise BrokerRefusal(error_code(answer.error_code), subject="producer id")
        return answer.producer_id, answer.producer_epoch


def _retrieve(delivery: Delivery) -> None:
    """A failure that nobody looks at is not a bug of this program."""
    if not delivery.cancelled():
        delivery.exception()
