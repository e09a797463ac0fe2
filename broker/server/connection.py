"""One client connection: frames in, answers out, in order, within limits.

It owns memory only for what is incomplete (a frame) or cannot be handled yet (a backlog);
everything else is read into the receive buffer that all connections share and handled before the
read returns. Invariants: answers leave in the order of their requests; while any pause reason
holds, nothing is read or handled.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Sequence
from enum import Enum
from typing import TYPE_CHECKING, Any, Final, cast

import structlog

from broker.ports import Buffer, Transport
from broker.server.incoming import FrameError, Incoming
from broker.server.limits import TURN_RESPONSE_BYTES, WRITE_BUFFER_BYTES_HIGH
from broker.server.patience import CLOSE, FRAME, MEMORY, NOTHING, READ, REQUEST, Owed, Patience
from broker.server.repeated import stage_repeated
from broker.server.requests import CloseConnection, handle_frame
from broker.server.slot import ResponseSlot
from broker.wire.primitives import MalformedMessage

if TYPE_CHECKING:
    from broker.server.listener import ConnectionTable
    from broker.server.request_metrics import ApiMetrics

_log = structlog.get_logger("hermes.connection")


class Pause:
    """Why a connection is not read: bits of an int. (An IntFlag's operators take 1 µs each.)"""

    NONE: Final = 0
    UNREAD_ANSWERS: Final = 1
    IN_FLIGHT: Final = 2
    MEMORY: Final = 4
    TURN_OVER: Final = 8
    CLOSING: Final = 16
    HELD: Final = 32


class CloseKind(Enum):
    """Why a connection ended; the value is the metric's label."""

    CLIENT = "client"
    MALFORMED = "malformed"
    REFUSED = "refused"
    IDLE = "idle"
    SLOW = "slow request"
    STALLED = "unread answers"
    FAILED = "internal error"
    STOPPING = "broker stopping"


class Connection(asyncio.BufferedProtocol):
    """Implements `ports.StreamHandler`. Handlers see `client_host`, `close` and `reserve` only."""

    def __init__(self, table: ConnectionTable) -> None:
        self.table = table
        self.broker = table.broker
        self.client_host = ""
        self.last_active_ms = 0.0
        self.frame_began_ms: float | None = None
        self.is_ending = False
        self.last_task_done: asyncio.Event | None = None
        self.patience = Patience()
        self.close_kind: CloseKind | None = None
        self.incoming = Incoming(table.receive_view, table.request_memory)
        self.now_ms = 0.0
        self.now_wall_ms = 0
        self._transport: Transport | None = None
        self._pause: int = Pause.NONE
        self._slots: deque[ResponseSlot] = deque()
        self._staged_count = 0
        self._handled_count = 0
        self._in_flight_bytes = 0
        self._out: list[Buffer] = []
        self._ready_bytes = 0
        self._held_bytes = 0
        self._is_sender = False
        self._is_write_paused = False

    # asyncio.BufferedProtocol

    def connection_made(self, transport: Any) -> None:
        self._transport = transport
        peer = transport.get_extra_info("peername")
        self.client_host = str(peer[0]) if peer else "?"
        self.last_active_ms = self.broker.clock.monotonic_ms()
        transport.set_write_buffer_limits(high=WRITE_BUFFER_BYTES_HIGH, low=0)
        refusal = self.table.admit(self)
        if refusal is not None:
            transport.abort()

    def get_buffer(self, sizehint: int) -> Buffer:
        return self.incoming.get_buffer(self.broker.turn.received_end)

    def buffer_updated(self, nbytes: int) -> None:
        clock = self.broker.clock
        self.now_ms = self.last_active_ms = clock.monotonic_ms()
        self.now_wall_ms = clock.wall_ms()
        self._run(nbytes)

    def eof_received(self) -> bool:
        return False

    def connection_lost(self, exc: Exception | None) -> None:
        self._pause |= Pause.CLOSING
        self._transport = None
        self.table.forget(self)
        slots, self._slots = self._slots, deque()
        for slot in slots:
            self._release(slot)
            self._held_bytes += slot.held_bytes
            slot.held_bytes = 0
            slot.drop()
        self._out.clear()
        self._give_held()
        self.incoming.close()

    def pause_writing(self) -> None:
        self._is_write_paused = True
        self._set_pause(Pause.UNREAD_ANSWERS)

    def resume_writing(self) -> None:
        self._is_write_paused = False
        self.last_active_ms = self.broker.clock.monotonic_ms()
        self._give_held()
        self._clear_pause(Pause.UNREAD_ANSWERS)

    # what handlers and the server use

    @property
    def is_closed(self) -> bool:
        """Whether answers can no longer be sent."""
        return self._transport is None

    @property
    def has_unread_answers(self) -> bool:
        """Whether the client leaves answers unread."""
        return self._is_write_paused

    def owed(self) -> Owed:
        """What only the client can do now. Not owed: bytes that we do not read, answers that we do
        not give.
        """
        transport = self._transport
        if self.is_ending or transport is None:
            return Owed(CLOSE)
        if self._is_write_paused:
            return Owed(READ, transport.get_write_buffer_size())
        if self.incoming.is_starved:
            return Owed(MEMORY, self.incoming.frame_bytes)
        if self._pause:
            return Owed(NOTHING)
        if self.frame_began_ms is not None:
            return Owed(FRAME, self.frame_began_ms)
        return Owed(NOTHING) if self._slots else Owed(REQUEST, self.last_active_ms)

    @property
    def in_flight_count(self) -> int:
        """Requests read and not answered yet."""
        return len(self._slots)

    def reserve(self, api_metrics: ApiMetrics, *, is_staged: bool = False) -> ResponseSlot:
        """The next place in the order of answers. `is_staged`: it will be filled when this turn
        is settled.
        """
        slot = ResponseSlot(self, api_metrics, self.now_ms)
        self._slots.append(slot)
        if is_staged:
            self._staged_count += 1
        return slot

    def add_staged(self, slots: Sequence[ResponseSlot]) -> None:
        """As many calls of `reserve`, staged: requests to Produce that this turn writes."""
        self._slots.extend(slots)
        self._staged_count += len(slots)
        self.broker.produce_metrics.count_request(len(slots))
        self._handled_count += len(slots)

    def park(self, slot: ResponseSlot, request_bytes: int) -> None:
        """The request keeps `request_bytes` of memory until it is answered."""
        if slot.chunks is None:
            slot.request_bytes = request_bytes
            self._in_flight_bytes += request_bytes
            self.table.request_memory.take(request_bytes)

    def hold(self) -> None:
        """Handle no further request until `go_on`: the one at hand must keep its place."""
        self._set_pause(Pause.HELD)

    def go_on(self) -> None:
        """What `hold` kept waiting is handled in a later step of the loop."""
        self._clear_pause(Pause.HELD)

    def end_turn(self) -> None:
        """Let the others have their turn before the next request is handled."""
        if not self._pause & Pause.TURN_OVER:
            self._set_pause(Pause.TURN_OVER)
            asyncio.get_running_loop().call_soon(self._clear_pause, Pause.TURN_OVER)

    def on_completed(self, slot: ResponseSlot) -> None:
        """`slot` has its answer; send it in this turn if everything before it has one too."""
        if self._transport is None:
            self.table.fetch_memory.give(slot.held_bytes)
            slot.held_bytes = 0
            return
        for chunk in cast("Sequence[Buffer]", slot.chunks):
            self._ready_bytes += len(chunk)
        if not self._is_sender and self._slots[0] is slot:
            self._queue_send()

    def send(self) -> None:
        """Send every answer whose turn has come, in one call; then go on with what was waiting."""
        self._is_sender = False
        transport = self._transport
        if transport is None or transport.is_closing():
            return
        self._collect()
        out = self._out
        if out:
            self._out = []
            transport.write(out[0]) if len(out) == 1 else transport.writelines(out)
        if not self._is_write_paused:
            self._give_held()
        if self.is_ending:
            transport.close()
        elif self._pause & Pause.IN_FLIGHT and not self._is_full():
            self._clear_pause(Pause.IN_FLIGHT)

    def _collect(self) -> None:
        """Move the answers at the head of the line to what is sent next."""
        slots = self._slots
        out = self._out
        now_ms = self.broker.clock.monotonic_ms()
        alike: ResponseSlot | None = None
        alike_count = 0
        while slots:
            slot = slots[0]
            chunks = slot.chunks
            if chunks is None:
                break
            slots.popleft()
            for chunk in chunks:
                out.append(chunk)
                self._ready_bytes -= len(chunk)
            if slot.held_bytes:
                self._held_bytes += slot.held_bytes
                slot.held_bytes = 0
            if slot.request_bytes:
                self._release(slot)
            if (
                alike is not None
                and slot.received_ms == alike.received_ms
                and slot.api_metrics is alike.api_metrics
            ):
                alike_count += 1
                continue
            if alike is not None:
                alike.api_metrics.count_answer(now_ms - alike.received_ms, alike_count)
            alike, alike_count = slot, 1
        if alike is not None:
            alike.api_metrics.count_answer(now_ms - alike.received_ms, alike_count)

    def close(self, reason: str, kind: CloseKind = CloseKind.REFUSED) -> None:
        """Send what is ready, then close. `reason` is logged once, with the client's address."""
        if self.is_ending or self._transport is None:
            return
        self.is_ending = True
        self.close_kind = kind
        self._set_pause(Pause.CLOSING)
        self.table.count_close(self, kind, reason)
        self._queue_send()

    def abort(self) -> None:
        """Drop it now."""
        if self._transport is not None:
            self._transport.abort()

    # reading

    def _run(self, received: int) -> None:
        """Handle every complete frame that limits allow, then settle the turn."""
        turn = self.broker.turn
        turn.open()
        self._staged_count = 0
        try:
            self._handle_frames(received)
        except (FrameError, MalformedMessage) as error:
            self.close(str(error), CloseKind.MALFORMED)
        except CloseConnection as error:
            self.close(str(error), CloseKind.REFUSED)
        except Exception as error:  # noqa: BLE001 - the root of a connection: a bug closes it and nothing else
            self.fail(error)
        finally:
            turn.close(self.incoming.shared_end)

    def fail(self, error: BaseException) -> None:
        """A handler's bug: logged with its trace, counted, and this connection closes."""
        _log.error("a handler failed", client=self.client_host, exc_info=error)
        self.close(f"internal error: {type(error).__name__}", CloseKind.FAILED)

    def _handle_frames(self, received: int) -> None:
        incoming = self.incoming
        incoming.begin(received)
        limit = self.broker.settings.socket_request_max_bytes
        self._handled_count = 0
        try:
            while not self._must_stop():
                stage_repeated(self, incoming)  # none of what `_must_stop` looks at changes
                frame = incoming.next_frame(limit)
                if frame is None:
                    break
                self._handled_count += 1
                handle_frame(self, frame)
        finally:
            incoming.keep_rest()
        if incoming.is_starved:
            self._wait_for_memory()
        if not incoming.is_inside_frame:
            self.frame_began_ms = None
        elif self._handled_count or self.frame_began_ms is None:
            self.frame_began_ms = self.now_ms

    def _must_stop(self) -> bool:
        if self._pause:
            return True
        if self._ready_bytes >= TURN_RESPONSE_BYTES:
            self.end_turn()
            return True
        if self._is_full():
            self._set_pause(Pause.IN_FLIGHT)
            return True
        if self._in_flight_bytes and self.table.request_memory.free_bytes <= 0:
            self._wait_for_memory()
            return True
        return False

    def _is_full(self) -> bool:
        settings = self.broker.settings
        return (
            len(self._slots) - self._staged_count
            >= settings.hermes_connection_inflight_requests_max
            or self._in_flight_bytes >= settings.hermes_connection_inflight_bytes_max
        )

    def _wait_for_memory(self) -> None:
        self._set_pause(Pause.MEMORY)
        self.table.request_memory.wait(self._on_memory)

    def _on_memory(self) -> None:
        if self._transport is None:
            return
        if self.incoming.is_starved:
            self.incoming.grow()
        if self.incoming.is_starved:
            self.table.request_memory.wait(self._on_memory)
        else:
            self._clear_pause(Pause.MEMORY)

    def _set_pause(self, reason: int) -> None:
        if not self._pause and self._transport is not None and not self._transport.is_closing():
            self._transport.pause_reading()
        self._pause |= reason

    def _clear_pause(self, reason: int) -> None:
        if not self._pause & reason:
            return
        self._pause &= ~reason
        if self._pause or self._transport is None or self._transport.is_closing():
            return
        if self.frame_began_ms is not None:
            self.frame_began_ms = self.broker.clock.monotonic_ms()
        if self.incoming.has_backlog:
            asyncio.get_running_loop().call_soon(self._go_on)
        else:
            self._transport.resume_reading()

    def _go_on(self) -> None:
        if self._pause or self._transport is None:
            return
        self.now_ms = self.broker.clock.monotonic_ms()
        self.now_wall_ms = self.broker.clock.wall_ms()
        self._run(0)
        if self._pause or self._transport is None or self._transport.is_closing():
            return
        if not self.incoming.has_backlog:  # else `_clear_pause` has asked for another call
            self._transport.resume_reading()

    # answers

    def _queue_send(self) -> None:
        if not self._is_sender:
            self._is_sender = True
            self.broker.turn.add_sender(self)

    def _release(self, slot: ResponseSlot) -> None:
        if slot.request_bytes:
            self._in_flight_bytes -= slot.request_bytes
            self.table.request_memory.give(slot.request_bytes)
            slot.request_bytes = 0

    def _give_held(self) -> None:
        if self._held_bytes:
            held, self._held_bytes = self._held_bytes, 0
            self.table.fetch_memory.give(held)
