"""Frames for the raw load: built once, sent as often as wanted; and where their answers say what.

Pure. A frame carries Produce version 9 or Fetch version 12, which name topics and which every
broker of the last years speaks. All frames of one shape have the same size, and so have the
answers to them while nothing is refused; whoever gets another size decodes it.
"""

from __future__ import annotations

import os
import struct
import time
from collections.abc import Sequence
from typing import Final, NamedTuple

from broker.records.batch import HEADER_BYTES, seal
from broker.records.build import append_record, build_batch, encode_body
from broker.wire import api
from broker.wire.frame import decode_response, encode_request
from broker.wire.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from broker.wire.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData

PRODUCE_VERSION: Final = 9
FETCH_VERSION: Final = 12
TIMEOUT_MS: Final = 30_000
PRODUCED_BYTES: Final = 33
"""Of one partition in an answer to Produce: index 4, error 2, three offsets and times 8 each, no
record errors 1, no message 1, tags 1."""
_CLIENT: Final = "hermes-bench"
_UNLIKELY_OFFSET: Final = 0x5A5A_1234_5A5A_4321
_INT64: Final = struct.Struct(">q")


class BenchRefusal(Exception):
    """A broker refused what the load sent; the message says what."""


class Batch(NamedTuple):
    """A batch as it is sent; `stamp_position` is where the first record's value begins in it."""

    content: bytearray
    records: int
    stamp_position: int


def build(batch_bytes: int, record_bytes: int) -> Batch:
    """The largest batch of whole records that fits `batch_bytes`, one record at least. Values are
    random: nothing could pack them.
    """
    one = bytearray()
    append_record(one, 0, 63, encode_body(None, bytes(record_bytes), ()))
    count = max(1, (batch_bytes - HEADER_BYTES) // len(one))
    while True:
        batch = of_records(count, record_bytes)
        if count == 1 or len(batch.content) <= batch_bytes:
            return batch
        count -= max(1, (len(batch.content) - batch_bytes) // (len(one) + 3))


def of_records(count: int, record_bytes: int) -> Batch:
    """A batch of exactly `count` records."""
    values = [os.urandom(record_bytes) for _ in range(count)]
    now_ms = int(time.time() * 1000)
    content = build_batch([(None, value) for value in values], timestamp_ms=now_ms)
    return Batch(content, count, content.index(values[0], HEADER_BYTES))


def produce_frame(
    topic: str, batches: Sequence[tuple[int, bytes | bytearray]], acks: int
) -> bytearray:
    """One request: a batch for each (partition, batch), in order."""
    data = [PartitionProduceData(index=partition, records=batch) for partition, batch in batches]
    request = ProduceRequest(
        acks=acks,
        timeout_ms=TIMEOUT_MS,
        topic_data=[TopicProduceData(name=topic, partition_data=data)],
    )
    return bytearray(encode_request(api.PRODUCE, PRODUCE_VERSION, 1, _CLIENT, request))


class Stamped:
    """A produce request whose batches each begin with a time that is set before it is sent."""

    def __init__(self, topic: str, partitions: Sequence[int], batch: Batch, acks: int) -> None:
        self.frame = produce_frame(topic, [(index, batch.content) for index in partitions], acks)
        self._stamp_position = batch.stamp_position
        self._views: list[memoryview] = []
        position = 0
        whole = memoryview(self.frame)
        for _ in partitions:
            position = self.frame.index(batch.content, position)
            self._views.append(whole[position : position + len(batch.content)])
            position += len(batch.content)

    def stamp(self, time_ns: int) -> bytearray:
        """The frame with this time in the first record of each batch, sealed again."""
        for view in self._views:
            _INT64.pack_into(view, self._stamp_position, time_ns)
            seal(view)
        return self.frame


def error_position(topic: str) -> int:
    """Where the first partition's error code stands in an answer to `produce_frame`, the frame's
    size included.
    """
    size = len(topic.encode())
    return 4 + 4 + 1 + 1 + _length_bytes(size + 1) + size + 1 + 4


def check_produced(frame: bytes | bytearray | memoryview) -> None:
    """Raises BenchRefusal for any error in an answer to Produce (without its size)."""
    _, answer = decode_response(api.PRODUCE, PRODUCE_VERSION, memoryview(frame))
    for topic in answer.responses:
        for partition in topic.partition_responses:
            if partition.error_code:
                raise BenchRefusal(
                    f"produce to {topic.name}-{partition.index} was refused with error "
                    f"{partition.error_code} {partition.error_message or ''}".strip()
                )


class FetchFrame:
    """A fetch of some partitions of one topic, whose offsets are set before it is sent."""

    def __init__(
        self,
        topic: str,
        partitions: Sequence[int],
        *,
        partition_bytes_max: int,
        wait_ms: int,
        min_bytes: int = 1,
    ) -> None:
        wanted = [
            FetchPartition(
                partition=index,
                fetch_offset=_UNLIKELY_OFFSET,
                partition_max_bytes=partition_bytes_max,
            )
            for index in partitions
        ]
        request = FetchRequest(
            max_wait_ms=wait_ms,
            min_bytes=min_bytes,
            max_bytes=64 << 20,
            topics=[FetchTopic(topic=topic, partitions=wanted)],
        )
        self.frame = bytearray(encode_request(api.FETCH, FETCH_VERSION, 1, _CLIENT, request))
        self._positions: list[int] = []
        position = 0
        for _ in partitions:
            position = self.frame.index(_INT64.pack(_UNLIKELY_OFFSET), position)
            self._positions.append(position)
            position += _INT64.size

    def at(self, offsets: Sequence[int]) -> bytearray:
        """The frame that reads from these offsets, one for each partition."""
        for position, offset in zip(self._positions, offsets, strict=True):
            _INT64.pack_into(self.frame, position, offset)
        return self.frame


class FetchHead(NamedTuple):
    """The head of an answer for one partition; `records_position` counts from the frame's size."""

    error_code: int
    high_watermark: int
    records_bytes: int
    records_position: int


_HEAD_REST: Final = struct.Struct(">ihqqq")


def fetch_head_bytes(topic: str) -> int:
    """How much of an answer `read_fetch_head` wants at most; every answer is about as long."""
    size = len(topic.encode())
    return 4 + 4 + 1 + 4 + 2 + 4 + 1 + _length_bytes(size + 1) + size + 1 + 30 + 1 + 4 + 5


def read_fetch_head(head: bytes | bytearray | memoryview, topic: str) -> FetchHead:
    """What an answer to a fetch of one partition says before its records. Raises BenchRefusal."""
    (error_code,) = struct.unpack_from(">h", head, 13)
    if error_code:
        raise BenchRefusal(f"fetch from {topic} was refused with error {error_code}")
    size = len(topic.encode())
    position = 20 + _length_bytes(size + 1) + size + 1
    _, error_code, high_watermark, _, _ = _HEAD_REST.unpack_from(head, position)
    if error_code:
        raise BenchRefusal(f"fetch from {topic} was refused with error {error_code}")
    position += _HEAD_REST.size + 1 + 4
    length, shift = 0, 0
    while True:
        byte = head[position]
        position += 1
        length |= (byte & 0x7F) << shift
        if byte < 0x80:
            return FetchHead(error_code, high_watermark, max(0, length - 1), position)
        shift += 7


def _length_bytes(number: int) -> int:
    """Bytes of an unsigned varint."""
    return max(1, (number.bit_length() + 6) // 7)
