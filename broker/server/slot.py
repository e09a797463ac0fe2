"""One response's place in the order of its connection."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from broker.ports import Buffer

if TYPE_CHECKING:
    from broker.server.connection import Connection
    from broker.server.request_metrics import ApiMetrics


class ResponseSlot:
    """Reserved when the request was read, filled once by `complete`, sent when everything before
    it was sent.

    `on_dropped`, when set, is called if the connection ends first: whoever is parked forgets the
    request. `held_bytes` of a fetch memory budget are returned when the answer has left (or never
    will). `request_bytes` is the memory that the parked request keeps.
    """

    __slots__ = (
        "_connection",
        "api_metrics",
        "chunks",
        "held_bytes",
        "on_dropped",
        "received_ms",
        "request_bytes",
    )

    def __init__(self, connection: Connection, api_metrics: ApiMetrics, received_ms: float) -> None:
        self._connection = connection
        self.api_metrics = api_metrics
        self.received_ms = received_ms
        self.chunks: Sequence[Buffer] | None = None
        self.on_dropped: Callable[[], None] | None = None
        self.held_bytes = 0
        self.request_bytes = 0

    def complete(self, chunks: Sequence[Buffer]) -> None:
        """The whole response frame. After the connection ended this does nothing."""
        assert self.chunks is None, "a request is answered once"
        self.chunks = chunks
        self.on_dropped = None
        self._connection.on_completed(self)

    def fail(self, error: Exception) -> None:
        """The request met a bug: its connection closes."""
        self._connection.fail(error)

    def drop(self) -> None:
        """The connection ended."""
        on_dropped, self.on_dropped = self.on_dropped, None
        if on_dropped is not None:
            on_dropped()
