"""Compaction as a person would write it down: all batches in a list, records marked as gone."""

from __future__ import annotations

from dataclasses import dataclass, field

from broker.log.partition_log import PartitionLog
from broker.records.batch import (
    CODEC_MASK,
    CONTROL_BIT,
    DELETE_HORIZON_BIT,
    TRANSACTIONAL_BIT,
    BatchHeader,
    read_header,
)
from broker.records.build import NewRecord, build_batch
from broker.records.iterate import Record, iterate_batches, iterate_records
from tests.log.world import FOREVER, NOW_MS

ABORT, COMMIT = 0, 1


@dataclass
class Kept:
    """A batch and what is left of it. `records` are by offset; `horizon_ms` is set by a clean."""

    base_offset: int
    last_offset: int
    content: bytes
    records: dict[int, Record]
    producer_id: int = -1
    is_transactional: bool = False
    is_marker: bool = False
    horizon_ms: int | None = None
    is_touched: bool = False


@dataclass
class Model:
    """The log as it should be."""

    retention_ms: int
    batches: list[Kept] = field(default_factory=list)
    open_offsets: dict[int, int] = field(default_factory=dict)
    aborted: list[tuple[int, int, int]] = field(default_factory=list)
    last_offsets: dict[int, int] = field(default_factory=dict)

    def note(self, content: bytes, base_offset: int) -> None:
        """A batch was appended there; `content` is what is on disk."""
        header = read_header(content)
        records = {record.offset: record for record in iterate_records(content)}
        is_marker = bool(header.attributes & CONTROL_BIT)
        is_transactional = bool(header.attributes & TRANSACTIONAL_BIT)
        producer_id = header.producer_id
        self.batches.append(
            Kept(
                base_offset,
                header.last_offset,
                content,
                records,
                producer_id,
                is_transactional,
                is_marker,
            )
        )
        if is_marker:
            first = self.open_offsets.pop(producer_id, None)
            key = records[base_offset].key or b""
            if first is not None and key[3] == ABORT:
                self.aborted.append((producer_id, first, base_offset))
        elif is_transactional:
            self.open_offsets.setdefault(producer_id, base_offset)
        if header.base_sequence >= 0:
            self.last_offsets[producer_id] = header.last_offset

    def is_aborted(self, batch: Kept) -> bool:
        return batch.is_transactional and any(
            producer_id == batch.producer_id and first <= batch.base_offset < end
            for producer_id, first, end in self.aborted
        )

    def clean(self, closed_end: int, now_ms: int) -> None:
        """What a cleaning of the segments below `closed_end` leaves."""
        end = min([closed_end, *self.open_offsets.values()])
        newest = {
            record.key: record.offset
            for batch in self.batches
            if not batch.is_marker and not self.is_aborted(batch)
            for record in batch.records.values()
            if record.offset < end
        }
        with_data: set[int] = set()
        stay = {*self.last_offsets.values(), closed_end - 1}
        left = []
        for batch in self.batches:
            if batch.base_offset >= end or not batch.records:
                if batch.base_offset >= end or batch.last_offset in stay:
                    left.append(batch)
                continue
            if batch.is_marker:
                is_gone = self._clean_marker(batch, with_data, now_ms)
            else:
                self._clean_data(batch, newest, now_ms)
                if batch.is_transactional:
                    with_data.add(batch.producer_id)
                is_gone = not batch.records
            if not is_gone or batch.last_offset in stay:
                left.append(batch)
        self.batches = left

    def _clean_marker(self, batch: Kept, with_data: set[int], now_ms: int) -> bool:
        has_data = batch.producer_id in with_data
        with_data.discard(batch.producer_id)
        if has_data:
            return False
        if batch.horizon_ms is None:
            batch.horizon_ms = now_ms + self.retention_ms
            batch.is_touched = True
        elif now_ms >= batch.horizon_ms:
            batch.records = {}
            batch.is_touched = True
            return True
        return False

    def _clean_data(self, batch: Kept, newest: dict[bytes | None, int], now_ms: int) -> None:
        is_over = batch.horizon_ms is not None and now_ms >= batch.horizon_ms
        kept = {
            offset: record
            for offset, record in batch.records.items()
            if record.key is not None
            and not self.is_aborted(batch)
            and newest[record.key] == offset
            and not (record.value is None and is_over)
        }
        batch.is_touched |= len(kept) != len(batch.records)
        batch.records = kept
        if batch.horizon_ms is None and any(record.value is None for record in kept.values()):
            batch.horizon_ms = now_ms + self.retention_ms
            batch.is_touched = True

    def data(self, offset: int = 0) -> list[Record]:
        """What a reader at `offset` gets, aborted and open records included."""
        return [
            record
            for batch in self.batches
            if not batch.is_marker
            for record in batch.records.values()
            if record.offset >= offset
        ]

    def compare(self, found: list[tuple[BatchHeader, bytes]]) -> None:
        """`found` is the whole log, batch by batch."""
        assert [header.base_offset for header, _ in found] == [b.base_offset for b in self.batches]
        for (header, content), batch in zip(found, self.batches, strict=True):
            original = read_header(batch.content)
            if not batch.is_touched:
                assert content == batch.content, "a whole batch stays as it is, to the byte"
            records = {record.offset: record for record in iterate_records(content)}
            assert records == batch.records
            assert header.last_offset == batch.last_offset
            assert header[9:12] == original[9:12], "producer, epoch, sequence"
            assert header.partition_leader_epoch == original.partition_leader_epoch
            if records:
                assert header.attributes & CODEC_MASK == original.attributes & CODEC_MASK
                assert bool(header.attributes & DELETE_HORIZON_BIT) == (
                    batch.horizon_ms is not None
                )
            if records and batch.horizon_ms is not None:
                assert header.base_timestamp == batch.horizon_ms
            if records and not batch.is_marker:
                latest = max(record.timestamp for record in records.values())
                assert header.max_timestamp == latest


