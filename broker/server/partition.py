"""One partition that this broker leads: its log, its place in the epoch, and who waits for its
high watermark.

| state   | meaning                                | answers                    | exits            |
|---------|----------------------------------------|----------------------------|------------------|
| serving | the log is open                        | everything                 | offline, deleted |
| offline | a fault or broken invariant stopped it | KAFKA_STORAGE_ERROR        | a restart        |
| deleted | its topic is gone                      | UNKNOWN_TOPIC_OR_PARTITION |                  |

Acks and fetches follow the high watermark, never the append: a record is published after its write
completed, with `durability=fsync` after the sync round that took it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import Any, Final, NamedTuple, Protocol

import structlog

from broker.config.topic import TopicSettings
from broker.errors import ERRORS, ErrorCode, Refusal
from broker.log.checkpoint import SyncMark
from broker.log.config import LogConfig
from broker.log.driving import read_on
from broker.log.partition_log import PartitionLog
from broker.log.reading import ReadResult
from broker.log.segment import Written
from broker.metrics import Metrics
from broker.model import AppendResult, BrokerId, TopicId
from broker.ports import Buffer, Clock, DiskFault, DiskFull
from broker.records.build import build_batch
from broker.replication.leader import Effect, PartitionLeader
from broker.server.acks import ACKS_ALL, Ack, OnDone, WaitingAcks, fail_acks
from broker.server.delivery import DeliveryWindow, WindowHost, has_window
from broker.server.limits import LogLines
from broker.server.log_settings import intake_of
from broker.server.topic_metrics import TopicMetrics
from broker.server.turn import Turn
from broker.server.waiting import Deadline

_log = structlog.get_logger("hermes.partition")

TO_HIGH_WATERMARK: Final = -1
"""In place of an offset up to which records are deleted."""
MARK_RETRY_MS: Final = 1_000  # after there was no room for the mark of a failed sync
OFFLINE_MESSAGE: Final = "the partition is offline after a storage fault: see the broker's log"


class Space(Protocol):
    """The room on the disk: whoever appended takes the bytes off, and looks when none are left."""

    unchecked_bytes: int

    def check(self) -> float:
        """Look at the disk now."""


class Surroundings(NamedTuple):
    """What every partition of a broker shares."""

    broker_id: BrokerId
    clock: Clock
    turn: Turn
    metrics: Metrics
    on_roll_due: Callable[[Partition], None]
    on_sync_due: Callable[[Partition, Written | None], None]
    full_lines: LogLines
    space: Space
    call_later: Callable[[float, Callable[[], None]], Deadline]
    spawn: Callable[[Awaitable[None]], None]


class ParkedFetch(Protocol):
    """A fetch that waits at this partition's end."""

    def on_published(self, partition: Partition, size: int) -> None:
        """`size` more bytes may be read. Must not unpark at once."""

    def on_changed(self, partition: Partition) -> None:
        """The partition went offline, was deleted, or may have more: look again."""


