"""One Fetch on its way: read what is there, or park until the high watermark brings enough, then
answer.

Each attempt reads every wanted partition once, with one snapshot of its high watermark used for the
read and for the answer alike (KAFKA-9807). Warm reads happen at once; the first cold one moves the
attempt into a task. A parked fetch holds no records. Ends: answered, or dropped with its
connection.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Final, NamedTuple

from broker.errors import ErrorCode, Refusal
from broker.ports import Buffer
from broker.server.fetch_sessions import FetchPlan, Wanted, to_answer
from broker.server.slot import ResponseSlot
from broker.server.waiting import Deadline
from broker.wire.fast_fetch import (
    FetchedPartition,
    encode_fetch_response_parts,
    fetch_partition_tags,
)
from broker.wire.frame import RequestHeader
from broker.wire.messages.fetch import EpochEndOffset, FetchRequest

if TYPE_CHECKING:
    from broker.log.reading import ReadResult
    from broker.server.node import Broker
    from broker.server.partition import Partition

_NO_TAGS: Final = b"\0"
_READ_COMMITTED: Final = 1


class Answer(NamedTuple):
    """What one attempt found for one partition. `is_urgent`: it is answered whatever `min_bytes`
    says.
    """

    wanted: Wanted
    partition: Partition | None
    error_code: int
    high_watermark: int
    log_start_offset: int
    records: Buffer
    next_offset: int
    tags: bytes
    is_urgent: bool


class ToRead(NamedTuple):
    """A partition that may have records for this fetch: read below `high_watermark`."""

    wanted: Wanted
    partition: Partition
    high_watermark: int
    log_start_offset: int


class PendingFetch:
    """Implements `partition.ParkedFetch`."""

    __slots__ = (
        "_broker",
        "_deadline",
        "_header",
        "_is_final",
        "_is_finished",
        "_is_queued",
        "_is_read_committed",
        "_is_reading",
        "_max_bytes",
        "_min_bytes",
        "_missing_bytes",
        "_parked_at",
        "_plan",
        "_refuse_all",
        "_slot",
        "_wait_ms",
    )

    def __init__(
        self,
        broker: Broker,
        slot: ResponseSlot,
        header: RequestHeader,
        request: FetchRequest,
        plan: FetchPlan,
        refuse_all: ErrorCode | None,
    ) -> None:
        self._broker = broker
        self._slot = slot
        self._header = header
        self._plan = plan
        self._min_bytes = request.min_bytes
        self._max_bytes = min(request.max_bytes, broker.settings.fetch_max_bytes)
        self._wait_ms = request.max_wait_ms
        self._is_read_committed = request.isolation_level == _READ_COMMITTED
        self._refuse_all = refuse_all
        self._missing_bytes = 0
        self._parked_at: list[Partition] = []
        self._deadline: Deadline | None = None
        self._is_final = request.max_wait_ms <= 0 or request.min_bytes <= 0
        self._is_queued = False
        self._is_reading = False
        self._is_finished = False

    def start(self) -> None:
        """Answer at once or park. What was staged before it in this turn is written first."""
        self._slot.on_dropped = self._on_dropped
        if self._broker.turn.has_dirty:
            self._queue()
        else:
            self._attempt()

    # partition.ParkedFetch

    def on_published(self, partition: Partition, size: int) -> None:
        self._missing_bytes -= size
        if self._missing_bytes <= 0:
            self._queue()

    def on_changed(self) -> None:
        self._queue()

    # attempts

    def _queue(self) -> None:
        if not (self._is_queued or self._is_reading or self._is_finished):
            self._is_queued = True
            self._broker.turn.add_ready(self._resume)

    def _resume(self) -> None:
        self._is_queued = False
        if not (self._is_finished or self._is_reading):
            self._attempt()

    def _attempt(self) -> None:
        """Read everything wanted; go on in a task at the first cold read."""
        room = self._room()
        answers: list[Answer] = []
        has_records = False
        for position, wanted in enumerate(self._plan.wanted):
            found = self._look_up(wanted)
            if isinstance(found, Answer):
                answers.append(found)
                continue
            result = _read(found, room, at_least_one=not has_records and room > 0)
            if result is None:
                self._is_reading = True
                self._broker.spawn(self._attempt_cold(answers, position, room))
                return
            answers.append(result)
            size = len(result.records)
            room -= size
            has_records = has_records or size > 0
        self._conclude(answers)

    async def _attempt_cold(self, answers: list[Answer], position: int, room: int) -> None:
        """The rest of an attempt, with reads that wait for the device. Cancelled with the broker
        only.
        """
        has_records = any(len(answer.records) for answer in answers)
        try:
            for wanted in self._plan.wanted[position:]:
                if self._is_finished:
                    return
                found = self._look_up(wanted)
                if isinstance(found, Answer):
                    answers.append(found)
                    continue
                at_least_one = not has_records and room > 0
                result = _read(found, room, at_least_one=at_least_one)
                if result is None:
                    result = await _read_cold(found, room, at_least_one=at_least_one)
                answers.append(result)
                room -= len(result.records)
                has_records = has_records or len(result.records) > 0
        finally:
            self._is_reading = False
        if not self._is_finished:
            self._conclude(answers)

    def _room(self) -> int:
        """Bytes of records that this attempt may bring."""
        return min(self._max_bytes, self._broker.fetch_memory.free_bytes)

    def _conclude(self, answers: list[Answer]) -> None:
        size = sum([len(answer.records) for answer in answers])
        if (
            self._is_final
            or size >= self._min_bytes
            or (size > 0 and size >= self._max_bytes)
            or any(answer.is_urgent for answer in answers)
        ):
            self._finish(answers, size)
        else:
            self._park(self._min_bytes - size)
            if any(_has_moved(answer) for answer in answers):
                self._queue()

    def _park(self, missing_bytes: int) -> None:
        self._missing_bytes = missing_bytes
        if self._broker.fetch_memory.free_bytes <= 0:
            self._broker.fetch_memory.wait(self._queue)
        if self._deadline is not None:
            return
        self._deadline = self._broker.deadlines.add(self._wait_ms, self._on_deadline)
        self._broker.metrics.parked_fetches.add(1)
        registry = self._broker.partitions
        for wanted in self._plan.wanted:
            partition = registry.find(wanted.topic, wanted.index)
            if partition is not None:
                partition.park(self)
                self._parked_at.append(partition)

    def _on_deadline(self) -> None:
        self._is_final = True
        self._queue()

    def _on_dropped(self) -> None:
        self._is_finished = True
        self._unpark()

    def _unpark(self) -> None:
        if self._deadline is None:
            return
        self._deadline.cancel()
        self._deadline = None
        self._broker.metrics.parked_fetches.add(-1)
        for partition in self._parked_at:
            partition.unpark(self)
        self._parked_at.clear()

    def _finish(self, answers: list[Answer], size: int) -> None:
        self._is_finished = True
        self._unpark()
        is_sent = to_answer(self._plan, [_news(answer) for answer in answers])
        topics: dict[str | bytes, list[FetchedPartition]] = {}
        api_metrics = self._slot.api_metrics
        for answer, is_wanted in zip(answers, is_sent, strict=False):
            if not is_wanted:
                continue
            if answer.error_code:
                api_metrics.count_error(answer.error_code)
            elif answer.partition is not None:
                _count(answer)
            topics.setdefault(answer.wanted.topic, []).append(_fetched(answer))
        if size:
            self._broker.fetch_memory.take(size)
            self._slot.held_bytes = size
        self._slot.complete(
            encode_fetch_response_parts(
                self._header.api_version,
                self._header.correlation_id,
                list(topics.items()),
                session_id=self._plan.session_id,
                is_read_committed=self._is_read_committed,
            )
        )

    def _look_up(self, wanted: Wanted) -> Answer | ToRead:
        """The partition to read, or why it cannot be."""
        if self._refuse_all is not None:
            return _refused(wanted, self._refuse_all)
        partition = self._broker.partitions.find(wanted.topic, wanted.index)
        if partition is None:
            is_named = isinstance(wanted.topic, str)
            return _refused(
                wanted,
                ErrorCode.UNKNOWN_TOPIC_OR_PARTITION if is_named else ErrorCode.UNKNOWN_TOPIC_ID,
            )
        epoch = wanted.current_leader_epoch
        if epoch >= 0 and epoch != partition.leader_epoch:
            is_old = epoch < partition.leader_epoch
            return _refused(
                wanted,
                ErrorCode.FENCED_LEADER_EPOCH if is_old else ErrorCode.UNKNOWN_LEADER_EPOCH,
            )
        if partition.is_offline:
            return _refused(wanted, ErrorCode.KAFKA_STORAGE_ERROR)
        snapshot = ToRead(wanted, partition, partition.high_watermark, partition.log_start_offset)
        if wanted.last_fetched_epoch >= 0:
            return _check_divergence(snapshot)
        return snapshot


def _check_divergence(found: ToRead) -> Answer | ToRead:
    """The answer that sends the reader back to where its history and ours part, if they do
    (KIP-595).
    """
    wanted, partition = found.wanted, found.partition
    epoch, end_offset = partition.end_offset_for_epoch(wanted.last_fetched_epoch)
    if epoch < 0 or end_offset < 0:
        return _refused(wanted, ErrorCode.OFFSET_OUT_OF_RANGE)
    if epoch >= wanted.last_fetched_epoch and end_offset >= wanted.fetch_offset:
        return found
    return Answer(
        wanted,
        partition,
        ErrorCode.NONE,
        found.high_watermark,
        found.log_start_offset,
        b"",
        wanted.fetch_offset,
        fetch_partition_tags(diverging_epoch=EpochEndOffset(epoch=epoch, end_offset=end_offset)),
        is_urgent=True,
    )


def _read(found: ToRead, room: int, *, at_least_one: bool) -> Answer | None:
    """None when the read would wait for the device."""
    wanted = found.wanted
    if wanted.fetch_offset == found.high_watermark or (room <= 0 and not at_least_one):
        return _empty(found)
    return _answer(
        found,
        lambda: found.partition.read(
            wanted.fetch_offset,
            max(0, min(wanted.max_bytes, room)),
            found.high_watermark,
            at_least_one=at_least_one,
        ),
    )


async def _read_cold(found: ToRead, room: int, *, at_least_one: bool) -> Answer:
    wanted = found.wanted
    try:
        result = await found.partition.read_cold(
            wanted.fetch_offset,
            max(0, min(wanted.max_bytes, room)),
            found.high_watermark,
            at_least_one=at_least_one,
        )
    except Refusal as refusal:
        return _refused(wanted, refusal.code)
    return _full(found, result)


def _answer(found: ToRead, read: Callable[[], ReadResult | None]) -> Answer | None:
    try:
        result = read()
    except Refusal as refusal:
        return _refused(found.wanted, refusal.code)
    return None if result is None else _full(found, result)


def _full(found: ToRead, result: ReadResult) -> Answer:
    return Answer(
        found.wanted,
        found.partition,
        ErrorCode.NONE,
        found.high_watermark,
        found.log_start_offset,
        result.records,
        result.next_offset,
        _NO_TAGS,
        is_urgent=False,
    )


def _empty(found: ToRead) -> Answer:
    return Answer(
        found.wanted,
        found.partition,
        ErrorCode.NONE,
        found.high_watermark,
        found.log_start_offset,
        b"",
        found.wanted.fetch_offset,
        _NO_TAGS,
        is_urgent=False,
    )


def _refused(wanted: Wanted, error: ErrorCode) -> Answer:
    return Answer(wanted, None, error, -1, -1, b"", -1, _NO_TAGS, is_urgent=True)


def _has_moved(answer: Answer) -> bool:
    """Whether the watermark rose while this attempt awaited a cold read of another partition."""
    return answer.partition is not None and answer.partition.high_watermark != answer.high_watermark


def _news(answer: Answer) -> tuple[Wanted, int, int, int, int]:
    size = len(answer.records) or int(answer.tags != _NO_TAGS)
    return (
        answer.wanted,
        answer.error_code,
        answer.high_watermark,
        answer.log_start_offset,
        size,
    )


def _count(answer: Answer) -> None:
    assert answer.partition is not None, "only what was read is counted"
    if len(answer.records):
        metrics = answer.partition.topic_metrics
        metrics.records_out.value += max(0, answer.next_offset - answer.wanted.fetch_offset)
        metrics.bytes_out.value += len(answer.records)


def _fetched(answer: Answer) -> FetchedPartition:
    return FetchedPartition(
        answer.wanted.index,
        answer.error_code,
        answer.high_watermark,
        answer.high_watermark,
        answer.log_start_offset,
        [answer.records] if len(answer.records) else [],
        answer.tags,
    )
