"""How a change asked for by a client ended: an error code and a sentence.

One place that turns exceptions into them.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable
from typing import TYPE_CHECKING, Final, NamedTuple, TypeVar

import structlog

from broker.errors import ErrorCode, Refusal
from broker.metastore.keys import UnreadableValue
from broker.ports import DiskFault, MetastoreFault

if TYPE_CHECKING:
    from broker.server.node import Broker

T = TypeVar("T")
TIMEOUT_MS_MAX: Final = 600_000
_log = structlog.get_logger("hermes.admin")


class Outcome(NamedTuple):
    """`code` NONE and no message when it was done."""

    code: ErrorCode
    message: str | None

    @property
    def is_done(self) -> bool:
        return self.code == ErrorCode.NONE


DONE: Final = Outcome(ErrorCode.NONE, None)


async def outcome_of(work: Awaitable[object]) -> Outcome:
    """Await a change. Refusals and faults of disk and metastore become outcomes.

    Anything else is a bug and raised.
    """
    try:
        await work
    except Refusal as refusal:
        return Outcome(refusal.code, refusal.message or refusal.code.name)
    except (MetastoreFault, UnreadableValue) as fault:
        _log.error("a change failed in the metastore", fault=str(fault))
        return Outcome(
            ErrorCode.KAFKA_STORAGE_ERROR,
            f"the metastore failed, look whether the change was made before repeating it: {fault}",
        )
    except DiskFault as fault:
        _log.error("a change failed on the disk", fault=str(fault))
        return Outcome(ErrorCode.KAFKA_STORAGE_ERROR, str(fault))
    return DONE


async def within(broker: Broker, timeout_ms: int, work: Awaitable[T]) -> T:
    """The result of `work`, which goes on in the background when the time is up or the caller is
    cancelled.

    Raises what `work` raises; Refusal REQUEST_TIMED_OUT when it takes longer than `timeout_ms`.
    """
    done: asyncio.Future[T] = asyncio.get_running_loop().create_future()
    broker.spawn(_finish(work, done))
    try:
        async with asyncio.timeout(min(max(timeout_ms, 0), TIMEOUT_MS_MAX) / 1000):
            return await asyncio.shield(done)
    except TimeoutError:
        done.add_done_callback(_consume)
        raise Refusal(
            ErrorCode.REQUEST_TIMED_OUT, f"not done within {timeout_ms} ms; it goes on"
        ) from None


def count_errors(broker: Broker, api: str, codes: list[int]) -> None:
    """Errors inside an answer (per topic, partition, resource).

    The answer's own is counted elsewhere.
    """
    for code in codes:
        if code:
            broker.metrics.request_errors_total.add(1, api=api, error=ErrorCode(code).name)


async def _finish(work: Awaitable[T], done: asyncio.Future[T]) -> None:
    try:
        result = await work
    except asyncio.CancelledError:
        done.cancel()
        raise
    except Exception as error:  # noqa: BLE001 - handed to whoever waits
        if not done.done():
            done.set_exception(error)
    else:
        if not done.done():
            done.set_result(result)


def _consume(done: asyncio.Future[T]) -> None:
    """A fault is the operator's business; a refusal is the client's, who has stopped listening."""
    error = None if done.cancelled() else done.exception()
    if error is None:
        return
    is_refusal = isinstance(error, Refusal) and error.code is not ErrorCode.KAFKA_STORAGE_ERROR
    write = _log.debug if is_refusal else _log.error
    write("a change failed after its time was up", error=str(error))
