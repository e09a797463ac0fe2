"""All client connections: who is let in, and who must go because of idleness, slowness or a
stalled client.

Descriptors: connections never get the last ones, storage needs them to roll and open segments.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import structlog

from broker.runtime.descriptors import descriptor_limit, open_descriptor_count
from broker.server.connection import CloseKind, Connection
from broker.server.limits import (
    CLOSE_LINGER_MS,
    FRAME_BYTES_PER_MS_MIN,
    RECEIVE_BUFFER_BYTES,
    STOP_POLL_MS,
    SWEEP_INTERVAL_MS,
    SWEEP_SLICE_COUNT,
    SWEEPS_PER_DESCRIPTOR_COUNT,
    WRITE_STALL_MS_MAX,
    WRITE_STALL_PRESSED_MS_MAX,
    LogLines,
    MemoryBudget,
    reserved_descriptors,
)
from broker.server.patience import CLOSE, FRAME, MEMORY, READ, REQUEST

if TYPE_CHECKING:
    from broker.server.node import Broker

_log = structlog.get_logger("hermes.connections")


class ConnectionTable:
    """The connections of one broker and what they share."""

    def __init__(self, broker: Broker) -> None:
        self.broker = broker
        self.receive_view = memoryview(bytearray(RECEIVE_BUFFER_BYTES))
        self.request_memory = MemoryBudget(self._request_bytes_max())
        self.fetch_memory = broker.fetch_memory
        self._connections: dict[Connection, None] = {}
        self._per_host: dict[str, int] = {}
        self._is_closed = False
        self._refusal_lines = LogLines()
        self._close_lines = LogLines()
        self._other_descriptors = 0
        self._counted_partitions = 0
        self._has_made_room = False
        """Whether this sweep ended one of the requests that wait for each other's memory."""

    def __len__(self) -> int:
        return len(self._connections)

    def make(self) -> Connection:
        """The handler of a connection that was just accepted."""
        return Connection(self)

    def admit(self, connection: Connection) -> str | None:
        """None when it may stay, else why not."""
        metrics = self.broker.metrics
        settings = self.broker.settings
        host = connection.client_host
        if self._is_closed:
            refusal: str | None = "stopping"
        elif len(self._connections) >= settings.max_connections:
            refusal = "max.connections"
        elif self._per_host.get(host, 0) >= settings.max_connections_per_ip:
            refusal = "max.connections.per.ip"
        elif len(self._connections) >= self._descriptors_for_connections():
            refusal = "descriptors"
        else:
            refusal = None
        if refusal is not None:
            metrics.connections_refused_total.add(1, reason=refusal)
            self._log_refusal(host, refusal)
            return refusal
        self._connections[connection] = None
        self._per_host[host] = self._per_host.get(host, 0) + 1
        metrics.connections_opened_total.add(1)
        metrics.connections.set(len(self._connections))
        return None

    def _log_refusal(self, host: str, limit: str) -> None:
        if self._refusal_lines.admits(self.broker.clock.monotonic_ms()):
            _log.warning(
                "refused a connection",
                client=host,
                limit=limit,
                unlogged_before=self._refusal_lines.take_suppressed(),
            )

    def forget(self, connection: Connection) -> None:
        """It is gone."""
        if self._connections.pop(connection, self) is self:
            return
        host = connection.client_host
        count = self._per_host[host] - 1
        if count:
            self._per_host[host] = count
        else:
            del self._per_host[host]
        metrics = self.broker.metrics
        metrics.connections.set(len(self._connections))
        kind = connection.close_kind or CloseKind.CLIENT
        metrics.connections_closed_total.add(1, reason=kind.value)

    def count_close(self, connection: Connection, kind: CloseKind, reason: str) -> None:
        """A connection is being closed by us."""
        if kind in (CloseKind.MALFORMED, CloseKind.REFUSED):
            self.broker.metrics.malformed_requests_total.add(1, reason=kind.value)
        if kind in (CloseKind.IDLE, CloseKind.STOPPING):
            _log.debug("closed a connection", client=connection.client_host, reason=reason)
        elif self._close_lines.admits(self.broker.clock.monotonic_ms()):
            _log.warning(
                "closed a connection",
                client=connection.client_host,
                reason=reason,
                unlogged_before=self._close_lines.take_suppressed(),
            )

    async def sweep_forever(self) -> None:
        """Look at every connection's deadlines, about once a second."""
        round_number = 0
        while True:
            has_changed = len(self.broker.partitions) != self._counted_partitions
            if has_changed or round_number % SWEEPS_PER_DESCRIPTOR_COUNT == 0:
                self._other_descriptors = max(0, open_descriptor_count() - len(self._connections))
                self._counted_partitions = len(self.broker.partitions)
            round_number += 1
            await asyncio.sleep(SWEEP_INTERVAL_MS / 1000)
            await self._sweep()

    async def close_all(self, linger_ms: int) -> None:
        """Send what is ready, close all, and cut off whoever does not take it in `linger_ms`."""
        self._is_closed = True
        for connection in tuple(self._connections):
            connection.close("the broker is stopping", CloseKind.STOPPING)
        self.broker.turn.settle()
        for _ in range(linger_ms // STOP_POLL_MS):
            if not self._connections:
                break
            await asyncio.sleep(STOP_POLL_MS / 1000)
        for connection in tuple(self._connections):
            connection.abort()
        await asyncio.sleep(0)

    def _request_bytes_max(self) -> int:
        wanted: int = self.broker.settings.queued_max_request_bytes
        return min(wanted, self.broker.request_bytes_max)

    def _descriptors_for_connections(self) -> int:
        limit = descriptor_limit()
        reserved = reserved_descriptors(limit, self.broker.settings.hermes_descriptors_reserved)
        begun = max(0, len(self.broker.partitions) - self._counted_partitions)
        return limit - reserved - self._other_descriptors - begun

    async def _sweep(self) -> None:
        self._has_made_room = False
        in_flight_count = 0
        unread_count = 0
        for position, connection in enumerate(tuple(self._connections)):
            if position % SWEEP_SLICE_COUNT == SWEEP_SLICE_COUNT - 1:
                await asyncio.sleep(0)
            in_flight_count += connection.in_flight_count
            unread_count += connection.has_unread_answers
            self._look_at(connection)
        self.request_memory.limit_bytes = self._request_bytes_max()
        metrics = self.broker.metrics
        metrics.queued_requests.set(in_flight_count)
        metrics.queued_responses.set(unread_count)
        metrics.inflight_bytes.set(self.request_memory.used_bytes + self.fetch_memory.used_bytes)

    def _look_at(self, connection: Connection) -> None:
        settings = self.broker.settings
        owed = connection.owed()
        waited_ms = connection.patience.on_look(owed)
        if owed.what == CLOSE:
            if waited_ms >= CLOSE_LINGER_MS and not self._is_closed:  # close_all knows how long
                connection.abort()
        elif owed.what == READ:
            is_pressed = self.fetch_memory.free_bytes <= 0
            if waited_ms >= (WRITE_STALL_PRESSED_MS_MAX if is_pressed else WRITE_STALL_MS_MAX):
                connection.close("the client does not read its answers", CloseKind.STALLED)
                connection.abort()
        elif owed.what == FRAME:
            extra_ms = connection.incoming.frame_bytes // FRAME_BYTES_PER_MS_MIN
            if waited_ms >= settings.hermes_request_read_timeout_ms + extra_ms:
                connection.close("a request did not arrive completely in time", CloseKind.SLOW)
        elif owed.what == MEMORY:
            if waited_ms >= settings.hermes_request_read_timeout_ms and not self._has_made_room:
                self._has_made_room = True
                connection.close("requests wait for each other's memory", CloseKind.SLOW)
        elif owed.what == REQUEST and waited_ms >= settings.connections_max_idle_ms:
            connection.close("idle", CloseKind.IDLE)
