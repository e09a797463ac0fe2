"""One shard at work: a coordinator's state on a partition of `__consumer_offsets`.

| state   | meaning                           | answers                      | exits           |
|---------|-----------------------------------|------------------------------|-----------------|
| loading | the log is being replayed         | COORDINATOR_LOAD_IN_PROGRESS | ready, offline  |
| ready   | serves                            | by its groups                | loading, closed |
| offline | its log is unreadable or nonsense | COORDINATOR_NOT_AVAILABLE    | restart         |
|         | or a step broke an invariant      |                              |                 |
| closed  | the broker stops                  | COORDINATOR_NOT_AVAILABLE    |                 |

Records of one turn of the loop become one append. An answer, a read's too, leaves when everything
that the shard appended before it is committed. An append that fails discards the state, answers
everybody and loads anew. When the disk was full, reads and heartbeats go on after that, and every
step that may store something is refused (`FULL`) until there is room (`Room`).
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable
from enum import Enum
from typing import TYPE_CHECKING, Any, Final

import structlog

from broker.coordinators.group.effects import Append, Effect, Moment, Reply, ReplyTo
from broker.coordinators.group.records import LogPair, OffsetCommitted, to_log
from broker.coordinators.group.shard import GroupShard
from broker.errors import ErrorCode, Refusal
from broker.ports import DiskFault
from broker.server.groups.loading import load_shard
from broker.server.groups.room import FULL_RETRY_MS, Room
from broker.wire.primitives import MalformedMessage

if TYPE_CHECKING:
    from broker.server.groups.coordinator import GroupCoordinator
    from broker.server.partition import Partition

APPEND_BYTES_MAX: Final = 512 * 1024
"""One batch of a shard's records; more of them in one turn become several batches."""
DEADLINES_PER_STEP: Final = 50
"""Groups whose timers are handled in one step of the loop."""
RELOAD_DELAY_MS: Final = 1_000
"""How long a shard whose append failed waits before it loads again; not after a full disk, which
left the log as it was.
"""

Step = Callable[[GroupShard, Moment], Iterable[Effect]]

_log = structlog.get_logger("hermes.groups")


class ShardState(Enum):
    """See the module's table."""

    LOADING = "loading"
    READY = "ready"
    OFFLINE = "offline"
    CLOSED = "closed"


FULL: Final = ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
"""For what a full disk stops: clients try again with this coordinator. After 15 or 16 they give it
up: librdkafka then sends no heartbeats while its commits fail, and the group loses the member.
"""
UNAVAILABLE: Final = {
    ShardState.LOADING: ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
    ShardState.OFFLINE: ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ShardState.CLOSED: ErrorCode.COORDINATOR_NOT_AVAILABLE,
}


class _Batch:
    """Records that were appended together, and the answers that wait for them."""

    __slots__ = ("appends_left", "replies")

    def __init__(self) -> None:
        self.appends_left = 0
        self.replies: list[Reply] = []


