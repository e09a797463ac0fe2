"""Metadata answers as bytes: built in slices, kept until the catalog changes.

A cluster's metadata is asked for by every client again and again and changes rarely. An answer is
kept per version and question for at most `KEPT_MS` (a partition that went offline shows within that
time) and one generation of the catalog.
"""

from __future__ import annotations

import asyncio
from collections.abc import Hashable, Iterator, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Final, NamedTuple

from broker.errors import ErrorCode
from broker.server.authorized import NOT_ASKED, TOPIC_OPERATIONS
from broker.server.encoded import ArrayPlace, EncodedBody, encode_body
from broker.server.topics import PartitionState, Topic
from broker.wire.api import METADATA
from broker.wire.messages.metadata import (
    MetadataResponse,
    MetadataResponsePartition,
    MetadataResponseTopic,
)

if TYPE_CHECKING:
    from broker.server.node import Broker

KEPT_MS: Final = 1_000
KEPT_COUNT_MAX: Final = 128
KEPT_BYTES_MAX: Final = 16 << 20
PARTITIONS_PER_STEP: Final = 250
TOPICS_PER_STEP: Final = 100

_FLEXIBLE_FROM: Final = 9
_OPERATIONS_FROM: Final = 8


class MetadataAnswers:
    """Kept answers of one broker."""

    def __init__(self) -> None:
        self._generation = -1
        self._bytes = 0
        self._kept: dict[Hashable, tuple[float, EncodedBody]] = {}

    def find(self, question: Hashable, generation: int, now_ms: float) -> EncodedBody | None:
        """The answer kept for that question, if it still holds."""
        if generation != self._generation:
            self._kept.clear()
            self._generation, self._bytes = generation, 0
        kept = self._kept.get(question)
        return kept[1] if kept is not None and now_ms - kept[0] < KEPT_MS else None

    def keep(self, question: Hashable, generation: int, now_ms: float, answer: EncodedBody) -> None:
        """Keep an answer, unless the catalog changed while it was made. Oldest ones give way."""
        if generation != self._generation or len(answer.body) > KEPT_BYTES_MAX:
            return
        self._drop(question)
        while self._kept and (
            len(self._kept) >= KEPT_COUNT_MAX or self._bytes + len(answer.body) > KEPT_BYTES_MAX
        ):
            self._drop(next(iter(self._kept)))
        self._kept[question] = (now_ms, answer)
        self._bytes += len(answer.body)

    def _drop(self, question: Hashable) -> None:
        kept = self._kept.pop(question, None)
        if kept is not None:
            self._bytes -= len(kept[1].body)


class TopicAnswer(NamedTuple):
    """What is said about one topic asked for: the topic, or an error in its place."""

    topic: Topic | None
    name: str | None
    topic_id: bytes
    error_code: ErrorCode


async def encode_metadata(
    broker: Broker,
    version: int,
    head: MetadataResponse,
    answers: Sequence[TopicAnswer],
    *,
    shows_operations: bool,
) -> EncodedBody:
    """`head` (its topics empty) with `answers`, in steps of a bounded number of partitions."""
    is_flexible = version >= _FLEXIBLE_FROM
    place = ArrayPlace(_tail_bytes(version), is_flexible=is_flexible)
    empty = encode_body(METADATA, version, head)
    topic_encoder = _TopicEncoder(version, place, empty, head)
    operations = TOPIC_OPERATIONS if shows_operations else NOT_ASKED
    parts: list[bytes] = []
    for count, step in enumerate(_steps(answers)):
        if count > 0:
            await asyncio.sleep(0)
        if isinstance(step, TopicAnswer):
            assert step.topic is not None, "only an existing topic is too big for one step"
            parts.append(await _encode_big_topic(broker, topic_encoder, step.topic, operations))
        else:
            topics = [_describe(broker, answer, operations) for answer in step]
            parts.append(topic_encoder.encode(topics))
    return EncodedBody(place.wrap(empty, parts, len(answers)))


