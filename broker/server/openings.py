"""Clients' batches that are opened before they are stored, on the loop or in the worker process.

Not here: what is checked and packed (records/intake), the order of what waits (late_staging).
Invariants: a step of the loop opens at most about STEPS_PER_TURN_MAX and one batch; a worker that
dies is asked once more, and then the client is told to send again: nothing is stored unseen.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from broker.errors import ErrorCode, Refusal
from broker.metrics import Metrics
from broker.ports import Worker, WorkerFault
from broker.records.intake import Intake, take_in, take_in_now
from broker.records.rules import Meter

if TYPE_CHECKING:
    from broker.server.connection import Connection

STEPS_PER_TURN_MAX: Final = 400
"""After so many steps (1 µs each) on the loop a connection lets the others have their turn."""
WORKER_ATTEMPTS_MAX: Final = 2


class Openings:
    """One broker's."""

    def __init__(self, worker: Worker, metrics: Metrics) -> None:
        self._worker = worker
        self._meter = Meter()
        self._on_loop = metrics.batches_opened_total.labels(place="loop")
        self._in_worker = metrics.batches_opened_total.labels(place="worker")

    def take_in_now(
        self, connection: Connection, intake: Intake, batch: memoryview, now_wall_ms: int
    ) -> memoryview:
        """`batch` as it is to be stored. Raises Refusal, NeedsWorker; the connection's turn ends
        when it has taken enough of the loop's time.
        """
        self._on_loop.value += 1
        try:
            return take_in_now(batch, intake, now_wall_ms, self._meter)
        finally:
            if self._meter.steps >= STEPS_PER_TURN_MAX:
                self._meter.steps = 0
                connection.end_turn()

    async def take_in_worker(
        self, intake: Intake, batch: bytearray, now_wall_ms: int
    ) -> memoryview:
        """`batch` as it is to be stored. Raises Refusal: REQUEST_TIMED_OUT when no worker could
        look at it.
        """
        self._in_worker.value += 1
        for attempt in range(WORKER_ATTEMPTS_MAX):
            try:
                packed = await self._worker.call(take_in, batch, intake, now_wall_ms)
            except WorkerFault as fault:
                if attempt == WORKER_ATTEMPTS_MAX - 1:
                    words = f"the batch could not be opened, nothing was stored: {fault}"
                    raise Refusal(ErrorCode.REQUEST_TIMED_OUT, f"{words}: send it again") from fault
            else:
                return memoryview(batch if packed is None else packed)
        raise AssertionError("the last attempt returns or raises")