class RunningShard:
    """The owner of one GroupShard. `incarnation` rises whenever the state is discarded."""

    def __init__(self, coordinator: GroupCoordinator, partition: Partition) -> None:
        self._coordinator = coordinator
        self._broker = coordinator.broker
        self.partition = partition
        self.state = ShardState.LOADING
        self.groups = GroupShard()
        self.incarnation = 0
        self._queue: list[LogPair] = []
        self._open = _Batch()
        self._appended: deque[_Batch] = deque()
        self._timer: Any = None
        self._timer_at_ms: float | None = None
        self._is_dirty = False
        self._group_count = 0
        self._room = Room()

    # loading

    async def load(self) -> None:
        """Replay the partition. Cancelled, it leaves the shard loading."""
        incarnation = self.incarnation
        try:
            groups = await load_shard(self.partition)
            groups.restore(self._broker.clock.monotonic_ms())
        except (DiskFault, MalformedMessage, Refusal) as error:
            if self.incarnation == incarnation:
                self._go_offline(str(error))
            return
        except Exception as error:  # noqa: BLE001 - a broken invariant ends its owner, the shard
            if self.incarnation == incarnation:
                self._go_offline(f"broken invariant: {error!r}", error)
            return
        if self.incarnation != incarnation:
            return
        self.groups = groups
        self.state = ShardState.READY
        self._count()
        self._arm_timer()

    # steps

    def unavailable(self) -> ErrorCode | None:
        """The error that every request gets now; None when the shard serves."""
        return UNAVAILABLE.get(self.state)

    @property
    def may_store(self) -> bool:
        """Whether the log had room when it was last asked: else no step may store anything."""
        clock, disk = self._broker.clock, self._broker.disk
        return self._room.is_open(clock.monotonic_ms(), disk.free_bytes)

    def run(self, reply_to: ReplyTo, step: Step) -> None:
        """Run `step` now and carry out its effects; `reply_to` gets the error when the shard does
        not serve, or cannot store what the step may append.
        """
        if self.unavailable() is None and not self.may_store:
            reply_to(FULL)
        else:
            self.read(reply_to, step)

    def read(self, reply_to: ReplyTo, step: Step) -> None:
        """As `run`, for a step that appends nothing."""
        code = self.unavailable()
        if code is not None:
            reply_to(code)
        else:
            self.take(step)

    def take(self, step: Step) -> None:
        """Run `step` of a shard that serves. A bug in it leaves a state that nobody can trust: the
        shard goes offline, and the bug is raised to whoever asked.
        """
        try:
            self._carry_out(step(self.groups, self._coordinator.moment()))
        except Exception as error:
            self._go_offline(f"broken invariant: {error!r}")
            raise

    def _carry_out(self, effects: Iterable[Effect]) -> None:
        """In order: records join this turn's append, answers wait for what was appended before
        them.
        """
        for effect in effects:
            if isinstance(effect, Append):
                self._append(effect)
            else:
                self._answer(effect)
        self._count()
        self._arm_timer()

    def _answer(self, reply: Reply) -> None:
        """Let `reply` leave when everything appended so far is committed: at once, when it is."""
        if self._queue:
            self._open.replies.append(reply)
        elif self._appended:
            self._appended[-1].replies.append(reply)
        else:
            _tell(reply.reply_to, reply.response)

    def _append(self, effect: Append) -> None:
        self._queue.append(to_log(effect.record))
        if isinstance(effect.record, OffsetCommitted):
            self._broker.metrics.offset_commits_total.add(1, group=effect.record.group)
        if not self._is_dirty:
            self._is_dirty = True
            self._broker.turn.add_dirty(self)

    def flush(self) -> None:
        """The turn ends: append what its steps stored."""
        self._is_dirty = False
        if not self._queue:
            return
        queue, self._queue = self._queue, []
        batch, self._open = self._open, _Batch()
        chunks = list(_chunks(queue))
        batch.appends_left = len(chunks)
        self._appended.append(batch)
        incarnation = self.incarnation
        for chunk in chunks:
            try:
                self.partition.append_records(
                    chunk, lambda code: self._on_append_done(batch, incarnation, code)
                )
            except Refusal as refusal:
                self._discard(refusal.code, refusal.message)
                return
            except Exception as error:  # noqa: BLE001 - a broken invariant ends its owner, the shard
                self._go_offline(f"broken invariant: {error!r}", error)
                return

    def _on_append_done(self, batch: _Batch, incarnation: int, code: ErrorCode) -> None:
        if incarnation != self.incarnation:
            return
        if code is not ErrorCode.NONE:
            self._discard(code, code.name)
            return
        batch.appends_left -= 1
        while self._appended and self._appended[0].appends_left == 0:
            for reply in self._appended.popleft().replies:
                _tell(reply.reply_to, reply.response)

    def _discard(self, code: ErrorCode, reason: str) -> None:
        """What is in memory is ahead of the log: forget it, tell everybody, load again."""
        is_full = not self.partition.is_offline
        _log.error(
            "an append failed: the shard is loaded again",
            partition=str(self.partition),
            error=code.name,
            reason=reason,
            is_disk_full=is_full,
        )
        if is_full:
            self._room.on_full(self._broker.clock.monotonic_ms())
        self._forget(ShardState.LOADING, FULL if is_full else ErrorCode.COORDINATOR_NOT_AVAILABLE)
        self._broker.call_later(0 if is_full else RELOAD_DELAY_MS, self._reload)

    def _reload(self) -> None:
        if self.state is ShardState.LOADING:
            self._broker.spawn(self.load())

    def _go_offline(self, reason: str, bug: Exception | None = None) -> None:
        _log.error(
            "groups of this partition are unavailable; repair it and restart the broker",
            partition=str(self.partition),
            reason=reason,
            exc_info=bug,
        )
        self._forget(ShardState.OFFLINE)

    def close(self) -> None:
        """Serve no more; whoever waits is told to look for the coordinator again."""
        self._forget(ShardState.CLOSED)

    def _forget(
        self, state: ShardState, code: ErrorCode = ErrorCode.COORDINATOR_NOT_AVAILABLE
    ) -> None:
        """Whoever waits gets `code`."""
        self.incarnation += 1
        self.state = state
        batches = [*self._appended, self._open]
        waiting = [reply for batch in batches for reply in batch.replies]
        waiting += self.groups.on_abandoned(code)
        self.groups = GroupShard()
        self._queue = []
        self._open = _Batch()
        self._appended.clear()
        self._count()
        self._cancel_timer()
        for reply in waiting:
            _tell(reply.reply_to, code)

    # time

    def _arm_timer(self) -> None:
        deadline_ms = self.groups.next_deadline_ms()
        if deadline_ms is None:
            self._cancel_timer()
        elif self._timer_at_ms is None or deadline_ms < self._timer_at_ms:
            self._cancel_timer()
            self._timer_at_ms = deadline_ms
            delay_ms = max(deadline_ms - self._broker.clock.monotonic_ms(), 0)
            self._timer = self._broker.call_later(delay_ms, self._on_timer)

    def _cancel_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._timer = self._timer_at_ms = None

    def _on_timer(self) -> None:
        self._timer = self._timer_at_ms = None
        if self.state is not ShardState.READY:
            return
        if self.may_store:
            self.take(lambda groups, moment: groups.on_deadline(moment, DEADLINES_PER_STEP))
        else:  # sessions end when that can be stored
            self._timer_at_ms = self.groups.next_deadline_ms()
            self._timer = self._broker.call_later(FULL_RETRY_MS, self._on_timer)

    def _count(self) -> None:
        group_count = len(self.groups.groups)
        self._coordinator.group_count += group_count - self._group_count
        self._group_count = group_count
        rebalanced = self.groups.rebalanced
        if rebalanced:
            for group_id in rebalanced:
                self._broker.metrics.group_rebalances_total.add(1, group=group_id)
            rebalanced.clear()


def _tell(reply_to: ReplyTo, response: Any) -> None:
    try:
        reply_to(response)
    except Exception as error:  # noqa: BLE001 - the bug of one who waits is not the shard's
        _log.error("an answer could not be delivered", exc_info=error)


def _chunks(pairs: list[LogPair]) -> Iterable[list[LogPair]]:
    chunk: list[LogPair] = []
    size = 0
    for pair in pairs:
        pair_bytes = len(pair[0]) + len(pair[1] or b"")
        if chunk and size + pair_bytes > APPEND_BYTES_MAX:
            yield chunk
            chunk, size = [], 0
        chunk.append(pair)
        size += pair_bytes
    if chunk:
        yield chunk
