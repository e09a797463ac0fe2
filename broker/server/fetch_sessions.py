"""Incremental fetch sessions (KIP-227): what each consumer wants, remembered between its
requests. Pure.

| request (session id, epoch) | meaning                                  | refused with            |
|-----------------------------|------------------------------------------|-------------------------|
| any, -1                     | fetch all that is named; end the session |                         |
| any, 0                      | the same, and begin a new session        |                         |
| id, n                       | what changed since n-1                   | 70 unknown id, 71 not n |

A session keeps the leader epochs that its client named (KAFKA-9338). Sessions and their partitions
are bounded; a new session takes the place of one unused for a while, or of a smaller one of that
age, or is not begun (id 0).
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final, NamedTuple

from broker.errors import ErrorCode, Refusal
from broker.model import INT32_MAX
from broker.ports import IdSource
from broker.wire.fast_fetch_request import FetchParts, FetchWant

NO_SESSION: Final = 0
FINAL_EPOCH: Final = -1
INITIAL_EPOCH: Final = 0

SESSION_PARTITIONS_MAX: Final = 200_000
"""Partitions remembered by all sessions together."""

WantedKey = tuple[str | bytes, int]
"""(topic name or, from version 13, topic id; partition)"""


class Wanted:
    """One partition that a fetch wants, and what its session last answered for it."""

    __slots__ = (
        "current_leader_epoch",
        "fetch_offset",
        "index",
        "last_fetched_epoch",
        "max_bytes",
        "sent_high_watermark",
        "sent_log_start_offset",
        "topic",
    )

    def __init__(self, topic: str | bytes, want: FetchWant) -> None:
        self.topic = topic
        self.sent_high_watermark = self.sent_log_start_offset = -1
        (
            self.index,
            self.current_leader_epoch,
            self.fetch_offset,
            self.last_fetched_epoch,
            self.max_bytes,
        ) = want


class FetchSession:
    """`epoch` is the one that the next request must carry."""

    __slots__ = ("began_ms", "epoch", "id", "partitions", "used_ms", "uses_ids")

    def __init__(
        self, session_id: int, partitions: dict[WantedKey, Wanted], *, uses_ids: bool, now_ms: float
    ) -> None:
        self.id = session_id
        self.epoch = 1
        self.partitions = partitions
        self.uses_ids = uses_ids
        self.began_ms = now_ms
        self.used_ms = now_ms


class FetchPlan(NamedTuple):
    """What to read for one request. `is_incremental`: leave out partitions with nothing new."""

    session_id: int
    wanted: list[Wanted]
    session: FetchSession | None
    is_incremental: bool


class FetchSessions:
    """All sessions of a broker."""

    def __init__(self, ids: IdSource) -> None:
        self._ids = ids
        self._sessions: dict[int, FetchSession] = {}  # the longest unused first
        self._partition_count = 0
        self.evicted_count = 0

    def __len__(self) -> int:
        return len(self._sessions)

    def plan(
        self,
        request: FetchParts,
        *,
        uses_ids: bool,
        now_ms: float,
        session_count_max: int,
        eviction_ms: int,
    ) -> FetchPlan:
        """What `request` wants, with its session brought up to date. Raises Refusal (70, 71,
        106).
        """
        if request.session_epoch in (FINAL_EPOCH, INITIAL_EPOCH):
            self._end(request.session_id)
            partitions = _named(request)
            session = None
            if request.session_epoch == INITIAL_EPOCH and partitions:
                session = self._begin(
                    partitions,
                    uses_ids=uses_ids,
                    now_ms=now_ms,
                    session_count_max=session_count_max,
                    eviction_ms=eviction_ms,
                )
            session_id = NO_SESSION if session is None else session.id
            return FetchPlan(session_id, list(partitions.values()), session, is_incremental=False)
        session = self._go_on(request, uses_ids=uses_ids, now_ms=now_ms)
        if not session.partitions:
            self._end(session.id)
            return FetchPlan(NO_SESSION, [], None, is_incremental=False)
        return FetchPlan(
            session.id, list(session.partitions.values()), session, is_incremental=True
        )

    def _go_on(self, request: FetchParts, *, uses_ids: bool, now_ms: float) -> FetchSession:
        session = self._sessions.get(request.session_id)
        if session is None:
            raise Refusal(ErrorCode.FETCH_SESSION_ID_NOT_FOUND)
        if request.session_epoch != session.epoch:
            raise Refusal(ErrorCode.INVALID_FETCH_SESSION_EPOCH)
        if uses_ids != session.uses_ids:
            raise Refusal(ErrorCode.FETCH_SESSION_TOPIC_ID_ERROR)
        count_before = len(session.partitions)
        _update(session, request)
        self._partition_count += len(session.partitions) - count_before
        if (
            self._partition_count > SESSION_PARTITIONS_MAX
            and len(session.partitions) > count_before
        ):
            self._end(session.id)
            raise Refusal(ErrorCode.FETCH_SESSION_ID_NOT_FOUND)
        session.epoch = session.epoch + 1 if session.epoch < INT32_MAX else 1
        session.used_ms = now_ms
        self._sessions[session.id] = self._sessions.pop(session.id)
        return session

    def _begin(
        self,
        partitions: dict[WantedKey, Wanted],
        *,
        uses_ids: bool,
        now_ms: float,
        session_count_max: int,
        eviction_ms: int,
    ) -> FetchSession | None:
        if session_count_max == 0 or not self._make_room(
            len(partitions), now_ms, session_count_max, eviction_ms
        ):
            return None
        session_id = self._ids.below(INT32_MAX) + 1
        while session_id in self._sessions:
            session_id = session_id % INT32_MAX + 1
        session = FetchSession(session_id, partitions, uses_ids=uses_ids, now_ms=now_ms)
        self._sessions[session_id] = session
        self._partition_count += len(partitions)
        return session

    def _make_room(
        self, size: int, now_ms: float, session_count_max: int, eviction_ms: int
    ) -> bool:
        """Whether a session of `size` partitions may begin; ends at most one other for it."""
        if (
            len(self._sessions) < session_count_max
            and self._partition_count + size <= SESSION_PARTITIONS_MAX
        ):
            return True
        if not self._sessions:
            return False
        oldest = next(iter(self._sessions.values()))
        if now_ms - oldest.used_ms > eviction_ms:
            victim: FetchSession | None = oldest
        else:
            victim = min(
                (
                    session
                    for session in self._sessions.values()
                    if now_ms - session.began_ms > eviction_ms and len(session.partitions) < size
                ),
                key=lambda session: len(session.partitions),
                default=None,
            )
        if victim is None:
            return False
        self.evicted_count += 1
        self._end(victim.id)
        return (
            len(self._sessions) < session_count_max
            and self._partition_count + size <= SESSION_PARTITIONS_MAX
        )

    def _end(self, session_id: int) -> None:
        session = self._sessions.pop(session_id, None)
        if session is not None:
            self._partition_count -= len(session.partitions)


def to_answer(plan: FetchPlan, answered: Iterable[tuple[Wanted, int, int, int, int]]) -> list[bool]:
    """Which answers to send, in order; remembers what was sent.

    An answer is (wanted, error code, high watermark, log start offset, size of its records and
    other news). In an incremental fetch one with nothing new is left out. Those that brought
    records go to the end of their session's order, so that every partition gets its turn.
    """
    session = plan.session
    if session is None:
        return [True for _ in answered]
    sent = []
    served = []
    for wanted, error_code, high_watermark, log_start_offset, size in answered:
        is_new = (
            size > 0
            or error_code != ErrorCode.NONE
            or high_watermark != wanted.sent_high_watermark
            or log_start_offset != wanted.sent_log_start_offset
        )
        wanted.sent_high_watermark = -1 if error_code else high_watermark
        wanted.sent_log_start_offset = log_start_offset
        sent.append(is_new or not plan.is_incremental)
        if size > 0:
            served.append(wanted)
    for wanted in served:
        key = (wanted.topic, wanted.index)
        if session.partitions.get(key) is wanted:
            session.partitions[key] = session.partitions.pop(key)
    return sent


def _named(request: FetchParts) -> dict[WantedKey, Wanted]:
    return {
        (topic, want[0]): Wanted(topic, want) for topic, wants in request.topics for want in wants
    }


def _update(session: FetchSession, request: FetchParts) -> None:
    partitions = session.partitions
    for topic, wants in request.topics:
        for want in wants:
            known = partitions.get((topic, want[0]))
            if known is None:
                partitions[topic, want[0]] = Wanted(topic, want)
                continue
            _, known.current_leader_epoch, known.fetch_offset, epoch, known.max_bytes = want
            known.last_fetched_epoch = epoch
    for topic, indexes in request.forgotten:
        for index in indexes:
            partitions.pop((topic, index), None)
