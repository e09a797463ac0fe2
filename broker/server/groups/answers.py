"""How the handlers of group APIs answer: errors of the coordinator as responses, many answers as
one.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any

from broker.coordinators.group.effects import Caller, ReplyTo
from broker.errors import ErrorCode
from broker.server.context import RequestContext
from broker.server.outcome import count_errors

if TYPE_CHECKING:
    from broker.server.node import Broker


def or_error(reply: Callable[[Any], None], on_error: Callable[[ErrorCode], Any]) -> ReplyTo:
    """Passes a response on; an ErrorCode becomes the response that `on_error` makes of it."""

    def answer(outcome: Any) -> None:
        reply(on_error(outcome) if isinstance(outcome, ErrorCode) else outcome)

    return answer


def caller_of(
    context: RequestContext, reply: Callable[[Any], None], on_error: Callable[[ErrorCode], Any]
) -> Caller:
    """The request's sender as the coordinator sees it. Hosts begin with a slash, as Kafka shows
    them.
    """
    return Caller(
        context.client_id,
        f"/{context.client_host}",
        context.api_version,
        or_error(reply, on_error),
    )


def counted(
    broker: Broker,
    api: str,
    reply: Callable[[Any], None],
    codes_of: Callable[[Any], Iterable[int]],
) -> Callable[[Any], None]:
    """Passes a response on after counting the errors inside it."""

    def answer(response: Any) -> None:
        count_errors(broker, api, [code for code in codes_of(response) if code])
        reply(response)

    return answer


class Gathered:
    """Collects `count` answers and hands them over in their order, once all are there."""

    __slots__ = ("_answers", "_left", "_on_complete")

    def __init__(self, count: int, on_complete: Callable[[list[Any]], None]) -> None:
        self._answers: list[Any] = [None] * count
        self._left = count
        self._on_complete = on_complete
        if count == 0:
            on_complete([])

    def part(self, index: int, on_error: Callable[[ErrorCode], Any]) -> ReplyTo:
        """Where the answer number `index` goes."""

        def take(answer: Any) -> None:
            self._answers[index] = answer
            self._left -= 1
            if self._left == 0:
                self._on_complete(self._answers)

        return or_error(take, on_error)
