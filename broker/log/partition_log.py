"""One partition's log: staging, flushing, rolling, reading, checkpoints.

Not here: replication, the high watermark, files' formats. Invariants: log_start_offset ≤
written_end_offset ≤ log_end_offset; what is below `written_end_offset` is in the file; a failed
flush leaves no trace of what was staged; after a DiskFault the log is offline for good, after
DiskFull it goes on. One owner, one event loop; `stage`, `flush` and `read` never wait.
"""

from __future__ import annotations

from collections.abc import Generator
from typing import Final

from broker.errors import ErrorCode, Refusal
from broker.log import cleaner, driving, lookup, names, retention, rolling
from broker.log.checkpoint import Checkpoints, SyncMark, settle_opening
from broker.log.cleaner import Cleaned, CleanLimits
from broker.log.config import LOG_APPEND_TIME, LogConfig
from broker.log.epochs import LeaderEpochs
from broker.log.index import RELATIVE_OFFSET_MAX, Times
from broker.log.lookup import TimestampedOffset
from broker.log.open_segments import OpenSegments
from broker.log.partition_file import PartitionIdentity, read_identity
from broker.log.placing import place_log
from broker.log.producers import ProducerBatch, ProducerStates, last_sequence_of
from broker.log.reach import Reach, Want
from broker.log.reading import PositionCache, ReadResult, plan_read
from broker.log.recovery import Recovered, recover
from broker.log.segment import Segment, Written
from broker.log.synced_ends import NOTHING_SYNCED, SyncedEnd
from broker.model import INT64_MAX, NO_TIMESTAMP, AppendResult
from broker.ports import Disk, DiskFault, DiskFull, Worker
from broker.records.batch import LOG_APPEND_TIME_BIT, assign, set_log_append_time, validate_batch

ROLL_RETRY_MS: Final = 1_000
"""After a failed roll the next attempt waits this long."""
DAMAGE_NOTED_MAX: Final = 100
_NO_LIMITS: Final = CleanLimits()
_new: Final = tuple.__new__  # what a NamedTuple's constructor calls, without its Python frame


