"""What a fetch finds at one partition: an answer, or what to read for one. No waiting, no state.

One snapshot of the high watermark (`ToRead`) bounds the read and stands in the answer (KAFKA-9807).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Final, NamedTuple

from broker.errors import ErrorCode, Refusal
from broker.ports import Buffer
from broker.server.fetch_sessions import Wanted
from broker.wire.fast_fetch import FetchedPartition, fetch_partition_tags
from broker.wire.messages.fetch import EpochEndOffset

if TYPE_CHECKING:
    from broker.log.reading import ReadResult
    from broker.server.partition import Partition
    from broker.server.partitions import PartitionRegistry

_NO_TAGS: Final = b"\0"
_NO_RECORDS: Final = memoryview(b"")
_new: Final = tuple.__new__  # what a NamedTuple's constructor calls, without its Python frame


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
    """A partition that may have records for this fetch: read from `offset`, below `high_watermark`.

    Under a delivery window these and the log start are its ends: consumers see nothing else.
    """

    wanted: Wanted
    partition: Partition
    high_watermark: int
    log_start_offset: int
    offset: int


def is_quiet(partitions: PartitionRegistry, wanted: Wanted) -> bool:
    """Whether an incremental answer would leave this partition out: the cheap test for the many
    partitions of a big session.
    """
    partition = partitions.find(wanted.topic, wanted.index)
    return (
        partition is not None
        and partition.high_watermark == wanted.fetch_offset == wanted.sent_high_watermark
        and partition.log_start_offset == wanted.sent_log_start_offset
        and partition.offline_reason is None
        and wanted.current_leader_epoch in (-1, partition.leader_epoch)
        and wanted.last_fetched_epoch in (-1, partition.leader_epoch)
    )


def ends_of(partitions: PartitionRegistry, wants: Sequence[Wanted]) -> list[Partition] | None:
    """The partitions of readers that all are at the end of what they may read and know all there is
    to know; None when one of them is not, or must be looked at more closely.
    """
    find_partition = partitions.find
    found = []
    for wanted in wants:
        partition = find_partition(wanted.topic, wanted.index)
        if (
            partition is None
            or partition.high_watermark != wanted.fetch_offset
            or partition.offline_reason is not None
            or partition.window is not None
            or wanted.current_leader_epoch not in (-1, partition.leader_epoch)
            or wanted.last_fetched_epoch not in (-1, partition.leader_epoch)
        ):
            return None
        found.append(partition)
    return found


def find(
    partitions: PartitionRegistry, wanted: Wanted, room: int, *, at_least_one: bool
) -> Answer | None:
    """What `look_up` and `read` find in almost every partition, in one step: a reader in its bounds
    of a partition that serves all it has, with records at once or none. None for any other.
    """
    partition = partitions.find(wanted.topic, wanted.index)
    if partition is None or partition.offline_reason is not None or partition.window is not None:
        return None
    epoch = partition.leader_epoch
    offset, high_watermark = wanted.fetch_offset, partition.high_watermark
    if (
        offset > high_watermark
        or wanted.current_leader_epoch not in (-1, epoch)
        or (wanted.last_fetched_epoch != epoch and wanted.last_fetched_epoch >= 0)
    ):
        return None
    start = partition.log_start_offset
    records, next_offset = _NO_RECORDS, offset
    if offset < high_watermark and (room > 0 or at_least_one):
        size = min(wanted.max_bytes, room)
        try:
            result = partition.read(offset, max(size, 0), high_watermark, at_least_one=at_least_one)
        except Refusal:
            return None
        if result is None:
            return None
        records, next_offset = result
        metrics = partition.topic_metrics
        metrics.warm_reads.value += 1
        metrics.warm_read_bytes.value += len(records)
    return _new(
        Answer,
        (wanted, partition, 0, high_watermark, start, records, next_offset, _NO_TAGS, False),
    )


def look_up(
    partitions: PartitionRegistry, wanted: Wanted, *, is_current: bool = False
) -> Answer | ToRead | None:
    """The partition to read, or why it cannot be; None when its delivery window takes waiting.

    `is_current` takes the window as it is, after `catch_up`.
    """
    partition = partitions.find(wanted.topic, wanted.index)
    if partition is None:
        is_named = isinstance(wanted.topic, str)
        return refused(
            wanted,
            ErrorCode.UNKNOWN_TOPIC_OR_PARTITION if is_named else ErrorCode.UNKNOWN_TOPIC_ID,
        )
    code = partition.check_leader_epoch(wanted.current_leader_epoch)
    if code is not ErrorCode.NONE:
        return refused(wanted, code)
    if partition.is_offline:
        return refused(wanted, ErrorCode.KAFKA_STORAGE_ERROR)
    window = partition.window
    if window is None:
        snapshot = ToRead(
            wanted,
            partition,
            partition.high_watermark,
            partition.log_start_offset,
            wanted.fetch_offset,
        )
    elif is_current or window.refresh():
        first = window.first_offset
        is_expired = partition.log_start_offset <= wanted.fetch_offset < first
        offset = first if is_expired else wanted.fetch_offset
        snapshot = ToRead(wanted, partition, window.visible_end, first, offset)
    else:
        return None
    if wanted.last_fetched_epoch >= 0:
        return _check_divergence(snapshot)
    return snapshot


async def catch_up(partitions: PartitionRegistry, wanted: Wanted) -> Answer | None:
    """Bring the partition's delivery window, if it has one, up to now; why that cannot be."""
    partition = partitions.find(wanted.topic, wanted.index)
    if partition is not None and partition.window is not None:
        try:
            await partition.window.catch_up()
        except Refusal as refusal:
            partition.report_damage()
            return refused(wanted, refusal.code)
    return None