def append_batch(
    log: PartitionLog, model: Model | None, records: list[NewRecord], **options: object
) -> int:
    """Append a batch as a broker does, also of a transaction; its base offset."""
    batch = build_batch(records, timestamp_ms=NOW_MS, **options)  # type: ignore[arg-type]
    view = memoryview(batch)
    result = log.stage(view, leader_epoch=0, now_wall_ms=NOW_MS, is_client=False)
    log.flush()
    if model is not None:
        model.note(bytes(batch), result.base_offset)
    return result.base_offset


def append_marker(log: PartitionLog, model: Model | None, producer_id: int, kind: int) -> int:
    """End a transaction."""
    record = NewRecord(b"\x00\x00" + kind.to_bytes(2, "big"), b"\x00\x00\x00\x00\x00\x00")
    return append_batch(
        log,
        model,
        [record],
        producer_id=producer_id,
        producer_epoch=0,
        attributes=CONTROL_BIT | TRANSACTIONAL_BIT,
    )


async def batches_of(log: PartitionLog, offset: int = 0) -> list[tuple[BatchHeader, bytes]]:
    """Every batch from `offset` on, as a consumer gets them."""
    found: list[tuple[BatchHeader, bytes]] = []
    while offset < log.written_end_offset:
        result = await log.read_cold(offset, 300, FOREVER, at_least_one=True)
        if result.next_offset == offset:
            break
        found += [(read_header(batch), bytes(batch)) for batch in iterate_batches(result.records)]
        offset = result.next_offset
    return found


async def data_of(log: PartitionLog, offset: int = 0) -> list[Record]:
    """Every record from `offset` on, without markers."""
    return [
        record
        for header, content in await batches_of(log, offset)
        if not header.attributes & CONTROL_BIT
        for record in iterate_records(content)
        if record.offset >= offset
    ]
