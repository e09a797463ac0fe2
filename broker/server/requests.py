"""From a frame to its handler: header, version, decoding, and the way back for its answer."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from broker.errors import ErrorCode
from broker.server.context import RequestContext
from broker.server.dispatch import Kind
from broker.server.encoded import EncodedBody
from broker.server.limits import CONTROL_FRAME_BYTES_MAX
from broker.server.slot import ResponseSlot
from broker.wire.api import API_VERSIONS, APIS, Api, is_supported
from broker.wire.frame import RequestHeader, decode_request_header, encode_response
from broker.wire.messages.api_versions import ApiVersion, ApiVersionsResponse
from broker.wire.primitives import EncodeError
from broker.wire.schema import decoder

if TYPE_CHECKING:
    from broker.server.connection import Connection
    from broker.server.routes import Route


class CloseConnection(Exception):
    """The protocol has no answer for this request but a closed connection; the text says why."""


def handle_frame(connection: Connection, frame: memoryview) -> None:
    """Start the request in `frame` (without its size), or finish it.

    Raises MalformedMessage or CloseConnection when the connection must end.
    """
    header = decode_request_header(frame)
    route = connection.broker.routes.get(header.api_key)
    if route is None or not is_supported(header.api_key, header.api_version):
        _answer_unsupported(connection, header)
        return
    route.metrics.count_request()
    if route.kind is Kind.RAW:
        route.handle(connection, header, frame)
        return
    _handle_message(connection, header, frame, route)


def _handle_message(
    connection: Connection, header: RequestHeader, frame: memoryview, route: Route
) -> None:
    """Decode from a copy: the handler may keep parts of the request while the frame's buffer is
    reused.
    """
    if len(frame) > CONTROL_FRAME_BYTES_MAX:
        size = len(frame)
        msg = f"a {route.api.name} request has {size} bytes, more than {CONTROL_FRAME_BYTES_MAX}"
        raise CloseConnection(msg)
    decode = decoder(route.api.request_type, header.api_version)
    request, _ = decode(memoryview(bytes(frame)), header.body_position)
    context = RequestContext(
        header.api_key,
        header.api_version,
        header.correlation_id,
        header.client_id or "",
        connection.client_host,
        connection,
    )
    slot = connection.reserve(route.metrics)
    reply = Reply(slot, header, connection, route.api)
    broker = connection.broker
    if route.kind is Kind.REPLY:
        route.handle(broker, context, request, reply)
    else:
        turn = (connection.last_task_done, asyncio.Event())
        connection.last_task_done = turn[1]
        broker.spawn(_run_task(route.handle, connection, context, request, reply, turn))
    connection.park(slot, len(frame))


async def _run_task(
    handle: Callable[..., Any],
    connection: Connection,
    context: RequestContext,
    request: Any,
    reply: Reply,
    turn: tuple[asyncio.Event | None, asyncio.Event],
) -> None:
    """One after the other on a connection, as Kafka does: a client that asks for a change and then
    asks what is there, without waiting, sees the change. `turn` is (the one before has ended, this
    one has).
    """
    before, done = turn
    try:
        if before is not None:
            await before.wait()
        reply(await handle(connection.broker, context, request))
    except Exception as error:  # noqa: BLE001 - the root of the request's task
        connection.fail(error)
    finally:
        done.set()


class Reply:
    """The way back of one request: call it with the response message, once."""

    __slots__ = ("_api", "_connection", "_header", "_slot")

    def __init__(
        self, slot: ResponseSlot, header: RequestHeader, connection: Connection, api: Api
    ) -> None:
        self._slot = slot
        self._header = header
        self._connection = connection
        self._api = api

    def when_dropped(self, forget: Callable[[], None]) -> None:
        """Call `forget` if the connection ends before the answer: for whoever parks the request."""
        self._slot.on_dropped = forget

    def __call__(self, response: Any) -> None:
        if self._connection.is_closed:
            return
        header = self._header
        if isinstance(response, EncodedBody):
            self._slot.complete(
                response.frame(header.api_key, header.api_version, header.correlation_id)
            )
            return
        error_code = getattr(response, "error_code", 0)
        if error_code:
            self._slot.api_metrics.count_error(error_code)
        try:
            frame = encode_response(
                header.api_key, header.api_version, header.correlation_id, response
            )
        except EncodeError as error:  # whoever gives the answer may not be the one who asked
            self._connection.fail(error)
            return
        self._slot.complete([frame])


def _answer_unsupported(connection: Connection, header: RequestHeader) -> None:
    """Only ApiVersions may be asked in a version we do not know: its answer has version 0 and
    error 35 (KIP-511).
    """
    if header.api_key != API_VERSIONS or header.api_version < 0:
        api = APIS.get(header.api_key)
        name = api.name if api is not None else f"API {header.api_key}"
        msg = f"{name} version {header.api_version} is not supported"
        raise CloseConnection(msg)
    route = connection.broker.routes[API_VERSIONS]
    route.metrics.count_request()
    route.metrics.count_error(ErrorCode.UNSUPPORTED_VERSION)
    own = APIS[API_VERSIONS]
    response = ApiVersionsResponse(
        error_code=ErrorCode.UNSUPPORTED_VERSION,
        api_keys=[
            ApiVersion(api_key=own.key, min_version=own.min_version, max_version=own.max_version)
        ],
    )
    slot = connection.reserve(route.metrics)
    slot.complete([encode_response(own.key, 0, header.correlation_id, response)])
