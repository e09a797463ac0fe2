"""Who waits for which end of one partition: acks of batches that are written.

| acks | told when                                                             |
|------|-----------------------------------------------------------------------|
| 0    | written: nobody is answered, so nobody is kept waiting                |
| 1    | stored by the leader: written, or with `durability=fsync` synced      |
| -1   | committed: the high watermark has passed it                           |

Whoever waits is told once, in the order of writing, or with an error when the partition stops.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Sequence
from typing import Final

import structlog

from broker.errors import ErrorCode

_log = structlog.get_logger("hermes.partition")

ACKS_NONE: Final = 0
ACKS_LEADER: Final = 1
ACKS_ALL: Final = -1

OnDone = Callable[[ErrorCode], None]
Ack = tuple[int, OnDone, int]
"""(end offset, whom to tell, acks as in the protocol)."""


class WaitingAcks:
    """The acks of one partition whose batches are written and not stored or committed yet."""

    __slots__ = ("_for_all", "_for_leader")

    def __init__(self) -> None:
        self._for_all: deque[Ack] = deque()
        self._for_leader: deque[Ack] = deque()

    def settle(
        self, written: Sequence[Ack], *, high_watermark: int, stored_end_offset: int
    ) -> None:
        """Tell those who may go on, first those who wait, then of `written`, just written; keep the
        others.
        """
        none = ErrorCode.NONE
        waiting = self._for_all
        while waiting and waiting[0][0] <= high_watermark:
            tell(waiting.popleft()[1], none)
        waiting = self._for_leader
        while waiting and waiting[0][0] <= stored_end_offset:
            tell(waiting.popleft()[1], none)
        for ack in written:
            end_offset, on_done, acks = ack
            if acks == ACKS_ALL and end_offset > high_watermark:
                self._for_all.append(ack)
            elif acks == ACKS_LEADER and end_offset > stored_end_offset:
                self._for_leader.append(ack)
            else:
                try:
                    on_done(none)
                except Exception as failure:  # noqa: BLE001 - as in `tell`, without its call
                    _report(failure)

    def fail(self, error: ErrorCode) -> None:
        """Tell all who wait that it went wrong."""
        waiting = (*self._for_all, *self._for_leader)
        self._for_all.clear()
        self._for_leader.clear()
        fail_acks(waiting, error)


def fail_acks(acks: Iterable[Ack], error: ErrorCode) -> None:
    """Tell each of them."""
    for _end_offset, on_done, _acks in acks:
        tell(on_done, error)


def tell(on_done: OnDone, error: ErrorCode) -> None:
    """Whoever waits and fails at being told is logged: its bug must not stop the others."""
    try:
        on_done(error)
    except Exception as failure:  # noqa: BLE001 - the bug of one who waits must not stop the others
        _report(failure)


def _report(failure: Exception) -> None:
    _log.error("an acknowledgement could not be delivered", exc_info=failure)
