"""Produce (0): validate and stage each batch; answer after the turn's write (acks=1) or the high
watermark (acks=all); with `durability=fsync` both wait for the sync round.

Records are slices of the receive buffer: they are written before the turn of the loop ends and
never kept, except for batches that the worker process opens first (late_staging). acks=0 has no
answer, so an error closes the connection: the producer must notice.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from typing import TYPE_CHECKING, Final, TypeVar

from broker.errors import ErrorCode, Refusal
from broker.model import AppendResult
from broker.records.intake import NeedsWorker
from broker.records.rules import RecordErrors, RecordsRefused
from broker.server.acks import ACKS_ALL, ACKS_LEADER, ACKS_NONE
from broker.server.late_staging import WaitingBatch, stage_later
from broker.server.slot import ResponseSlot
from broker.wire.api import PRODUCE
from broker.wire.fast_produce import (
    ProducedPartition,
    ProduceParts,
    decode_produce,
    encode_produce_response,
    encode_produce_responses,
)
from broker.wire.frame import RequestHeader, encode_response
from broker.wire.messages.produce import (
    BatchIndexAndErrorMessage,
    PartitionProduceResponse,
    ProduceResponse,
    TopicProduceResponse,
)

if TYPE_CHECKING:
    from broker.server.acks import OnDone
    from broker.server.connection import Connection
    from broker.server.partition import Partition

_MESSAGES_FROM: Final = 8
_ZSTD_FROM: Final = 7
_ATTRIBUTES_LOW_BYTE: Final = 22
_COMPRESSION_MASK: Final = 0x07
_ZSTD: Final = 4

T = TypeVar("T")
_new: Final = tuple.__new__  # what a NamedTuple's constructor calls, without its Python frame

TRANSACTIONS_MISSING: Final = "this broker has no transactions yet: unset transactional.id"


def handle_produce(connection: Connection, header: RequestHeader, frame: memoryview) -> None:
    """Stage the request's batches. Raises MalformedMessage."""
    request = decode_produce(frame, header.body_position, header.api_version)
    if request.acks == ACKS_NONE:
        _stage_unanswered(connection, header, request)
        return
    metrics = connection.broker.routes[PRODUCE].metrics
    slot = connection.reserve(metrics, is_staged=True)
    topics = request.topics
    if len(topics) == 1 and len(topics[0][1]) == 1:
        topic, ((index, records),) = topics[0]
        single = _SingleAnswer(slot, header, topic, index)
        try:
            single.result = _stage(
                connection, header, request, topic, index, records, single.on_done
            )
        except Refusal as refusal:
            single.refuse(refusal)
        except NeedsWorker:
            _stage_rest(connection, header, request, single, 0)
        else:
            partitions = connection.broker.partitions
            partition = partitions.get(topic, index)
            partitions.produce_heads.learn(header, request, frame, partition)
        return
    answers = _Answers(slot, header, request)
    answers.stage(connection, header, request)


