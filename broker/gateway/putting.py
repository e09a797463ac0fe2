"""Puts: from a message to its partition and, once it is stored, to its answer; an id that is known
gets its first answer.

Not here: HTTP, sending, the ids topic. All that decides between looking an id up and queuing its
put happens without an await, so two puts of one id never both go on.
"""

from __future__ import annotations

import asyncio
import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Final, cast

from broker.client.cluster import Cluster, TopicView
from broker.client.failure import BrokerRefusal, ClientError
from broker.client.partitioner import StickyPartitioner, murmur2_partition, murmur2_partitions
from broker.config.gateway import GatewaySettings
from broker.errors import ErrorCode
from broker.gateway.ids import id_key, id_keys
from broker.gateway.lane import RECORD_OVERHEAD_BYTES, Answer, Call, Outcome, Put
from broker.gateway.ledger import Ledger
from broker.gateway.message import Message, encode_bodies, encode_body
from broker.gateway.problem import Problem, problem_of
from broker.gateway.sender import Sender
from broker.metrics import GatewayMetrics
from broker.model import format_uuid

STICKY_BYTES: Final = 16_384
SWEEP_S: Final = 0.1
NEW_TOPIC_S: Final = 0.25
_NEW_TOPIC: Final = frozenset(
    {ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, ErrorCode.LEADER_NOT_AVAILABLE}
)
TOGETHER_MIN: Final = 4
_MESSAGES: Final = {Message}
_WAITED_FOR: Final = ({-1}, {1})
GRACE_MS: Final = 300
"""The sender fails first what is surely not stored."""