class Partition:
    """See the module. `high_watermark` and `leader_epoch` are what clients see. `intake` says how a
    client's batch is opened before it is staged, None: not at all; `producers` is the log's.
    """

    __slots__ = (
        "_acks",
        "_around",
        "_damage_reported",
        "_deletion",
        "_in_sync_count",
        "_is_dirty",
        "_leader",
        "_log",
        "_parked",
        "_staged",
        "_staged_bytes",
        "high_watermark",
        "index",
        "intake",
        "is_deleted",
        "is_internal",
        "is_rolling",
        "leader_epoch",
        "offline_reason",
        "producers",
        "settings",
        "topic",
        "topic_id",
        "topic_metrics",
        "unsynced_bytes",
        "window",
    )

    def __init__(
        self,
        around: Surroundings,
        topic: str,
        index: int,
        topic_id: TopicId,
        settings: TopicSettings,
        *,
        is_internal: bool,
        leader_epoch: int,
        log: PartitionLog | None,
        offline_reason: str | None = None,
    ) -> None:
        assert (log is None) == (offline_reason is not None), "a partition without a log is offline"
        self._around = around
        self.topic = topic
        self.index = index
        self.topic_id = topic_id
        self.settings = settings
        self.intake = None if log is None else intake_of(settings, log.config.batch_rules())
        self.is_internal = is_internal
        self.leader_epoch = leader_epoch
        self.offline_reason = offline_reason
        self.is_deleted = False
        self.is_rolling = False
        self.high_watermark = 0
        self.topic_metrics = TopicMetrics(around.metrics, topic)
        self._log = log
        self.producers = None if log is None else log.producers
        self._deletion = asyncio.Lock()
        self._damage_reported = 0 if log is None else len(log.damage)
        self._leader: PartitionLeader | None = None
        self._staged: list[Ack] = []
        self._staged_bytes = 0
        self._is_dirty = False
        self._in_sync_count = 0
        self._acks = WaitingAcks()
        self.unsynced_bytes = 0
        self._parked: dict[ParkedFetch, None] = {}
        self.window: DeliveryWindow | None = None
        if log is not None:
            self._lead(log)
            self._settle_window(log, floor=log.log_start_offset)

    def __repr__(self) -> str:
        return f"{self.topic}-{self.index}"

    @property
    def log(self) -> PartitionLog:
        """Raises Refusal (KAFKA_STORAGE_ERROR) while the partition has no usable log."""
        if self._log is None or self.offline_reason is not None:
            raise Refusal(ErrorCode.KAFKA_STORAGE_ERROR, OFFLINE_MESSAGE)
        return self._log

    @property
    def log_start_offset(self) -> int:
        """The first offset still kept, -1 without a usable log."""
        return self._log.log_start_offset if self._log is not None else -1

    @property
    def visible_end(self) -> int:
        """The end of what consumers may read: the high watermark, or where a delivery window ends,
        as of its last look.
        """
        return self.high_watermark if self.window is None else self.window.visible_end

    @property
    def first_offset(self) -> int:
        """Where consumers may begin to read: the log start, or where a delivery window begins, as
        of its last look; -1 without a usable log.
        """
        return self.log_start_offset if self.window is None else self.window.first_offset

    def end_offset_for_epoch(self, epoch: int) -> tuple[int, int]:
        """(`epoch`, where it ended), or (-1, -1) when unknown (KIP-320).

        An epoch in which nothing was written ended where the next one began: answering with an
        older epoch, as for a lagging replica, would tell its consumers that records were cut off.
        Raises Refusal when the partition is offline.
        """
        log = self.log
        if not 0 <= epoch <= self.leader_epoch:
            return -1, -1
        if epoch > log.latest_epoch:
            return epoch, log.written_end_offset
        found_epoch, end_offset = log.end_offset_for_epoch(epoch)
        return (epoch, end_offset) if found_epoch >= 0 else (-1, -1)

    def check_leader_epoch(self, epoch: int) -> ErrorCode:
        """Whether a client that knows `epoch` as the leader's may go on (KIP-320); -1 asks for no
        check.
        """
        if epoch in (-1, self.leader_epoch):
            return ErrorCode.NONE
        is_over = epoch < self.leader_epoch
        return ErrorCode.FENCED_LEADER_EPOCH if is_over else ErrorCode.UNKNOWN_LEADER_EPOCH

    @property
    def _offline_code(self) -> ErrorCode:
        if self.is_deleted:
            return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        return ErrorCode.KAFKA_STORAGE_ERROR

    @property
    def is_offline(self) -> bool:
        return self.offline_reason is not None

    @property
    def has_enough_replicas(self) -> bool:
        """Whether acks=all may be accepted: min.insync.replicas are in sync."""
        return self._in_sync_count >= self.settings.min_insync_replicas

    def configure(self, settings: TopicSettings, config: LogConfig) -> None:
        """The topic's settings changed."""
        self.settings = settings
        self.intake = intake_of(settings, config.batch_rules())
        log, leader = self._log, self._leader
        if log is None or leader is None:
            return
        log.configure(config)
        if settings.needs_sync != leader.needs_sync and self.offline_reason is None:
            self._commit(leader, leader.on_durability(needs_sync=settings.needs_sync), 0)
            self._sync_soon(leader)
        self._settle_window(log, floor=self.high_watermark)

    # appending

    def stage(
        self,
        batch: memoryview,
        on_done: OnDone,
        *,
        acks: int,
        now_wall_ms: int,
        is_client: bool = True,
    ) -> AppendResult:
        """Validate `batch`, give it its offsets, have it written before this turn of the loop
        ends.

        `on_done` is called once, later: when the batch has what `acks` asks for (the table of
        `acks`). `batch` must stay as it is until the turn is settled. Raises Refusal.
        """
        if self._log is None or self.offline_reason is not None:
            raise Refusal(ErrorCode.KAFKA_STORAGE_ERROR, OFFLINE_MESSAGE)
        result = self._log.stage(
            batch, leader_epoch=self.leader_epoch, now_wall_ms=now_wall_ms, is_client=is_client
        )
        self._staged.append((result[1] + 1, on_done, acks))
        if result[4]:
            self._around.metrics.duplicate_batches_total.add(1)
        else:
            self._staged_bytes += len(batch)
        if not self._is_dirty:
            self._is_dirty = True
            self._around.turn.add_dirty(self)
        return result

    def on_refused(self, batch: Buffer, code: ErrorCode, now_wall_ms: int) -> None:
        """A client's batch was refused: what its producer sent behind it may not overtake it, if it
        will be sent again. One that is refused for good is given up by its client, which goes on.
        """
        if self.producers is not None and ERRORS[code].is_retriable:
            self.producers.on_refused(batch, now_wall_ms)

    def append_records(self, records: Sequence[Any], on_done: OnDone) -> int:
        """Append one batch of our own `(key, value)` records; the base offset it got.

        Staged now, written before this turn of the loop ends; `on_done(NONE)` is called once the
        high watermark has passed it, else `on_done(error)`; never before this returns. Raises
        Refusal when the partition is offline.
        """
        now_wall_ms = self._around.clock.wall_ms()
        batch = memoryview(build_batch(records, timestamp_ms=now_wall_ms))
        return self.stage(
            batch, on_done, acks=ACKS_ALL, now_wall_ms=now_wall_ms, is_client=False
        ).base_offset

    def flush(self) -> None:
        """Write what is staged, then answer and wake whoever may go on. Never raises: a fault or a
        broken invariant takes this partition offline and nothing else.
        """
        self._is_dirty = False
        staged, self._staged = self._staged, []
        size, self._staged_bytes = self._staged_bytes, 0
        log, leader = self._log, self._leader
        if log is None or leader is None or self.offline_reason is not None:
            fail_acks(staged, self._offline_code)
            return
        try:
            written = self._write(log, leader, size)
            self._carry_out(leader.on_written(log.written_end_offset), size)
        except DiskFull as fault:
            self._around.metrics.disk_faults_total.add(1, kind="full")
            self._around.space.check()
            if self._around.full_lines.admits(self._around.clock.monotonic_ms()):
                _log.error(
                    fault.summary,
                    partition=str(self),
                    fault=str(fault),
                    unlogged_before=self._around.full_lines.take_suppressed(),
                )
            if log.offline_reason:  # what was written could not be cut off again
                self.take_offline(log.offline_reason)
            self._settle_early(log, leader, staged)
            return
        except DiskFault as fault:
            self.take_offline(str(fault))
            fail_acks(staged, ErrorCode.KAFKA_STORAGE_ERROR)
            return
        except Exception as error:  # noqa: BLE001 - a broken invariant ends its owner, the partition
            _log.error("a partition broke an invariant", partition=str(self), exc_info=error)
            self.take_offline(f"broken invariant: {error}")
            fail_acks(staged, ErrorCode.KAFKA_STORAGE_ERROR)
            return
        self._settle_acks(leader, staged)
        if leader.needs_sync and size:
            self.unsynced_bytes += size
            self._around.on_sync_due(self, written)
        if log.needs_roll and not self.is_rolling:
            self.is_rolling = True
            self._around.on_roll_due(self)

    def _write(self, log: PartitionLog, leader: PartitionLeader, size: int) -> Written | None:
        """What one append wrote, of all that is staged. Raises DiskFull, DiskFault."""
        clock, metrics = self._around.clock, self.topic_metrics
        began_ms = clock.monotonic_ms()
        written = log.flush()
        metrics.flushes.observe((clock.monotonic_ms() - began_ms) / 1000)
        space = self._around.space
        space.unchecked_bytes -= size
        if space.unchecked_bytes < 0:
            space.check()
        metrics.bytes_in.value += size
        metrics.records_in.value += log.written_end_offset - leader.written_end_offset
        return written

    def _settle_early(self, log: PartitionLog, leader: PartitionLeader, staged: list[Ack]) -> None:
        """The disk was full; what a roll or a checkpoint had written before that, of the same turn,
        counts.
        """
        end_offset = -1 if self.offline_reason is not None else log.written_end_offset
        fail_acks([ack for ack in staged if ack[0] > end_offset], ErrorCode.KAFKA_STORAGE_ERROR)
        if end_offset >= 0:
            self._carry_out(leader.on_written(end_offset), 0)
            self._settle_acks(leader, [ack for ack in staged if ack[0] <= end_offset])
            self._sync_soon(leader)

    # syncing

    def begin_sync(self) -> tuple[PartitionLog, SyncMark, int] | None:
        """The log, what a sync that begins now will have made durable, and its bytes; None when the
        partition is offline.
        """
        log = self._log
        if log is None or self.offline_reason is not None:
            return None
        return log, log.begin_sync(), self.unsynced_bytes

    def on_synced(self, end_offset: int, size: int) -> None:
        """What is below `end_offset` is durable, `size` more bytes than before: answer and wake
        whoever may go on. Never raises.
        """
        self.unsynced_bytes -= size
        leader = self._leader
        if leader is None or self.offline_reason is not None:
            return
        try:
            self._commit(leader, leader.on_synced(end_offset), size)
        except AssertionError as error:
            self.take_offline(f"broken invariant: {error}")

    def _sync_soon(self, leader: PartitionLeader) -> None:
        if leader.needs_sync and leader.synced_end_offset < leader.written_end_offset:
            self._around.on_sync_due(self, None)

    # reading

    def read(
        self, offset: int, max_bytes: int, end_offset: int, *, at_least_one: bool
    ) -> ReadResult | None:
        """Whole batches below `end_offset`; None when it would wait for the device. Raises
        Refusal.
        """
        log = self.log
        found = read_on(log, offset, max_bytes, end_offset)
        if found is not None:
            return found
        try:
            return log.read(offset, max_bytes, end_offset, at_least_one=at_least_one)
        except Refusal:
            self.report_damage()
            raise

    async def read_cold(
        self, offset: int, max_bytes: int, end_offset: int, *, at_least_one: bool
    ) -> ReadResult:
        """As `read`, off the loop."""
        try:
            return await self.log.read_cold(
                offset, max_bytes, end_offset, at_least_one=at_least_one
            )
        except Refusal:
            self.report_damage()
            raise

    def report_damage(self) -> None:
        """Log and count what readers found broken since the last report: the other places of the
        log are still served.
        """
        damage = [] if self._log is None else self._log.damage
        for reason in damage[self._damage_reported :]:
            self._around.metrics.disk_faults_total.add(1, kind="read")
            _log.error(
                "records cannot be read; repair the disk or restore the partition's directory",
                partition=str(self),
                reason=reason,
            )
        self._damage_reported = len(damage)

    def park(self, fetch: ParkedFetch) -> None:
        """Tell `fetch` when more can be read here, until `unpark`."""
        self._parked[fetch] = None
        if self.window is not None:
            self.window.on_parked()

    def unpark(self, fetch: ParkedFetch) -> None:
        """Unparking twice is fine."""
        self._parked.pop(fetch, None)

    def check_log_start(self) -> None:
        """Retention may have moved the log start. Broken bounds take the partition offline."""
        if self._leader is None or self._log is None:
            return
        try:
            self._leader.on_log_start(self._log.log_start_offset)
        except AssertionError as error:
            self.take_offline(f"broken invariant: {error}")

    async def delete_records(self, offset: int) -> int:
        """Every record below `offset` is gone, durably (-1: all below the high watermark); the log
        start that a restart finds.

        Raises Refusal: POLICY_VIOLATION where records are never deleted, OFFSET_OUT_OF_RANGE beyond
        the watermark, KAFKA_STORAGE_ERROR.
        """
        log = self.log
        if not log.config.is_deleted:
            text = f"{self} is only compacted: records are deleted where cleanup.policy has delete"
            raise Refusal(ErrorCode.POLICY_VIOLATION, text)
        wanted = self.high_watermark if offset == TO_HIGH_WATERMARK else offset
        if not 0 <= wanted <= self.high_watermark:
            text = f"{self} ends at {self.high_watermark}, records below {offset} cannot be deleted"
            raise Refusal(ErrorCode.OFFSET_OUT_OF_RANGE, text)
        try:
            async with self._deletion:
                stored = await log.advance_log_start(wanted)
        except DiskFull as fault:
            self._around.metrics.disk_faults_total.add(1, kind="full")
            raise Refusal(ErrorCode.KAFKA_STORAGE_ERROR, f"{fault.summary}: {fault}") from fault
        except (DiskFault, FileNotFoundError, Refusal) as fault:
            if isinstance(fault, Refusal) and not log.offline_reason:
                raise  # it could not be stored this time
            self.take_offline(str(fault))  # or it was deleted meanwhile
            raise Refusal(self._offline_code, OFFLINE_MESSAGE) from fault
        self.check_log_start()
        return stored

    # the end of serving

    def take_offline(self, reason: str) -> None:
        """Stop serving because of a fault; whoever waits is told."""
        if self.offline_reason is not None:
            return
        self.offline_reason = reason
        self._around.metrics.disk_faults_total.add(1, kind="fault")
        _log.error(
            "a partition is offline; free or repair its disk and restart the broker",
            partition=str(self),
            reason=reason,
        )
        self._dismiss(ErrorCode.KAFKA_STORAGE_ERROR)
        if self._log is not None and self._log.checkpoints.needs_mark:
            self._around.spawn(self._mark_failed_sync(self._log))

    async def _mark_failed_sync(self, log: PartitionLog) -> None:
        """Until the next start is told."""
        while not self.is_deleted:
            if log.checkpoints.mark_failed_sync(log):
                return
            await asyncio.sleep(MARK_RETRY_MS / 1000)

    def mark_deleted(self) -> None:
        """The topic is gone: whoever waits is told."""
        self.is_deleted = True
        if self.offline_reason is None:
            self.offline_reason = "its topic was deleted"
        self._dismiss(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)

    async def close(self, *, is_clean: bool) -> None:
        """Close the log; `is_clean` writes a checkpoint first, so that the next start need not
        recover.
        """
        if self._log is None:
            return
        await self._log.close(is_clean=is_clean and self.offline_reason is None)

    def _lead(self, log: PartitionLog) -> None:
        end = log.written_end_offset
        self._leader = leader = PartitionLeader(
            self._around.broker_id,
            self.leader_epoch,
            high_watermark=log.log_start_offset,
            written_end_offset=end,
            synced_end_offset=log.synced_end_offset,
            needs_sync=self.settings.needs_sync,
        )
        self._carry_out(leader.on_elected(), 0)
        self.high_watermark = leader.high_watermark
        self._in_sync_count = len(leader.in_sync_replicas)
        self._sync_soon(leader)

    def _commit(self, leader: PartitionLeader, effects: Sequence[Effect], size: int) -> None:
        self._carry_out(effects, size)
        self._settle_acks(leader, ())

    def _settle_window(self, log: PartitionLog, *, floor: int) -> None:
        """Begin, change or end the delivery window; what lies below `floor` was visible already."""
        window = self.window
        if has_window(self.settings):
            if window is not None:
                window.configure(self.settings)
                return
            self.window = DeliveryWindow(
                self._window_host(),
                log,
                self.settings,
                floor=floor,
                high_watermark=self.high_watermark,
            )
        elif window is not None:
            window.close()
            self.window = None
            self._look_again()

    def _window_host(self) -> WindowHost:
        return WindowHost(
            self._around.clock,
            self._around.metrics,
            self._around.call_later,
            self._around.spawn,
            self._parked,
            self._publish,
            self._look_again,
        )

    def _carry_out(self, effects: Sequence[Effect], size: int) -> None:
        for effect in effects:
            assert effect.high_watermark > self.high_watermark, "a watermark only rises"
            self.high_watermark = effect.high_watermark
            if self.window is None:
                self._publish(size)
            else:
                self.window.on_high_watermark(effect.high_watermark, size)

    def _publish(self, size: int) -> None:
        for fetch in self._parked:
            fetch.on_published(self, size)

    def _look_again(self) -> None:
        for fetch in list(self._parked):
            fetch.on_changed(self)

    def _settle_acks(self, leader: PartitionLeader, written: Sequence[Ack]) -> None:
        stored = leader.stored_end_offset
        committed = min(leader.high_watermark, stored)  # the end that is stored may be behind it
        self._acks.settle(written, high_watermark=committed, stored_end_offset=stored)

    def _dismiss(self, error: ErrorCode) -> None:
        if self._log is not None:
            self._log.discard_staged()
        self._acks.fail(error)
        self._look_again()