def _stage(
    connection: Connection,
    header: RequestHeader,
    request: ProduceParts,
    topic: str,
    index: int,
    records: memoryview | None,
    on_done: OnDone,
    opened_for: Partition | None = None,
) -> AppendResult:
    """Validate one batch and hand it to its partition; `opened_for` says that this partition's
    intake has seen it. Raises Refusal, NeedsWorker.
    """
    if not ACKS_ALL <= request.acks <= ACKS_LEADER:
        raise Refusal(ErrorCode.INVALID_REQUIRED_ACKS, f"acks is {request.acks}, not 0, 1 or -1")
    if request.transactional_id is not None:
        raise Refusal(ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED, TRANSACTIONS_MISSING)
    partition = connection.broker.partitions.get(topic, index)
    if partition is None or opened_for not in (None, partition):
        partitions = connection.broker.partitions
        partitions.note_refused(topic, index, records, connection.now_wall_ms)
        raise Refusal(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
    if partition.is_internal:
        raise Refusal(ErrorCode.INVALID_TOPIC_EXCEPTION, f"{topic} is written by the broker alone")
    if records is None:
        raise Refusal(ErrorCode.INVALID_RECORD, "the request has no batch for this partition")
    try:
        return _stage_in(
            partition, connection, header, request, records, on_done, is_open=opened_for is not None
        )
    except Refusal as refusal:
        partition.on_refused(records, refusal.code, connection.now_wall_ms)
        raise


def _stage_in(
    partition: Partition,
    connection: Connection,
    header: RequestHeader,
    request: ProduceParts,
    records: memoryview,
    on_done: OnDone,
    *,
    is_open: bool,
) -> AppendResult:
    """The part that depends on the partition, and may go otherwise when the batch comes again."""
    if connection.broker.space.is_low:
        raise Refusal(ErrorCode.KAFKA_STORAGE_ERROR, connection.broker.space.message)
    if request.acks == ACKS_ALL and not partition.has_enough_replicas:
        raise Refusal(ErrorCode.NOT_ENOUGH_REPLICAS)
    if header.api_version < _ZSTD_FROM and _is_zstd(records):
        raise Refusal(
            ErrorCode.UNSUPPORTED_COMPRESSION_TYPE, "zstd needs a client with Produce version 7"
        )
    now_wall_ms = connection.now_wall_ms
    if partition.intake is not None and not is_open:
        records = connection.broker.openings.take_in_now(
            connection, partition.intake, records, now_wall_ms
        )
    return partition.stage(records, on_done, acks=request.acks, now_wall_ms=now_wall_ms)


def _stage_rest(
    connection: Connection,
    header: RequestHeader,
    request: ProduceParts,
    answer: _SingleAnswer | _Answers | _NoAnswer,
    first: int,
) -> None:
    """The batches from the `first` on wait for the worker process, in copies."""
    batches = [
        WaitingBatch(position, topic, index, None if records is None else bytearray(records))
        for position, topic, index, records in _batches_of(request)
        if position >= first
    ]

    def stage(
        batch: WaitingBatch, records: memoryview | None, opened_for: Partition | None
    ) -> AppendResult:
        done = answer.waits_for(batch.position)
        topic, index = batch.topic, batch.partition
        return _stage(connection, header, request, topic, index, records, done, opened_for)

    stage_later(connection, answer, batches, stage)


def _batches_of(request: ProduceParts) -> Iterator[tuple[int, str, int, memoryview | None]]:
    """(place in the request, topic, partition index, batch) of each."""
    position = 0
    for topic, partitions in request.topics:
        for index, records in partitions:
            yield position, topic, index, records
            position += 1


def _is_zstd(records: memoryview) -> bool:
    return (
        len(records) > _ATTRIBUTES_LOW_BYTE
        and records[_ATTRIBUTES_LOW_BYTE] & _COMPRESSION_MASK == _ZSTD
    )


def _stage_unanswered(connection: Connection, header: RequestHeader, request: ProduceParts) -> None:
    """acks=0: nothing is answered; an error closes."""
    answer = _NoAnswer(connection)
    for position, topic, index, records in _batches_of(request):
        try:
            _stage(connection, header, request, topic, index, records, answer.on_done)
        except Refusal as refusal:
            answer.settle(position, refusal)
            return
        except NeedsWorker:
            _stage_rest(connection, header, request, answer, position)
            return


class _NoAnswer:
    """acks=0: an error closes the connection."""

    __slots__ = ("_connection",)

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    def waits_for(self, _position: int) -> OnDone:
        return self.on_done

    def settle(self, _position: int, result: AppendResult | Refusal) -> None:
        if isinstance(result, Refusal):
            self._refuse(result.code, result.message)

    def on_done(self, error: ErrorCode) -> None:
        if error is not ErrorCode.NONE:
            self._refuse(error, "")

    def _refuse(self, error: ErrorCode, message: str) -> None:
        connection = self._connection
        connection.broker.routes[PRODUCE].metrics.count_error(error)
        connection.close(f"a batch sent with acks=0 was refused: {message or error.name}")


class _SingleAnswer:
    """The answer of a request with one batch, the usual case."""

    __slots__ = ("_correlation_id", "_index", "_slot", "_topic", "_version", "result")

    def __init__(self, slot: ResponseSlot, header: RequestHeader, topic: str, index: int) -> None:
        self._slot = slot
        self._version = header.api_version
        self._correlation_id = header.correlation_id
        self._topic = topic
        self._index = index
        self.result: AppendResult | None = None

    def waits_for(self, _position: int) -> OnDone:
        return self.on_done

    def settle(self, _position: int, result: AppendResult | Refusal) -> None:
        if isinstance(result, Refusal):
            self.refuse(result)
        else:
            self.result = result

    def on_done(self, error: ErrorCode) -> None:
        if error is not ErrorCode.NONE:
            self._answer(ProducedPartition(self._index, error, -1, -1, -1))
            self._slot.api_metrics.count_error(error)
            return
        assert self.result is not None, "a batch is acknowledged after it was staged"
        self._answer(_produced(self._index, self.result))

    def refuse(self, refusal: Refusal) -> None:
        self._slot.api_metrics.count_error(refusal.code)
        if refusal.message and self._version >= _MESSAGES_FROM:
            topic = TopicProduceResponse(
                name=self._topic, partition_responses=[_refused(self._index, refusal)]
            )
            response = ProduceResponse(responses=[topic])
            self._slot.complete(
                [encode_response(PRODUCE, self._version, self._correlation_id, response)]
            )
            return
        self._answer(_refused_shortly(self._index, refusal))

    def _answer(self, answer: ProducedPartition) -> None:
        self._slot.complete(
            [encode_produce_response(self._version, self._correlation_id, self._topic, answer)]
        )


class _Answers:
    """The answer of a request with any number of batches: complete when every batch is."""

    __slots__ = ("_correlation_id", "_results", "_slot", "_topics", "_version", "_waiting_count")

    def __init__(self, slot: ResponseSlot, header: RequestHeader, request: ProduceParts) -> None:
        self._slot = slot
        self._version = header.api_version
        self._correlation_id = header.correlation_id
        self._topics = [
            (topic, [index for index, _records in partitions])
            for topic, partitions in request.topics
        ]
        count = sum(len(indexes) for _topic, indexes in self._topics)
        self._results: list[AppendResult | Refusal | None] = [None] * count
        self._waiting_count = count

    def stage(self, connection: Connection, header: RequestHeader, request: ProduceParts) -> None:
        if not self._results:
            self._answer()
        for position, topic, index, records in _batches_of(request):
            done = partial(self._on_done, position)
            try:
                result: AppendResult | Refusal = _stage(
                    connection, header, request, topic, index, records, done
                )
            except Refusal as refusal:
                result = refusal
            except NeedsWorker:
                _stage_rest(connection, header, request, self, position)
                return
            self.settle(position, result)

    def waits_for(self, position: int) -> OnDone:
        return partial(self._on_done, position)

    def settle(self, position: int, result: AppendResult | Refusal) -> None:
        self._results[position] = result
        if isinstance(result, Refusal):
            self._waiting_count -= 1
            if self._waiting_count == 0:
                self._answer()

    def _on_done(self, position: int, error: ErrorCode) -> None:
        if error is not ErrorCode.NONE:
            self._results[position] = Refusal(error)
        self._waiting_count -= 1
        if self._waiting_count == 0:
            self._answer()

    def _answer(self) -> None:
        count_error = self._slot.api_metrics.count_error
        has_message = False
        for result in self._results:
            if isinstance(result, Refusal):
                count_error(result.code)
                has_message = has_message or bool(result.message)
        if has_message and self._version >= _MESSAGES_FROM:
            response = ProduceResponse(
                responses=[
                    TopicProduceResponse(name=topic, partition_responses=answers)
                    for topic, answers in self._each(_refused, _accepted)
                ]
            )
            frame = encode_response(PRODUCE, self._version, self._correlation_id, response)
        else:
            frame = encode_produce_responses(
                self._version, self._correlation_id, self._each(_refused_shortly, _produced)
            )
        self._slot.complete([frame])

    def _each(
        self, refused: Callable[[int, Refusal], T], accepted: Callable[[int, AppendResult], T]
    ) -> list[tuple[str, list[T]]]:
        """(topic, an answer for each of its batches)."""
        results = iter(self._results)
        topics = []
        for topic, indexes in self._topics:
            answers = []
            for index in indexes:
                result = next(results)
                if isinstance(result, Refusal):
                    answers.append(refused(index, result))
                else:
                    assert result is not None, "every batch was staged or refused"
                    answers.append(accepted(index, result))
            topics.append((topic, answers))
        return topics


def _produced(index: int, result: AppendResult) -> ProducedPartition:
    base_offset, _, log_append_time_ms, log_start_offset, _ = result
    return _new(ProducedPartition, (index, 0, base_offset, log_append_time_ms, log_start_offset))


def _refused_shortly(index: int, refusal: Refusal) -> ProducedPartition:
    return ProducedPartition(index, refusal.code, -1, -1, -1)


def _refused(index: int, refusal: Refusal) -> PartitionProduceResponse:
    return PartitionProduceResponse(
        index=index,
        error_code=refusal.code,
        base_offset=-1,
        log_start_offset=-1,
        record_errors=[
            BatchIndexAndErrorMessage(batch_index=place, batch_index_error_message=words)
            for place, words in _record_errors(refusal)
        ],
        error_message=refusal.message or None,
    )


def _record_errors(refusal: Refusal) -> RecordErrors:
    return refusal.record_errors if isinstance(refusal, RecordsRefused) else ()


def _accepted(index: int, result: AppendResult) -> PartitionProduceResponse:
    return PartitionProduceResponse(
        index=index,
        base_offset=result.base_offset,
        log_append_time_ms=result.log_append_time_ms,
        log_start_offset=result.log_start_offset,
    )