def read(found: ToRead, room: int, *, at_least_one: bool) -> Answer | None:
    """Records that fit in `room` bytes (the first batch whatever its size, with `at_least_one`);
    None when the read would wait for the device.
    """
    wanted = found.wanted
    if found.offset == found.high_watermark or (room <= 0 and not at_least_one):
        return _empty(found)
    try:
        result = found.partition.read(
            found.offset,
            max(0, min(wanted.max_bytes, room)),
            found.high_watermark,
            at_least_one=at_least_one,
        )
    except Refusal as refusal:
        return refused(wanted, refusal.code)
    if result is None:
        return None
    metrics = found.partition.topic_metrics
    metrics.warm_reads.value += 1
    metrics.warm_read_bytes.value += len(result.records)
    return _full(found, result)


async def read_cold(found: ToRead, room: int, *, at_least_one: bool) -> Answer:
    """As `read`, off the loop."""
    wanted = found.wanted
    try:
        result = await found.partition.read_cold(
            found.offset,
            max(0, min(wanted.max_bytes, room)),
            found.high_watermark,
            at_least_one=at_least_one,
        )
    except Refusal as refusal:
        return refused(wanted, refusal.code)
    metrics = found.partition.topic_metrics
    metrics.cold_reads.value += 1
    metrics.cold_read_bytes.value += len(result.records)
    return _full(found, result)


def _check_divergence(found: ToRead) -> Answer | ToRead:
    """The answer that sends the reader back to where its history and ours part, if they do
    (KIP-595).
    """
    wanted, partition = found.wanted, found.partition
    epoch, end_offset = partition.end_offset_for_epoch(wanted.last_fetched_epoch)
    if epoch < 0 or end_offset < 0:
        return refused(wanted, ErrorCode.OFFSET_OUT_OF_RANGE)
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


def refused(wanted: Wanted, error: ErrorCode) -> Answer:
    """An error code for one partition."""
    return Answer(wanted, None, error, -1, -1, b"", -1, _NO_TAGS, is_urgent=True)


def has_more(answer: Answer) -> bool:
    """Whether a limit cut the answer short: what was found is worth sending."""
    return len(answer.records) > 0 and answer.next_offset < answer.high_watermark


def has_moved(answer: Answer) -> bool:
    """Whether more came while this attempt awaited a cold read of another partition."""
    return answer.partition is not None and answer.partition.visible_end != answer.high_watermark


def news(answer: Answer) -> tuple[Wanted, int, int, int, int]:
    """What a session compares with what it sent before."""
    size = len(answer.records) or int(answer.tags != _NO_TAGS)
    return (
        answer.wanted,
        answer.error_code,
        answer.high_watermark,
        answer.log_start_offset,
        size,
    )


def count(answer: Answer) -> None:
    """Count the records and bytes that leave."""
    size = len(answer.records)
    if size:
        assert answer.partition is not None, "only what was read is counted"
        metrics = answer.partition.topic_metrics
        first = max(answer.wanted.fetch_offset, answer.log_start_offset)
        metrics.records_out.value += max(0, answer.next_offset - first)
        metrics.bytes_out.value += size


def fetched(answer: Answer) -> FetchedPartition:
    """The answer as the codec takes it; without transactions the stable offset is the watermark."""
    wanted, _, error_code, high_watermark, log_start_offset, records, _, tags, _ = answer
    pieces = (records,) if len(records) else ()
    return _new(
        FetchedPartition,
        (wanted.index, error_code, high_watermark, high_watermark, log_start_offset, pieces, tags),
    )