class Putting:
    """One for the process. `await run()` ends waits that are over."""

    def __init__(
        self,
        cluster: Cluster,
        sender: Sender,
        ledger: Ledger,
        settings: GatewaySettings,
        metrics: GatewayMetrics,
    ) -> None:
        self._cluster = cluster
        self._clock = cluster.clock
        self._sender = sender
        self._ledger = ledger
        self._settings = settings
        self._metrics = metrics
        self._ids_max = settings.dedup_ids_max
        self._sticky = StickyPartitioner(cluster.ids, STICKY_BYTES)
        self._calls: dict[Call, None] = {}  # in the order of their deadlines

    async def put(
        self, parts: Iterable[Sequence[Message | Problem]], count: int, ids: list[str]
    ) -> Sequence[Outcome | None]:
        """Per message its answer, or why there is none; None when it is not known in time.

        `parts` have `count` messages, and each is asked for when the one before is queued: a batch
        is looked at once, and others have their turn between its parts. `ids` gets the message ids,
        those that were made here too. With acks 0 an answer comes at once, without an offset.
        Cancellation leaves the puts on their way.
        """
        now_ms = self._clock.monotonic_ms()
        deadline_ms = now_ms + self._settings.request_timeout_ms + GRACE_MS
        call = Call(count, asyncio.get_running_loop().create_future(), deadline_ms)
        views: dict[str, TopicView | Problem] = {}
        begin = 0
        for part in parts:
            if begin:
                await asyncio.sleep(0)
                now_ms = self._clock.monotonic_ms()
            for topic in {each.topic for each in part if type(each) is Message}:
                if topic not in views:
                    views[topic] = await find_topic(self._cluster, self._settings, topic)
            refusal = self._refusal(now_ms)
            if refusal is not None or not self._put_together(call, begin, part, views, ids, now_ms):
                self._put_singly(call, begin, part, views, ids, now_ms, refusal)
            begin += len(part)
        if call.left:
            self._calls[call] = None
            await call.future
        return call.outcomes

    def _put_together(
        self,
        call: Call,
        begin: int,
        part: Sequence[Message | Problem],
        views: Mapping[str, TopicView | Problem],
        ids: list[str],
        now_ms: float,
    ) -> bool:
        """What `_put_singly` does, for messages of one topic that are all new; else it is False,
        and nothing was done.
        """
        if len(part) < TOGETHER_MIN or set(map(type, part)) != _MESSAGES:
            return False
        messages = cast("Sequence[Message]", part)
        topics, keys, given, contents, headers, acks, digests = zip(*messages, strict=True)
        view = views[topics[0]]
        if len(set(topics)) > 1 or set(acks) not in _WAITED_FOR or isinstance(view, Problem):
            return False
        message_ids = given if None not in given else [self._own_id(each) for each in given]
        keys_of_ids = id_keys(view.name, view.topic_id, message_ids)
        if not self._are_new(keys_of_ids):
            return False
        bodies = encode_bodies(contents, headers, message_ids)
        partitions = self._partitions(view, keys, bodies)
        pending = self._ledger.pending
        by_partition: dict[int, list[Put]] = {partition: [] for partition in partitions}
        rows = zip(bodies, keys_of_ids, digests, given, partitions, strict=True)
        for index, (body, key_of_id, digest, given_id, partition) in enumerate(rows, begin):
            put = Put(body, key_of_id, digest, call, index, is_kept=given_id is not None)
            if put.is_kept:
                pending[key_of_id] = put
            by_partition[partition].append(put)
        for partition, puts in by_partition.items():
            lane = self._sender.lane(view.name, partition, view.topic_id)
            self._sender.on_appended(lane, lane.extend(puts, acks[0], now_ms))
        ids += [message_id.decode() for message_id in message_ids]
        return True

    def _are_new(self, keys: list[bytes]) -> bool:
        """Whether no id is known, none is there twice, and there is room for all of them."""
        pending, index = self._ledger.pending, self._ledger.index
        distinct = set(keys)
        return (
            len(distinct) == len(keys)
            and pending.keys().isdisjoint(distinct)
            and index.has_none(distinct)
            and index.count + len(pending) + len(keys) <= self._ids_max
        )

    def _partitions(
        self, view: TopicView, keys: Sequence[bytes | None], bodies: Sequence[bytes]
    ) -> list[int]:
        count = len(view.partitions)
        if None not in keys:
            return murmur2_partitions(cast("Sequence[bytes]", keys), count)
        return [
            self._sticky.partition(view.name, count, len(body) + RECORD_OVERHEAD_BYTES)
            if key is None
            else murmur2_partition(key, count)
            for key, body in zip(keys, bodies, strict=True)
        ]

    def _own_id(self, given: bytes | None) -> bytes:
        return format_uuid(self._cluster.ids.uuid()).encode() if given is None else given

    def _put_singly(
        self,
        call: Call,
        begin: int,
        part: Sequence[Message | Problem],
        views: Mapping[str, TopicView | Problem],
        ids: list[str],
        now_ms: float,
        refusal: Problem | None,
    ) -> None:
        """Queue each message, or give it its answer or its problem."""
        for index, message in enumerate(part, begin):
            if isinstance(message, Problem):
                ids.append("")
                call.finish(index, message)
                continue
            message_id = self._own_id(message.message_id)
            ids.append(message_id.decode())
            view = views[message.topic]
            if isinstance(view, Problem):
                call.finish(index, view)
                continue
            try:
                self._put(call, index, message, message_id, view, now_ms, refusal)
            except Problem as problem:
                call.finish(index, problem)

    async def run(self) -> None:
        """Tell those whose deadline has passed; until cancelled."""
        while True:
            await asyncio.sleep(SWEEP_S)
            now_ms = self._clock.monotonic_ms()
            for call in list(self._calls):
                if call.future.done():
                    del self._calls[call]
                elif call.deadline_ms <= now_ms:
                    del self._calls[call]
                    call.expire()

    def _put(
        self,
        call: Call,
        index: int,
        message: Message,
        message_id: bytes,
        view: TopicView,
        now_ms: float,
        refusal: Problem | None,
    ) -> None:
        pending = self._ledger.pending
        key = id_key(view.name, view.topic_id, message_id)
        is_kept = message.message_id is not None
        if is_kept:
            index_of_ids = self._ledger.index
            if key in pending or index_of_ids.has(key):
                self._repeat(call, index, message, key)
                return
            if index_of_ids.count + len(pending) >= self._ids_max:
                raise self._no_room(now_ms)
        if refusal is not None:
            raise refusal
        sender = None if message.acks == 0 else call  # who learns its outcome
        body = encode_body(message, message_id)
        put = Put(body, key, message.digest, sender, index, is_kept=is_kept)
        count = len(view.partitions)
        if message.key is None:
            partition = self._sticky.partition(view.name, count, put.size)
        else:
            partition = murmur2_partition(message.key, count)
        lane = self._sender.lane(view.name, partition, view.topic_id)
        if is_kept:
            pending[key] = put
        if message.acks == 0:
            call.finish(index, Answer(partition, -1, -1))
        lane.append(put, message.acks or 1, now_ms)
        self._sender.on_appended(lane, put.size)

    def _repeat(self, call: Call, index: int, message: Message, key: bytes) -> None:
        """The call gets the first answer to a known id, now or when there is one.

        Raises Problem when another message has the id.
        """
        put = self._ledger.pending.get(key)
        first = self._ledger.index.find(key) if put is None else None
        digest = put.digest if put is not None else first.digest if first is not None else b""
        if digest != message.digest:
            raise Problem(
                "MESSAGE_ID_CONFLICT",
                "this messageId was given to a message with another key, body or headers on "
                f" topic {message.topic!r}: take a new id for another message",
                field="messageId",
            )
        self._metrics.duplicates_total.add()
        if first is not None:
            answer = Answer(first.partition, first.offset, first.high_watermark, is_duplicate=True)
            call.finish(index, answer)
        elif put is not None:
            put.repeat(call, index)

    def _refusal(self, now_ms: float) -> Problem | None:
        """Why nothing more is taken now."""
        try:
            self._ledger.check_writable()
        except Problem as problem:
            return problem
        left_ms = self._sender.throttled_until_ms - now_ms
        if left_ms > 0:
            return Problem(
                "THROTTLED",
                "the cluster's quota for this gateway is used up: send again after Retry-After",
                retry_after_s=math.ceil(left_ms / 1000),
            )
        if self._sender.queued_bytes > self._settings.inflight_bytes_max:
            return Problem(
                "THROTTLED",
                f"{self._settings.inflight_bytes_max} bytes wait to be stored "
                "(inflight.bytes.max): send again after Retry-After",
            )
        return None

    def _no_room(self, now_ms: float) -> Problem:
        wait_ms = self._ledger.index.room_after_ms(now_ms)
        return Problem(
            "THROTTLED",
            f"{self._settings.dedup_ids_max} messageIds are remembered (dedup.ids.max): send "
            "again after Retry-After, raise that setting or shorten dedup.window.ms",
            retry_after_s=max(1, math.ceil(wait_ms / 1000)),
        )


async def find_topic(cluster: Cluster, settings: GatewaySettings, name: str) -> TopicView | Problem:
    """The topic, or why clients cannot use it."""
    if name == settings.dedup_topic:
        detail = f"topic {name!r} keeps the ids of this gateway: take another one"
        return Problem("TOPIC_NOT_ALLOWED", detail, field="topic")
    try:
        view = await _look_twice(cluster, name)
    except ClientError as error:
        return problem_of(error, f"topic {name!r}", field="topic")
    if view.is_internal:
        detail = f"topic {name!r} is internal to the cluster: take another one"
        return Problem("TOPIC_NOT_ALLOWED", detail, field="topic")
    if not view.partitions:
        return Problem("LEADER_NOT_AVAILABLE", f"topic {name!r} has no partitions yet")
    return view


async def _look_twice(cluster: Cluster, name: str) -> TopicView:
    """The topic; one that was created a moment ago may not be known to every broker yet."""
    try:
        return await cluster.topic(name)
    except BrokerRefusal as error:
        if error.code not in _NEW_TOPIC:
            raise
    await asyncio.sleep(NEW_TOPIC_S)
    return await cluster.topic(name)
