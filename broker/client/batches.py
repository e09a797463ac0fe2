"""Record batches as they are stored: for who must look at many records and hand out few (search,
browsing), or at what consumers never see (control records, producers, compression).

Not here: positions, retries (`reading`), groups. `fetch_batches` is one attempt; `Cluster.call`
repeats it. A batch's records are opened only when asked for.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final, NamedTuple

from broker.client.aborted import AbortedRange
from broker.client.cluster import Cluster
from broker.client.failure import BrokerRefusal
from broker.errors import ErrorCode, Refusal, error_code
from broker.model import NO_TOPIC_ID, TopicPartition
from broker.records.batch import (
    CODEC_MASK,
    TRANSACTIONAL_BIT,
    BatchHeader,
    is_control,
    is_intact,
    is_log_append_time,
    read_header,
)
from broker.records.build import encode_varint
from broker.records.compression import CODECS
from broker.records.iterate import (
    UNPACKED_BYTES_DEFAULT_MAX,
    Record,
    iterate_batches,
    iterate_records,
    open_batch,
)
from broker.wire import api
from broker.wire.messages.fetch import (
    FetchPartition,
    FetchRequest,
    FetchResponse,
    FetchTopic,
    PartitionData,
)

__all__ = [
    "Batch",
    "FetchedBatches",
    "Record",
    "encode_varint",
    "fetch_batches",
    "marker_of",
]

NAMED_TOPICS_VERSION_MAX: Final = 12
MARKERS: Final = {0: "abort", 1: "commit"}
_MARKER_KEY_BYTES: Final = 4


class Batch(NamedTuple):
    """One stored batch. Offsets are those of its first and last record, both inclusive."""

    header: BatchHeader
    content: memoryview

    @property
    def base_offset(self) -> int:
        return self.header.base_offset

    @property
    def next_offset(self) -> int:
        return self.header.next_offset

    @property
    def compression(self) -> str:
        """`none`, `gzip`, `snappy`, `lz4`, `zstd`; `unknown` for a codec of a later day."""
        codec = self.header.attributes & CODEC_MASK
        return CODECS[codec] if codec < len(CODECS) else "unknown"

    @property
    def is_control(self) -> bool:
        """Its one record is a transaction's marker; see `marker_of`."""
        return is_control(self.header.attributes)

    @property
    def is_transactional(self) -> bool:
        return bool(self.header.attributes & TRANSACTIONAL_BIT)

    @property
    def is_log_append_time(self) -> bool:
        return is_log_append_time(self.header.attributes)

    def check(self) -> None:
        """Raises BrokerRefusal(CORRUPT_MESSAGE) when the CRC does not hold."""
        if not is_intact(self.content):
            raise BrokerRefusal(ErrorCode.CORRUPT_MESSAGE, subject=f"batch at {self.base_offset}")

    def unpacked(self, size_max: int = UNPACKED_BYTES_DEFAULT_MAX) -> bytes:
        """Its records' bytes, decompressed. Raises BrokerRefusal: CORRUPT_MESSAGE,
        MESSAGE_TOO_LARGE beyond `size_max`, UNSUPPORTED_COMPRESSION_TYPE.
        """
        try:
            return open_batch(self.content, size_max)[1]
        except Refusal as error:
            raise BrokerRefusal(error.code, error.message) from error

    def records(self, size_max: int = UNPACKED_BYTES_DEFAULT_MAX) -> Iterator[Record]:
        """Its records in order. Raises BrokerRefusal as `unpacked`."""
        try:
            yield from iterate_records(self.content, size_max=size_max)
        except Refusal as error:
            raise BrokerRefusal(error.code, error.message) from error


class FetchedBatches(NamedTuple):
    """A partition's answer. The first batch may begin before the offset asked for; a batch larger
    than `partition_bytes` comes whole. `log_start_offset` and `last_stable_offset` are -1 from a
    broker too old to say. `aborted` has the aborted transactions in it, for READ_COMMITTED alone.
    """

    log_start_offset: int
    last_stable_offset: int
    high_watermark: int
    content: memoryview
    aborted: tuple[AbortedRange, ...] = ()

    @property
    def size(self) -> int:
        """Bytes of all batches, a cut-off last one included."""
        return len(self.content)

    def batches(self) -> Iterator[Batch]:
        """The whole batches in order. Raises BrokerRefusal(CORRUPT_MESSAGE)."""
        try:
            for content in iterate_batches(self.content):
                yield Batch(read_header(content), content)
        except Refusal as error:
            raise BrokerRefusal(error.code, error.message) from error