class _TopicEncoder:
    """Encodes topics as they stand in the array of one answer."""

    def __init__(
        self, version: int, place: ArrayPlace, empty: bytes, head: MetadataResponse
    ) -> None:
        self.version = version
        self._place = place
        self._empty = empty
        self._head = head

    def encode(self, topics: list[MetadataResponseTopic]) -> bytes:
        head = self._head
        head.topics = topics
        encoded = encode_body(METADATA, self.version, head)
        head.topics = []
        return self._place.unwrap(encoded, self._empty, len(topics))


async def _encode_big_topic(
    broker: Broker, encoder: _TopicEncoder, topic: Topic, operations: int
) -> bytes:
    version = encoder.version
    is_flexible = version >= _FLEXIBLE_FROM
    tail = (4 if version >= _OPERATIONS_FROM else 0) + (1 if is_flexible else 0)
    place = ArrayPlace(tail, is_flexible=is_flexible)

    def encode(states: Sequence[PartitionState]) -> bytes:
        part = replace(topic, partitions=tuple(states))
        answer = TopicAnswer(part, topic.name, topic.topic_id, ErrorCode.NONE)
        return encoder.encode([_describe(broker, answer, operations)])

    empty = encode(())
    parts: list[bytes] = []
    for start in range(0, topic.partition_count, PARTITIONS_PER_STEP):
        states = topic.partitions[start : start + PARTITIONS_PER_STEP]
        parts.append(place.unwrap(encode(states), empty, len(states)))
        await asyncio.sleep(0)
    return place.wrap(empty, parts, topic.partition_count)


def _steps(answers: Sequence[TopicAnswer]) -> Iterator[TopicAnswer | list[TopicAnswer]]:
    """Runs of small topics, and big topics alone, in order."""
    run: list[TopicAnswer] = []
    run_count = 0
    for answer in answers:
        count = answer.topic.partition_count if answer.topic is not None else 0
        is_full = run_count + count > PARTITIONS_PER_STEP or len(run) >= TOPICS_PER_STEP
        if run and is_full:
            yield run
            run, run_count = [], 0
        if count > PARTITIONS_PER_STEP:
            yield answer
        else:
            run.append(answer)
            run_count += count
    if run:
        yield run


def _describe(broker: Broker, answer: TopicAnswer, operations: int) -> MetadataResponseTopic:
    topic = answer.topic
    if topic is None:
        return MetadataResponseTopic(
            error_code=answer.error_code, name=answer.name, topic_id=answer.topic_id
        )
    return MetadataResponseTopic(
        name=topic.name,
        topic_id=topic.topic_id,
        is_internal=topic.is_internal,
        partitions=[describe_partition(broker, topic, state) for state in topic.partitions],
        topic_authorized_operations=operations,
    )


def describe_partition(
    broker: Broker, topic: Topic, state: PartitionState
) -> MetadataResponsePartition:
    """Who leads the partition; nobody, LEADER_NOT_AVAILABLE, while it is offline."""
    partition = broker.partitions.get_by_id(topic.topic_id, state.index)
    replicas = list(state.replicas)
    if partition is None or partition.offline_reason is not None:
        return MetadataResponsePartition(
            error_code=ErrorCode.LEADER_NOT_AVAILABLE,
            partition_index=state.index,
            leader_id=-1,
            leader_epoch=state.leader_epoch,
            replica_nodes=replicas,
            isr_nodes=list(state.in_sync_replicas),
            offline_replicas=replicas,
        )
    return MetadataResponsePartition(
        partition_index=state.index,
        leader_id=state.leader,
        leader_epoch=partition.leader_epoch,
        replica_nodes=replicas,
        isr_nodes=list(state.in_sync_replicas),
    )


def _tail_bytes(version: int) -> int:
    """Bytes after the topics.

    Cluster operations (8 to 10), the top-level error (13), the tag section (9 and above).
    """
    operations = 4 if _OPERATIONS_FROM <= version <= 10 else 0
    error = 2 if version >= 13 else 0
    return operations + error + (1 if version >= _FLEXIBLE_FROM else 0)
