"""One browser's live socket: a subscription at a time, at most two frames a second, newest sample
first.

In: subscribe {view, cluster, parameters: {…}}, pause, resume. Out: snapshot {view, sequence, at_ms,
html: {id: html}, points: {…}}, error {message}. JSON objects, their kind in `type`.
A frame is whole: whoever misses one (the sequence jumps) loses only points of charts and fetches
those again. The socket ends with its session, at most SESSION_CHECK_S later.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import logging
import time
import zlib
from collections.abc import Mapping
from typing import Any, Final, NamedTuple

from channels.db import database_sync_to_async
from channels.generic.websocket import AsyncWebsocketConsumer

from hermes_console.live.session import is_session_alive
from hermes_console.live.topic import cluster_group
from hermes_console.live.views import LiveView

FRAME_INTERVAL_S: Final = 0.5
SESSION_CHECK_S: Final = 15.0
MESSAGE_TYPES: Final = ("subscribe", "pause", "resume")
MESSAGE_LENGTH_MAX: Final = 16_384
PARAMETERS_MAX: Final = 16
PARAMETER_LENGTH_MAX: Final = 300
CLOSE_FAILED: Final = 4500
"""Not 1011: the server refuses to send it, and the socket stayed open, silent."""
CLOSE_SIGNED_OUT: Final = 4401
CLOSE_BAD_MESSAGE: Final = 4400

log = logging.getLogger(__name__)


class Subscription(NamedTuple):
    """What the browser looks at."""

    view: str
    cluster: str
    parameters: Mapping[str, str]


class BadMessage(Exception):
    """The browser sent what no page of ours sends; the message says what was wrong."""


class LiveConsumer(AsyncWebsocketConsumer):  # type: ignore[misc]
    """Channels' protocol; `live_views` is the table of asgi.py."""

    def __init__(self, live_views: Mapping[str, LiveView]) -> None:
        super().__init__()
        self._live_views = live_views
        self._subscription: Subscription | None = None
        self._group = ""
        self._is_paused = False
        self._sequence_sent: int | None = None
        self._sequence_told = -1
        self._is_due = asyncio.Event()
        self._sender: asyncio.Task[None] | None = None

    async def connect(self) -> None:
        if not await database_sync_to_async(is_session_alive)(self.scope):
            await self.close(CLOSE_SIGNED_OUT)
            return
        await self.accept()
        self._sender = asyncio.create_task(self._send())

    async def disconnect(self, code: int) -> None:
        await self._stop_sending()
        await self._join("")

    async def _stop_sending(self) -> None:
        sender, self._sender = self._sender, None
        if sender is not None:
            sender.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await sender

    async def receive(self, text_data: str | None = None, bytes_data: bytes | None = None) -> None:
        try:
            message = read_message(text_data)
            if message["type"] == "subscribe":
                self._subscription = read_subscription(message, self._live_views)
                await self._join(self._subscription.cluster)
        except BadMessage as error:
            await self.send(json.dumps({"type": "error", "message": str(error)}))
            await self._stop_sending()
            await self.close(CLOSE_BAD_MESSAGE)
            return
        self._is_paused = message["type"] == "pause"
        self._sequence_sent = None
        if not self._is_paused:
            self._is_due.set()

    async def sample_ready(self, event: dict[str, Any]) -> None:
        """From the channel layer: there is a snapshot. Several processes may tell of the same."""
        self._sequence_told = int(event.get("sequence", -1))
        if not self._is_paused:
            self._is_due.set()

    async def _send(self) -> None:
        """The task's root: a failure ends the socket, the browser connects anew."""
        try:
            await self._send_frames()
        except Exception:
            log.exception("a live socket failed")
            await self.close(CLOSE_FAILED)

    async def _send_frames(self) -> None:
        """Until the socket ends. Cancellation leaves nothing half sent."""
        check_at_s = time.monotonic() + first_check_s(self.channel_name)
        while True:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(max(0.0, check_at_s - time.monotonic())):
                    await self._is_due.wait()
            if time.monotonic() >= check_at_s:
                check_at_s = time.monotonic() + SESSION_CHECK_S
                if not await database_sync_to_async(is_session_alive)(self.scope):
                    await self.close(CLOSE_SIGNED_OUT)
                    return
            if self._is_due.is_set():
                self._is_due.clear()
                await self._send_frame()
                await asyncio.sleep(FRAME_INTERVAL_S)

    async def _send_frame(self) -> None:
        subscription = self._subscription
        if subscription is None or self._is_paused:
            return
        frame = await self._live_views[subscription.view].newest(
            subscription.cluster, self._sequence_told, subscription.parameters
        )
        if frame is None or subscription is not self._subscription:
            return
        if frame.sequence != self._sequence_sent:
            self._sequence_sent = frame.sequence
            await self.send(frame.text(subscription.view))

    async def _join(self, cluster: str) -> None:
        group = cluster_group(cluster) if cluster else ""
        if group == self._group:
            return
        if self._group:
            await self.channel_layer.group_discard(self._group, self.channel_name)
        self._group = group
        if group:
            await self.channel_layer.group_add(group, self.channel_name)


def first_check_s(channel: str) -> float:
    """After how many seconds a socket's session is looked at first: sockets that opened together,
    as after a restart, are not all checked at once.
    """
    return SESSION_CHECK_S * (0.5 + (zlib.crc32(channel.encode()) % 1_000) / 2_000)


def read_message(text: str | None) -> dict[str, Any]:
    """A message of a known type. Raises BadMessage."""
    if text is not None and len(text) > MESSAGE_LENGTH_MAX:
        raise BadMessage(f"a message has at most {MESSAGE_LENGTH_MAX} characters")
    try:
        message = json.loads(text or "")
    except (ValueError, RecursionError) as error:
        raise BadMessage("expected a JSON object") from error
    if not isinstance(message, dict) or message.get("type") not in MESSAGE_TYPES:
        raise BadMessage("expected a type: subscribe, pause or resume")
    return message


def read_subscription(message: dict[str, Any], live_views: Mapping[str, LiveView]) -> Subscription:
    """What a `subscribe` message asks for. Raises BadMessage."""
    view, cluster = message.get("view"), message.get("cluster")
    parameters = message.get("parameters", {})
    if not isinstance(view, str) or view not in live_views:
        raise BadMessage(f"there is no view of that name; there are: {', '.join(live_views)}")
    if not isinstance(cluster, str) or not 0 < len(cluster) <= PARAMETER_LENGTH_MAX:
        raise BadMessage("cluster must be a name")
    if not isinstance(parameters, dict) or len(parameters) > PARAMETERS_MAX:
        raise BadMessage(f"parameters must be an object of at most {PARAMETERS_MAX} texts")
    if not is_plain(cluster):
        raise BadMessage("cluster must be a name")
    for value in (*parameters, *parameters.values()):
        if not isinstance(value, str) or len(value) > PARAMETER_LENGTH_MAX or not is_plain(value):
            raise BadMessage(f"a parameter is a text of at most {PARAMETER_LENGTH_MAX} characters")
    return Subscription(view, cluster, parameters)


def is_plain(text: str) -> bool:
    """Whether every database and address can hold it: no NUL, no half of a surrogate pair."""
    return "\0" not in text and not any("\ud800" <= letter <= "\udfff" for letter in text)