class PartitionLog:
    """`log_end_offset` is the next offset to assign, staged batches included; `damage` names what
    was found broken.
    """

    def __init__(
        self,
        disk: Disk,
        directory: str,
        identity: PartitionIdentity,
        config: LogConfig,
        found: Recovered,
        now_wall_ms: int,
    ) -> None:
        """For `create` and `open`."""
        self.disk = disk
        self.directory = directory
        self.topic_id, self.partition, self.topic = identity
        self.segments = found.segments
        self.log_start_offset = found.log_start_offset
        self.log_end_offset = self.written_end_offset = found.next_offset
        self.damage = found.damage
        self.producers: ProducerStates = found.producers
        self.epochs: LeaderEpochs = found.epochs
        self.cleaned_end_offset = 0 if found.snapshot is None else found.snapshot.cleaned_end_offset
        self.next_clean_ms = NO_TIMESTAMP
        self.uncleanable_reason = ""
        """Why compaction leaves a part of the log as it is; empty when it does not."""
        self.passed_over_offset = INT64_MAX
        """Where that part begins: what replaces its records is looked for in every cleaning."""
        self.positions = PositionCache()
        self.is_in_upkeep = False
        self.doomed: list[tuple[str, Segment]] = []
        """Files that left the log and are to be unlinked."""
        self.is_measured = False
        self.checkpoints = Checkpoints(found)
        self.open_segments = OpenSegments()
        self.opened_wall_ms = now_wall_ms
        self._staged: list[memoryview] = []
        self._offline_reason = ""
        self._untold_fault: DiskFault | None = None
        self._is_rolling = False
        self._undo: tuple[int, int, int, int, list[tuple[int, int]], tuple[int, int, int]]
        self._undo = (0, 0, 0, 0, [], Times())
        self._is_gapless = self.cleaned_end_offset == 0
        self._roll_not_before_ms = 0
        self._first_append_time = self._last_append_time = self._max_timestamp = NO_TIMESTAMP
        self._last_indexed = 0
        self.configure(config)
        self._adopt_active()
        rolls_from_ms = found.rolls_from_ms  # not records' own times: clients' word rolls nothing
        self.rolls_from_ms = now_wall_ms if rolls_from_ms is None else rolls_from_ms

    @classmethod
    async def create(
        cls,
        disk: Disk,
        directory: str,
        *,
        topic_id: bytes,
        partition: int,
        topic: str,
        config: LogConfig,
        now_wall_ms: int,
        synced: SyncedEnd = NOTHING_SYNCED,
    ) -> PartitionLog:
        """A new, empty log, durably there. A directory of the same topic id is opened instead.

        Raises DiskFull, DiskFault; also when the directory belongs to another topic id.
        """
        identity = PartitionIdentity(topic_id, partition, topic)
        if disk.exists(f"{directory}/{names.PARTITION_FILE}"):
            found = read_identity(disk, directory)
            if found[:2] != identity[:2]:
                raise DiskFault(
                    directory,
                    f"holds partition {found.partition} of another {found.topic}: move it away",
                )
            return await cls.open(disk, directory, config, now_wall_ms, synced)
        await place_log(disk, directory, identity)
        return await cls.open(disk, directory, config, now_wall_ms)

    @classmethod
    async def open(
        cls,
        disk: Disk,
        directory: str,
        config: LogConfig,
        now_wall_ms: int,
        synced: SyncedEnd = NOTHING_SYNCED,
    ) -> PartitionLog:
        """The log in `directory`, recovered; what lies below `synced` is known to have been synced.
        Raises DiskFault when it cannot be used; `damage` names what was lost.
        """
        identity = read_identity(disk, directory)
        found = await recover(
            disk,
            directory,
            index_interval_bytes=config.index_spacing_bytes,
            producer_expiration_ms=config.producer_id_expiration_ms,
            now_wall_ms=now_wall_ms,
            synced=synced,
        )
        is_changed = found.needs_segment or found.scanned_bytes > 0 or bool(found.damage)
        if found.needs_segment:
            found.segments.append(await rolling.create_segment(disk, directory, found.next_offset))
        log = cls(disk, directory, identity, config, found, now_wall_ms)
        await settle_opening(log, found, is_changed=is_changed)
        return log

    def configure(self, config: LogConfig) -> None:
        """Use other settings from now on."""
        self.config = config
        self.producers.expiration_ms = config.producer_id_expiration_ms
        self._rules = config.batch_rules()
        self._is_log_append_time = config.message_timestamp_type == LOG_APPEND_TIME
        self._interval = config.index_spacing_bytes
        self._roll_ms = config.roll_ms
        self._is_gapless &= not config.is_compacted  # once compacted, offsets stay missing

    # ---- appending

    def stage(
        self, batch: memoryview, *, leader_epoch: int, now_wall_ms: int, is_client: bool = True
    ) -> AppendResult:
        """Validate one batch, give it its offsets in place, and queue it for `flush`; its buffer
        must live until then.

        Raises Refusal: what `validate_batch` and the producer's sequence say, KAFKA_STORAGE_ERROR
        when offline.
        """
        segment = self._active
        size = len(batch)
        if self._offline_reason or segment.size + size > RELATIVE_OFFSET_MAX:
            raise self._refuse_append()
        fields = validate_batch(batch, self._rules, now_wall_ms=now_wall_ms, is_client=is_client)
        last_delta, producer_id, epoch, sequence = fields[6], fields[9], fields[10], fields[11]
        base_offset = self.log_end_offset
        last_offset = base_offset + last_delta
        is_idempotent = producer_id >= 0 and sequence >= 0
        if is_idempotent:
            last_sequence = last_sequence_of(sequence, last_delta)
            stored = self.producers.find_duplicate(
                producer_id, epoch, sequence, last_sequence, now_wall_ms
            )
            if stored is not None:
                return _new(AppendResult, (*stored[2:], self.log_start_offset, True))
        append_time, latest = NO_TIMESTAMP, fields[8]
        if self._is_log_append_time:
            set_log_append_time(batch, now_wall_ms)
            append_time = latest = now_wall_ms
        elif fields[5] & LOG_APPEND_TIME_BIT and is_client:
            raise Refusal(
                ErrorCode.INVALID_TIMESTAMP, "only the broker sets timestamps of type LogAppendTime"
            )
        if not self._staged:
            self._mark()
        assign(batch, base_offset, leader_epoch)
        if leader_epoch != self.epochs.latest:
            self.epochs.begin(leader_epoch, base_offset)
        if is_idempotent:
            new = (sequence, last_sequence, base_offset, last_offset, append_time)
            self.producers.stage(producer_id, epoch, now_wall_ms, _new(ProducerBatch, new))
        self._enter(size, base_offset, now_wall_ms, latest)
        self._staged.append(batch)
        self.log_end_offset = last_offset + 1
        placed = (base_offset, last_offset, append_time, self.log_start_offset, False)
        return _new(AppendResult, placed)

    def _enter(self, size: int, base_offset: int, now_wall_ms: int, latest: int) -> None:
        """Count a batch of `size` bytes in the active segment, its times and index. Append time
        never goes back.
        """
        segment = self._active
        position = segment.size
        now = self._last_append_time
        if now_wall_ms > now:
            self._last_append_time = now = now_wall_ms
        if position - self._last_indexed >= self._interval and self._index.add(
            base_offset, position, now, self._max_timestamp
        ):
            self._last_indexed = position
        if not position:
            self._first_append_time = self.rolls_from_ms = now
        self._max_timestamp = max(self._max_timestamp, latest)
        segment.size = position + size

    def flush(self) -> Written | None:
        """What one append wrote: everything staged; None when nothing was. Raises DiskFull,
        DiskFault: then all of it is undone.
        """
        staged = self._staged
        if self._untold_fault is not None:
            fault, self._untold_fault = self._untold_fault, None
            if staged:
                self._undo_staged()
            raise fault
        if not staged:
            return None
        written_size = self._undo[1]
        try:
            file = self._active.file()
        except (DiskFault, FileNotFoundError) as fault:
            self._undo_staged()
            raise (
                fault
                if isinstance(fault, DiskFault)
                else DiskFault(self._active.path(), "is missing")
            ) from fault
        try:
            file.append(staged)
        except DiskFault as fault:
            self._undo_staged()
            try:
                file.truncate(written_size)
            except DiskFault as second:
                self.go_offline(second)
            if not isinstance(fault, DiskFull):
                self.go_offline(fault)
            raise
        self._staged = []
        self.producers.mark()
        self.written_end_offset = self.log_end_offset
        return _new(Written, (self._active.base_offset, written_size, staged))

    def discard_staged(self) -> None:
        """Undo what is staged: its buffer is used for something else now."""
        if self._staged:
            self._undo_staged()

    def flush_early(self) -> None:
        """Flush what somebody else staged, who will call `flush` later in this turn: a failure is
        raised here and there, however often somebody flushes early until then.
        """
        is_owed = bool(self._staged) or self._untold_fault is not None
        try:
            self.flush()
        except DiskFault as fault:
            if is_owed:
                self._untold_fault = fault
            raise

    def _mark(self) -> None:
        """Remember what `_undo_staged` goes back to."""
        self._undo = (
            self.log_end_offset,
            self._active.size,
            len(self._index.positions),
            self._last_indexed,
            self.epochs.entries,
            (self._first_append_time, self._last_append_time, self._max_timestamp),
        )
        self.producers.mark()

    def _undo_staged(self) -> None:
        self.log_end_offset, self._active.size, index_count, self._last_indexed = self._undo[:4]
        epochs, times = self._undo[4:]
        self._index.truncate(index_count)
        self.epochs.restore(epochs)
        self._first_append_time, self._last_append_time, self._max_timestamp = times
        self.producers.undo()
        self._staged.clear()

    def _refuse_append(self) -> Refusal:
        reason = (
            self._offline_reason or f"segment {self._active.path()} is full and could not be rolled"
        )
        return Refusal(ErrorCode.KAFKA_STORAGE_ERROR, reason)

    def go_offline(self, fault: DiskFault) -> None:
        """Refuse every call from now on: what the disk holds is not known any more."""
        self._offline_reason = f"the log of {self.topic}-{self.partition} is offline: {fault}"

    def fail_sync(self, fault: DiskFault) -> None:
        """A sync failed: offline, and the next start is told, since to it all looks well."""
        self.go_offline(fault)
        self.checkpoints.mark_failed_sync(self)

    def check_online(self) -> None:
        """Raises Refusal(KAFKA_STORAGE_ERROR) when the log is offline or closed."""
        if self._offline_reason:
            raise Refusal(ErrorCode.KAFKA_STORAGE_ERROR, self._offline_reason)

    @property
    def offline_reason(self) -> str:
        """Why every call is refused; empty while the log works."""
        return self._offline_reason

    # ---- segments

    @property
    def active(self) -> Segment:
        """The segment that is appended to."""
        return self._active

    @property
    def needs_roll(self) -> bool:
        """True when the active segment is big or old enough (by append time) to be closed."""
        segment = self._active
        if (
            self._is_rolling
            or not segment.size
            or self._last_append_time < self._roll_not_before_ms
        ):
            return False
        return (
            segment.size >= self.config.segment_bytes
            or self._last_append_time - self.rolls_from_ms >= self._roll_ms
            or not segment.has_room(self.log_end_offset)
        )

    async def roll(self, now_wall_ms: int) -> None:
        """Close the active segment and begin a new one at the log's end; appends go on meanwhile.

        Raises DiskFull, DiskFault: then the old segment stays active, or the new one lacks a
        checkpoint only.
        """
        self.check_online()
        if self._is_rolling or not self._active.size:
            return
        self._is_rolling = True
        try:
            await rolling.roll(self)
        except DiskFault:
            self._roll_not_before_ms = now_wall_ms + ROLL_RETRY_MS
            raise
        finally:
            self._is_rolling = False

    def begin_segment(self, segment: Segment) -> None:
        """`segment`, empty and at the log's end, becomes the active one."""
        self.open_segments.touch(self._active)
        self.segments.append(segment)
        self._adopt_active()

    def _adopt_active(self) -> None:
        """Take the last segment as the active one."""
        segment = self.segments[-1]
        assert segment.index is not None, "the active segment's index is loaded"
        self._active = segment
        self._index = segment.index
        times = segment.times or Times()
        self._first_append_time, self._last_append_time, self._max_timestamp = times
        self.rolls_from_ms = times.first_append_time
        self._last_indexed = self._index.last_position()

    @property
    def last_append_time(self) -> int:
        """Wall time of the active segment's newest batch, -1 when it is empty."""
        return self._last_append_time

    @property
    def index_interval_bytes(self) -> int:
        """Bytes between index entries."""
        return self._interval

    def active_times(self) -> Times:
        """The active segment's times as of now."""
        times = Times(self._first_append_time, self._last_append_time, self._max_timestamp)
        self._active.times = times
        return times

    def times_of(self, segment: Segment) -> Times | None:
        """A segment's times; None for a closed one whose index was not loaded yet."""
        return self.active_times() if segment is self._active else segment.times

    async def load_index(self, segment: Segment) -> Times:
        """Make sure that a segment's index is in memory; its times. Raises DiskFault."""
        if segment is self._active:
            return self.active_times()
        return await self.open_segments.load(self, segment)

    def replace_segments(self, replaced: list[Segment], replacements: list[Segment]) -> None:
        """Take `replaced` (closed neighbours) out of the log and put others in their place."""
        place = self.segments.index(replaced[0])
        assert self.segments[place : place + len(replaced)] == replaced, (
            "the segments are neighbours"
        )
        assert self._active not in replaced, "the active segment stays"
        self.segments[place : place + len(replaced)] = replacements
        self.positions.clear()
        for segment in replaced:
            self.open_segments.forget(segment)
            segment.retire()

    # ---- reading

    def read(
        self, offset: int, max_bytes: int, end_offset: int, *, at_least_one: bool
    ) -> ReadResult | None:
        """Whole batches from the one that holds `offset`, below `end_offset`, of `max_bytes` at
        most (but one batch at least when `at_least_one`). None when the disk would have to be
        waited for: use `read_cold`.

        Raises Refusal: OFFSET_OUT_OF_RANGE, CORRUPT_MESSAGE where the log is damaged (the text says
        how to go on), KAFKA_STORAGE_ERROR.
        """
        plan = self.plan(offset, max_bytes, end_offset, at_least_one=at_least_one)
        return driving.read_warm(self, plan)

    async def read_cold(
        self, offset: int, max_bytes: int, end_offset: int, *, at_least_one: bool
    ) -> ReadResult:
        """As `read`, but off the loop where it must wait; never None."""
        return await driving.read_cold(
            self, offset, max_bytes, end_offset, at_least_one=at_least_one
        )

    def plan(
        self, offset: int, max_bytes: int, end_offset: int, *, at_least_one: bool
    ) -> Generator[Want, bytes, ReadResult]:
        """What `driving` reads. Raises Refusal for an offset that the log does not have."""
        self.check_online()
        if not self.log_start_offset <= offset <= self.log_end_offset:
            raise Refusal(
                ErrorCode.OFFSET_OUT_OF_RANGE,
                f"offset {offset} of {self.topic}-{self.partition}, "
                f"which has {self.log_start_offset} to {self.log_end_offset}",
            )
        return plan_read(
            self.reach(), self.positions, offset, max_bytes, end_offset, at_least_one=at_least_one
        )

    def reach(self) -> Reach:
        """What of the log may be read now."""
        written_size = self._undo[1] if self._staged else self._active.size
        return Reach(
            self.segments, self.written_end_offset, written_size, self._is_gapless, self.epochs
        )

    def note_damage(self, reason: str) -> None:
        """Remember what was found broken, once."""
        if reason not in self.damage and len(self.damage) < DAMAGE_NOTED_MAX:
            self.damage.append(reason)

    def log_size(self) -> int:
        """Bytes of all segments, staged ones included."""
        return sum(segment.size for segment in self.segments)

    @property
    def latest_epoch(self) -> int:
        """The newest leader epoch in the log's history, -1 when there is none."""
        return self.epochs.latest

    def epoch_at(self, offset: int) -> int:
        """The leader epoch of the record at `offset`, -1 when it is not known."""
        return self.epochs.epoch_at(offset)

    def end_offset_for_epoch(self, epoch: int) -> tuple[int, int]:
        """(largest epoch at or below `epoch`, its end offset), or (-1, -1) when unknown."""
        return self.epochs.end_offset_for_epoch(epoch, self.written_end_offset)

    async def offset_for_timestamp(
        self,
        timestamp_ms: int,
        end_offset: int,
        worker: Worker | None = None,
        start_offset: int = 0,
    ) -> TimestampedOffset | None:
        """The first record at or after `timestamp_ms` in [start, end), looking inside batches; None
        when there is none.

        Big or compressed batches are opened by `worker` when there is one. Raises
        Refusal(KAFKA_STORAGE_ERROR).
        """
        return await lookup.first_at_or_after(self, timestamp_ms, end_offset, worker, start_offset)

    async def max_timestamp(
        self, end_offset: int, worker: Worker | None = None, start_offset: int = 0
    ) -> TimestampedOffset | None:
        """The first of the records with the greatest timestamp in [start, end); None without
        any.
        """
        return await lookup.greatest(self, end_offset, worker, start_offset)

    # ---- upkeep

    async def apply_retention(self, now_wall_ms: int, *, high_watermark: int | None = None) -> int:
        """Delete whole segments that are too old or too many, or lie below the log start; the new
        log start.
        """
        return await retention.apply(self, now_wall_ms, high_watermark)

    async def advance_log_start(self, offset: int) -> int:
        """Records below `offset` are gone for readers, durably; whole segments below it are
        deleted. The log start that a restart finds.

        Raises Refusal(OFFSET_OUT_OF_RANGE) beyond the written end; DiskFault.
        """
        return await retention.advance(self, offset)

    async def clean(
        self, worker: Worker, now_wall_ms: int, limits: CleanLimits = _NO_LIMITS
    ) -> Cleaned:
        """Compact the closed segments: the newest value of each key stays, at its offset.

        Raises DiskFull, DiskFault, WorkerFault: the log holds what it held, some of it cleaned.
        """
        return await cleaner.clean(self, worker, now_wall_ms, limits)

    @property
    def synced_end_offset(self) -> int:
        """What is below it survives a loss of power."""
        return min(self.checkpoints.synced.offset, self.written_end_offset)

    async def sync(self) -> int:
        """Make everything written so far durable; the end offset that is durable now.

        Raises DiskFault: the log is offline then, since what the file holds is not known any more.
        """
        mark = self.begin_sync()
        await self.sync_to(mark)
        return mark.end_offset

    def begin_sync(self) -> SyncMark:
        """What is written now, for `sync_to`, or for `finish_sync` after a sync of everything that
        began later.
        """
        return self.checkpoints.begin_sync(self)

    async def sync_to(self, mark: SyncMark) -> None:
        """As `sync`, of what `begin_sync` named."""
        await self.checkpoints.sync(self, mark)

    def finish_sync(self, mark: SyncMark) -> bool:
        """Somebody else has synced what `mark` names; False when the log went offline meanwhile."""
        if self._offline_reason:
            return False
        self.checkpoints.finish_sync(mark)
        return True

    async def checkpoint(self) -> None:
        """Sync, then write a snapshot, so that the next start scans only what comes after.

        Does nothing when nothing changed, or while another one is under way. Raises DiskFull,
        DiskFault.
        """
        await self.checkpoints.take(self)

    async def close(self, *, is_clean: bool = True) -> None:
        """Checkpoint (unless it is not to be a clean stop, and not after a fault) and give up all
        descriptors. Raises DiskFull, DiskFault, closed all the same.
        """
        try:
            if is_clean and not self._offline_reason:
                await self.checkpoint()
        finally:
            if self.checkpoints.needs_mark:
                self.checkpoints.mark_failed_sync(self)
            self._offline_reason = (
                self._offline_reason or f"the log of {self.topic}-{self.partition} is closed"
            )
            for segment in self.segments:
                segment.retire()