async def fetch_batches(
    cluster: Cluster,
    positions: Mapping[TopicPartition, int],
    *,
    partition_bytes: int,
    total_bytes: int,
    isolation_level: int = 0,
    wait_ms: int = 0,
    purpose: str = "batches",
) -> dict[TopicPartition, FetchedBatches | BrokerRefusal]:
    """What is stored from each position on, one request per leader; or why not, per partition. Each
    leader waits up to `wait_ms` while it has nothing.

    Raises BrokerRefusal, ConnectionLost, TimedOut when a leader is unknown or does not answer.
    """
    requests = await _by_leader(cluster, positions, partition_bytes)
    found: dict[TopicPartition, FetchedBatches | BrokerRefusal] = {}
    for leader, topics in requests.items():
        request = FetchRequest(
            max_wait_ms=wait_ms,
            min_bytes=1 if wait_ms else 0,
            max_bytes=total_bytes,
            isolation_level=isolation_level,
        )
        answer = await _ask(cluster, leader, request, topics, purpose)
        names = {cluster.topic_id(name): name for name in topics}
        for row in answer.responses:
            topic = row.topic or names.get(row.topic_id, "")
            for each in row.partitions:
                where = TopicPartition(topic, each.partition_index)
                if each.error_code:
                    cluster.forget_topic(topic)
                    found[where] = BrokerRefusal(error_code(each.error_code), subject=str(where))
                else:
                    found[where] = _fetched(each)
    return found


async def _by_leader(
    cluster: Cluster, positions: Mapping[TopicPartition, int], partition_bytes: int
) -> dict[int, dict[str, FetchTopic]]:
    """Leader -> topic -> what to ask. Raises BrokerRefusal for a partition without a leader."""
    by_leader: dict[int, dict[str, FetchTopic]] = {}
    for where, offset in positions.items():
        leader = cluster.known_leader(*where)
        if leader is None:
            leader, _ = await cluster.leader(*where)
        topic = by_leader.setdefault(leader, {}).setdefault(
            where.topic, FetchTopic(topic=where.topic, topic_id=NO_TOPIC_ID)
        )
        topic.partitions.append(
            FetchPartition(
                partition=where.partition,
                fetch_offset=offset,
                partition_max_bytes=partition_bytes,
            )
        )
    return by_leader


def _fetched(data: PartitionData) -> FetchedBatches:
    content = data.records or b""
    assert isinstance(content, bytes | memoryview), "decoded records are a view"
    return FetchedBatches(
        data.log_start_offset,
        data.last_stable_offset,
        data.high_watermark,
        memoryview(content),
        tuple(
            AbortedRange(row.producer_id, row.first_offset)
            for row in data.aborted_transactions or ()
        ),
    )


def marker_of(record: Record) -> str:
    """What a control batch's record says: `commit`, `abort` or `unknown`."""
    key = record.key or b""
    if len(key) < _MARKER_KEY_BYTES:
        return "unknown"
    return MARKERS.get(int.from_bytes(key[2:4], "big", signed=True), "unknown")


async def _ask(
    cluster: Cluster,
    leader: int,
    request: FetchRequest,
    topics: dict[str, FetchTopic],
    purpose: str,
) -> FetchResponse:
    version = await cluster.version(leader, api.FETCH, purpose=purpose)
    for name, row in topics.items():
        row.topic_id = cluster.topic_id(name)
    has_ids = all(row.topic_id != NO_TOPIC_ID for row in topics.values())
    request.topics = list(topics.values())
    answer: FetchResponse = await cluster.request(
        leader,
        api.FETCH,
        request,
        purpose=purpose,
        timeout_ms=request.max_wait_ms,
        max_version=None
        if has_ids and version > NAMED_TOPICS_VERSION_MAX
        else NAMED_TOPICS_VERSION_MAX,
    )
    if answer.error_code:
        raise BrokerRefusal(error_code(answer.error_code), subject="fetch")
    return answer
