"""One Fetch on its way: read what is there, or park until the high watermark brings enough, then
answer.

Each attempt reads every wanted partition once. Warm reads happen at once; the first cold one, or a
step's worth of partitions, moves the attempt into a task. A parked fetch holds no records; what an
attempt has looked at, a later one looks at again only where it has changed. Ends: answered, or
dropped with its connection.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from itertools import compress
from typing import TYPE_CHECKING, Final

from broker.errors import ErrorCode
from broker.server.fetch_answers import (
    Answer,
    catch_up,
    count,
    ends_of,
    fetched,
    find,
    has_more,
    has_moved,
    is_quiet,
    look_up,
    news,
    read,
    read_cold,
    refused,
)
from broker.server.fetch_sessions import FetchPlan, Wanted, to_answer
from broker.server.limits import FETCH_RESPONSE_BYTES_MAX
from broker.server.slot import ResponseSlot
from broker.server.waiting import Deadline
from broker.wire.fast_fetch import FetchedPartition, encode_fetch_response_parts
from broker.wire.fast_fetch_request import FetchParts
from broker.wire.frame import RequestHeader

if TYPE_CHECKING:
    from broker.server.node import Broker
    from broker.server.partition import Partition

PARTITIONS_PER_STEP: Final = 128
"""Partitions that are read before others have their turn: about a millisecond."""
_READ_COMMITTED: Final = 1


class PendingFetch:
    """Implements `partition.ParkedFetch`."""

    __slots__ = (
        "_answers",
        "_broker",
        "_changed_at",
        "_deadline",
        "_header",
        "_is_final",
        "_is_finished",
        "_is_queued",
        "_is_read_committed",
        "_is_reading",
        "_is_short_of_memory",
        "_max_bytes",
        "_min_bytes",
        "_missing_bytes",
        "_parked_at",
        "_plan",
        "_refuse_all",
        "_slot",
        "_wait_ms",
    )

    def __init__(
        self,
        broker: Broker,
        slot: ResponseSlot,
        header: RequestHeader,
        request: FetchParts,
        plan: FetchPlan,
        refuse_all: ErrorCode | None,
    ) -> None:
        self._broker = broker
        self._slot = slot
        self._header = header
        self._plan = plan
        self._min_bytes = request.min_bytes
        self._max_bytes = min(
            request.max_bytes, broker.settings.fetch_max_bytes, FETCH_RESPONSE_BYTES_MAX
        )
        self._wait_ms = request.max_wait_ms
        self._is_read_committed = request.isolation_level == _READ_COMMITTED
        self._refuse_all = refuse_all
        self._missing_bytes = 0
        self._answers: list[Answer | None] = []
        self._changed_at: dict[Partition, None] = {}
        self._parked_at: list[Partition] = []
        self._deadline: Deadline | None = None
        self._is_final = request.max_wait_ms <= 0 or request.min_bytes <= 0
        self._is_queued = False
        self._is_reading = False
        self._is_finished = False
        self._is_short_of_memory = False

    def start(self) -> None:
        """Answer at once or park. What was staged before it in this turn is written first."""
        self._slot.on_dropped = self._on_dropped
        if self._broker.turn.has_dirty:
            self._queue()
        else:
            self._attempt()

    # partition.ParkedFetch

    def on_published(self, partition: Partition, size: int) -> None:
        self._changed_at[partition] = None
        self._missing_bytes -= size
        if self._missing_bytes <= 0:
            self._queue()

    def on_changed(self, partition: Partition) -> None:
        self._changed_at[partition] = None
        self._queue()

    # attempts

    def _queue(self) -> None:
        if not (self._is_queued or self._is_reading or self._is_finished):
            self._is_queued = True
            self._broker.turn.add_ready(self._resume)

    def _resume(self) -> None:
        self._is_queued = False
        if self._is_finished or self._is_reading:
            return
        try:
            self._attempt()
        except Exception as error:  # noqa: BLE001 - the root of a woken request: a bug ends it alone
            self._slot.fail(error)

    def _attempt(self) -> None:
        """Read everything wanted; go on in a task at the first cold read, or after a step's worth
        of partitions.
        """
        ends = self._ends()
        if ends is not None:
            self._park(ends, self._min_bytes)
            return
        room = self._room()
        answers: list[Answer | None] = []
        has_records = False
        left = PARTITIONS_PER_STEP
        partitions = self._broker.partitions
        may_leave_out = self._may_leave_out
        for position, wanted in enumerate(self._plan.wanted):
            if may_leave_out and is_quiet(partitions, wanted):
                answers.append(None)
                continue
            left -= 1
            answer = None
            if left:
                answer = self._find(position, wanted, room, at_least_one=not has_records)
            if answer is None:
                self._is_reading = True
                self._broker.spawn(self._attempt_rest(answers, position, room))
                return
            answers.append(answer)
            size = len(answer.records)
            if size:
                room -= size
                has_records = True
        self._conclude(answers, has_waited=False)

    def _ends(self) -> list[Partition] | None:
        """Where a first attempt would find nothing to tell: the usual fetch, which comes right
        behind the answer to the last one, is parked without more ado. None for any other.
        """
        if self._is_final or self._refuse_all is not None or self._deadline is not None:
            return None
        wanted = self._plan.wanted
        if len(wanted) > PARTITIONS_PER_STEP:
            return None
        return ends_of(self._broker.partitions, wanted)

    async def _attempt_rest(self, answers: list[Answer | None], position: int, room: int) -> None:
        """The rest of an attempt, in steps, with reads that wait for the device. Their memory is
        taken before they begin: any number may wait beside each other.
        """
        memory = self._broker.fetch_memory
        held = sum([len(answer.records) for answer in answers if answer is not None])
        memory.take(held)
        has_records = held > 0
        try:
            left = 0
            for wanted in self._plan.wanted[position:]:
                if self._may_leave_out and is_quiet(self._broker.partitions, wanted):
                    answers.append(None)
                    continue
                left -= 1
                if left <= 0:
                    left = PARTITIONS_PER_STEP
                    await asyncio.sleep(0)
                room = min(room, memory.free_bytes)
                answer = self._find(len(answers), wanted, room, at_least_one=not has_records)
                before = held
                if answer is None:
                    held += max(0, min(wanted.max_bytes, room))
                    memory.take(held - before)
                    answer = await self._find_cold(wanted, room, at_least_one=not has_records)
                if self._is_finished:
                    return
                answers.append(answer)
                size = len(answer.records)
                memory.exchange(held, before + size)
                held = before + size
                room -= size
                has_records = has_records or size > 0
            self._is_reading = False
            self._conclude(answers, has_waited=True)
            if not self._is_finished and self._has_missed_news(answers):
                self._queue()
        except Exception as error:  # noqa: BLE001 - the root of a request's task
            self._slot.fail(error)
        finally:
            memory.give(held)

    def _find(
        self, position: int, wanted: Wanted, room: int, *, at_least_one: bool
    ) -> Answer | None:
        """The answer for one partition, the one of an earlier attempt when nothing changed there;
        None when it must be read from the device.
        """
        if self._answers:
            earlier = self._answers[position]
            if earlier is not None and earlier.partition not in self._changed_at:
                return earlier
        if self._refuse_all is not None:
            return refused(wanted, self._refuse_all)
        partitions = self._broker.partitions
        answer = find(partitions, wanted, room, at_least_one=at_least_one and room > 0)
        if answer is not None:
            return answer
        found = look_up(partitions, wanted)
        if found is None or isinstance(found, Answer):
            return found
        return read(found, room, at_least_one=at_least_one and room > 0)

    async def _find_cold(self, wanted: Wanted, room: int, *, at_least_one: bool) -> Answer:
        partitions = self._broker.partitions
        problem = await catch_up(partitions, wanted)
        found = problem or look_up(partitions, wanted, is_current=True)
        if isinstance(found, Answer):
            return found
        assert found is not None, "a window that is current need not be waited for"
        return await read_cold(found, room, at_least_one=at_least_one and room > 0)

    def _has_missed_news(self, answers: list[Answer | None]) -> bool:
        """Whether a partition that was left out has moved while another one was awaited."""
        partitions = self._broker.partitions
        return any(
            answer is None and not is_quiet(partitions, wanted)
            for wanted, answer in zip(self._plan.wanted, answers, strict=True)
        )

    @property
    def _may_leave_out(self) -> bool:
        return self._plan.is_incremental and self._refuse_all is None

    def _room(self) -> int:
        """Bytes of records that this attempt may bring."""
        return min(self._max_bytes, self._broker.fetch_memory.free_bytes)

    def _conclude(self, all_answers: list[Answer | None], *, has_waited: bool) -> None:
        """Answer when there is enough, else park. None stands for nothing new, left out."""
        answers = [answer for answer in all_answers if answer is not None]
        size = sum([len(answer.records) for answer in answers])
        if (
            self._is_final
            or size >= self._min_bytes
            or any(answer.is_urgent for answer in answers)
            or (size and any(has_more(answer) for answer in answers))
        ):
            self._finish(answers, size)
            return
        self._park(self._read_from(all_answers), self._min_bytes - size)
        self._answers = [
            None if answer is None or len(answer.records) else answer for answer in all_answers
        ]
        self._changed_at.clear()
        if has_waited:
            moved = [answer.partition for answer in answers if has_moved(answer)]
            for partition in moved:
                assert partition is not None, "only a partition that was read can have moved"
                self.on_changed(partition)

    # waiting

    def _read_from(self, answers: list[Answer | None]) -> list[Partition | None]:
        registry = self._broker.partitions
        return [
            registry.find(wanted.topic, wanted.index) if answer is None else answer.partition
            for wanted, answer in zip(self._plan.wanted, answers, strict=True)
        ]

    def _park(self, partitions: Sequence[Partition | None], missing_bytes: int) -> None:
        self._missing_bytes = missing_bytes
        if self._broker.fetch_memory.free_bytes <= 0 and not self._is_short_of_memory:
            self._is_short_of_memory = True
            self._broker.fetch_memory.wait(self._on_memory)
        if self._deadline is not None:
            return
        self._deadline = self._broker.deadlines.add(self._wait_ms, self._on_deadline)
        self._broker.metrics.parked_fetches.add(1)
        for partition in partitions:
            if partition is not None:
                partition.park(self)
                self._parked_at.append(partition)

    def _on_memory(self) -> None:
        self._is_short_of_memory = False
        self._answers.clear()
        self._queue()

    def _on_deadline(self) -> None:
        self._is_final = True
        self._queue()

    def _on_dropped(self) -> None:
        self._is_finished = True
        self._unpark()

    def _unpark(self) -> None:
        if self._deadline is None:
            return
        self._deadline.cancel()
        self._deadline = None
        self._broker.metrics.parked_fetches.add(-1)
        for partition in self._parked_at:
            partition.unpark(self)
        self._parked_at.clear()

    def _finish(self, answers: list[Answer], size: int) -> None:
        self._is_finished = True
        self._unpark()
        if self._plan.session is not None:
            is_sent = to_answer(self._plan, [news(answer) for answer in answers])
            answers = list(compress(answers, is_sent))
        topics: dict[str | bytes, list[FetchedPartition]] = {}
        for answer in answers:
            if answer.error_code:
                self._slot.api_metrics.count_error(answer.error_code)
            else:
                count(answer)
            topic = answer.wanted.topic
            if topic in topics:
                topics[topic].append(fetched(answer))
            else:
                topics[topic] = [fetched(answer)]
        if size:
            self._broker.fetch_memory.take(size)
            self._slot.held_bytes = size
        self._slot.complete(
            encode_fetch_response_parts(
                self._header.api_version,
                self._header.correlation_id,
                list(topics.items()),
                session_id=self._plan.session_id,
                is_read_committed=self._is_read_committed,
            )
        )
