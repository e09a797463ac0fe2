"""Known bugs of our own kind, switched on inside the simulator only: the proof that the suite can
catch them.

Each is a patch over the real broker, applied for the time of a `with` block. The suite must find
every one of them within its budget of seeds; a mutation that survives is a hole in the workload or
the checker.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, Final, NamedTuple, cast

from broker.config.topic import TopicSettings
from broker.coordinators.group import offsets
from broker.errors import ErrorCode, Refusal
from broker.log import checking, compaction, journal_replay, lookup, recovery
from broker.log.checkpoint import Checkpoints, SyncMark
from broker.log.index import SegmentIndex, Times
from broker.log.journal import JournalEntry, JournalRecord
from broker.log.key_map import NO_KEY, KeyMap
from broker.log.partition_log import PartitionLog
from broker.log.producers import ProducerStates
from broker.log.recovery import _Recovery
from broker.log.scan import ScanEnd
from broker.log.segment import Segment
from broker.log.window import Boundary
from broker.ports import DiskFault, DiskFile
from broker.records.batch import read_header
from broker.records.intake import Intake
from broker.server import fetch_answers, fetching, partition
from broker.server.connection import Connection
from broker.server.delivery import DeliveryWindow
from broker.server.groups.shard import RunningShard
from broker.server.journal import Journal
from broker.server.journal_halves import Halves
from broker.server.openings import Openings
from broker.server.partition import Partition
from broker.server.producer_ids import BLOCK_SIZE, ProducerIds

LATE_WRITE_S: Final = 0.05


class Patch(NamedTuple):
    """Replace `owner.name` (of a class or module) by what `make` returns for the original."""

    owner: Any
    name: str
    make: Callable[[Any], Any]


class Mutation(NamedTuple):
    """`bug` is what the patched broker does wrong; `mix` are the faults under which it does
    harm.
    """

    bug: str
    patches: tuple[Patch, ...]
    mix: dict[str, int]


@contextmanager
def mutated(name: str | None) -> Iterator[None]:
    """Run with the mutation; None is the broker as it is. Raises KeyError for an unknown name."""
    patches = () if name is None else MUTATIONS[name].patches
    originals = [(patch.owner, patch.name, patch.owner.__dict__[patch.name]) for patch in patches]
    for patch, (_owner, _name, original) in zip(patches, originals, strict=True):
        setattr(patch.owner, patch.name, patch.make(original))
    try:
        yield
    finally:
        for owner, attribute, original in originals:
            setattr(owner, attribute, original)


def _publish_before_write(_original: Any) -> Callable[[PartitionLog], None]:
    def flush(self: PartitionLog) -> None:
        if self._staged:
            file = self._active.file()
            chunks = [bytes(batch) for batch in self._staged]
            self._staged.clear()
            self.producers.mark()
            self.written_end_offset = self.log_end_offset
            asyncio.get_running_loop().call_later(LATE_WRITE_S, _write_late, file, chunks)

    return flush


def _write_late(file: DiskFile, chunks: list[bytes]) -> None:
    try:
        file.append(chunks)
    except DiskFault:
        return


def _forget_producers(original: Any) -> Any:
    async def opened(cls: type[PartitionLog], *args: Any, **kwargs: Any) -> PartitionLog:
        log: PartitionLog = await original.__func__(cls, *args, **kwargs)
        log.producers = ProducerStates(log.producers.expiration_ms)
        return log

    return classmethod(opened)


def _forget_log_start(original: Any) -> Any:
    async def opened(cls: type[PartitionLog], *args: Any, **kwargs: Any) -> PartitionLog:
        log: PartitionLog = await original.__func__(cls, *args, **kwargs)
        log.log_start_offset = log.segments[0].base_offset
        return log

    return classmethod(opened)


def _no_deduplication(_original: Any) -> Any:
    return lambda *_arguments: None


def _answer_at_once(_original: Any) -> Any:
    return lambda _self, reply: reply.reply_to(reply.response)


def _keep_torn_tail(_original: Any) -> Any:
    async def cut(*_arguments: Any) -> None:
        """Leaves the torn bytes where they are."""

    return cut


def _acknowledge_failed_write(original: Callable[..., None]) -> Callable[..., None]:
    def fail_acks(acks: Any, _error: ErrorCode) -> None:
        original(acks, ErrorCode.NONE)

    return fail_acks


def _take_any_commit(_original: Any) -> Any:
    return lambda _group, _request: ErrorCode.NONE


def _let_others_overtake(_original: Any) -> Any:
    return lambda _connection: None


def _store_unseen(original: Any) -> Any:
    async def take_in_worker(
        self: Openings, intake: Intake, batch: bytearray, now_wall_ms: int
    ) -> memoryview:
        try:
            return cast("memoryview", await original(self, intake, batch, now_wall_ms))
        except Refusal as refusal:
            if refusal.code is ErrorCode.REQUEST_TIMED_OUT:
                return memoryview(batch)
            raise

    return take_in_worker


def _repeat_producer_ids(_original: Any) -> Any:
    async def take_block(self: ProducerIds) -> None:
        self._next, self._end = 0, BLOCK_SIZE

    return take_block


def _compute_window_anew(original: Any) -> Callable[[DeliveryWindow], bool]:
    def refresh(self: DeliveryWindow) -> bool:
        if not self._lock.locked():
            self._due = Boundary(self._log.log_start_offset)
        return bool(original(self))

    return refresh


def _show_all(_original: Any) -> property:
    return property(lambda self: self._high_watermark)


def _show_expired(_original: Any) -> property:
    return property(lambda self: self._log.log_start_offset)


def _hide_expired_from_log(original: Any) -> Any:
    def look_up(partitions: Any, wanted: Any, **options: Any) -> Any:
        partition = partitions.find(wanted.topic, wanted.index)
        window = None if partition is None else partition.window
        if window is not None and wanted.fetch_offset < window.first_offset:
            return fetch_answers.refused(wanted, ErrorCode.OFFSET_OUT_OF_RANGE)
        return original(partitions, wanted, **options)

    return look_up


def _count_what_is_written(_original: Any) -> property:
    return property(lambda _settings: False)


def _sync_no_names(original: Any) -> Any:
    return lambda self, log: original(self, log)._replace(names_changed=0)


def _sync_the_active_segment_only(original: Any) -> Any:
    def begin_sync(self: Checkpoints, log: PartitionLog) -> SyncMark:
        mark: SyncMark = original(self, log)
        return mark._replace(segments=mark.segments[-1:])

    return begin_sync


def _count_what_came_during_the_sync(original: Any) -> Any:
    def on_synced(self: Partition, _end_offset: int, size: int) -> None:
        if not self.is_offline:
            original(self, self.log.written_end_offset, size)

    return on_synced


def _open_without_a_sync(original: Any) -> Any:
    async def opened(cls: type[PartitionLog], *args: Any, **kwargs: Any) -> PartitionLog:
        log: PartitionLog = await original.__func__(_WithoutCheckpoint, *args, **kwargs)
        log.__class__ = cls
        synced = log.checkpoints.synced._replace(offset=log.written_end_offset)
        log.checkpoints.synced = synced
        return log

    return classmethod(opened)


def _settle_nothing(_original: Any) -> Any:
    async def settle_writes(_recovery: _Recovery, _segment: Segment, _position: int) -> None:
        """Nothing."""

    return settle_writes


def _replay_nothing(_original: Any) -> Any:
    async def run(_replay: journal_replay._Replay, _records: list[JournalRecord]) -> None:
        """Nothing."""

    return run


def _settle_at_once(original: Any) -> Any:
    def may_leave(self: Halves[Partition], now_ms: float) -> bool:
        self._settling.clear()
        self._is_settled = True
        return bool(original(self, now_ms))

    return may_leave


def _forget_who_failed(original: Any) -> Any:
    def note_settled(self: Journal, _synced: Iterable[Partition]) -> None:
        original(self, self.settling)

    return note_settled


def _answer_before_the_journal(original: Any) -> Any:
    async def write(self: Journal, due: Sequence[Any], entries: Sequence[JournalEntry]) -> bool:
        writing = asyncio.get_running_loop().create_task(original(self, due, entries))
        self.__dict__.setdefault("late_writes", []).append(writing)
        return True

    return write


def _trust_the_cache(_original: Any) -> Any:
    async def rewrite(_segment: Segment, _position: int) -> None:
        """Nothing."""

    return rewrite


class _WithoutCheckpoint(PartitionLog):
    """While it is opened."""

    async def checkpoint(self) -> None:
        """Nothing."""


def _trust_the_snapshot(_original: Any) -> Any:
    async def scan(
        _segment: Segment, position: int, next_offset: int, _visit: Any, **_options: Any
    ) -> ScanEnd:
        return ScanEnd(position, next_offset, None)

    return scan


def _take_zeros_for_times(original: Callable[[Segment], bool]) -> Callable[[Segment], bool]:
    def load_index(self: Segment) -> bool:
        if not original(self):
            self.index, self.times = SegmentIndex(self.base_offset), Times(0, 0, 0)
        return True

    return load_index


def _check_nothing(_original: Any) -> Any:
    return lambda *_arguments: True


def _drop_tombstones_at_once(_original: Any) -> Any:
    return lambda _run, _header: True


def _count_the_newest_as_replaced(original: Any) -> Any:
    def newest(self: KeyMap, digest: tuple[int, int]) -> int:
        found: int = original(self, digest)
        return found if found == NO_KEY else found + 1

    return newest


def _trust_the_batch(_original: Any) -> Any:
    def find(batch: bytes, _time: int | None, _start: int, _end: int) -> tuple[int, int]:
        header = read_header(batch)
        return header.last_offset, header.max_timestamp

    return find


MUTATIONS: Final[dict[str, Mutation]] = {
    "publish-before-write": Mutation(
        "the high watermark rises and the answer leaves before the write completed",
        (Patch(PartitionLog, "flush", _publish_before_write),),
        {"kill": 3, "full": 1},
    ),
    "ack-before-fsync": Mutation(
        "what is written and not synced is acknowledged, and shown",
        (Patch(TopicSettings, "needs_sync", _count_what_is_written),),
        {"power_cut": 2, "slow_disk": 1},
    ),
    "ack-before-names": Mutation(
        "a record in a new segment is acknowledged before the segment's name is durable",
        (Patch(Checkpoints, "begin_sync", _sync_no_names),),
        {"roll_cut": 1},
    ),
    "forget-rolled-segment": Mutation(
        "what was written to a segment before it was rolled over is never synced",
        (Patch(Checkpoints, "begin_sync", _sync_the_active_segment_only),),
        {"power_cut": 1},
    ),
    "ack-during-sync": Mutation(
        "a sync counts for what was written while it ran",
        (Patch(Partition, "on_synced", _count_what_came_during_the_sync),),
        {"power_cut": 2, "slow_disk": 1},
    ),
    "serve-recovered-tail": Mutation(
        "what recovery found is served before it is synced",
        (
            Patch(PartitionLog, "open", _open_without_a_sync),
            Patch(_Recovery, "_settle_writes", _settle_nothing),
        ),
        {"double_crash": 1},
    ),
    "forget-journal": Mutation(
        "what is in the journal alone is not written back after a crash",
        (Patch(journal_replay._Replay, "run", _replay_nothing),),
        {"power_cut": 2},
    ),
    "overwrite-journal": Mutation(
        "a half of the journal is written to again before its logs' files were synced",
        (Patch(Halves, "may_leave", _settle_at_once),),
        {"power_cut": 2},
    ),
    "ack-before-journal": Mutation(
        "the answer leaves before the journal has the record",
        (Patch(Journal, "write", _answer_before_the_journal),),
        {"power_cut": 2, "slow_disk": 1},
    ),
    "forget-failed-log": Mutation(
        "a half of the journal is written to again although a log's file could not be synced",
        (Patch(Journal, "note_settled", _forget_who_failed),),
        {"broken_disk": 1, "power_cut": 3},
    ),
    "trust-cache-after-fault": Mutation(
        "what could not be synced is taken for stored after a restart, because it can be read",
        (Patch(Segment, "rewrite", _trust_the_cache),),
        {"broken_disk": 2, "power_cut": 1},
    ),
    "forget-producers": Mutation(
        "the state of idempotent producers is lost at a restart",
        (Patch(PartitionLog, "open", _forget_producers),),
        {"kill": 2, "kill_in_append": 2, "reset": 3},
    ),
    "forget-log-start": Mutation(
        "deleted records come back after a restart",
        (Patch(PartitionLog, "open", _forget_log_start),),
        {"kill": 3},
    ),
    "no-deduplication": Mutation(
        "a retried batch is stored again",
        (Patch(ProducerStates, "find_duplicate", _no_deduplication),),
        {"reset": 1},
    ),
    "answer-commit-early": Mutation(
        "the coordinator answers before its records are appended",
        (Patch(RunningShard, "_answer", _answer_at_once),),
        {"full": 2, "kill_in_append": 2},
    ),
    "keep-torn-tail": Mutation(
        "recovery does not truncate a torn tail",
        (Patch(_Recovery, "_cut", _keep_torn_tail),),
        {"kill_in_append": 1},
    ),
    "acknowledge-failed-write": Mutation(
        "a full disk is answered with success",
        (Patch(partition, "fail_acks", _acknowledge_failed_write),),
        {"full": 1},
    ),
    "any-generation": Mutation(
        "a commit is taken from a member that the group has left behind",
        (Patch(offsets, "check_commit", _take_any_commit),),
        {"zombie": 1},
    ),
    "window-moves-back": Mutation(
        "the visible end is computed from the clock alone, and goes back with it",
        (Patch(DeliveryWindow, "refresh", _compute_window_anew),),
        {"clock": 1},
    ),
    "deliver-early": Mutation(
        "a fetch sees what is committed, not what is due",
        (Patch(DeliveryWindow, "visible_end", _show_all),),
        {"kill": 1},
    ),
    "deliver-expired": Mutation(
        "a fetch sees what is on disk, also when it is expired",
        (Patch(DeliveryWindow, "first_offset", _show_expired),),
        {"kill": 1},
    ),
    "expired-is-out-of-range": Mutation(
        "a fetch below what is expired is refused, so that its client jumps to the end",
        (Patch(fetching, "look_up", _hide_expired_from_log),),
        {"kill": 1},
    ),
    "overtaken-batch": Mutation(
        "a connection goes on while a batch of it waits for the worker process",
        (Patch(Connection, "hold", _let_others_overtake),),
        {"reset": 1},
    ),
    "store-unseen": Mutation(
        "a batch is stored although the worker process died before it looked at it",
        (Patch(Openings, "take_in_worker", _store_unseen),),
        {"worker": 1},
    ),
    "drop-tombstones-at-once": Mutation(
        "the first cleaning that meets a deletion removes it (KAFKA-4529)",
        (Patch(compaction, "_is_over", _drop_tombstones_at_once),),
        {"slow": 1},
    ),
    "drop-the-newest": Mutation(
        "the cleaner counts the newest record of a key as replaced by itself",
        (Patch(KeyMap, "newest", _count_the_newest_as_replaced),),
        {"kill": 1},
    ),
    "trust-the-batch-for-time": Mutation(
        "a lookup by time answers with the batch's end and its greatest time (KAFKA-16310)",
        (Patch(lookup, "find_in_batch", _trust_the_batch),),
        {"kill": 1},
    ),
    "repeat-producer-ids": Mutation(
        "producer ids are given out again after a restart",
        (Patch(ProducerIds, "_take_block", _repeat_producer_ids),),
        {"kill": 2, "kill_client": 3},
    ),
    "trust-the-snapshot": Mutation(
        "a start takes the last checkpoint for the end of the log, as if the stop had been clean",
        (Patch(recovery, "scan", _trust_the_snapshot),),
        {"kill": 3},
    ),
    "zeros-for-times": Mutation(
        "a time index of zeros is believed: retention deletes what is fresh",
        (Patch(Segment, "load_index", _take_zeros_for_times),),
        {"bad_index": 1},
    ),
    "serve-damaged": Mutation(
        "what comes from the disk is sent without a look at its checksum",
        (Patch(checking, "_is_intact", _check_nothing),),
        {"rot": 1},
    ),
}
